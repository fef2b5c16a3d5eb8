//! Compiles the few functions that call NVTX, whose implementation is in its headers.

fn main() {
    println!("cargo::rerun-if-changed=src/calls.c");
    println!("cargo::rerun-if-changed=vendor/nvtx3");
    cc::Build::new()
        .file("src/calls.c")
        .include("vendor")
        .flag_if_supported("-fvisibility=hidden")
        .warnings(true)
        .compile("raskio_nvtx_calls");
}

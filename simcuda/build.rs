//! The name under which programs ask the loader for a CUDA driver.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libcuda.so.1");
    // Its own calls of exported functions stay inside, also in a copy that does not export them.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-Bsymbolic");
    // Its stream threads outlive a dlclose.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-z,nodelete");
}

//! Links as `libraskio.so` is linked.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // See RaskIO's `sys::curl::straight` and `sys::curl::still`.
    println!("cargo::rustc-link-arg=-Wl,--wrap=recv,--wrap=clock_gettime");
}

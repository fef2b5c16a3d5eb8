//! Links as `libraskio.so` is linked.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // See RaskIO's `sys::curl::straight`.
    println!("cargo::rustc-link-arg=-Wl,--wrap=recv");
}

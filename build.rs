//! Link arguments of `libraskio.so`, and a version check of each library taken from the system.

use std::env;

/// The first libcurl with every call and option that RaskIO uses.
const CURL_NEEDED: &str = "7.85.0";
/// OpenSSL 3.0.0 as `OPENSSL_VERSION_NUMBER` writes it.
const OPENSSL_NEEDED: u64 = 0x3000_0000;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let abi_major = env::var("CARGO_PKG_VERSION_MAJOR").unwrap_or_default();
    for arg in [
        format!("-Wl,-soname,libraskio.so.{abi_major}"),
        // Its threads and thread-local destructors outlive a dlclose, so the code has to stay mapped.
        "-Wl,-z,nodelete".to_owned(),
        "-Wl,-z,relro,-z,now".to_owned(),
        "-Wl,-z,noexecstack".to_owned(),
    ] {
        println!("cargo::rustc-cdylib-link-arg={arg}");
    }

    // libcurl's calls of `recv` go through `sys::curl::straight`, and those of `clock_gettime` through `sys::curl::still`. In whatever is
    // linked here: tests and benchmarks are to be like the library. One that uses nothing of it says `use raskio as _`, for the definitions.
    println!("cargo::rustc-link-arg=-Wl,--wrap=recv,--wrap=clock_gettime");

    // Where a test finds the headers of the libcurl that is linked; in no artefact but the tests.
    if let Some(include) = env::var_os("DEP_CURL_INCLUDE") {
        println!("cargo::rustc-env=RASKIO_CURL_INCLUDE={}", include.to_string_lossy());
    }

    let bundled_curl = env::var_os("CARGO_FEATURE_BUNDLED_CURL").is_some();
    let bundled_openssl = env::var_os("CARGO_FEATURE_BUNDLED_OPENSSL").is_some();
    if bundled_openssl && !bundled_curl {
        println!(
            "cargo::error=the feature bundled-openssl needs bundled-curl: the system's libcurl comes with the TLS \
             library it was built with. Add bundled-curl, or drop bundled-openssl"
        );
    }
    if !bundled_curl {
        check_system_curl();
    }
    if !bundled_openssl {
        check_system_openssl();
    }
}

/// Stops the build where curl-sys would take an old libcurl, or quietly compile its own for want of one.
fn check_system_curl() {
    let found = pkg_config::Config::new().cargo_metadata(false).env_metadata(true).probe("libcurl");
    match found {
        Ok(library) if version(&library.version) >= version(CURL_NEEDED) => {}
        Ok(library) => println!(
            "cargo::error=the system's libcurl is {}, and RaskIO needs {CURL_NEEDED} or later. Install a newer libcurl, \
             or build with the feature bundled-curl (the default)",
            library.version
        ),
        Err(error) => println!(
            "cargo::error=no system libcurl: pkg-config does not find libcurl.pc ({}). Install libcurl's development \
             package ({CURL_NEEDED} or later; libcurl4-openssl-dev on Debian and Ubuntu), or build with the feature \
             bundled-curl (the default)",
            error.to_string().lines().next().unwrap_or_default()
        ),
    }
}

/// openssl-sys reports the version that it found, by whatever way it found it.
fn check_system_openssl() {
    let text = env::var("DEP_OPENSSL_VERSION_NUMBER").unwrap_or_default();
    let found = u64::from_str_radix(&text, 16).unwrap_or(0);
    if found < OPENSSL_NEEDED {
        let name = match found {
            0 => "not an OpenSSL that says its version".to_owned(),
            _ => format!("{}.{}.{}", found >> 28, (found >> 20) & 0xff, (found >> 12) & 0xff),
        };
        println!(
            "cargo::error=the system's OpenSSL is {name}, and RaskIO needs 3.0.0 or later. Install a newer OpenSSL, \
             or build with the feature bundled-openssl (the default)"
        );
    }
}

fn version(text: &str) -> Vec<u32> {
    text.split(['.', '-']).map_while(|part| part.parse().ok()).collect()
}

//! Tells the program which object_store it was built with, as Cargo.lock says.

fn main() {
    println!("cargo::rerun-if-changed=Cargo.lock");
    let lock = std::fs::read_to_string("Cargo.lock").unwrap_or_default();
    let mut lines = lock.lines().skip_while(|line| *line != "name = \"object_store\"");
    let version = lines.nth(1).and_then(|line| line.split('"').nth(1)).unwrap_or("unknown");
    println!("cargo::rustc-env=OBJECT_STORE_VERSION={version}");
}

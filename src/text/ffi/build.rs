//! Whether this compiler can turn a refused allocation into a panic (the library feature alloc_error_hook, not stable yet; CMake opens it
//! for this crate alone, by RUSTC_BOOTSTRAP). Where it cannot, the memory of a chat template is not bounded (src/budget.rs).
use std::io::Write;
use std::process::{Command, Stdio};

const PROBE: &[u8] = b"#![feature(alloc_error_hook)]\npub fn set() { std::alloc::set_alloc_error_hook(|_| panic!()) }\n";

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-env-changed=RUSTC_BOOTSTRAP");
    println!("cargo:rustc-check-cfg=cfg(alloc_error_hook)");
    let out = std::env::var("OUT_DIR").expect("cargo sets it");
    let rustc = std::env::var("RUSTC").expect("cargo sets it");
    let probe = Command::new(rustc)
        .args(["--crate-name", "quire_text", "--crate-type", "lib", "--emit", "metadata", "--out-dir", &out, "-"])
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn();
    let works = probe.is_ok_and(|mut child| {
        let written = child.stdin.take().is_some_and(|mut stdin| stdin.write_all(PROBE).is_ok());
        child.wait().is_ok_and(|status| status.success()) && written
    });
    if works {
        println!("cargo:rustc-cfg=alloc_error_hook");
    } else {
        println!("cargo:warning=this Rust cannot bound the memory of chat templates (alloc_error_hook): serve templates of people you trust");
    }
}

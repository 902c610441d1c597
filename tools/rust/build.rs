//! Generates the bindings from pumice.h, and links with the library.
//!
//! PUMICE_LIBRARY_FOLDER: where libpumice.so is; otherwise build/ of the checkout.
use std::{env, fs, path::PathBuf, process::Command};

fn main() {
    let here = PathBuf::from(env::var("CARGO_MANIFEST_DIR").unwrap());
    let root = here.join("../..");
    let header = root.join("runtime/api/pumice.h");
    let python = env::var("PYTHON").unwrap_or_else(|_| "python3".into());
    let made = Command::new(&python)
        .arg("-B")
        .arg(here.join("generate.py"))
        .arg(&header)
        .output()
        .unwrap_or_else(|error| panic!("{python}: {error}"));
    assert!(made.status.success(), "generate.py: {}", String::from_utf8_lossy(&made.stderr));
    fs::write(PathBuf::from(env::var("OUT_DIR").unwrap()).join("bindings.rs"), made.stdout).unwrap();

    let folder = env::var("PUMICE_LIBRARY_FOLDER").map(PathBuf::from).unwrap_or_else(|_| root.join("build"));
    println!("cargo:rustc-link-search=native={}", folder.display());
    println!("cargo:rustc-link-lib=dylib=pumice");
    println!("cargo:rerun-if-env-changed=PUMICE_LIBRARY_FOLDER");
    for file in [header, here.join("generate.py"), root.join("tools/python/header.py")] {
        println!("cargo:rerun-if-changed={}", file.display());
    }
}

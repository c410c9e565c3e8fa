//! libFuzzer over the readers of objstore. `ATOLL_FUZZ_TARGET` names one of `objstore::protocol::fuzzing::TARGETS`;
//! `ATOLL_FUZZ_SEEDS=DIR` writes valid inputs of it into a folder instead.
#![no_main]

use libfuzzer_sys::fuzz_target;
use objstore::protocol::fuzzing::{TARGETS, Target};
use std::sync::OnceLock;

static TARGET: OnceLock<&Target> = OnceLock::new();

fn chosen() -> &'static Target {
    let name = std::env::var("ATOLL_FUZZ_TARGET").unwrap_or_default();
    let Some(target) = TARGETS.iter().find(|target| target.name == name) else {
        let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
        eprintln!("ATOLL_FUZZ_TARGET must be one of {}", names.join(" "));
        std::process::exit(2);
    };
    if let Some(folder) = std::env::var_os("ATOLL_FUZZ_SEEDS") {
        for (at, seed) in (target.seeds)().into_iter().enumerate() {
            let path = std::path::Path::new(&folder).join(format!("seed-{at}"));
            if let Err(error) = std::fs::write(&path, seed) {
                eprintln!("writing {}: {error}", path.display());
                std::process::exit(2);
            }
        }
        std::process::exit(0);
    }
    target
}

fuzz_target!(
    init: {
        TARGET.get_or_init(chosen);
    },
    |bytes: &[u8]| {
        if let Some(target) = TARGET.get() {
            (target.run)(bytes);
        }
    }
);

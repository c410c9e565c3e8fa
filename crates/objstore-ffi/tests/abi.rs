//! Goal:   the Rust structs and functions agree with objstore.h, health.h and kept_settings.h in engine/bridge,
//!         the functions also with name_hint.h and its like.
//! Method: a C program compiled with objstore.h prints sizes and offsets of the structs; the test compares
//!         them with those in Rust. It also searches the sources of this crate for each function of the
//!         headers.

#![allow(clippy::unwrap_used, clippy::panic)] // A test reports an error by a panic.

use atoll_objstore::{
    AtollKeptSettings, AtollRead, AtollResult, AtollSnapshot, AtollStoreConfig, AtollStoreHealth,
    AtollStoreStats,
};
use std::mem::{offset_of, size_of};
use std::path::PathBuf;
use std::process::Command;

fn header() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../engine/bridge/objstore.h")
}

/// The folder for which the headers' includes are written.
fn engine() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../engine")
}

const PROGRAM: &str = r#"
#include <stdio.h>
#include <stddef.h>
int main(void) {
  printf("%zu %zu %zu %zu ", sizeof(atoll_result), sizeof(atoll_read), sizeof(atoll_store_config),
         sizeof(atoll_store_stats));
  printf("%zu %zu ", offsetof(atoll_read, read), offsetof(atoll_read, result));
  printf("%zu %zu %zu %zu %zu %zu %zu ", offsetof(atoll_store_config, cache_bytes),
         offsetof(atoll_store_config, backlog_bytes_max), offsetof(atoll_store_config, take_over),
         offsetof(atoll_store_config, history_retention_s), offsetof(atoll_store_stats, history_cuts),
         offsetof(atoll_store_config, log), offsetof(atoll_store_config, wish));
  printf("%zu %zu %zu %zu", offsetof(atoll_store_stats, wal_chunks_shipped),
         offsetof(atoll_store_stats, trim_disabled), offsetof(atoll_store_stats, database_uuid),
         offsetof(atoll_store_stats, last_error));
  printf(" %zu %zu %zu", sizeof(atoll_kept_settings), offsetof(atoll_kept_settings, former_until_ms),
         offsetof(atoll_kept_settings, schedule));
  printf(" %zu %zu %zu", sizeof(atoll_snapshot), offsetof(atoll_snapshot, created_ms),
         offsetof(atoll_snapshot, alone_bytes));
  printf(" %zu %zu", sizeof(atoll_store_health), offsetof(atoll_store_health, last_commit_us));
  return 0;
}
"#;

#[test]
fn structs_have_the_layout_of_the_header() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("abi.c");
    // health.h includes objstore.h.
    let includes = "#include \"bridge/health.h\"\n#include \"bridge/kept_settings.h\"\n";
    std::fs::write(&source, format!("{includes}{PROGRAM}")).unwrap();
    let program = folder.path().join("abi");
    let built =
        Command::new("cc").arg("-I").arg(engine()).arg(&source).arg("-o").arg(&program).status().unwrap();
    assert!(built.success(), "the header does not compile as C");
    let printed = Command::new(&program).output().unwrap();
    let in_c: Vec<usize> =
        String::from_utf8(printed.stdout).unwrap().split_whitespace().map(|n| n.parse().unwrap()).collect();
    let in_rust = [
        size_of::<AtollResult>(),
        size_of::<AtollRead>(),
        size_of::<AtollStoreConfig>(),
        size_of::<AtollStoreStats>(),
        offset_of!(AtollRead, read),
        offset_of!(AtollRead, result),
        offset_of!(AtollStoreConfig, cache_bytes),
        offset_of!(AtollStoreConfig, backlog_bytes_max),
        offset_of!(AtollStoreConfig, take_over),
        offset_of!(AtollStoreConfig, history_retention_s),
        offset_of!(AtollStoreStats, history_cuts),
        offset_of!(AtollStoreConfig, log),
        offset_of!(AtollStoreConfig, wish),
        offset_of!(AtollStoreStats, wal_chunks_shipped),
        offset_of!(AtollStoreStats, trim_disabled),
        offset_of!(AtollStoreStats, database_uuid),
        offset_of!(AtollStoreStats, last_error),
        size_of::<AtollKeptSettings>(),
        offset_of!(AtollKeptSettings, former_until_ms),
        offset_of!(AtollKeptSettings, schedule),
        size_of::<AtollSnapshot>(),
        offset_of!(AtollSnapshot, created_ms),
        offset_of!(AtollSnapshot, alone_bytes),
        size_of::<AtollStoreHealth>(),
        offset_of!(AtollStoreHealth, last_commit_us),
    ];
    assert_eq!(in_c, in_rust);
}

#[test]
fn every_function_of_the_headers_exists() {
    let mut header = std::fs::read_to_string(header()).unwrap();
    for other in ["name_hint.h", "kept_settings.h", "health.h", "hand_over.h"] {
        header += &std::fs::read_to_string(self::header().with_file_name(other)).unwrap();
    }
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src");
    let sources: String = std::fs::read_dir(folder)
        .unwrap()
        .map(|file| std::fs::read_to_string(file.unwrap().path()).unwrap())
        .collect();
    let mut names = 0;
    for piece in header.split('(') {
        let name = piece.rsplit([' ', '*', '\n']).next().unwrap_or("");
        if name.starts_with("atoll_") {
            names += 1;
            let is_there =
                sources.contains(&format!("fn {name}(")) || sources.contains(&format!("{name} =>"));
            assert!(is_there, "{name} is declared and not implemented");
        }
    }
    assert!(names > 25, "only {names} functions were found in the header: is its form another one?");
}

//! Goal:   the Rust structs and functions agree with engine/bridge/objstore.h, the functions also with
//!         name_hint.h.
//! Method: a C program compiled with objstore.h prints sizes and offsets of the structs; the test compares
//!         them with those in Rust. It also searches the sources of this crate for each function of the
//!         headers.

#![allow(clippy::unwrap_used, clippy::panic)] // A test reports an error by a panic.

use atoll_objstore::{AtollRead, AtollResult, AtollSnapshot, AtollStoreConfig, AtollStoreStats};
use std::mem::{offset_of, size_of};
use std::path::PathBuf;
use std::process::Command;

fn header() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../engine/bridge/objstore.h")
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
  printf(" %zu %zu %zu", sizeof(atoll_snapshot), offsetof(atoll_snapshot, created_ms),
         offsetof(atoll_snapshot, alone_bytes));
  return 0;
}
"#;

#[test]
fn structs_have_the_layout_of_the_header() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("abi.c");
    std::fs::write(&source, format!("#include \"{}\"\n{PROGRAM}", header().display())).unwrap();
    let program = folder.path().join("abi");
    let built = Command::new("cc").arg(&source).arg("-o").arg(&program).status().unwrap();
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
        size_of::<AtollSnapshot>(),
        offset_of!(AtollSnapshot, created_ms),
        offset_of!(AtollSnapshot, alone_bytes),
    ];
    assert_eq!(in_c, in_rust);
}

#[test]
fn every_function_of_the_headers_exists() {
    let mut header = std::fs::read_to_string(header()).unwrap();
    header += &std::fs::read_to_string(self::header().with_file_name("name_hint.h")).unwrap();
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

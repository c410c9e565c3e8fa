//! Goal:   files of another database are read from that database's prefix, also beside own files of the same
//!         name, and are never changed or deleted.
//! Method: a file map with a foreign and an own file whose objects have the same last name; in memory and in
//!         a directory.

use super::tests::Fixture;
use super::*;
use crate::crc::crc32c;
use crate::requests::origin;
use object_store::ObjectStoreExt;

const KEY: &str = "sst/00/00000000000000000001-7.sst";

fn record(key: String, bytes: &[u8]) -> FileRecord {
    let labels = Labels::default();
    FileRecord { key: key.into(), size: bytes.len() as u64, crc32c: crc32c(bytes), labels }
}

/// A file map: file 7 belongs to the database at `origin`, file 8 to the test's own database.
fn map(origin: &str) -> Vec<(u64, FileRecord)> {
    vec![(7, record(origin::join(origin, KEY), b"the parent's")), (8, record(KEY.to_owned(), b"its own"))]
}

fn check(f: &Fixture, foreign: &str) {
    for _ in 0..2 {
        assert_eq!((f.read(7, 12), f.read(8, 7)), (b"the parent's".to_vec(), b"its own".to_vec()));
    }
    assert_eq!(f.runtime.block_on(f.files.bucket.head(foreign)).unwrap().size, 12);
    for refused in [
        f.runtime.block_on(f.files.bucket.delete(foreign)),
        f.runtime.block_on(f.files.bucket.put_unconditional(foreign, "x".into(), Default::default())),
        f.runtime.block_on(f.files.bucket.put_file(foreign, &f.path(1), &[])).map(drop),
    ] {
        assert!(matches!(refused, Err(StoreError::Bug(_) | StoreError::NotFound { .. })), "{refused:?}");
    }
    f.files.remove_file(7).unwrap();
    f.files.remove_file(8).unwrap();
    let snapshot = f.files.snapshot();
    f.wait(&snapshot);
    assert_eq!(f.files.published(snapshot), [KEY], "only its own file may be deleted");
}

#[test]
fn a_foreign_file_is_read_from_its_origin_and_left_alone() {
    let f = Fixture::new();
    let put = |key: &str, text: &'static str| {
        let inner = &f.store.as_ref().unwrap().inner;
        let path = object_store::path::Path::from(key);
        f.runtime.block_on(inner.put(&path, text.into())).unwrap();
    };
    put(&format!("parent/db/{KEY}"), "the parent's");
    put(&format!("db/{KEY}"), "its own");
    let f = f.reopen(map("parent/db"));
    check(&f, &origin::join("parent/db", KEY));
}

#[test]
fn a_foreign_file_in_a_directory_is_opened_there() {
    let f = Fixture::in_directory();
    let parent = tempfile::tempdir().unwrap();
    let origin = format!("{}/a parent of 100 % résumés", parent.path().display()).split_off(1);
    for (root, text) in [(format!("/{origin}"), "the parent's"), (f.bucket_directory(), "its own")] {
        std::fs::create_dir_all(format!("{root}/sst/00")).unwrap();
        std::fs::write(format!("{root}/{KEY}"), text).unwrap();
    }
    let f = f.reopen(map(&origin));
    check(&f, &origin::join(&origin, KEY));
    std::fs::remove_dir_all(format!("/{origin}")).unwrap();
    let gone = f.runtime.block_on(f.files.bucket.head(&origin::join(&origin, KEY))).unwrap_err();
    assert!(gone.to_string().contains("cloned from"), "{gone}");
}

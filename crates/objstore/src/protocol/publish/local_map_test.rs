//! Goal:   the local file map is read as it was written, and an error names a part that is absent, damaged or
//!         not the right one.
//! Method: a MapWriter with small limits writes maps into a directory; then the test damages the files.

use super::*;
use crate::files::{FileChanges, FileRecord, Labels, object_key};
use crate::protocol::publish::map_writer::{MapLimits, MapWriter};
use crate::protocol::testing::test_db::scratch;

const UUID: &str = "a database";

fn file(number: u64) -> FileRecord {
    FileRecord {
        key: object_key(3, &number.to_string(), "sst").into(),
        size: number,
        crc32c: 1,
        labels: Labels::default(),
    }
}

fn write(dir: &Path, map: &mut MapWriter, changes: FileChanges) {
    map.apply(changes).unwrap();
    write_parts(dir, 3, map.unsent()).unwrap();
    map.sent();
    let (files, in_parts) = map.content();
    let files = LocalFiles { db_uuid: UUID.to_owned(), files, in_parts };
    write_files(dir, &files).unwrap();
    delete_other_parts(dir, files.in_parts.as_ref());
}

fn parts(dir: &Path) -> Vec<PathBuf> {
    let found = fs::read_dir(dir.join(PARTS)).map(|found| found.map(|part| part.unwrap().path()).collect());
    let mut found: Vec<PathBuf> = found.unwrap_or_default();
    found.sort();
    found
}

#[test]
fn the_map_comes_back_and_parts_that_nothing_names_go() {
    let dir = scratch();
    let limits = MapLimits { small_files: 2, part_files: 4, changes_bytes: 40, parts_max: 5 };
    let mut map = MapWriter::new(3, limits);
    assert_eq!(read_files(dir.path(), UUID).unwrap(), None);
    for number in 1..30 {
        write(dir.path(), &mut map, [(number, Some(file(number))), (number / 2, None)].into());
        assert_eq!(read_files(dir.path(), UUID).unwrap().as_ref(), Some(map.files()), "{number}");
        let named = map.content().1.map_or(0, |map| map.parts.len());
        assert_eq!(parts(dir.path()).len(), named, "{number}");
    }
    assert!(parts(dir.path()).len() > 2);
    let other = read_files(dir.path(), "another database").unwrap_err();
    assert!(matches!(other, StoreError::Invalid(_)), "{other}");
    write(dir.path(), &mut map, (1..30).map(|number| (number, None)).collect());
    assert_eq!(read_files(dir.path(), UUID).unwrap(), Some(FileMap::new()));
    assert_eq!(parts(dir.path()), Vec::<PathBuf>::new());
}

#[test]
fn a_part_that_is_absent_or_damaged_or_another_is_named_with_the_way_out() {
    let dir = scratch();
    let limits = MapLimits { small_files: 2, part_files: 4, changes_bytes: 40, parts_max: 5 };
    let mut map = MapWriter::new(3, limits);
    write(dir.path(), &mut map, (1..12).map(|number| (number, Some(file(number)))).collect());
    let [first, second, ..] = &parts(dir.path())[..] else { panic!("one part is too few") };
    let good = fs::read(first).unwrap();
    let mut flipped = good.clone();
    flipped[40] ^= 1;
    for damage in [None, Some(flipped), Some(good[..50].to_vec()), Some(fs::read(second).unwrap())] {
        match &damage {
            Some(bytes) => fs::write(first, bytes).unwrap(),
            None => fs::remove_file(first).unwrap(),
        }
        let error = read_files(dir.path(), UUID).unwrap_err();
        let text = error.to_string();
        assert!(matches!(error, StoreError::Corruption(_)), "{text}");
        assert!(text.contains(&first.display().to_string()), "{text}");
        assert!(text.contains("Move the directory away"), "{text}");
    }
    fs::write(first, good).unwrap();
    assert_eq!(read_files(dir.path(), UUID).unwrap().as_ref(), Some(map.files()));
}

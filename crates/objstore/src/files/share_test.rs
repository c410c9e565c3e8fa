//! Goal:   an object that two files share is read through both, and is garbage only when both are removed
//!         (FILE-5); the note of the second file stays until a root names that file (FILE-6).
//! Method: a file registry over a bucket in memory with faults, and over a directory bucket; the test acts as
//!         the publisher.

use super::tests::{Fixture, IS_KILLED};
use super::*;

fn note_of(f: &Fixture, number: u64) -> PathBuf {
    f.path(number).with_extension("shared")
}

fn has_note(f: &Fixture, number: u64) -> bool {
    note_of(f, number).exists()
}

/// Writes an empty note for file `number`; returns the file that shares the object of `record`.
fn noted(f: &Fixture, number: u64, record: FileRecord) -> SharedFile {
    let note = note_of(f, number);
    std::fs::write(&note, "").unwrap();
    SharedFile { number, record, note }
}

fn share(f: &Fixture, from: u64, number: u64) -> Result<()> {
    let record = f.files.uploaded_record(from)?;
    f.files.share(Some(from), noted(f, number, record))
}

/// Publishes all changes and enters them into `map`; returns the keys of the objects that may be deleted.
fn publish(f: &Fixture, map: &mut BTreeMap<u64, FileRecord>) -> Vec<String> {
    let snapshot = f.files.snapshot();
    for (number, _) in snapshot.changes().filter(|(_, key)| key.is_none()) {
        map.remove(&number);
    }
    map.extend(f.wait(&snapshot));
    f.files.published(snapshot)
}

fn check_the_life_of_two(f: Fixture) {
    let mut map = BTreeMap::new();
    let bytes = f.add(7, 3000);
    let _ = publish(&f, &mut map);
    share(&f, 7, 9).unwrap();
    assert_eq!((f.read(7, 3000), f.read(9, 3000)), (bytes.clone(), bytes.clone()));
    assert_eq!(f.files.totals(), (2, 3000));
    f.files.remove_file(7).unwrap();
    assert_eq!(f.read(9, 3000), bytes);
    assert!(has_note(&f, 9));
    assert_eq!(publish(&f, &mut map), Vec::<String>::new(), "file 9 needs the object");
    assert!(!has_note(&f, 9), "a root names it");

    let f = f.reopen(map.clone().into_iter().collect());
    assert_eq!(f.read(9, 3000), bytes);
    let key = map[&9].key.as_ref().to_owned();
    f.files.remove_file(9).unwrap();
    assert_eq!(publish(&f, &mut map), [key], "nobody needs it any more");
}

#[test]
fn two_numbers_of_one_object_live_and_die_apart() {
    check_the_life_of_two(Fixture::new());
    check_the_life_of_two(Fixture::in_directory());
}

#[test]
fn a_note_goes_with_its_file() {
    let f = Fixture::new();
    let mut map = BTreeMap::new();
    f.add(7, 100);
    share(&f, 7, 9).unwrap(); // This waits until file 7 is uploaded.
    share(&f, 9, 10).unwrap();
    f.files.remove_file(9).unwrap();
    assert_eq!((has_note(&f, 9), has_note(&f, 10)), (false, true));
    let _ = publish(&f, &mut map);
    assert_eq!(map.keys().copied().collect::<Vec<_>>(), [7, 10]);
    assert_eq!(map[&7], map[&10]);
}

#[test]
fn notes_of_a_former_process_count_until_a_root_knows_better() {
    let f = Fixture::new();
    let mut map = BTreeMap::new();
    let bytes = f.add(7, 100);
    let _ = publish(&f, &mut map);
    let notes = [7, 9].map(|number| noted(&f, number, map[&7].clone()));
    f.files.install_shared(&mut f.files.state.lock(), notes.into());
    assert_eq!((has_note(&f, 7), has_note(&f, 9)), (false, true));
    assert_eq!(f.read(9, 100), bytes);
}

#[test]
fn a_file_that_is_gone_cannot_be_shared() {
    let f = Fixture::new();
    assert!(matches!(share(&f, 7, 9), Err(StoreError::NotFound { .. })));
    f.add(7, 100);
    let record = f.files.uploaded_record(7).unwrap();
    f.files.remove_file(7).unwrap();
    let late = f.files.share(Some(7), noted(&f, 9, record));
    assert!(matches!(late, Err(StoreError::NotFound { .. })), "{late:?}");
    assert!(!has_note(&f, 9));
}

#[test]
fn a_killed_statement_does_not_wait_for_the_upload() {
    let f = Fixture::new();
    f.store.as_ref().unwrap().outage(true);
    f.add(7, 100);
    IS_KILLED.set(true);
    let outcome = share(&f, 7, 9);
    IS_KILLED.set(false);
    assert!(matches!(outcome, Err(StoreError::Interrupted(_))), "{outcome:?}");
}

//! Goal:   a reader sees each new state, reads an old view as long as it holds it, and leaves no pin, also when it dies.
//! Method: the simulated database (test_db.rs) over a bucket in memory.

use crate::config::Durability;
use crate::protocol::format::names;
use crate::protocol::gc::HistoryLimits;
use crate::protocol::history::mounts::mount_test::read_all;
use crate::protocol::history::mounts::reader::Reader;
use crate::protocol::history::pin::{PinKind, is_reader_key, reader_key};
use crate::protocol::history::snapshot_test::Fixture;
use crate::protocol::testing::test_db::*;
use std::sync::Arc;
use std::time::{Duration, Instant};

fn reader(f: &Fixture) -> Reader {
    Reader::over(f.bucket.clone(), &f.guest("reader:1"), Arc::new(|_, _| {})).unwrap()
}

/// Waits until the bucket has `count` pins of readers.
fn until_pins(f: &Fixture, count: usize) {
    let start = Instant::now();
    while f.keys(names::PIN_DIR).iter().filter(|key| is_reader_key(key)).count() != count {
        assert!(start.elapsed() < WAIT, "{:?}", f.keys(names::PIN_DIR));
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_reader_follows_the_owner_and_an_old_view_stays_as_it_was() {
    let mut f = Fixture::new();
    let reader = reader(&f);
    assert!(reader.has_news().unwrap());
    let first = reader.view(&f.dir.path().join("first")).unwrap();
    let before = read_all(&first);
    assert!(!reader.has_news().unwrap());
    assert!(!reader.has_news().unwrap());
    f.work(9);
    f.until_clean();
    assert!(reader.has_news().unwrap());
    let second = reader.view(&f.dir.path().join("second")).unwrap();
    assert!(!reader.has_news().unwrap());
    assert_ne!(read_all(&second), before);
    assert_eq!(read_all(&first), before);
    assert!(second.commit_us() >= first.commit_us());
    until_pins(&f, 2);
    drop(first);
    until_pins(&f, 1);
    drop((second, reader));
    assert_eq!(f.keys(names::PIN_DIR), Vec::<String>::new(), "a reader that is closed has deleted its pins");
    f.until_clean();
    assert_eq!(f.keys(names::FILE_DIR).len(), 2);
    crash(f.db);
}

/// The log that the reader has read for a view is not read again for the next one.
#[test]
fn a_view_asks_for_no_log_that_the_reader_has_read() {
    let mut f = Fixture::new();
    f.work(9);
    let chunks = f.keys(names::WAL_DIR).len() as u64;
    assert!(chunks >= 2, "{chunks}");
    let reader = reader(&f);
    let gets = || reader.stats().requests_get;
    let start = gets();
    let first = reader.view(&f.dir.path().join("first")).unwrap();
    let of_first = gets() - start;
    let second = reader.view(&f.dir.path().join("second")).unwrap();
    let of_second = gets() - start - of_first;
    assert_eq!(read_all(&second), read_all(&first));
    // Chunks behind the end are asked for as well: four at a time by the log's position and by its copy.
    assert!(of_second + chunks <= of_first && of_second <= 30, "{of_first}, {of_second}, {chunks}");
    drop((first, second, reader));
    crash(f.db);
}

/// A view that is in use for long gets other pins again and again, and its objects are kept without a gap.
#[test]
fn the_pin_of_a_view_in_use_is_replaced_and_holds_all_the_time() {
    let mut f = Fixture::new();
    let mut reader = reader(&f);
    reader.renewal = Duration::from_millis(10);
    let view = reader.view(&f.dir.path().join("view")).unwrap();
    let (before, first) = (read_all(&view), f.keys(names::PIN_DIR));
    let start = Instant::now();
    while f.keys(names::PIN_DIR).iter().any(|key| first.contains(key)) {
        assert!(start.elapsed() < WAIT);
        std::thread::sleep(Duration::from_millis(5));
    }
    f.work(9);
    f.until_clean();
    assert_eq!(read_all(&view), before);
    assert!(f.keys(names::PIN_DIR).iter().all(|key| is_reader_key(key)));
    drop((view, reader));
    assert_eq!(f.keys(names::PIN_DIR), Vec::<String>::new());
    crash(f.db);
}

#[test]
fn a_change_of_owner_is_news() {
    let f = Fixture::new();
    let reader = reader(&f);
    let view = reader.view(&f.dir.path().join("first")).unwrap();
    assert!(!reader.has_news().unwrap());
    assert_eq!(reader.owner().unwrap(), "owner:1");
    crash(f.db);
    let config = config(f.dir.path(), "owner:2", Durability::Sync);
    let next = Db::open(open_store(&config, &f.bucket, quick()).unwrap(), f.dir.path(), true);
    assert!(reader.has_news().unwrap());
    drop(view);
    crash(next);
}

/// The pin of a reader that lives is replaced long before the collector takes it for abandoned, so a pin that stays is of
/// a reader that has died.
#[test]
fn the_pin_of_a_reader_that_has_died_goes() {
    const LIFE: Duration = Duration::from_millis(300);
    let mut tuning = quick();
    tuning.gc.reader_pin_life = LIFE;
    let mut f = Fixture::tuned(HistoryLimits::default(), Durability::Sync, tuning);
    let moment = block(f.inspector().moment()).unwrap();
    let left = moment.pin(PinKind::Clone, "reader:9", "reader:9");
    let start = Instant::now();
    assert!(block(f.inspector().put_pin(&reader_key(&[7; 16]), &left)).unwrap());
    while !f.keys(names::PIN_DIR).is_empty() {
        assert!(start.elapsed() < WAIT);
        f.work(1);
        std::thread::sleep(Duration::from_millis(20));
    }
    assert!(start.elapsed() >= LIFE, "it stays for its life");
    f.until_clean();
    assert_eq!(f.keys(names::FILE_DIR).len(), 2);
    crash(f.db);
}

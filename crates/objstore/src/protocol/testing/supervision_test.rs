//! Goal:   when a background task dies, an error names the task and the server makes no more changes; no
//!         death goes unnoticed.
//! Method: a panic is injected into each task of an open store in turn; then the database is opened again.

use crate::config::Durability;
use crate::error::StoreError;
use crate::log::{Level, LogFn};
use crate::protocol::start::open::{Options, open};
use crate::protocol::testing::test_db::*;
use crate::requests::bucket::Bucket;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The name of a task that starts only when a file has been published, unlike the others.
const MOVER: &str = "mover of local files";

const TASKS: [&str; 6] =
    ["shipper of the log", "publisher", "collector", "watch for other owners", "uploader", MOVER];

fn until(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < WAIT, "waited in vain: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_task_that_dies_is_named_and_ends_all_changes() {
    for task in TASKS {
        let (bucket, dir, mut model) = (Bucket::in_memory(), scratch(), Model::default());
        let errors: Arc<Mutex<Vec<String>>> = Arc::default();
        let seen = Arc::clone(&errors);
        let log: LogFn = Arc::new(move |level, message| {
            if level == Level::Error {
                seen.lock().push(message.to_owned());
            }
        });
        let settings = config(dir.path(), "owner:1", Durability::Sync);
        let options = Options { tuning: quick(), ..Options::default() };
        let store = open(&settings, bucket.clone(), log, options).unwrap();
        let mut db = Db::open(Arc::clone(&store), dir.path(), true);
        db.commit(&mut model, 0b11, 1, 1);
        store.wait_shipped(store.wal_position(), WAIT).unwrap();

        store.files().supervisor().doom(task);
        if task == MOVER {
            assert!(db.flush(0, true));
            let _ = store.publish(WAIT);
        }
        until(task, || store.may_write().is_err());
        let reason = store.may_write().unwrap_err();
        assert!(matches!(reason, StoreError::ReadOnly(_)), "{task}: {reason}");
        let text = reason.to_string();
        assert!(text.contains(&format!("the {task}, has died: panic: injected")), "{text}");
        let commit = store.after_commit(store.wal_position(), WAIT).unwrap_err();
        let file = store.files().add_file(99, dir.path()).unwrap_err();
        assert_eq!((commit.to_string(), file.to_string()), (text.clone(), text.clone()), "{task}");
        let stats = store.stats();
        assert_eq!((stats.last_error, stats.fenced), (text.clone(), false), "{task}");
        assert_eq!(*errors.lock(), [text], "{task}: the log");

        let started = Instant::now();
        let _ = store.close(WAIT);
        assert!(started.elapsed() < WAIT, "{task}: the close waited");
        drop((db, store));
        let store = open_store(&settings, &bucket, quick()).unwrap();
        Db::open(store, dir.path(), true).check(&model, task);
    }
}

#[test]
fn tasks_that_end_with_their_store_are_no_deaths() {
    for is_killed in [false, true] {
        let (bucket, dir, mut model) = (Bucket::in_memory(), scratch(), Model::default());
        let settings = config(dir.path(), "owner:1", Durability::Sync);
        let store = open_store(&settings, &bucket, quick()).unwrap();
        let mut db = Db::open(Arc::clone(&store), dir.path(), true);
        db.commit(&mut model, 0b11, 1, 1);
        store.wait_shipped(store.wal_position(), WAIT).unwrap();
        if is_killed {
            store.kill()
        } else {
            store.close(WAIT).unwrap()
        }
        store.may_write().unwrap();
    }
}

//! Goal:   `tail` reports each root, file and chunk of the log once, and goes on with the next owner.
//! Method: the simulated database (test_db.rs) over a bucket in memory; a second owner takes over.

use crate::config::Durability;
use crate::protocol::history::snapshot_test::Fixture;
use crate::protocol::inspection::inspect::Inspector;
use crate::protocol::inspection::tail::{FileChange, Follower, TailEvent};
use crate::protocol::testing::test_db::*;

fn poll(follower: &mut Follower) -> Vec<TailEvent> {
    block(follower.poll()).unwrap()
}

#[test]
fn what_is_published_is_told_once_and_a_new_owner_is_followed() {
    let mut fixture = Fixture::new();
    let mut follower = Follower::new(Inspector::new(fixture.bucket.clone()));
    let first = poll(&mut follower);
    let [TailEvent::Root { root: before, added, .. }] = first.as_slice() else { panic!("{first:?}") };
    assert_eq!(*added, FileChange::default(), "what was there already is not new");
    poll(&mut follower);
    assert!(poll(&mut follower).is_empty(), "nothing has happened");
    fixture.work(2);
    let events = poll(&mut follower);
    let (mut files, mut chunks, mut last) = (before.files, 0, before.slot);
    for event in &events {
        match event {
            TailEvent::Root { root, added, dropped } => {
                files = files + added.files - dropped.files;
                assert_eq!((root.slot, root.files), (last + 1, files), "{events:?}");
                assert!(added.files == 0 || added.bytes > 0);
                last = root.slot;
            }
            TailEvent::Log { chunks: count, bytes, .. } => {
                chunks += count;
                assert!(*bytes > 0);
            }
            TailEvent::Closed { .. } => panic!("{events:?}"),
        }
    }
    assert!(last >= before.slot + 2 && chunks > 0, "{events:?}");
    let dir = scratch();
    let next =
        open_store(&config(dir.path(), "owner:2", Durability::Sync), &fixture.bucket, quick()).unwrap();
    let mut db = Db::open(next, dir.path(), true);
    db.commit(&mut fixture.model, 0b11, 1, 1);
    db.flush(0, true);
    db.store.publish(WAIT).unwrap();
    let events = poll(&mut follower);
    assert!(
        events
            .iter()
            .any(|event| matches!(event, TailEvent::Closed { by_server, .. } if by_server == "owner:2")),
        "{events:?}"
    );
    assert!(
        events
            .iter()
            .any(|event| matches!(event, TailEvent::Root { root, .. } if root.epoch == before.epoch + 1)),
        "{events:?}"
    );
    lose(db, dir.path());
}

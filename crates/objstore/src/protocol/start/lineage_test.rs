//! Goal:   a directory and a bucket with different histories are refused, whatever the numbers of their
//!         epochs and roots are, and neither is changed.
//! Method: copy a bucket and its directory, use both pairs further, and open the directory of one pair with
//!         the bucket of the other.

use crate::config::Durability;
use crate::protocol::format::codec::FrameReader;
use crate::protocol::format::names;
use crate::protocol::format::records::{Marker, RootSlot};
use crate::protocol::start::local;
use crate::protocol::testing::test_copies::*;
use crate::protocol::testing::test_db::*;
use crate::requests::bucket::Bucket;
use std::cmp::Ordering;
use std::path::Path;

/// The files of `dir`, in a new directory.
fn copy_of(dir: &Path) -> tempfile::TempDir {
    let copy = scratch();
    let done = std::process::Command::new("cp").arg("-a").arg(dir.join("db")).arg(copy.path()).status();
    assert!(done.unwrap().success());
    copy
}

/// A server from its start to its crash, the rows it must have, and the number of its last commit.
struct Life {
    db: Db,
    model: Model,
    seq: u64,
}

impl Life {
    fn new(bucket: &Bucket, dir: &Path, model: &Model, seq: u64) -> Self {
        let mut life = Self { db: open_db(bucket, dir), model: model.clone(), seq };
        life.go_on();
        life
    }

    fn go_on(&mut self) {
        self.seq += 1;
        change(&mut self.db, &mut self.model, self.seq);
    }

    fn end(self) -> (Model, u64) {
        crash(self.db);
        (self.model, self.seq)
    }
}

/// Two servers go on from one state, until the newest root of the first compares as `order` with
/// that of the second. The first is then started on the bucket of the second. Returns the error.
fn part(order: Ordering) -> String {
    let (bucket, dir) = (Bucket::in_memory(), scratch());
    let (model, seq) = Life::new(&bucket, dir.path(), &Model::default(), 0).end();
    let (other_bucket, other_dir) = (bucket_of(&objects_of(&bucket)), copy_of(dir.path()));
    let mut own = Life::new(&bucket, dir.path(), &model, seq);
    let mut other = Life::new(&other_bucket, other_dir.path(), &model, seq);
    let roots = || (marker_of(dir.path()).root, marker_of(other_dir.path()).root);
    loop {
        let (own_root, other_root) = roots();
        match own_root.cmp(&other_root) {
            found if found == order => break,
            Ordering::Less => own.go_on(),
            Ordering::Greater => other.go_on(),
            Ordering::Equal if order == Ordering::Less => other.go_on(),
            Ordering::Equal => own.go_on(),
        }
    }
    let (model, seq) = own.end();
    other.end();
    assert_eq!(roots().0.cmp(&roots().1), order);
    let message = expect_refused(&objects_of(&other_bucket), dir.path());
    let db = open_db(&bucket, dir.path());
    db.check(&model, "with its own bucket");
    assert_eq!(db.last_seq, seq);
    message
}

#[test]
fn a_directory_is_refused_by_the_bucket_of_another_server_with_the_same_numbers() {
    let message = part(Ordering::Equal);
    for text in ["have diverged", "epoch 2", "owner:1", "move", "atoll_url", "Nothing was changed"] {
        assert!(message.contains(text), "'{text}' is missing in: {message}");
    }
}

#[test]
fn it_is_refused_whichever_of_the_two_has_come_farther() {
    for order in [Ordering::Less, Ordering::Greater] {
        assert!(part(order).contains("have diverged"), "{order:?}");
    }
}

/// Simulates a copy of a running machine: both copies have the same claim, and one loses the race for the
/// slot of a root.
#[test]
fn a_root_that_another_life_of_the_same_epoch_published_is_noticed() {
    let (bucket, dir) = (Bucket::in_memory(), scratch());
    Life::new(&bucket, dir.path(), &Model::default(), 0).end();
    let marker = marker_of(dir.path());
    let mut objects = objects_of(&bucket);
    let key = names::root(marker.root.epoch, marker.root.slot);
    let Ok(RootSlot::Root(root)) = RootSlot::decode(&objects[&key]) else { panic!("no root") };
    objects.insert(key, root.encode(&[9; 16]).into());
    let message = expect_refused(&objects, dir.path());
    assert!(
        message.contains(&format!("root {}/{} in the bucket", marker.root.epoch, marker.root.slot)),
        "{message}"
    );
}

/// The marker of an earlier version has no nonces. Its directory is opened all the same, and its new marker
/// has the nonce of the new claim.
#[test]
fn a_marker_without_nonces_is_opened_and_gets_them() {
    let (bucket, dir) = (Bucket::in_memory(), scratch());
    Life::new(&bucket, dir.path(), &Model::default(), 0).end();
    let marker = marker_of(dir.path());
    let claim = block(bucket.get(&names::epoch(1))).unwrap();
    assert_eq!(marker.claim_nonce, FrameReader::open(&claim).ok().map(|frame| frame.nonce()));
    let without = Marker { claim_nonce: None, root_nonce: None, ..marker };
    local::write_marker(&dir.path().join("db"), &without).unwrap();
    open_store(&config(dir.path(), "owner:1", Durability::Sync), &bucket, quick()).unwrap().kill();
    let marker = marker_of(dir.path());
    assert!(marker.epoch == 2 && marker.claim_nonce.is_some() && marker.root_nonce.is_none(), "{marker:?}");
}

//! Copies of buckets, for tests in which an earlier or another bucket takes the place of the right one.

use crate::config::Durability;
use crate::error::StoreError;
use crate::protocol::format::records::Marker;
use crate::protocol::start::local;
use crate::protocol::testing::test_db::*;
use crate::requests::bucket::Bucket;
use bytes::Bytes;
use object_store::PutOptions;
use std::collections::BTreeMap;
use std::path::Path;

/// Every object of a bucket.
pub(in crate::protocol) type Objects = BTreeMap<String, Bytes>;

pub(in crate::protocol) fn objects_of(bucket: &Bucket) -> Objects {
    block(async {
        let mut objects = Objects::new();
        for object in bucket.list("", None).await.unwrap() {
            objects.insert(object.key.clone(), bucket.get(&object.key).await.unwrap());
        }
        objects
    })
}

/// A bucket with these objects.
pub(in crate::protocol) fn bucket_of(objects: &Objects) -> Bucket {
    let bucket = Bucket::in_memory();
    block(async {
        for (key, bytes) in objects {
            bucket.put_unconditional(key, bytes.clone(), PutOptions::default()).await.unwrap();
        }
    });
    bucket
}

pub(in crate::protocol) fn open_db(bucket: &Bucket, dir: &Path) -> Db {
    Db::open(open_store(&config(dir, "owner:1", Durability::Sync), bucket, quick()).unwrap(), dir, true)
}

/// Makes the commit with number `seq`, flushes it to a new table file, and publishes a root.
pub(in crate::protocol) fn change(db: &mut Db, model: &mut Model, seq: u64) {
    db.commit(model, 0b11, seq, seq);
    db.flush(0, true);
    db.store.publish(WAIT).unwrap();
}

/// Opening with `objects` in the bucket must be refused, and change neither them nor the directory. Returns
/// the message of the error.
pub(in crate::protocol) fn expect_refused(objects: &Objects, dir: &Path) -> String {
    let bucket = bucket_of(objects);
    let local = dir.join("db");
    let before = (local::read_marker(&local).unwrap(), local::wal_files(&local).unwrap());
    let message = match open_store(&config(dir, "owner:1", Durability::Sync), &bucket, quick()) {
        Err(StoreError::Invalid(message)) => message,
        Err(error) => panic!("{error}"),
        Ok(_) => panic!("the bucket was accepted"),
    };
    assert_eq!(objects_of(&bucket), *objects, "the bucket was changed");
    let after = (local::read_marker(&local).unwrap(), local::wal_files(&local).unwrap());
    assert_eq!(after, before, "the directory was changed");
    message
}

/// The marker of the directory: its epoch, and the root that it was about to publish.
pub(in crate::protocol) fn marker_of(dir: &Path) -> Marker {
    local::read_marker(&dir.join("db")).unwrap().unwrap()
}

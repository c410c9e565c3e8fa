//! Goal:   every request survives any single fault, and a slot has exactly one winner whichever requests or
//!         replies are lost.
//! Method: enumerate (kind of fault) x (position of the request it hits) on a bucket in memory; other tests
//!         use random faults from a printed seed.

use super::*;
use crate::crc::crc32c;
use crate::requests::fault::{Fault, faulty_bucket};
use crate::requests::listing::Page;
use std::io::Write;

const NONCE: [u8; 16] = *b"0123456789abcdef";
const POSITIONS: u64 = 6;

fn slot_bytes(nonce: &[u8; 16], text: &str) -> Bytes {
    Bytes::from([nonce.as_slice(), text.as_bytes()].concat())
}

#[tokio::test]
async fn a_slot_is_mine_after_every_single_fault() {
    for fault in Fault::ALL {
        for at in 0..POSITIONS {
            let (bucket, store) = faulty_bucket();
            store.hurt(at, fault);
            let bytes = slot_bytes(&NONCE, "record");
            let outcome = bucket.create_slot("root/1", bytes.clone(), &NONCE).await;
            assert_eq!(outcome.unwrap(), SlotOutcome::Mine, "{fault:?} at {at}");
            store.heal();
            assert_eq!(bucket.get("root/1").await.unwrap(), bytes, "{fault:?} at {at}");
        }
    }
}

#[tokio::test]
async fn a_lost_slot_is_lost_after_every_single_fault() {
    for fault in Fault::ALL {
        for at in 0..POSITIONS {
            let (bucket, store) = faulty_bucket();
            let winner = slot_bytes(b"ffffffffffffffff", "the winner's record, long enough to be hurt");
            bucket.create_slot("root/1", winner.clone(), b"ffffffffffffffff").await.unwrap();
            store.hurt(at, fault);
            let outcome = bucket.create_slot("root/1", slot_bytes(&NONCE, "late"), &NONCE).await;
            assert_eq!(outcome.unwrap(), SlotOutcome::Lost(winner), "{fault:?} at {at}");
        }
    }
}

#[tokio::test]
async fn two_faults_in_a_row_do_not_change_the_winner() {
    for first in Fault::ALL {
        for second in Fault::ALL {
            for at in 0..3 {
                let (bucket, store) = faulty_bucket();
                store.hurt(at, first);
                store.hurt(at + 1, second);
                let bytes = slot_bytes(&NONCE, "record");
                let outcome = bucket.create_slot("root/1", bytes, &NONCE).await.unwrap();
                assert_eq!(outcome, SlotOutcome::Mine, "{first:?}, {second:?} at {at}");
            }
        }
    }
}

#[tokio::test]
async fn many_writers_and_random_faults_leave_one_winner_per_slot() {
    let seed = std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos() as u64;
    eprintln!("seed {seed}");
    let (bucket, store) = faulty_bucket();
    store.hurt_randomly(seed, 4);
    for slot in 0..50 {
        let key = format!("root/{slot:020}");
        let tries = (0..4u8).map(|writer| {
            let (bucket, key) = (bucket.clone(), key.clone());
            async move {
                let nonce = [b'A' + writer; 16];
                loop {
                    // After Unavailable the outcome is unknown: the caller sends the same bytes
                    // again.
                    match bucket.create_slot(&key, slot_bytes(&nonce, "r"), &nonce).await {
                        Ok(outcome) => return (writer, outcome),
                        Err(StoreError::Unavailable(_)) => {}
                        Err(error) => panic!("seed {seed}, slot {slot}: {error}"),
                    }
                }
            }
        });
        let outcomes = futures_util::future::join_all(tries).await;
        let winners: Vec<u8> =
            outcomes.iter().filter(|(_, o)| *o == SlotOutcome::Mine).map(|(w, _)| *w).collect();
        assert_eq!(winners.len(), 1, "seed {seed}, slot {slot}: {outcomes:?}");
        let winner = slot_bytes(&[b'A' + winners[0]; 16], "r");
        for (_, outcome) in outcomes.iter().filter(|(_, o)| *o != SlotOutcome::Mine) {
            assert_eq!(*outcome, SlotOutcome::Lost(winner.clone()), "seed {seed}, slot {slot}");
        }
    }
}

#[tokio::test]
async fn a_slot_without_its_nonce_is_refused() {
    let bucket = Bucket::in_memory();
    let error = bucket.create_slot("root/1", Bytes::from_static(b"x"), &NONCE).await.unwrap_err();
    assert!(matches!(error, StoreError::Bug(_)), "{error}");
}

#[tokio::test]
async fn an_outage_leaves_the_outcome_open_and_is_bounded() {
    let (bucket, store) = faulty_bucket();
    store.outage(true);
    let bytes = slot_bytes(&NONCE, "r");
    let error = bucket.create_slot("root/1", bytes.clone(), &NONCE).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
    let used = store.requests();
    assert!(used <= 30, "{used} requests in an outage");
    store.outage(false);
    assert_eq!(bucket.create_slot("root/1", bytes, &NONCE).await.unwrap(), SlotOutcome::Mine);
}

#[tokio::test]
async fn reads_lists_and_deletes_survive_lost_requests() {
    for fault in [Fault::LostRequest, Fault::LostReply, Fault::Busy, Fault::Delay] {
        let (bucket, store) = faulty_bucket();
        bucket.put("hint/a", Bytes::from_static(b"0123456789")).await.unwrap();
        bucket.put("hint/b", Bytes::from_static(b"x")).await.unwrap();
        store.hurt(0, fault);
        assert_eq!(bucket.get("hint/a").await.unwrap(), "0123456789", "{fault:?}");
        store.hurt(0, fault);
        assert_eq!(bucket.get_range("hint/a", 2..5).await.unwrap(), "234", "{fault:?}");
        store.hurt(0, fault);
        let keys: Vec<String> =
            bucket.list("hint/", Some("hint/a")).await.unwrap().into_iter().map(|o| o.key).collect();
        assert_eq!(keys, ["hint/b"], "{fault:?}");
        store.hurt(0, fault);
        assert_eq!(bucket.head("hint/a").await.unwrap().size, 10, "{fault:?}");
        store.hurt(0, fault);
        bucket.delete("hint/a").await.unwrap();
        assert!(bucket.get("hint/a").await.unwrap_err().is_not_found(), "{fault:?}");
        bucket.delete("hint/a").await.unwrap();
    }
}

#[tokio::test]
async fn a_short_object_is_corruption_and_an_overwrite_is_refused() {
    let bucket = Bucket::in_memory();
    bucket.put("hint/a", Bytes::from_static(b"0123")).await.unwrap();
    let error = bucket.get_range("hint/a", 2..9).await.unwrap_err();
    assert_eq!(error.code(), crate::Code::Corruption, "{error}");
    assert_eq!(bucket.put("sst/a", Bytes::new()).await.unwrap_err().code(), crate::Code::Bug);
}

#[tokio::test]
async fn the_probe_tells_stores_apart() {
    let (bucket, _) = faulty_bucket();
    bucket.probe_conditional_put("hint/probe-1").await.unwrap();
    assert!(bucket.list("hint", None).await.unwrap().is_empty(), "the probe leaves nothing behind");
    let error = crate::requests::liar::lying_bucket(crate::requests::liar::Lie::Overwrites)
        .probe_conditional_put("hint/probe-1")
        .await
        .unwrap_err();
    assert_eq!(error.code(), crate::Code::ReadOnly, "{error}");
}

fn local_file(size: usize) -> (tempfile::NamedTempFile, Vec<u8>) {
    let bytes: Vec<u8> = (0..size).map(|i| (i ^ (i >> 9)) as u8).collect();
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(&bytes).unwrap();
    (file, bytes)
}

#[tokio::test]
async fn uploads_survive_every_single_fault() {
    for size in [0, 5, PIECE + PIECE / 2] {
        let (file, bytes) = local_file(size);
        for fault in Fault::ALL.into_iter().filter(|f| *f != Fault::CorruptBody) {
            for at in 0..5 {
                let (bucket, store) = faulty_bucket();
                store.hurt(at, fault);
                let mut tries = 0;
                let done = loop {
                    tries += 1;
                    match bucket.put_file("sst/00/1-1.sst", file.path(), &[("a", "b".into())]).await {
                        Ok(done) => break done,
                        // put_file() does not repeat an upload after a conflict; its caller, the uploader,
                        // does.
                        Err(StoreError::Unavailable(_)) if tries < 3 => {}
                        Err(error) => panic!("{fault:?} at {at}: {error}"),
                    }
                };
                store.heal();
                assert_eq!(done.crc32c, crc32c(&bytes), "{fault:?} at {at}");
                assert_eq!(done.part_crcs.len() as u64, (size as u64).div_ceil(crate::crc::PART_BYTES));
                let stored = bucket.get("sst/00/1-1.sst").await.unwrap();
                assert!(stored == bytes, "{fault:?} at {at}, size {size}");
            }
        }
    }
}

const PIECE: usize = crate::requests::upload::PIECE_BYTES as usize;

#[tokio::test]
async fn a_directory_bucket_links_files_and_creates_slots_once() {
    let folder = tempfile::tempdir().unwrap();
    let config = crate::StoreConfig {
        url: format!("file://{}/bucket", folder.path().display()),
        ..Default::default()
    };
    let bucket = crate::requests::client::connect(&config, Arc::default()).unwrap();
    bucket.probe_conditional_put("hint/probe-1").await.unwrap();
    let local = folder.path().join("000012.sst");
    std::fs::write(&local, b"table").unwrap();
    let done = bucket.put_file("sst/ab/1-12.sst", &local, &[]).await.unwrap();
    assert!(!done.copied);
    assert_eq!(bucket.get("sst/ab/1-12.sst").await.unwrap(), "table");
    let inode = |path: &Path| std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(path).unwrap());
    assert_eq!(inode(&local), inode(&bucket.local_path("sst/ab/1-12.sst").unwrap()));
    bucket.put_file("sst/ab/1-12.sst", &local, &[]).await.unwrap();
    let listed = bucket.list("sst", None).await.unwrap();
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0].key, "sst/ab/1-12.sst");
    let outcome = bucket.create_slot("root/1", slot_bytes(&NONCE, "a"), &NONCE).await.unwrap();
    assert_eq!(outcome, SlotOutcome::Mine);
    let late = bucket.create_slot("root/1", slot_bytes(b"gggggggggggggggg", "b"), b"gggggggggggggggg").await;
    assert_eq!(late.unwrap(), SlotOutcome::Lost(slot_bytes(&NONCE, "a")));
}

/// A bucket with `count` objects in `wal/`. It lists them in pages of ten, and each request may take at most
/// 100 ms.
async fn long_listing(count: usize) -> (Bucket, Arc<crate::requests::stuck::StuckStore>) {
    let (bucket, store) = crate::requests::stuck::stuck_bucket(10, Duration::from_millis(100));
    for number in 0..count {
        let key = format!("wal/{number:020}");
        bucket.put_unconditional(&key, Bytes::from_static(b"x"), PutOptions::default()).await.unwrap();
    }
    (bucket, store)
}

#[tokio::test]
async fn a_page_that_hangs_or_fails_is_asked_for_again_and_no_other() {
    use crate::requests::stuck::{Hurt, Verb};
    for hurt in [Hurt::Hangs, Hurt::Fails] {
        for page in 0..6 {
            let (bucket, store) = long_listing(55).await;
            store.hurt(Verb::List, "wal", page, 2, hurt);
            let keys: Vec<String> =
                bucket.list("wal", None).await.unwrap().into_iter().map(|o| o.key).collect();
            let expected: Vec<String> = (0..55).map(|number| format!("wal/{number:020}")).collect();
            assert_eq!(keys, expected, "{hurt:?} at page {page}");
            assert_eq!(store.seen(Verb::List, "wal"), 6 + 2, "{hurt:?} at page {page}");
        }
    }
}

#[tokio::test]
async fn a_listing_with_more_faults_than_attempts_ends_while_pages_arrive() {
    use crate::requests::stuck::{Hurt, Verb};
    let (bucket, store) = long_listing(95).await;
    for page in 0..10 {
        // Each page arrives after one request that hangs, so ten requests hang in all. The policy allows four
        // failed requests for each page, not for the whole listing.
        store.hurt(Verb::List, "wal", u32::from(page > 0), 1, Hurt::Hangs);
    }
    assert_eq!(bucket.list("wal", None).await.unwrap().len(), 95);
    assert_eq!(store.seen(Verb::List, "wal"), 10 + 10);
}

#[tokio::test]
async fn a_page_that_never_comes_ends_the_listing_with_an_error() {
    use crate::requests::stuck::{Hurt, Verb};
    let (bucket, store) = long_listing(30).await;
    store.hurt(Verb::List, "wal", 1, u32::MAX, Hurt::Hangs);
    let error = bucket.list("wal", None).await.unwrap_err();
    assert!(matches!(&error, StoreError::Unavailable(text) if text.contains("listing wal")), "{error}");
}

#[tokio::test]
async fn a_listing_is_passed_on_page_by_page_also_after_failures() {
    let (bucket, store) = crate::requests::stuck::stuck_bucket(100, std::time::Duration::from_secs(2));
    for number in 0..1234 {
        store.replace(&format!("db/sst/{number:05}"), vec![1]);
    }
    for fails in [0, 3] {
        use crate::requests::stuck::{Hurt, Verb};
        store.hurt(Verb::List, "sst", 2, fails, Hurt::Fails);
        let mut keys: Vec<String> = Vec::new();
        let each = |page| match page {
            Page::Objects(objects) => {
                assert!(objects.len() <= 1000, "{} objects in a page", objects.len());
                keys.extend(objects.into_iter().map(|object| object.key));
            }
            Page::Again => panic!("this is no directory"),
        };
        bucket.list_each("sst", None, each).await.unwrap();
        assert!(keys.len() == 1234 && keys.is_sorted(), "{} keys", keys.len());
    }
}

/// A start must not be tried for ever because of a link that does not go away by itself.
#[tokio::test]
async fn a_loop_of_symbolic_links_in_a_directory_is_named() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::create_dir(dir.path().join("sst")).unwrap();
    std::os::unix::fs::symlink(dir.path(), dir.path().join("sst/loop")).unwrap();
    let stats = Arc::default();
    let bucket =
        crate::requests::client::connect_directory(dir.path(), stats, RetryPolicy::default()).unwrap();
    let error = bucket.list("", None).await.unwrap_err();
    assert!(matches!(&error, StoreError::Refused(_)), "{error:?}");
    assert!(error.to_string().contains("symbolic link"), "{error}");
}

//! Goal:   the settings of a database are never lost, neither to another program nor to a server whose
//!         configuration lacks them (rules SETTINGS-1 and SETTINGS-2).
//! Method: changes records in a bucket in memory; opens databases with a configuration that lacks what the
//!         bucket has.

use super::*;
use crate::config::Durability;
use crate::protocol::format::codec::Nonce;
use crate::protocol::testing::test_db::{block, config, open_store, quick, scratch};
use crate::requests::liar::{Lie, lying_bucket};
use bytes::Bytes;

const NONCE: Nonce = [7; 16];
const HOUR: Duration = Duration::from_secs(3600);

fn retention(seconds: u64, grace: Duration) -> SettingsChange {
    SettingsChange { retention_s: Some(seconds), grace, ..SettingsChange::default() }
}

fn schedule(text: &str) -> SettingsChange {
    SettingsChange { schedule: Some(text.to_owned()), ..SettingsChange::default() }
}

#[test]
fn settings_survive_the_way_to_bytes_and_no_damage_does() {
    let settings = KeptSettings::default().changed(&schedule("daily 7"), "db1:77", 5);
    let bytes = settings.encode(&NONCE);
    assert_eq!(KeptSettings::decode(&bytes).as_ref(), Ok(&settings));
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(KeptSettings::decode(&damaged).is_err(), "bit {bit}");
    }
}

#[test]
fn a_shorter_retention_holds_only_after_the_grace_time() {
    let long = KeptSettings::default().changed(&retention(100, HOUR), "a", 10);
    assert_eq!((long.retention_at(10), long.former_until_ms), (100, 0), "nothing was shortened");
    let short = long.changed(&retention(7, HOUR), "a", 1000);
    let end_ms = 1000 + 3_600_000;
    assert_eq!((short.retention_at(end_ms - 1), short.retention_at(end_ms)), (100, 7));
    let other = short.changed(&schedule("daily 7"), "a", 2000);
    assert_eq!((other.retention_at(end_ms - 1), other.retention_at(end_ms)), (100, 7), "not touched");
    let none = short.changed(&retention(0, HOUR), "a", 2000);
    assert_eq!((none.retention_at(end_ms), none.retention_at(end_ms + 1000)), (100, 0), "the longest holds");
    let undone = none.changed(&retention(100, HOUR), "a", 3000);
    assert_eq!((undone.retention_s, undone.former_retention_s, undone.former_until_ms), (100, 0, 0));
    let at_once = long.changed(&retention(7, Duration::ZERO), "a", 1000);
    assert_eq!(at_once.retention_at(1000), 7);
}

/// Rule SETTINGS-1: each of many programs changes another setting, or the same one, and no change is lost.
#[test]
fn changes_of_many_programs_at_once_all_count() {
    let bucket = Bucket::in_memory();
    block(async {
        let changes = [schedule("daily 7"), retention(50, HOUR), retention(50, HOUR)];
        let all = changes.iter().map(|wanted| change(&bucket, wanted, "a"));
        let outcomes = futures_util::future::join_all(all).await;
        assert!(outcomes.iter().all(Result::is_ok), "{outcomes:?}");
        let last = read(&bucket).await.unwrap();
        assert_eq!((last.schedule.as_str(), last.retention_s), ("daily 7", 50));
        assert_eq!(last.number, 2, "a change that changes nothing writes nothing");
    });
}

#[test]
fn settings_that_are_damaged_or_missing_in_the_listing_are_no_other_settings() {
    let bucket = Bucket::in_memory();
    block(async {
        let record = KeptSettings { number: 1, retention_s: 9, ..KeptSettings::default() };
        bucket.create_slot(&names::settings(1), Bytes::from(record.encode(&NONCE)), &NONCE).await.unwrap();
        assert_eq!(read(&bucket).await.unwrap().retention_s, 9);
        // The name of the second record is there, and its bytes are no record.
        bucket.create_slot(&names::settings(2), Bytes::copy_from_slice(&NONCE), &NONCE).await.unwrap();
        let Err(StoreError::Corruption(message)) = read(&bucket).await else { panic!("read") };
        assert!(message.contains(&names::settings(2)), "{message}");
        let lying = lying_bucket(Lie::ListsLate);
        lying.create_slot(&names::settings(1), Bytes::from(record.encode(&NONCE)), &NONCE).await.unwrap();
        let Err(StoreError::ReadOnly(message)) = read(&lying).await else { panic!("believed") };
        assert!(message.contains(&names::settings(1)), "{message}");
    });
}

/// Rule SETTINGS-2.
#[test]
fn a_server_without_the_option_keeps_the_history_that_the_bucket_asks_for() {
    let (bucket, dir) = (Bucket::in_memory(), scratch());
    let plain = config(dir.path(), "s", Durability::Local);
    let store = open_store(&plain, &bucket, quick()).unwrap();
    assert_eq!(store.kept_settings().number, 0);
    assert!(!store.shared().history.limits().is_on());
    store.change_settings(&retention(77, HOUR)).unwrap();
    store.close(HOUR).unwrap();
    drop(store);
    let store = open_store(&plain, &bucket, quick()).unwrap();
    assert_eq!(store.shared().history.limits().retention, Duration::from_secs(77));
    store.change_settings(&retention(0, HOUR)).unwrap();
    store.close(HOUR).unwrap();
    drop(store);
    let store = open_store(&plain, &bucket, quick()).unwrap();
    assert_eq!(store.shared().history.limits().retention, Duration::from_secs(77), "the grace time");
    store.change_settings(&retention(0, Duration::ZERO)).unwrap();
    store.close(HOUR).unwrap();
    drop(store);
    let mut longer = plain;
    longer.history.retention = Duration::from_secs(5);
    let store = open_store(&longer, &bucket, quick()).unwrap();
    assert_eq!(store.shared().history.limits().retention, Duration::from_secs(5));
    store.close(HOUR).unwrap();
}

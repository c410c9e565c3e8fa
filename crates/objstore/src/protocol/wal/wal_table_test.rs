//! Goal:   the WAL is cut in order, `shipped` stops before a chunk that has not arrived, and each chunk has
//!         the DDL number that a replay needs.
//! Method: single cases on a WalTable alone, and seeded random runs in which each cut must begin where the
//!         last one ended or at the beginning of a later WAL.

use crate::protocol::testing::test_random::Random;
use crate::protocol::wal::wal_table::WalTable;
use std::fs::File;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

const ALL: u64 = u64::MAX;

/// A table with one WAL of `length` durable bytes.
fn one_wal(length: u64) -> WalTable {
    let mut table = WalTable::new();
    table.created(7);
    table.synced(7, length);
    table
}

fn cut(table: &mut WalTable, until: u64, wanted: u64, bytes_max: u64) -> Option<(u64, u64, u64, u64)> {
    let cut = table.next_cut(until, wanted, bytes_max)?;
    let placed = table.place(&cut).unwrap();
    Some((placed.chunk, cut.log, cut.offset, cut.length))
}

fn any_file() -> Option<Arc<File>> {
    File::open("/dev/null").ok().map(Arc::new)
}

#[test]
fn a_hole_holds_the_watermark_back() {
    let mut table = one_wal(30);
    for chunk in 0..3 {
        assert_eq!(cut(&mut table, ALL, 0, 10), Some((chunk, 7, chunk * 10, 10)));
    }
    assert_eq!(cut(&mut table, ALL, 0, 10), None);
    table.arrived(1);
    table.arrived(2);
    assert_eq!((table.shipped(), table.cover(1)), (0, None));
    table.arrived(0);
    assert_eq!((table.shipped(), table.cover(1)), (30, Some(30)));
}

#[test]
fn only_durable_bytes_are_cut_unless_somebody_waits() {
    let mut table = one_wal(10);
    table.appended(7, 25);
    assert_eq!(cut(&mut table, ALL, 0, 100), Some((0, 7, 0, 10)));
    assert_eq!(cut(&mut table, ALL, 0, 100), None);
    let forced = table.next_cut(ALL, 20, 100).unwrap();
    assert!(forced.needs_sync && forced.offset == 10);
    // The shipper is allowed to sync a WAL that does not grow any more.
    table.created(8);
    assert!(table.next_cut(ALL, 0, 100).is_some_and(|cut| cut.needs_sync && cut.length == 15));
}

#[test]
fn local_durability_cuts_up_to_the_wanted_position_only() {
    let mut table = one_wal(10);
    table.created(9);
    table.appended(9, 5);
    assert_eq!(cut(&mut table, 0, 0, 100), None);
    assert_eq!(cut(&mut table, 10, 10, 100), Some((0, 7, 0, 10)));
    assert_eq!(cut(&mut table, 10, 10, 100), None);
    assert_eq!(cut(&mut table, 12, 12, 100), Some((1, 9, 0, 2)), "as far as somebody waits");
}

#[test]
fn a_deleted_wal_is_skipped_and_what_follows_needs_a_later_root() {
    let mut table = one_wal(20);
    assert_eq!(cut(&mut table, ALL, 0, 5), Some((0, 7, 0, 5)));
    table.created(8);
    table.synced(8, 10);
    let lost = table.deleted(7).expect("bytes are lost");
    assert_eq!(lost, 5);
    table.ddl_noted(lost, 2);
    let next = table.next_cut(ALL, 0, 100).unwrap();
    assert_eq!((next.log, next.offset), (8, 0));
    let placed = table.place(&next).unwrap();
    assert_eq!((placed.chunk, placed.ddl_seq), (1, 2));
    table.arrived(0);
    table.arrived(1);
    assert_eq!(table.shipped(), 30);
    assert_eq!(table.cover(1), Some(5), "the root before the skip does not cover what is behind it");
    assert_eq!(table.cover(2), Some(30));
    assert_eq!(table.deleted(7), None);
}

#[test]
fn a_gated_wal_is_shipped_although_it_is_deleted() {
    let mut table = one_wal(20);
    table.created(8);
    let (gate, gone) = table.gate(|_| any_file());
    assert_eq!((gate, gone), (20, vec![]));
    assert_eq!(table.deleted(7), None, "its file is held open");
    assert_eq!(cut(&mut table, gate, gate, 100), Some((0, 7, 0, 20)));
    table.arrived(0);
    assert_eq!(table.shipped(), gate);
    let (gate, gone) = one_wal_with_gone_file();
    assert_eq!((gate, gone), (0, vec![7]));
}

fn one_wal_with_gone_file() -> (u64, Vec<u64>) {
    let mut table = one_wal(20);
    table.created(8);
    table.gate(|_| None)
}

/// Here gate PUB-G2 and gate PUB-G8 could contradict each other: bytes that a root waits for are cut after a
/// later edit of the MANIFEST.
#[test]
fn bytes_in_front_of_an_edit_keep_the_smaller_number() {
    let mut table = one_wal(10);
    table.ddl_noted(table.position(), 2);
    table.synced(7, 20);
    assert_eq!(table.next_cut(10, 10, 100).map(|c| table.place(&c).unwrap().ddl_seq), Some(1));
    assert_eq!(table.next_cut(ALL, 0, 100).map(|c| table.place(&c).unwrap().ddl_seq), Some(2));
}

#[test]
fn the_first_needed_chunk_follows_the_oldest_live_wal() {
    let mut table = one_wal(20);
    cut(&mut table, ALL, 0, 10);
    cut(&mut table, ALL, 0, 10);
    table.created(8);
    table.synced(8, 5);
    assert_eq!((table.min_live(), table.first_chunk_from(7), table.first_chunk_from(8)), (7, 0, 2));
    cut(&mut table, ALL, 0, 10);
    table.deleted(7);
    assert_eq!((table.min_live(), table.first_chunk_from(8)), (8, 2));
    table.trimmed_below(8);
    assert_eq!(table.first_chunk_from(0), 2);
}

#[test]
fn ages_are_never_younger_than_the_oldest_byte() {
    let mut table = WalTable::new();
    table.created(7);
    let start = Instant::now();
    let at = |ms: u64| start + Duration::from_millis(ms);
    table.mark(at(0));
    table.appended(7, 10);
    table.mark(at(10));
    table.mark(at(15));
    table.appended(7, 20);
    table.mark(at(20));
    assert_eq!(table.appended_after(5), Some(at(0)));
    assert_eq!(table.appended_after(10), Some(at(15)), "nothing came between the marks");
    assert_eq!(table.appended_after(20), Some(at(20)));
    for ms in 30..10_000 {
        table.appended(7, ms);
        table.mark(at(ms));
    }
    let position = 5_000;
    let age = table.appended_after(position).unwrap();
    assert!(age <= at(5_000) && age >= at(4_900), "coarser, not younger");
}

#[test]
fn a_sync_that_was_counted_without_the_lock_lets_its_bytes_be_cut() {
    let mut table = WalTable::new();
    table.created(7);
    table.appended(7, 10);
    assert!(table.next_cut(u64::MAX, 0, 100).is_none(), "nothing is durable");
    table.catch_up(8, 12);
    let cut = table.next_cut(u64::MAX, 0, 100).unwrap();
    assert_eq!((cut.length, cut.needs_sync), (8, false));
    // `catch_up` counts durable bytes only for the newest WAL, and WAL 8 begins at position 12. So a sync up
    // to this position makes no byte of WAL 8 durable, and does not count for WAL 7.
    table.created(8);
    table.appended(8, 5);
    table.catch_up(12, 17);
    assert!(table.place(&cut).is_some());
    let rest = table.next_cut(u64::MAX, 0, 100).unwrap();
    assert_eq!((rest.log, rest.length, rest.needs_sync), (7, 4, true));
    assert!(table.place(&rest).is_some());
    assert!(table.next_cut(u64::MAX, 0, 100).is_none(), "WAL 8 is not durable");
}

#[test]
fn random_histories_cover_every_byte_once_and_in_order() {
    let mut random = Random::from_environment("random_histories_cover_every_byte_once_and_in_order");
    for _ in 0..200 {
        let mut table = WalTable::new();
        let (mut number, mut length, mut ddl) = (1, 0, 1);
        table.created(number);
        // (WAL, offset of its end) of the last cut.
        let mut expected: Option<(u64, u64)> = None;
        let mut pending: Vec<u64> = Vec::new();
        let mut deleted = 0;
        for _ in 0..100 {
            match random.below(10) {
                0..=3 => {
                    length += 1 + random.below(50);
                    if random.below(2) == 0 {
                        table.synced(number, length)
                    } else {
                        table.appended(number, length)
                    }
                }
                4 => {
                    (number, length) = (number + 1 + random.below(3), 0);
                    table.created(number);
                }
                5 => {
                    ddl += 1;
                    table.ddl_noted(table.position(), ddl);
                }
                6 if deleted + 1 < number => {
                    deleted += 1;
                    if let Some(position) = table.deleted(deleted) {
                        ddl += 1;
                        table.ddl_noted(position, ddl);
                    }
                }
                7 if !pending.is_empty() => {
                    let chunk = pending.swap_remove(random.below(pending.len() as u64) as usize);
                    table.arrived(chunk);
                    assert!(pending.iter().all(|open| *open != chunk));
                }
                _ => {
                    let wanted = random.below(table.position() + 1);
                    if let Some(next) = table.next_cut(ALL, wanted, 1 + random.below(60)) {
                        let (log, offset) = expected.unwrap_or((0, 0));
                        assert!(
                            next.log > log || (next.log == log && next.offset == offset),
                            "seed {}",
                            random.seed
                        );
                        assert!(next.log == log || next.offset == 0, "seed {}", random.seed);
                        expected = Some((next.log, next.offset + next.length));
                        pending.push(table.place(&next).unwrap().chunk);
                    }
                }
            }
        }
        for chunk in pending {
            table.arrived(chunk);
        }
        while let Some(next) = table.next_cut(ALL, table.position(), 1000) {
            let placed = table.place(&next).unwrap();
            table.arrived(placed.chunk);
        }
        assert_eq!(table.shipped(), table.position(), "seed {}", random.seed);
        assert!(table.position() == 0 || table.cover(ddl) == Some(table.position()) || table.shipped() == 0);
    }
}

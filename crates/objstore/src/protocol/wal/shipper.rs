//! Ships the WAL: cuts durable bytes into chunks and keeps a few PUTs in flight.
//!
//! One task per database. With durability `local` and without a history it ships only what a caller waits
//! for: the closed WALs for a publish, or everything at close. With a history it ships all of the log, so that
//! the moments that the history promises can be restored from the bucket.
//!
//! SHIP-1: only this task cuts chunks, in stream order. PUTs may arrive in any order; `WalTable::shipped` is
//!         the end of the contiguous prefix of arrived chunks.
//! SHIP-2: a chunk is sent again with the same bytes until its slot is known to hold them, or a fence.
//!
//! Chunks that commits wait for are cut at a pace (pace.rs).

use crate::config::Durability;
use crate::crc::crc32c;
use crate::error::{Result, StoreError};
use crate::protocol::format::codec::Nonce;
use crate::protocol::format::names;
use crate::protocol::format::records::{WalChunk, WalSlot};
use crate::protocol::format::slots::{decode_wal_slot, settle};
use crate::protocol::shared::{Shared, Tuning};
use crate::protocol::start::local::{random_nonce, read_wal_range, wal_path};
use crate::protocol::wal::pace::{Pace, catch_up_wait};
use crate::protocol::wal::wal_table::{Cut, Placed};
use crate::requests::bucket::SlotOutcome;
use crate::requests::upload::blocking;
use crate::stats::add;
use bytes::Bytes;
use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// How long the shipper waits after an error that did not come from the bucket, such as a failed
/// local read.
const RETRY_DELAY: Duration = Duration::from_secs(1);

/// What an error of [`cut_next`] is reported as.
const READING: &str = "reading the WAL to ship it";

/// A chunk that is being sent.
struct Chunk {
    number: u64,
    key: String,
    bytes: Bytes,
    nonce: Nonce,
}

/// Runs until the database is closed or fenced.
pub(crate) async fn run(shared: Arc<Shared>) {
    let mut in_flight = FuturesUnordered::new();
    let mut last_cut = Instant::now();
    let (mut pace, mut not_before) = (Pace::default(), Instant::now());
    while !shared.is_ending() {
        while in_flight.len() < in_flight_max(&shared)
            && Instant::now() >= not_before
            && is_due(&shared, last_cut)
        {
            match cut_next(&shared).await {
                Ok(Some(chunk)) => {
                    shared.bucket.stats().last_error.works(READING);
                    not_before = next_cut_time(&shared, &pace, &chunk);
                    in_flight.push(send_timed(&shared, chunk));
                }
                Ok(None) => {
                    last_cut = Instant::now();
                    break;
                }
                Err(error) => {
                    shared.report(READING, &error);
                    tokio::time::sleep(RETRY_DELAY).await;
                    break;
                }
            }
        }
        tokio::select! {
            biased;
            Some((number, put)) = in_flight.next(), if !in_flight.is_empty() => {
                pace.arrived(put);
                arrived(&shared, number);
            }
            () = tokio::time::sleep_until(not_before), if Instant::now() < not_before => {}
            () = shared.wake_shipper.notified() => {}
            () = tokio::time::sleep(interval(&shared)) => {}
        }
    }
}

/// How many chunks are allowed to be in flight: one when merging is late, because then more commits gather in
/// each chunk, and chunks arrive more slowly than they are merged.
fn in_flight_max(shared: &Shared) -> usize {
    if excess_objects(shared) > 0 { 1 } else { shared.tuning.chunks_in_flight }
}

/// How many more objects of the WAL a restore would read than when merging keeps up. Half a merge and the
/// chunks in flight do not count, because they also wait when merging keeps up.
fn excess_objects(shared: &Shared) -> usize {
    let Tuning { chunks_in_flight, merge, .. } = &shared.tuning;
    shared.state.lock().wal.runs.excess(merge).saturating_sub(merge.merge_chunks / 2 + chunks_in_flight)
}

/// The earliest time of the cut after `chunk`.
fn next_cut_time(shared: &Shared, pace: &Pace, chunk: &Chunk) -> Instant {
    let mut wait = pace.distance(shared.tuning.chunks_in_flight);
    if shared.tuning.merge.is_small_chunk(chunk.bytes.len() as u64) {
        wait = wait.max(catch_up_wait(excess_objects(shared)));
    }
    Instant::now() + wait
}

/// The time between two chunks that no commit waits for. With `async` it is a fraction of the lag limit,
/// because every chunk is a request, and requests cost money.
fn interval(shared: &Shared) -> Duration {
    let Tuning { ship_interval, ships_per_lag, .. } = shared.tuning;
    match shared.path.durability() {
        Durability::Sync => ship_interval,
        _ if !shared.ships_all() => ship_interval,
        // With durability `local` and a history, the log is shipped as with `async`, but no commit waits.
        Durability::Async | Durability::Local => {
            (shared.path.lag_max() / ships_per_lag.max(1)).max(ship_interval)
        }
    }
}

/// Whether to cut now: a thread waits, many bytes have gathered, or the interval is over.
fn is_due(shared: &Shared, last_cut: Instant) -> bool {
    let mut state = shared.lock();
    state.wal.mark(Instant::now());
    let is_wanted = state.ship_wanted > state.wal.shipped();
    let is_time =
        state.wal.uncut_bytes() > shared.tuning.ship_bytes || last_cut.elapsed() >= interval(shared);
    state.current.is_some() && (is_wanted || (is_time && state.is_open_for(shared.tuning.settle_after_open)))
}

/// Cuts the next chunk; None when no bytes can be shipped now.
async fn cut_next(shared: &Arc<Shared>) -> Result<Option<Chunk>> {
    loop {
        let Some(cut) = next_cut(shared) else { return Ok(None) };
        let Some(file) = file_of(shared, &cut)? else { continue };
        let (wanted, path) = (cut.clone(), wal_path(&shared.local_dir, cut.log));
        let bytes = blocking(move || read_cut(&file, &wanted, &path)).await?;
        let placed = shared.lock().wal.place(&cut);
        if let Some(placed) = placed {
            return encode(shared, &cut, placed, bytes).map(Some);
        }
    }
}

fn next_cut(shared: &Shared) -> Option<Cut> {
    let mut state = shared.lock();
    let wanted = state.ship_wanted;
    let until = if shared.ships_all() { u64::MAX } else { wanted };
    let cut = state.wal.next_cut(until, wanted, shared.tuning.chunk_bytes_max);
    if cut.is_none() {
        // It is possible that the covered part of the log has grown without a chunk: by a skip, whose bytes
        // are never shipped.
        shared.cover(&mut state);
        shared.shipped.notify_waiters();
    }
    cut
}

/// Returns the open file of the WAL of `cut`; None when the file is gone, which the WAL table is then told.
fn file_of(shared: &Shared, cut: &Cut) -> Result<Option<Arc<File>>> {
    if let Some(file) = &cut.file {
        return Ok(Some(file.clone()));
    }
    let opened = shared.open_wal(cut.log);
    let opened =
        opened.map_err(|e| StoreError::from_io("opening", &wal_path(&shared.local_dir, cut.log), &e))?;
    let mut state = shared.lock();
    match &opened {
        Some(file) => state.wal.set_file(cut.log, file),
        None => {
            if let Some(position) = state.wal.vanished(cut.log) {
                shared.note_ddl(&mut state, position);
            }
        }
    }
    Ok(opened)
}

/// Returns the bytes of a cut. When RocksDB has cut zeros off the end of a former process's WAL, they are
/// added again; RocksDB skips them.
///
/// Errors: `Corruption` when bytes that held records are gone: zeros in their place must not reach the bucket
/// under a valid checksum. Nothing after these bytes is shipped until RocksDB has flushed the records and
/// deletes the WAL.
fn read_cut(file: &File, cut: &Cut, path: &Path) -> Result<Vec<u8>> {
    let read = || {
        if cut.needs_sync {
            file.sync_data()?;
        }
        read_wal_range(file, cut.offset, cut.length as usize)
    };
    let mut bytes = read().map_err(|e| StoreError::from_io("reading", path, &e))?;
    let end = cut.offset + bytes.len() as u64;
    let needed = cut.solid_bytes.min(cut.offset + cut.length);
    if end < needed {
        return Err(StoreError::Corruption(format!(
            "{} ends before byte {needed}, although the server wrote {} bytes: somebody else cut it, or the disk lost its end. \
             What it held is in memory and durable after the next flush; if this message stays, restart the server",
            path.display(),
            cut.solid_bytes
        )));
    }
    bytes.resize(cut.length as usize, 0);
    Ok(bytes)
}

fn encode(shared: &Shared, cut: &Cut, placed: Placed, bytes: Vec<u8>) -> Result<Chunk> {
    let nonce = random_nonce()?;
    let record = WalChunk {
        epoch: shared.epoch,
        chunk: placed.chunk,
        log: cut.log,
        offset: cut.offset,
        ddl_seq: placed.ddl_seq,
        previous_crc32c: placed.previous_crc32c,
        bytes,
    };
    let bytes = Bytes::from(record.encode(&nonce));
    shared.lock().wal.set_last_crc32c(crc32c(&bytes));
    Ok(Chunk { number: placed.chunk, key: names::wal_chunk(shared.epoch, placed.chunk), bytes, nonce })
}

/// Does [`send`], and also returns the time that it took.
async fn send_timed(shared: &Arc<Shared>, chunk: Chunk) -> (Option<u64>, Duration) {
    let started = Instant::now();
    let number = send(shared, chunk).await;
    (number, started.elapsed())
}

/// Sends one chunk until its outcome is known; None when the process was fenced instead.
async fn send(shared: &Arc<Shared>, chunk: Chunk) -> Option<u64> {
    let report = |error: &StoreError| shared.report("shipping the WAL", error);
    loop {
        match settle(&shared.slots(), &chunk.key, &chunk.bytes, &chunk.nonce, report).await {
            Ok(SlotOutcome::Mine) => return Some(chunk.number),
            Ok(SlotOutcome::Lost(bytes)) => {
                match decode_wal_slot(&chunk.key, &bytes, shared.epoch, chunk.number) {
                    Ok(WalSlot::Fence(fence)) => shared.fenced_by(&fence),
                    _ => shared.slot_taken(&chunk.key),
                }
                return None;
            }
            Err(error) => report(&error),
        }
        tokio::time::sleep(RETRY_DELAY).await;
    }
}

fn arrived(shared: &Shared, number: Option<u64>) {
    let Some(number) = number else { return };
    add(&shared.bucket.stats().wal_chunks_shipped, 1);
    let mut state = shared.lock();
    state.wal.arrived(number);
    shared.cover(&mut state);
    drop(state);
    shared.shipped.notify_waiters();
    shared.wake_merger.notify_one();
}

//! The names of the protocol's objects below the prefix of the database, and parsers that get the numbers
//! back from a name.
//!
//! Numbers that order objects are written with twenty digits, so that the order of a LIST is the numeric
//! order. Nothing here reads an object. Source: design of the bucket, docs/internals/formats-bucket.md, table
//! FMT-W0.

/// The record with the database's identity. It is created once and never changed.
pub(crate) const DB: &str = "db.json";
/// Hints: objects that are overwritten, and without which all goes on.
pub(crate) const HINT_DIR: &str = "hint/";
/// The hint that the owner lives or has closed the database. Each new hint overwrites it.
pub(crate) const ALIVE: &str = "hint/alive";
/// The hint with the names of the tables (table_names.rs). Each new hint overwrites it.
pub(crate) const TABLES: &str = "hint/tables";

/// The hint in a copy of a database that says which state of its source the copy has (mirror.rs).
pub(crate) const COPIED: &str = "hint/copied";

/// The hint that says when a trial restore was last made, and its outcome (prove.rs).
pub(crate) const PROVED: &str = "hint/proved";

/// The name of an object that a server creates and deletes at once, to test whether the bucket supports
/// create-only PUTs. `random` keeps the names of two such tests apart.
pub(crate) fn probe(random: u64) -> String {
    format!("hint/probe/{random:016x}")
}
/// Prefix of every epoch claim.
pub(crate) const EPOCH_DIR: &str = "epoch/";
/// Prefix of every root slot.
pub(crate) const ROOT_DIR: &str = "root/";
/// Prefix of every MANIFEST chunk.
pub(crate) const MANIFEST_DIR: &str = "man/";
/// Prefix of every WAL chunk.
pub(crate) const WAL_DIR: &str = "wal/";
/// Prefix of every pin.
pub(crate) const PIN_DIR: &str = "pin/";
/// Prefix of the records that give pins the names of snapshots, and of the protections of snapshots.
pub(crate) const SNAPSHOT_DIR: &str = "snapshot/";
/// Prefix of the horizons. A horizon is a record with a root in its name. It says that the collector may
/// have deleted objects that only older roots need.
pub(crate) const HORIZON_DIR: &str = "gc/horizon/";
/// Prefix of the tombs, which list keys to delete.
pub(crate) const TOMB_DIR: &str = "tomb/";
/// Prefix of every part of a file map.
pub(crate) const MAP_DIR: &str = "map/";
/// Prefix of the settings of the database (kept_settings.rs).
pub(crate) const SETTINGS_DIR: &str = "settings/";
/// Prefix of the records about tables that change databases (hand_over.rs).
pub(crate) const HANDOVER_DIR: &str = "handover/";
/// Prefix of those records by which a database notes whose tables it has taken.
pub(crate) const TAKEN: &str = "handover/taken-";
/// Prefix of every table file.
pub(crate) const FILE_DIR: &str = "sst/";

/// The slot that decides who has the table of the hand-over `id`.
pub(crate) fn handover(id: &str) -> String {
    format!("{HANDOVER_DIR}{id}")
}

/// The note of a database that it takes the table of the hand-over `id`.
pub(crate) fn taken(id: &str) -> String {
    format!("{TAKEN}{id}")
}

pub(crate) fn epoch(epoch: u64) -> String {
    format!("epoch/{epoch:020}")
}

/// The name of the record of the settings with this number.
pub(crate) fn settings(number: u64) -> String {
    format!("{SETTINGS_DIR}{number:020}")
}

/// Returns the number in `settings/<n>`. None: `key` is another name.
pub(crate) fn parse_settings(key: &str) -> Option<u64> {
    number_of(key.strip_prefix(SETTINGS_DIR)?)
}

pub(crate) fn root_dir(epoch: u64) -> String {
    format!("root/{epoch:020}/")
}

pub(crate) fn root(epoch: u64, slot: u64) -> String {
    format!("root/{epoch:020}/{slot:020}")
}

/// A MANIFEST in the bucket: the number that RocksDB gave it, and the number of the upload. A MANIFEST that
/// has become many small objects is uploaded again as a few big ones, with a `copy` that is one higher. The
/// first upload has `copy` 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct ManifestCopy {
    pub(crate) number: u64,
    pub(crate) copy: u32,
}

/// Prefix of the chunks of one MANIFEST: `man/<E>/<M>/`, or `man/<E>/<M>-<copy>/` if it was uploaded again.
pub(crate) fn manifest_dir(epoch: u64, manifest: ManifestCopy) -> String {
    let number = manifest.number;
    match manifest.copy {
        0 => format!("man/{epoch:020}/{number:020}/"),
        copy => format!("man/{epoch:020}/{number:020}-{copy:010}/"),
    }
}

/// Prefix of the chunks of all MANIFESTs of `epoch`.
pub(crate) fn manifests_dir(epoch: u64) -> String {
    format!("man/{epoch:020}/")
}

pub(crate) fn manifest_chunk(epoch: u64, manifest: ManifestCopy, offset: u64) -> String {
    format!("{}{offset:020}", manifest_dir(epoch, manifest))
}

pub(crate) fn wal_dir(epoch: u64) -> String {
    format!("wal/{epoch:020}/")
}

pub(crate) fn wal_chunk(epoch: u64, chunk: u64) -> String {
    format!("wal/{epoch:020}/{chunk:020}")
}

/// The name of the merged object that holds the chunks from `first` to `end - 1`.
pub(crate) fn merged_chunks(epoch: u64, first: u64, end: u64) -> String {
    format!("wal/{epoch:020}/{first:020}-{end:020}")
}

/// The name of part number `part` of the file maps of `epoch`.
pub(crate) fn map_part(epoch: u64, part: u64) -> String {
    format!("map/{epoch:020}/{part:020}")
}

/// The name of a horizon: from its creation on, the collector is allowed to delete objects that only roots
/// before root `slot` of `epoch` need.
pub(crate) fn horizon(epoch: u64, slot: u64) -> String {
    format!("{HORIZON_DIR}{epoch:020}/{slot:020}")
}

/// The name of tomb `number`, which the owner of `epoch` writes.
pub(crate) fn tomb(epoch: u64, number: u64) -> String {
    format!("tomb/{epoch:020}/{number:020}")
}

/// The name of a record that protects a snapshot until a time in seconds since 1970. `snapshot`: the key of
/// the record with the snapshot's name.
pub(crate) fn protection(snapshot: &str, until_s: u64) -> String {
    format!("{snapshot}-until-{until_s:020}")
}

/// Returns the two parts of `snapshot/<digits>-until-<seconds>`: what is protected, as in [`protection`], and
/// the time. None: `key` is another name.
pub(crate) fn parse_protection(key: &str) -> Option<(&str, u64)> {
    let (snapshot, until_s) = key.split_once("-until-")?;
    Some((snapshot, number_of(until_s)?))
}

/// Returns the number in `epoch/<E>`. None: `key` is another name.
pub(crate) fn parse_epoch(key: &str) -> Option<u64> {
    number_of(key.strip_prefix(EPOCH_DIR)?)
}

/// Returns the numbers in `root/<E>/<S>`, `wal/<E>/<k>`, `map/<E>/<n>`, `tomb/<E>/<n>` or
/// `gc/horizon/<E>/<S>`. `dir` says which of these is expected: [`ROOT_DIR`], [`WAL_DIR`], [`MAP_DIR`],
/// [`TOMB_DIR`] or [`HORIZON_DIR`]. None: `key` is another name.
pub(crate) fn parse_slot(dir: &str, key: &str) -> Option<(u64, u64)> {
    let (epoch, slot) = key.strip_prefix(dir)?.split_once('/')?;
    Some((number_of(epoch)?, number_of(slot)?))
}

/// Returns the epoch, the first chunk and the end in `wal/<E>/<first>-<end>`. None: `key` is another name.
pub(crate) fn parse_merged_chunks(key: &str) -> Option<(u64, u64, u64)> {
    let (epoch, chunks) = key.strip_prefix(WAL_DIR)?.split_once('/')?;
    let (first, end) = chunks.split_once('-')?;
    Some((number_of(epoch)?, number_of(first)?, number_of(end)?))
}

/// Returns the epoch, the MANIFEST and the offset in `man/<E>/<M>[-<copy>]/<offset>`. None: `key` is another
/// name.
pub(crate) fn parse_manifest_chunk(key: &str) -> Option<(u64, ManifestCopy, u64)> {
    let (epoch, rest) = key.strip_prefix(MANIFEST_DIR)?.split_once('/')?;
    let (manifest, offset) = rest.split_once('/')?;
    let (number, copy) = match manifest.split_once('-') {
        Some((_, copy)) if copy.len() != 10 => return None,
        Some((number, copy)) => (number, u32::try_from(digits(copy)?).ok()?),
        None => (manifest, 0),
    };
    Some((number_of(epoch)?, ManifestCopy { number: number_of(number)?, copy }, number_of(offset)?))
}

/// Returns the epoch in `sst/<hh>/<E>-<anything>`. None: the name has another form, so the collector never
/// deletes the object.
pub(crate) fn parse_file_epoch(key: &str) -> Option<u64> {
    let (_, name) = key.strip_prefix(FILE_DIR)?.split_once('/')?;
    let (epoch, _) = name.split_once('-')?;
    digits(epoch)
}

/// The part of a copied table file's name that follows the epoch. `fingerprint` identifies the file that was
/// copied.
pub(crate) fn copied_name(fingerprint: &str) -> String {
    format!("c{fingerprint}")
}

/// Returns the epoch and the name `c<fingerprint>` in `sst/<hh>/<E>-c<fingerprint>.sst` (or `.blob`). None:
/// `key` is no copied table file.
pub(crate) fn parse_copied_file(key: &str) -> Option<(u64, &str)> {
    let (_, last) = key.strip_prefix(FILE_DIR)?.split_once('/')?;
    let (epoch, name) = last.split_once('-')?;
    let name = name.strip_suffix(".sst").or_else(|| name.strip_suffix(".blob"))?;
    let is_copied = name.strip_prefix('c').is_some_and(|rest| rest.len() == 32);
    Some((number_of(epoch)?, name)).filter(|_| is_copied)
}

/// Reads exactly twenty digits. None: `text` is anything else, which no name of this protocol has as a
/// number.
fn number_of(text: &str) -> Option<u64> {
    if text.len() != 20 { None } else { digits(text) }
}

fn digits(text: &str) -> Option<u64> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    text.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_parses_back_to_its_numbers() {
        for n in [0, 1, 9, 10, 12_345, u64::MAX] {
            assert_eq!(parse_epoch(&epoch(n)), Some(n));
            assert_eq!(parse_settings(&settings(n)), Some(n));
            assert_eq!(parse_slot(ROOT_DIR, &root(3, n)), Some((3, n)));
            assert_eq!(parse_slot(WAL_DIR, &wal_chunk(n, 7)), Some((n, 7)));
            assert_eq!(parse_slot(TOMB_DIR, &tomb(3, n)), Some((3, n)));
            assert_eq!(parse_slot(MAP_DIR, &map_part(3, n)), Some((3, n)));
            assert_eq!(parse_slot(HORIZON_DIR, &horizon(3, n)), Some((3, n)));
            assert_eq!(parse_merged_chunks(&merged_chunks(3, n, 9)), Some((3, n, 9)));
            assert_eq!(parse_slot(WAL_DIR, &merged_chunks(3, n, 9)), None);
            assert_eq!(parse_merged_chunks(&wal_chunk(n, 7)), None);
            for copy in [0, 1, u32::MAX] {
                let manifest = ManifestCopy { number: n, copy };
                assert_eq!(parse_manifest_chunk(&manifest_chunk(2, manifest, 5)), Some((2, manifest, 5)));
                assert!(manifest_chunk(2, manifest, 5).starts_with(&manifest_dir(2, manifest)));
            }
            assert!(root(3, n).starts_with(&root_dir(3)));
            assert!(wal_chunk(3, n).starts_with(&wal_dir(3)));
        }
        assert_eq!(parse_file_epoch("sst/ab/12-99.sst"), Some(12));
        assert_eq!(parse_protection(&protection("snapshot/5e", 77)), Some(("snapshot/5e", 77)));
        let name = copied_name(&"5e".repeat(16));
        let key = format!("sst/ab/{:020}-{name}.blob", 12);
        assert_eq!(parse_copied_file(&key), Some((12, name.as_str())));
        assert_eq!(parse_copied_file(&key.replace(".blob", ".unfinished")), None);
    }

    #[test]
    fn name_order_is_number_order() {
        let mut numbers = [5, 100, 9, u64::MAX, 0, 11];
        let mut names: Vec<_> = numbers.iter().map(|n| root(1, *n)).collect();
        names.sort();
        numbers.sort_unstable();
        assert_eq!(names, numbers.map(|n| root(1, n)).to_vec());
    }

    #[test]
    fn foreign_names_are_not_ours() {
        for key in ["epoch/1", "epoch/+0000000000000000001", "epoch/", "epoch/000000000000000000001"] {
            assert_eq!(parse_epoch(key), None, "{key}");
        }
        for key in ["root/1/2", "root/00000000000000000001", "wal/00000000000000000001/00000000000000000002"]
        {
            assert_eq!(parse_slot(ROOT_DIR, key), None, "{key}");
        }
        for key in ["sst/1-2.sst", "sst/ab/x-2.sst", "sst/ab/12.sst", "pin/ab/1-2"] {
            assert_eq!(parse_file_epoch(key), None, "{key}");
        }
    }
}

//! Finds out which table each table file belongs to, from a MANIFEST and without RocksDB. `atollctl` uses it
//! to show what takes space.
//!
//! A MANIFEST is a log (replay.rs) of edits. An edit is a list of fields, and each field has a tag and a
//! value. Two kinds of fields matter here: one adds a column family, the other adds a file with its first and
//! last key. A key begins with the table's prefix (4 bytes) and the number of the index (2 bytes), see
//! docs/internals/formats.md. So the two keys of a file show whether it holds one table and one index, or
//! several.
//! Source: RocksDB 11.8.1, db/version_edit.h (tags), db/version_edit.cc (DecodeFrom, DecodeNewFile4From),
//! db/dbformat.h (keys).

use crate::protocol::wal::replay::WalReader;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap, HashSet};

/// The size of the trailer at the end of each key: sequence number and kind of the change.
const TRAILER_BYTES: usize = 8;
/// The sequence number in the trailer of a file's last key when that key is the end of a range deletion. Then
/// the file ends before the key.
const EXCLUSIVE_END: u64 = 0x00ff_ffff_ffff_ffff;
/// A field with an unknown tag from this number on begins with its length, so it can be skipped.
const SKIPPABLE: u64 = 1 << 13;

/// The families and files that a MANIFEST names, including those that were removed again.
#[derive(Debug, Default)]
pub(crate) struct Families {
    pub(crate) names: BTreeMap<u32, String>,
    pub(crate) files: HashMap<u64, FileOwner>,
    /// Families that were dropped. Their files can still exist for a while.
    pub(crate) dropped: HashSet<u32>,
    /// False: an edit could not be decoded, or the end of the MANIFEST is damaged. Then `files` may be
    /// incomplete.
    pub(crate) is_whole: bool,
}

/// The table and index to which the entries of a table file belong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
pub struct FileOwner {
    /// RocksDB's number of the column family.
    pub family: u32,
    /// The prefix of the table's keys; 0 where the table has a family of its own. None: the file holds rows
    /// of several tables.
    pub prefix: Option<u32>,
    /// The number of the index within the table. None: the file holds entries of several indexes.
    pub index: Option<u16>,
}

impl Families {
    /// Reads a whole MANIFEST. Never fails: edits that cannot be decoded are left out.
    pub(crate) fn read(manifest: &[u8]) -> Self {
        let mut families = Self { is_whole: true, ..Self::default() };
        let mut record = Vec::new();
        let mut used = 0;
        WalReader::default().read(1, manifest, |part| {
            if part.begins_record {
                record.clear();
            }
            record.extend_from_slice(part.content);
            if part.ends_record {
                families.is_whole &= families.apply(&record).is_some();
            }
            used = part.offset as usize + part.content.len();
        });
        // `part.offset` is where a fragment begins, with a header of 7 bytes before its content. If the last
        // complete fragment does not end at the end of the MANIFEST, the end is damaged.
        families.is_whole &= used + 7 == manifest.len() || manifest.is_empty();
        families
    }

    /// Applies one edit. None: the edit cannot be decoded.
    fn apply(&mut self, edit: &[u8]) -> Option<()> {
        let mut fields = Fields(edit);
        let (mut family, mut name, mut files, mut is_drop) = (0, None, Vec::new(), false);
        while !fields.0.is_empty() {
            match fields.varint()? {
                // These fields do not matter here. Their value is one number, for example the number of the
                // newest log or of the next file.
                2 | 3 | 4 | 9 | 10 | 203 | 300 => drop(fields.varint()?),
                1 => drop(fields.bytes()?),
                5 => drop((fields.varint()?, fields.bytes()?)),
                6 => drop((fields.varint()?, fields.varint()?)),
                100 => files.push(fields.file(false)?),
                103 => files.push(fields.file(true)?),
                200 => family = u32::try_from(fields.varint()?).ok()?,
                201 => name = Some(String::from_utf8_lossy(fields.bytes()?).into_owned()),
                202 => is_drop = true,
                tag if tag >= SKIPPABLE => drop(fields.bytes()?),
                _ => return None,
            }
        }
        if is_drop {
            self.dropped.insert(family);
        }
        if let Some(name) = name {
            self.names.insert(family, name);
        }
        self.files
            .extend(files.into_iter().map(|(number, first, last)| (number, owner(family, first, last))));
        Some(())
    }
}

/// The fields of an edit that were not read yet.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.0.split_first()?;
            self.0 = rest;
            value |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let length = usize::try_from(self.varint()?).ok()?;
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    /// Reads the field that adds a file: level, number, size, first and last key, sequence numbers and, if
    /// `has_fields`, further fields. Returns the number and both keys. None: the bytes end too early.
    fn file(&mut self, has_fields: bool) -> Option<(u64, &'a [u8], &'a [u8])> {
        let (_level, number, _size) = (self.varint()?, self.varint()?, self.varint()?);
        let (first, last) = (self.bytes()?, self.bytes()?);
        let _sequences = (self.varint()?, self.varint()?);
        while has_fields && self.varint()? != 1 {
            self.bytes()?;
        }
        Some((number, first, last))
    }
}

/// Returns which table and index a file with these first and last keys belongs to. A key that is too short is
/// padded with zeros.
fn owner(family: u32, first: &[u8], last: &[u8]) -> FileOwner {
    let (first, last) = (start_of(first), end_of(last));
    let prefix = (first >> 16 == last >> 16).then_some((first >> 16) as u32);
    FileOwner { family, prefix, index: (first == last).then_some(first as u16) }
}

/// Returns the prefix and the index in a key as one number: the prefix in the upper bits, the index in the
/// lower 16. The trailer of the key is not read.
fn start_of(key: &[u8]) -> u64 {
    let user = &key[..key.len().saturating_sub(TRAILER_BYTES)];
    (0..6).fold(0, |number, at| number << 8 | u64::from(user.get(at).copied().unwrap_or(0)))
}

/// Returns the prefix and the index of the last key that the file contains, as one number like that of
/// [`start_of`].
fn end_of(key: &[u8]) -> u64 {
    let start = start_of(key);
    let trailer = key.last_chunk::<TRAILER_BYTES>().map_or(0, |trailer| u64::from_le_bytes(*trailer));
    let is_boundary = key.len() <= TRAILER_BYTES + 6;
    if trailer >> 8 == EXCLUSIVE_END && is_boundary { start.saturating_sub(1) } else { start }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::wal::replay::append_record;

    fn varint(out: &mut Vec<u8>, mut value: u64) {
        while value >= 0x80 {
            out.push(value as u8 | 0x80);
            value >>= 7;
        }
        out.push(value as u8);
    }

    fn bytes(out: &mut Vec<u8>, value: &[u8]) {
        varint(out, value.len() as u64);
        out.extend_from_slice(value);
    }

    fn key(prefix: u32, index: u16, rest: &[u8], trailer: u64) -> Vec<u8> {
        [&prefix.to_be_bytes()[..], &index.to_be_bytes(), rest, &trailer.to_le_bytes()].concat()
    }

    fn file(number: u64, first: &[u8], last: &[u8]) -> Vec<u8> {
        let mut edit = Vec::new();
        for value in [103, 6, number, 4711] {
            varint(&mut edit, value);
        }
        bytes(&mut edit, first);
        bytes(&mut edit, last);
        for value in [3, 9, 5] {
            varint(&mut edit, value);
        }
        bytes(&mut edit, b"a time");
        varint(&mut edit, 1);
        edit
    }

    fn of_family(family: u64, fields: &[u8]) -> Vec<u8> {
        let mut edit = Vec::new();
        varint(&mut edit, 200);
        varint(&mut edit, family);
        edit.extend_from_slice(fields);
        edit
    }

    fn manifest() -> Vec<u8> {
        let mut manifest = Vec::new();
        let mut name = vec![201 | 0x80, 1];
        bytes(&mut name, b"t00000007.zstd.3");
        append_record(&mut manifest, &of_family(300, &name));
        let one = file(12, &key(0, 1, b"a", 0x101), &key(0, 1, b"z", 0x101));
        append_record(&mut manifest, &of_family(300, &one));
        let two = file(13, &key(0, 1, b"a", 0x101), &key(0, 2, b"z", 0x101));
        append_record(&mut manifest, &of_family(300, &two));
        let several = file(14, &key(5, 1, b"a", 0x101), &key(6, 1, b"z", 0x101));
        append_record(&mut manifest, &of_family(2, &several));
        let ended = file(15, &key(5, 1, b"a", 0x101), &key(5, 2, b"", u64::MAX));
        append_record(&mut manifest, &of_family(2, &ended));
        let mut skipped = Vec::new();
        varint(&mut skipped, SKIPPABLE + 99);
        bytes(&mut skipped, b"of a later version");
        append_record(&mut manifest, &skipped);
        manifest
    }

    #[test]
    fn files_are_found_with_their_family_table_and_index() {
        let families = Families::read(&manifest());
        assert!(families.is_whole);
        assert_eq!(families.names.get(&300).map(String::as_str), Some("t00000007.zstd.3"));
        let of = |number| families.files[&number];
        assert_eq!(of(12), FileOwner { family: 300, prefix: Some(0), index: Some(1) });
        assert_eq!(of(13), FileOwner { family: 300, prefix: Some(0), index: None });
        assert_eq!(of(14), FileOwner { family: 2, prefix: None, index: None });
        assert_eq!(of(15), FileOwner { family: 2, prefix: Some(5), index: Some(1) }, "the end is exclusive");
    }

    #[test]
    fn what_cannot_be_read_is_left_out_and_said() {
        let whole = manifest();
        for length in 1..whole.len() {
            let cut = Families::read(&whole[..length]);
            assert!(cut.files.len() <= 4);
        }
        for byte in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[byte] ^= 0x55;
            assert!(!Families::read(&damaged).is_whole, "byte {byte}");
        }
        let mut unknown = whole.clone();
        append_record(&mut unknown, &[42]);
        let read = Families::read(&unknown);
        assert_eq!((read.is_whole, read.files.len()), (false, 4));
        assert!(!Families::read(b"no MANIFEST at all").is_whole);
    }
}

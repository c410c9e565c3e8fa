//! The compact form of the entries of a file map (byte table FMT-W13 of docs/internals/formats-bucket.md).
//!
//! File numbers ascend, so each is stored as its distance from the number before. Of a key, only what does
//! not follow from the file number and the previous key is stored. Pure. A reader returns None for bytes that
//! are malformed; its caller reports the error with the name of the record.

use crate::files::{Labels, object_key};
use crate::protocol::format::names;
use crate::protocol::publish::map_record::MapEntry;
use crate::requests::origin;

/// The form of an entry tells how the name in its key is stored. FORM_NUMBER: the name is the number of the
/// file. FORM_STAGED: the name is `s` and a number, which follows. FORM_NAME: the name follows as a text.
/// FORM_KEY: the whole key follows as a text. Each form but FORM_KEY may be combined with two flags.
/// [`FORM_BLOB`]: the extension is `blob`, not `sst`. [`FORM_EPOCH`]: the epoch in the key follows the form,
/// because it differs from the previous key's.
const FORM_NUMBER: u8 = 0;
const FORM_STAGED: u8 = 1;
const FORM_NAME: u8 = 2;
const FORM_KEY: u8 = 3;
const FORM_BLOB: u8 = 4;
const FORM_EPOCH: u8 = 8;

/// The fewest bytes of an entry: one each for the distance, the size and the form, and four for the checksum.
/// With it, `entries` refuses a count that is too large for the record.
const ENTRY_BYTES_MIN: usize = 7;

/// Writes `value` with seven bits per byte, the lowest bits first; every byte but the last has its highest
/// bit set.
pub(crate) fn write_varint(bytes: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        bytes.push(value as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
}

pub(crate) fn write_text(bytes: &mut Vec<u8>, text: &str) {
    write_varint(bytes, text.len() as u64);
    bytes.extend_from_slice(text.as_bytes());
}

/// Writes the number of `entries`, then each entry. `epoch`: the epoch that most keys have. Requires: the
/// entries are ascending by number, each number once.
pub(crate) fn write_entries_compactly(bytes: &mut Vec<u8>, entries: &[MapEntry], mut epoch: u64) {
    write_varint(bytes, entries.len() as u64);
    let mut next = 0;
    for entry in entries {
        write_varint(bytes, entry.number - next);
        write_varint(bytes, entry.size_bytes);
        bytes.extend_from_slice(&entry.crc32c.to_le_bytes());
        write_key(bytes, entry, &mut epoch);
        next = entry.number.wrapping_add(1);
    }
}

/// Writes the form and the key of `entry`. `epoch`: the epoch of the previous key, then of this key.
fn write_key(bytes: &mut Vec<u8>, entry: &MapEntry, epoch: &mut u64) {
    let key = origin::split(&entry.key).1;
    let Some((owner, name, extension)) = parse_key(key) else {
        bytes.push(FORM_KEY);
        return write_text(bytes, key);
    };
    let staged = parse_staged(name);
    let form = match staged {
        Some(_) => FORM_STAGED,
        None if name == entry.number.to_string() => FORM_NUMBER,
        None => FORM_NAME,
    };
    let blob = if extension == "blob" { FORM_BLOB } else { 0 };
    let other_epoch = if owner == *epoch { 0 } else { FORM_EPOCH };
    bytes.push(form | blob | other_epoch);
    if owner != *epoch {
        write_varint(bytes, owner);
        *epoch = owner;
    }
    match staged {
        Some(staged) => write_varint(bytes, staged),
        None if form == FORM_NAME => write_text(bytes, name),
        None => {}
    }
}

/// Returns the number in the name `s<number>` of a file that was uploaded before RocksDB gave it its file
/// number.
fn parse_staged(name: &str) -> Option<u64> {
    let number = name.strip_prefix('s')?.parse().ok()?;
    (format!("s{number}") == name).then_some(number)
}

/// Returns epoch, name and extension of a key; None when the key cannot be rebuilt from these three.
fn parse_key(key: &str) -> Option<(u64, &str, &str)> {
    let epoch = names::parse_file_epoch(key)?;
    let (_, name) = key.split_once('-')?;
    let (name, extension) = name.rsplit_once('.')?;
    let is_all = matches!(extension, "sst" | "blob") && object_key(epoch, name, extension) == key;
    is_all.then_some((epoch, name, extension))
}

/// Reads the fields of a compact record from front to back.
pub(crate) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.rest.is_empty()
    }

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(*taken)
    }

    pub(crate) fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    pub(crate) fn varint(&mut self) -> Option<u64> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let [byte] = self.take()?;
            let bits = u64::from(byte & 0x7f);
            if shift == 63 && bits > 1 {
                return None;
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Some(value);
            }
        }
        None
    }

    /// Reads a number that is larger than `before`. It is stored as its distance from `before` + 1.
    pub(crate) fn ascending(&mut self, before: Option<u64>) -> Option<u64> {
        let next = before.map_or(Some(0), |before| before.checked_add(1))?;
        next.checked_add(self.varint()?)
    }

    pub(crate) fn text(&mut self) -> Option<&'a str> {
        let length = usize::try_from(self.varint()?).ok()?;
        let (text, rest) = self.rest.split_at_checked(length)?;
        self.rest = rest;
        std::str::from_utf8(text).ok()
    }

    /// Reads what [`write_entries_compactly`] wrote, with the same `epoch`. None when the bytes are
    /// malformed.
    pub(crate) fn entries(&mut self, mut epoch: u64) -> Option<Vec<MapEntry>> {
        let count = usize::try_from(self.varint()?).ok()?;
        if count.saturating_mul(ENTRY_BYTES_MIN) > self.rest.len() {
            return None;
        }
        let mut entries: Vec<MapEntry> = Vec::with_capacity(count);
        for _ in 0..count {
            let number = self.ascending(entries.last().map(|last| last.number))?;
            let (size_bytes, crc32c) = (self.varint()?, self.u32()?);
            let key = self.key(number, &mut epoch)?;
            entries.push(MapEntry { number, key, size_bytes, crc32c, labels: Labels::default() });
        }
        Some(entries)
    }

    fn key(&mut self, number: u64, epoch: &mut u64) -> Option<String> {
        let [form] = self.take()?;
        if form == FORM_KEY {
            // A stored key never contains the origin of another database: an origin is a label of its own
            // (labels.rs).
            return self.text().filter(|key| !origin::is_foreign(key)).map(str::to_owned);
        }
        if form & FORM_EPOCH != 0 {
            *epoch = self.varint()?;
        }
        let extension = if form & FORM_BLOB == 0 { "sst" } else { "blob" };
        let name = match form & !(FORM_BLOB | FORM_EPOCH) {
            FORM_NUMBER => number.to_string(),
            FORM_STAGED => format!("s{}", self.varint()?),
            FORM_NAME => self.text()?.to_owned(),
            _ => return None,
        };
        Some(object_key(*epoch, &name, extension))
    }
}

//! The records of file maps: an entry, a part of a map, a map in parts, and ATOLL_FILES (byte tables FMT-W6,
//! FMT-W10 and FMT-W13 of docs/internals/formats-bucket.md).
//!
//! In a part, and in the list of files added to the parts, an entry takes about eleven bytes, because most
//! names of objects follow from the number of the file. So 100,000 files take 1.1 MB.

use crate::crc::crc32c;
use crate::files::{FileRecord, Labels};
use crate::protocol::format::codec::{FormatError, FrameReader, FrameWriter, Nonce};
use crate::protocol::format::records::open;
use crate::protocol::publish::compact::{Reader, write_entries_compactly, write_varint};
use crate::protocol::publish::labels;
use crate::requests::origin;
use std::collections::BTreeMap;

const KIND_LOCAL_FILES: u16 = 9;
const KIND_MAP_PART: u16 = 11;

/// The field of ATOLL_FILES that holds the file map when the map is in parts.
const TAG_LOCAL_PARTS: u16 = 0x8001;

/// Every table file of a root, by RocksDB's number.
pub(crate) type FileMap = BTreeMap<u64, FileRecord>;

/// Returns the objects of `files`, each once, although clones of a table give an object a second file number.
/// An object is returned twice when two numbers have different records for it.
pub(crate) fn objects_of(files: &FileMap) -> Vec<&FileRecord> {
    let mut objects: Vec<&FileRecord> = files.values().collect();
    objects.sort_by(|a, b| a.key.cmp(&b.key));
    objects.dedup();
    objects
}

/// The bytes of all objects of `files`; an object with several file numbers counts once.
pub(crate) fn object_bytes(files: &FileMap) -> u64 {
    objects_of(files).iter().map(|object| object.size).sum()
}

/// One table file: its number and the object that holds it; a key that starts with a slash is of another
/// database's object (origin.rs).
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MapEntry {
    pub(crate) number: u64,
    pub(crate) key: String,
    pub(crate) size_bytes: u64,
    pub(crate) crc32c: u32,
    pub(crate) labels: Labels,
}

/// A root's reference to a part of its map. The parts of one map have no file number in common and ascend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct PartRef {
    /// The number in the part's name `map/<E>/<part>`.
    pub(crate) part: u64,
    /// The number of the first file in the part.
    pub(crate) first: u64,
    pub(crate) files: u64,
    /// Size of the part's object in bytes.
    pub(crate) bytes: u64,
    /// The checksum at the end of the part, see [`checksum`]. A reader compares it, to notice when another
    /// object has been put under the part's name.
    pub(crate) crc32c: u32,
}

const REF_BYTES: usize = 36;

/// `map/<E>/<part>`: some files of a map. A part has no meaning until a root names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MapPart {
    pub(crate) epoch: u64,
    pub(crate) part: u64,
    pub(crate) entries: Vec<MapEntry>,
}

/// A map in parts. It has the files of the parts without `removed`, and the files in `added`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MapInParts {
    /// The epoch in the names of all parts.
    pub(crate) epoch: u64,
    /// The number of files in the map, as a check.
    pub(crate) files_count: u64,
    /// The parts in ascending order of their file numbers; at least one.
    pub(crate) parts: Vec<PartRef>,
    /// Numbers of files in the parts that the map no longer has, or has with another record; ascending.
    pub(crate) removed: Vec<u64>,
    /// Files that the parts lack, or have with another record; ascending.
    pub(crate) added: Vec<MapEntry>,
}

/// The local file `ATOLL_FILES`: where the table files of this directory are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LocalFiles {
    pub(crate) db_uuid: String,
    /// All files; empty when the map is in parts.
    pub(crate) files: Vec<MapEntry>,
    /// The map, when it is in parts; the parts are in the folder `ATOLL_MAP`. None: `files` is the whole map.
    pub(crate) in_parts: Option<MapInParts>,
}

impl MapEntry {
    pub(crate) fn new(number: u64, file: &FileRecord) -> Self {
        let (key, labels) = (file.key.as_ref().to_owned(), file.labels.clone());
        Self { number, key, size_bytes: file.size, crc32c: file.crc32c, labels }
    }

    pub(crate) fn record(&self) -> FileRecord {
        let (key, labels) = (self.key.as_str().into(), self.labels.clone());
        FileRecord { key, size: self.size_bytes, crc32c: self.crc32c, labels }
    }
}

impl MapPart {
    pub(crate) fn encode(&self, nonce: &Nonce) -> Vec<u8> {
        let mut frame = FrameWriter::new(KIND_MAP_PART, nonce, 64 + 16 * self.entries.len());
        let mut entries = Vec::with_capacity(16 * self.entries.len());
        write_entries_compactly(&mut entries, &self.entries, self.epoch);
        frame.u64(self.epoch).u64(self.part).bytes(&entries);
        frame.extension(&labels::fields_of(&self.entries));
        frame.finish()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let mut frame = open(bytes, KIND_MAP_PART, "a part of a file map")?;
        let (epoch, part) = (frame.u64()?, frame.u64()?);
        let mut reader = Reader::new(frame.bytes()?);
        let entries = reader.entries(epoch).filter(|_| reader.is_at_end());
        let mut entries =
            entries.ok_or_else(|| frame.wrong("the files of a part of a file map are malformed"))?;
        let fields = frame.extension(&labels::TAGS)?;
        read_labels(&frame, &fields, &mut entries)?;
        frame.finish().map(|()| Self { epoch, part, entries })
    }

    /// Decodes `bytes` when they are the part `part` of `epoch`. Any other part, also one of another
    /// database, is an error.
    pub(crate) fn read(bytes: &[u8], epoch: u64, part: PartRef) -> Result<Self, FormatError> {
        let (record, crc) = (Self::decode(bytes)?, checksum(bytes));
        if (record.epoch, record.part, crc) == (epoch, part.part, part.crc32c) {
            return Ok(record);
        }
        let what = format!(
            "it is another part of a file map than the one that is needed: part {} of epoch {} with checksum {crc:#010x}, not \
             part {} of epoch {epoch} with {:#010x}. It was replaced, or comes from another database",
            record.part, record.epoch, part.part, part.crc32c
        );
        Err(FormatError::new(what, 0))
    }
}

/// The checksum at the end of `record`. (A checksum of the whole record, the stored checksum included, would
/// be the same for all records.)
pub(crate) fn checksum(record: &[u8]) -> u32 {
    crc32c(&record[..record.len().saturating_sub(4)])
}

impl MapInParts {
    /// Encodes the map as the value of one field of a root or of ATOLL_FILES.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut value = Vec::with_capacity(32 + REF_BYTES * self.parts.len() + 16 * self.added.len());
        for word in [self.epoch, self.files_count, self.parts.len() as u64] {
            value.extend_from_slice(&word.to_le_bytes());
        }
        for part in &self.parts {
            for word in [part.part, part.first, part.files, part.bytes] {
                value.extend_from_slice(&word.to_le_bytes());
            }
            value.extend_from_slice(&part.crc32c.to_le_bytes());
        }
        write_varint(&mut value, self.removed.len() as u64);
        let mut next = 0;
        for number in &self.removed {
            write_varint(&mut value, number - next);
            next = number.wrapping_add(1);
        }
        write_entries_compactly(&mut value, &self.added, self.epoch);
        value
    }

    /// Decodes what [`Self::encode`] wrote; None when it is malformed. Parts and files are in ascending
    /// order, each once.
    pub(crate) fn decode(value: &[u8]) -> Option<Self> {
        let mut reader = Reader::new(value);
        let (epoch, files_count, parts_count) = (reader.u64()?, reader.u64()?, reader.u64()?);
        let mut parts: Vec<PartRef> = Vec::new();
        for _ in 0..parts_count {
            let (part, first, files) = (reader.u64()?, reader.u64()?, reader.u64()?);
            let part = PartRef { part, first, files, bytes: reader.u64()?, crc32c: reader.u32()? };
            if part.files == 0 || parts.last().is_some_and(|last| part.first <= last.first) {
                return None;
            }
            parts.push(part);
        }
        let mut removed = Vec::new();
        for _ in 0..reader.varint()? {
            removed.push(reader.ascending(removed.last().copied())?);
        }
        let added = reader.entries(epoch)?;
        let is_whole = reader.is_at_end() && !parts.is_empty();
        is_whole.then_some(Self { epoch, files_count, parts, removed, added })
    }
}

impl LocalFiles {
    pub(crate) fn encode(&self, nonce: &Nonce) -> Vec<u8> {
        let mut frame = FrameWriter::new(KIND_LOCAL_FILES, nonce, 64 + 64 * self.files.len());
        frame.bytes(self.db_uuid.as_bytes());
        write_entries(&mut frame, &self.files);
        let mut fields = labels::fields_of(self.in_parts.as_ref().map_or(&self.files, |map| &map.added));
        fields.extend(self.in_parts.iter().map(|map| (TAG_LOCAL_PARTS, map.encode())));
        fields.sort_unstable_by_key(|(tag, _)| *tag);
        frame.extension(&fields);
        frame.finish()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let mut frame = open(bytes, KIND_LOCAL_FILES, "a local file map")?;
        let (db_uuid, mut files) = (frame.string()?, read_entries(&mut frame)?);
        let [class, origin, key_id] = labels::TAGS;
        let fields = frame.extension(&[TAG_LOCAL_PARTS, class, origin, key_id])?;
        let mut in_parts = read_in_parts(&frame, fields.get(&TAG_LOCAL_PARTS).copied())?;
        read_labels(&frame, &fields, in_parts.as_mut().map_or(&mut files, |map| &mut map.added))?;
        if in_parts.is_some() && !files.is_empty() {
            return Err(frame.wrong("a file map in parts has files beside them"));
        }
        frame.finish().map(|()| Self { db_uuid, files, in_parts })
    }
}

/// Gives `entries` their labels from `fields`, the extension area of the record of `frame`.
pub(crate) fn read_labels(
    frame: &FrameReader<'_>,
    fields: &BTreeMap<u16, &[u8]>,
    entries: &mut [MapEntry],
) -> Result<(), FormatError> {
    labels::apply(fields, entries).ok_or_else(|| frame.wrong("the labels of table files are malformed"))
}

/// Decodes the map in parts in `value`, a field of the record of `frame`; None when the record has no such
/// field. Errors: the field is malformed.
pub(crate) fn read_in_parts(
    frame: &FrameReader<'_>,
    value: Option<&[u8]>,
) -> Result<Option<MapInParts>, FormatError> {
    let wrong = || frame.wrong("the file map in parts is malformed");
    value.map(|value| MapInParts::decode(value).ok_or_else(wrong)).transpose()
}

pub(crate) fn write_entries(frame: &mut FrameWriter, entries: &[MapEntry]) {
    frame.u32(entries.len() as u32);
    for entry in entries {
        frame
            .u64(entry.number)
            .u64(entry.size_bytes)
            .u32(entry.crc32c)
            .bytes(origin::split(&entry.key).1.as_bytes());
    }
}

/// Reads the entries of a file map, which are stored in ascending order of their number, each once.
pub(crate) fn read_entries(frame: &mut FrameReader<'_>) -> Result<Vec<MapEntry>, FormatError> {
    let count = frame.count(24)?;
    let mut entries: Vec<MapEntry> = Vec::with_capacity(count);
    for _ in 0..count {
        let number = frame.u64()?;
        if entries.last().is_some_and(|last| last.number >= number) {
            return Err(frame.wrong("the file map is not in ascending order"));
        }
        let (size_bytes, crc32c, key) = (frame.u64()?, frame.u32()?, frame.string()?);
        if origin::is_foreign(&key) {
            return Err(
                frame.wrong("the key of a table file has an origin in front, which is a label of its own")
            );
        }
        entries.push(MapEntry { number, size_bytes, crc32c, key, labels: Labels::default() });
    }
    Ok(entries)
}

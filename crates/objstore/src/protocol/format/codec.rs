//! The frame in which every record of the bucket protocol is stored, with strict readers and writers for it.
//!
//! Not for: what the records mean (`records.rs`), names (`names.rs`), I/O.
//!
//! Byte layout (docs/internals/formats-bucket.md, table FMT-W1), little endian:
//!
//! ```text
//! 0   4  magic "ATLR"
//! 4   2  format version: 1, or 2 = the body ends with an extension area
//! 6   2  kind of the record
//! 8   4  length of the body in bytes
//! 12 16  nonce: random bytes of the writer, by which it recognises its own object
//! 28  n  body
//! ..  4  crc32c over everything before it
//! ```
//!
//! REC-1: a frame is accepted only as it was written. A truncated frame, a frame that is followed by more
//!     bytes and a frame with a flipped bit are refused.
//! REC-2: a record of an unknown version or kind is refused; no reader guesses what it means.
//! REC-3: a reader ignores a field of the extension area that it does not know when the field's tag is below
//!     [`TAG_REQUIRED_MIN`], and refuses the record otherwise. So the author of a new field decides, by its
//!     tag, whether older versions are still allowed to read the record.

use crate::crc::crc32c;
use std::collections::BTreeMap;

/// The bytes of a frame without its body: 28 before the body, and the checksum of 4 bytes after it.
pub(crate) const FRAME_OVERHEAD_BYTES: usize = 32;
/// The format of records without an extension area: fences, and all records of the first versions.
pub(crate) const RECORD_FORMAT: u16 = 1;
/// The format of records whose body ends with an extension area, a list of fields that have tags. This
/// version writes all records but fences in it, and it is the newest format that this version reads.
pub(crate) const EXTENSIBLE_FORMAT: u16 = 2;
/// Fields of the extension area have tags. A reader must understand every field with this tag or a higher
/// one, or refuse the record (REC-3).
pub(crate) const TAG_REQUIRED_MIN: u16 = 0x8000;
const MAGIC: [u8; 4] = *b"ATLR";
const HEADER_BYTES: usize = 28;

/// Sixteen random bytes that tell one attempt to write an object from another.
pub(crate) type Nonce = [u8; 16];

/// Why stored bytes are not a record. The caller adds the name of the object.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what} (at byte {offset})")]
pub(crate) struct FormatError {
    /// What is wrong, in words for a DBA.
    pub(crate) what: String,
    /// The offset in the object at which the reader found the error.
    pub(crate) offset: u64,
}

impl FormatError {
    pub(crate) fn new(what: impl Into<String>, offset: usize) -> Self {
        Self { what: what.into(), offset: offset as u64 }
    }
}

/// Builds the body of one record, then the frame around it.
pub(crate) struct FrameWriter {
    bytes: Vec<u8>,
    /// True: the body needs an extension area that was not written yet.
    needs_extension: bool,
}

impl FrameWriter {
    /// Begins a record whose body has about `body_bytes`. The body ends with an extension area, which is
    /// empty unless the caller calls [`Self::extension`].
    pub(crate) fn new(kind: u16, nonce: &Nonce, body_bytes: usize) -> Self {
        Self::with_format(EXTENSIBLE_FORMAT, kind, nonce, body_bytes)
    }

    /// Begins a record of a kind that never gets an extension area, in [`RECORD_FORMAT`].
    pub(crate) fn fixed(kind: u16, nonce: &Nonce) -> Self {
        Self::with_format(RECORD_FORMAT, kind, nonce, 128)
    }

    fn with_format(format: u16, kind: u16, nonce: &Nonce, body_bytes: usize) -> Self {
        let mut bytes = Vec::with_capacity(body_bytes + FRAME_OVERHEAD_BYTES);
        bytes.extend_from_slice(&MAGIC);
        bytes.extend_from_slice(&format.to_le_bytes());
        bytes.extend_from_slice(&kind.to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(nonce);
        Self { bytes, needs_extension: format == EXTENSIBLE_FORMAT }
    }

    pub(crate) fn u8(&mut self, value: u8) -> &mut Self {
        self.bytes.push(value);
        self
    }

    pub(crate) fn u32(&mut self, value: u32) -> &mut Self {
        self.bytes.extend_from_slice(&value.to_le_bytes());
        self
    }

    pub(crate) fn u64(&mut self, value: u64) -> &mut Self {
        self.bytes.extend_from_slice(&value.to_le_bytes());
        self
    }

    /// Appends bytes without their length, because the reader knows how many there are.
    pub(crate) fn raw(&mut self, value: &[u8]) -> &mut Self {
        self.bytes.extend_from_slice(value);
        self
    }

    /// Appends the length (u32) of a string or byte string, and then its bytes.
    pub(crate) fn bytes(&mut self, value: &[u8]) -> &mut Self {
        self.u32(value.len() as u32).raw(value)
    }

    /// Appends the extension area, the last thing in the body of a record of format 2. `fields` are in
    /// ascending order of their tags; see REC-3 for the choice of a tag.
    pub(crate) fn extension(&mut self, fields: &[(u16, Vec<u8>)]) -> &mut Self {
        self.needs_extension = false;
        self.u32(fields.len() as u32);
        for (tag, value) in fields {
            self.raw(&tag.to_le_bytes()).bytes(value);
        }
        self
    }

    /// Ends the frame: writes the body's length into the header, and appends the checksum. Returns the bytes.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        if self.needs_extension {
            self.extension(&[]);
        }
        let body_bytes = (self.bytes.len() - HEADER_BYTES) as u32;
        self.bytes[8..12].copy_from_slice(&body_bytes.to_le_bytes());
        let crc = crc32c(&self.bytes);
        self.bytes.extend_from_slice(&crc.to_le_bytes());
        self.bytes
    }
}

/// Reads the fields of one frame's body, from the first to the last. The frame was checked before.
#[derive(Debug)]
pub(crate) struct FrameReader<'a> {
    frame: &'a [u8],
    at: usize,
    end: usize,
    kind: u16,
    /// True: the record has an extension area that has not been read yet.
    has_extension: bool,
}

impl<'a> FrameReader<'a> {
    /// Checks magic, version, length and checksum. The caller checks the kind.
    pub(crate) fn open(frame: &'a [u8]) -> Result<Self, FormatError> {
        if frame.len() < FRAME_OVERHEAD_BYTES {
            let what = format!("{} bytes are too few for a record", frame.len());
            return Err(FormatError::new(what, frame.len()));
        }
        if frame[..4] != MAGIC {
            return Err(FormatError::new("not an Atoll record: wrong magic number", 0));
        }
        let end = frame.len() - 4;
        let stored = u32_at(frame, end);
        let found = crc32c(&frame[..end]);
        let version = u16::from_le_bytes([frame[4], frame[5]]);
        // The version is checked before the checksum, because a later format may have another checksum.
        if !(RECORD_FORMAT..=EXTENSIBLE_FORMAT).contains(&version) {
            let what = format!(
                "record format {version} is not known to this version, which reads {RECORD_FORMAT} and \
                 {EXTENSIBLE_FORMAT}"
            );
            return Err(FormatError::new(what, 4));
        }
        if stored != found {
            let what = format!("checksum mismatch: stored {stored:#010x}, computed {found:#010x}");
            return Err(FormatError::new(what, end));
        }
        let body_bytes = u32_at(frame, 8) as usize;
        if body_bytes != end - HEADER_BYTES {
            return Err(FormatError::new("the length field does not match the object", 8));
        }
        let kind = u16::from_le_bytes([frame[6], frame[7]]);
        Ok(Self { frame, at: HEADER_BYTES, end, kind, has_extension: version == EXTENSIBLE_FORMAT })
    }

    pub(crate) fn kind(&self) -> u16 {
        self.kind
    }

    /// The random bytes by which a writer recognises its own record.
    pub(crate) fn nonce(&self) -> Nonce {
        let mut nonce = Nonce::default();
        nonce.copy_from_slice(&self.frame[12..HEADER_BYTES]);
        nonce
    }

    pub(crate) fn raw(&mut self, length: usize) -> Result<&'a [u8], FormatError> {
        if length > self.end - self.at {
            return Err(FormatError::new("a field reaches beyond the record", self.at));
        }
        let bytes = &self.frame[self.at..self.at + length];
        self.at += length;
        Ok(bytes)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, FormatError> {
        Ok(self.raw(1)?[0])
    }

    pub(crate) fn u32(&mut self) -> Result<u32, FormatError> {
        Ok(u32_at(self.raw(4)?, 0))
    }

    pub(crate) fn u64(&mut self) -> Result<u64, FormatError> {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(self.raw(8)?);
        Ok(u64::from_le_bytes(bytes))
    }

    pub(crate) fn bytes(&mut self) -> Result<&'a [u8], FormatError> {
        let length = self.u32()? as usize;
        self.raw(length)
    }

    pub(crate) fn string(&mut self) -> Result<String, FormatError> {
        let at = self.at;
        let bytes = self.bytes()?;
        String::from_utf8(bytes.to_vec()).map_err(|_| FormatError::new("a string is not UTF-8", at))
    }

    /// Reads a number of elements, each at least `element_bytes_min` long. A number that does not fit the
    /// remaining bytes is an error, so that a damaged number cannot make the reader allocate much memory.
    pub(crate) fn count(&mut self, element_bytes_min: usize) -> Result<usize, FormatError> {
        let at = self.at;
        let count = self.u32()? as usize;
        if count.saturating_mul(element_bytes_min) > self.end - self.at {
            return Err(FormatError::new("a count reaches beyond the record", at));
        }
        Ok(count)
    }

    /// Whether all bytes of the body have been read.
    pub(crate) fn is_at_end(&self) -> bool {
        self.at == self.end
    }

    /// Reads the extension area. Returns its fields by their tags; a record of format 1 has none. Leaves out
    /// a field whose tag is not in `known`, if REC-3 allows that; otherwise such a field is an error.
    pub(crate) fn extension(&mut self, known: &[u16]) -> Result<BTreeMap<u16, &'a [u8]>, FormatError> {
        let mut fields = BTreeMap::new();
        if !std::mem::take(&mut self.has_extension) {
            return Ok(fields);
        }
        let mut before = None;
        for _ in 0..self.count(6)? {
            let at = self.at;
            let tag = self.raw(2)?;
            let tag = u16::from_le_bytes([tag[0], tag[1]]);
            let value = self.bytes()?;
            if before >= Some(tag) {
                return Err(FormatError::new("the fields of the extension area are out of order", at));
            }
            before = Some(tag);
            if known.contains(&tag) {
                fields.insert(tag, value);
            } else if tag >= TAG_REQUIRED_MIN {
                let what = format!(
                    "a newer version wrote field {tag:#06x}, without which the record cannot be understood; this \
                     version does not know it: use one that does"
                );
                return Err(FormatError::new(what, at));
            }
        }
        Ok(fields)
    }

    /// Ends the reading. Bytes that were not read are an error (REC-1). The extension area is the exception:
    /// this function reads it, so that a reader of a kind without such fields need not do so.
    pub(crate) fn finish(mut self) -> Result<(), FormatError> {
        self.extension(&[])?;
        if self.at != self.end {
            return Err(FormatError::new("bytes are left over behind the last field", self.at));
        }
        Ok(())
    }

    pub(crate) fn wrong(&self, what: impl Into<String>) -> FormatError {
        FormatError::new(what, self.at)
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

//! The records of the bucket protocol and their bodies (byte tables: docs/internals/formats-bucket.md).
//!
//! Nothing here sends a request. Bytes that are no valid record give an error that says what is wrong; the
//! caller adds the name of the object. The number of a kind of records is never given to another kind, not
//! even when the first kind is no longer written.

pub(crate) use crate::protocol::format::alive_record::Alive;
use crate::protocol::format::codec::{FRAME_OVERHEAD_BYTES, FormatError, FrameReader, FrameWriter, Nonce};
use crate::protocol::format::names::ManifestCopy;
use crate::protocol::publish::labels;
use crate::protocol::publish::map_record::{
    MapEntry, MapInParts, read_entries, read_in_parts, read_labels, write_entries,
};
use crate::protocol::start::home::Home;
use crate::protocol::wal::position::{Opened, Position};
use crate::protocol::wal::wal_record::{WalRun, read_runs, write_runs};

pub(crate) const KIND_EPOCH: u16 = 1;
const KIND_FENCE: u16 = 2;
const KIND_CLAIM: u16 = 3;
const KIND_ROOT: u16 = 4;
const KIND_MANIFEST_CHUNK: u16 = 5;
const KIND_WAL_CHUNK: u16 = 6;
pub(crate) const KIND_ALIVE: u16 = 7;
const KIND_MARKER: u16 = 8;
pub(crate) const KIND_MERGED_CHUNKS: u16 = 10;

/// Field of a root's extension area: its newest commits. The tag allows older versions to ignore the field,
/// because a restore does not use it.
const TAG_POSITION: u16 = 0x0001;
/// Field of a root's extension area: the newest commit that its owner had when it opened the database. The
/// tag allows older versions to ignore it.
const TAG_OPENED: u16 = 0x0003;
/// Field of a root's extension area: the merged objects of its WAL. Versions that do not know it must refuse
/// the root, because they would look for chunks that have been deleted.
const TAG_WAL_RUNS: u16 = 0x8001;
/// Field of a root's extension area: its file map, if the map is in parts. Versions that do not know it must
/// refuse the root, because without this field the map would lack files.
const TAG_MAP_IN_PARTS: u16 = 0x8004;

/// Fields of a marker's extension area: the nonces of the claim and of the root that the marker names. Their
/// tags allow earlier versions to ignore them, because these do not compare nonces.
const TAG_CLAIM_NONCE: u16 = 0x0001;
const TAG_ROOT_NONCE: u16 = 0x0002;

/// The most bytes of a server's name that a fence stores.
const FENCE_SERVER_BYTES: usize = 96;
/// The size of every fence object: frame (32), epoch (8), name (1 + 96). The collector keeps each root or
/// chunk of a former epoch that has this size, because it may be a fence, and fences are never deleted.
pub(crate) const FENCE_BYTES: u64 = 137;

/// `epoch/<E>`: says which server claimed the epoch. It is never deleted.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EpochClaim {
    pub(crate) epoch: u64,
    pub(crate) server_id: String,
    /// When the epoch was claimed, in milliseconds since 1970. For people, and to find the epoch to which a
    /// moment of the past belongs (past.rs, PAST-3).
    pub(crate) claimed_ms: u64,
    pub(crate) home: Home,
}

/// The record with which a newer server closes an epoch. It is in the slot after the last root in `root/<E>/`
/// and after the last chunk in `wal/<E>/`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Fence {
    pub(crate) by_epoch: u64,
    pub(crate) by_server: String,
}

/// Epoch and slot of a published root, which are its name. Roots are ordered by epoch, then by slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct RootId {
    pub(crate) epoch: u64,
    pub(crate) slot: u64,
}

/// `root/<E>/0`: says that the owner of E has fenced every former epoch and starts from `base`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClaimRoot {
    pub(crate) epoch: u64,
    /// The last root that was published before E. None: no root was published before.
    pub(crate) base: Option<RootId>,
    /// The end of the WAL of the base: readers ignore chunks of `wal/<base.epoch>/` from this number on.
    pub(crate) wal_end: u64,
}

/// `root/<E>/<S>`, S > 0: a published state. The creation of this record is the commit point of a publish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Root {
    pub(crate) id: RootId,
    /// The MANIFEST of this root, how many of its first bytes belong to the root, and the checksum of these
    /// bytes.
    pub(crate) manifest: ManifestCopy,
    pub(crate) manifest_bytes: u64,
    pub(crate) manifest_crc32c: u32,
    /// The MANIFEST edits on which later log depends are numbered (DDL numbers). The root contains all edits
    /// up to this number. A log chunk that needs a higher one is not replayed over this root (gate PUB-G8).
    pub(crate) ddl_seq: u64,
    /// The smallest number of a WAL that RocksDB still had when this state was taken.
    pub(crate) wal_min: u64,
    /// The first chunk of `wal/<E>/` that a restore needs.
    pub(crate) wal_first_chunk: u64,
    /// A restore needs every chunk from `wal_first_chunk` up to the one before this number. They were in the
    /// bucket before the root was created (gate PUB-G2).
    pub(crate) wal_needed_end: u64,
    /// When the root was made, in milliseconds since 1970. For people, and for the age of the history's pins.
    pub(crate) published_ms: u64,
    /// The slot of the root with the full file map to which this root's changes apply; this root's own slot
    /// when its map is full. Only earlier versions wrote roots whose map is not full.
    pub(crate) map_slot: u64,
    /// The number of files in the map after this root. A reader checks it.
    pub(crate) files_count: u64,
    /// The file map, if it is stored in parts; then `added` and `removed` are empty. None: the map is small,
    /// so `added` and `removed` hold it.
    pub(crate) map_in_parts: Option<MapInParts>,
    /// All files when the map is full; otherwise the files that are new since the previous slot.
    pub(crate) added: Vec<MapEntry>,
    /// The numbers of the files that are gone since the previous slot; empty when the map is full.
    pub(crate) removed: Vec<u64>,
    /// The merged objects of the WAL, in ascending order. All chunks with higher numbers are objects of their
    /// own.
    pub(crate) wal_runs: Vec<WalRun>,
    /// The newest commits at the time when the root was made. None: an earlier version made the root.
    pub(crate) position: Option<Position>,
    /// The newest commit that the owner of the epoch had when it opened the database. None: an earlier
    /// version made the root, or a program that copied the state of another root.
    pub(crate) opened: Option<Opened>,
}

/// `man/<E>/<manifest>/<offset>`: a range of MANIFEST bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ManifestChunk {
    pub(crate) epoch: u64,
    pub(crate) manifest: ManifestCopy,
    pub(crate) offset: u64,
    pub(crate) bytes: Vec<u8>,
}

/// `wal/<E>/<k>`: a range of bytes of one WAL file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WalChunk {
    pub(crate) epoch: u64,
    pub(crate) chunk: u64,
    pub(crate) log: u64,
    pub(crate) offset: u64,
    /// The DDL number: the chunk is replayed only over a root whose `ddl_seq` is at least this (gate PUB-G8).
    pub(crate) ddl_seq: u64,
    /// CRC-32C of the whole previous chunk object; 0 for the first of the epoch.
    pub(crate) previous_crc32c: u32,
    pub(crate) bytes: Vec<u8>,
}

/// The local file `ATOLL`: says to which database, epoch and root the local directory belongs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Marker {
    pub(crate) db_uuid: String,
    /// The epoch of the server that used the directory last.
    pub(crate) epoch: u64,
    /// The newest root that the server with this directory has published or was about to publish. The marker
    /// is written before the root is created, so the directory is never older than the bucket (DIR-2). Slot 0
    /// of `epoch`: the epoch has published nothing yet.
    pub(crate) root: RootId,
    /// The nonce of the claim of `epoch`; None in markers of earlier versions.
    pub(crate) claim_nonce: Option<Nonce>,
    /// The nonce of `root`; None in markers of earlier versions, and while the epoch has published nothing.
    pub(crate) root_nonce: Option<Nonce>,
}

/// The record in a slot of `root/<E>/`: the claim in slot 0, then roots, and a fence at the end of a closed
/// epoch.
#[derive(Debug, Clone, PartialEq, Eq)]
#[expect(clippy::large_enum_variant, reason = "few live at once, and each is short-lived")]
pub(crate) enum RootSlot {
    Claim(ClaimRoot),
    Root(Root),
    Fence(Fence),
}

/// The record in a slot of `wal/<E>/`: chunks, and a fence at the end of a closed epoch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WalSlot {
    Chunk(WalChunk),
    Fence(Fence),
}

impl EpochClaim {
    pub(crate) fn encode(&self, nonce: &Nonce) -> Vec<u8> {
        let mut frame = FrameWriter::new(KIND_EPOCH, nonce, 128);
        frame.u64(self.epoch).bytes(self.server_id.as_bytes()).u64(self.claimed_ms);
        frame.bytes(self.home.boot.as_bytes()).u64(self.home.device).u64(self.home.inode);
        frame.finish()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let mut frame = open(bytes, KIND_EPOCH, "an epoch claim")?;
        let (epoch, server_id, claimed_ms) = (frame.u64()?, frame.string()?, frame.u64()?);
        // Claims of the first versions end here: they do not say on which machine the owner runs.
        let home = if frame.is_at_end() { Home::default() } else { Home::read(&mut frame)? };
        frame.finish().map(|()| Self { epoch, server_id, claimed_ms, home })
    }
}

impl Fence {
    pub(crate) fn encode(&self, nonce: &Nonce) -> Vec<u8> {
        let name = fence_name(&self.by_server);
        let mut padded = [0; FENCE_SERVER_BYTES];
        padded[..name.len()].copy_from_slice(name.as_bytes());
        let mut frame = FrameWriter::fixed(KIND_FENCE, nonce);
        frame.u64(self.by_epoch).u8(name.len() as u8).raw(&padded);
        frame.finish()
    }

    fn read(mut frame: FrameReader<'_>) -> Result<Self, FormatError> {
        let by_epoch = frame.u64()?;
        let length = frame.u8()? as usize;
        let padded = frame.raw(FENCE_SERVER_BYTES)?;
        if length > FENCE_SERVER_BYTES || padded[length..].iter().any(|b| *b != 0) {
            return Err(frame.wrong("the name of the fencing server is malformed"));
        }
        let by_server = String::from_utf8(padded[..length].to_vec())
            .map_err(|_| frame.wrong("the name of the fencing server is not UTF-8"))?;
        frame.finish().map(|()| Self { by_epoch, by_server })
    }
}

/// Returns the longest prefix of `server` that fits into a fence and does not end inside a character.
fn fence_name(server: &str) -> &str {
    let mut end = server.len().min(FENCE_SERVER_BYTES);
    while !server.is_char_boundary(end) {
        end -= 1;
    }
    &server[..end]
}

impl ClaimRoot {
    pub(crate) fn encode(&self, nonce: &Nonce) -> Vec<u8> {
        let mut frame = FrameWriter::new(KIND_CLAIM, nonce, 128);
        let base = self.base.unwrap_or(RootId { epoch: 0, slot: 0 });
        frame
            .u64(self.epoch)
            .u8(u8::from(self.base.is_some()))
            .u64(base.epoch)
            .u64(base.slot)
            .u64(self.wal_end);
        frame.finish()
    }

    fn read(mut frame: FrameReader<'_>) -> Result<Self, FormatError> {
        let epoch = frame.u64()?;
        let has_base = read_flag(&mut frame)?;
        let id = RootId { epoch: frame.u64()?, slot: frame.u64()? };
        let wal_end = frame.u64()?;
        if !has_base && (id.epoch, id.slot, wal_end) != (0, 0, 0) {
            return Err(frame.wrong("a claim without a base has base fields"));
        }
        if has_base && (id.epoch >= epoch || id.slot == 0) {
            return Err(frame.wrong("the base of a claim is not a root before it"));
        }
        frame.finish().map(|()| Self { epoch, base: has_base.then_some(id), wal_end })
    }
}

impl Root {
    pub(crate) fn is_full(&self) -> bool {
        self.map_slot == self.id.slot
    }

    /// The number of the first needed chunk that is an object of its own and in no merged object.
    pub(crate) fn wal_loose_first(&self) -> u64 {
        self.wal_runs.last().map_or(0, |run| run.end).max(self.wal_first_chunk)
    }

    pub(crate) fn encode(&self, nonce: &Nonce) -> Vec<u8> {
        let mut frame = FrameWriter::new(KIND_ROOT, nonce, 256);
        frame.u64(self.id.epoch).u64(self.id.slot);
        frame.u64(self.manifest.number).u32(self.manifest.copy).u64(self.manifest_bytes);
        frame.u32(self.manifest_crc32c).u64(self.ddl_seq).u64(self.wal_min).u64(self.wal_first_chunk);
        frame.u64(self.wal_needed_end).u64(self.published_ms).u64(self.map_slot);
        frame.u64(self.files_count);
        write_entries(&mut frame, &self.added);
        frame.u32(self.removed.len() as u32);
        for number in &self.removed {
            frame.u64(*number);
        }
        frame.extension(&self.extension());
        frame.finish()
    }

    fn extension(&self) -> Vec<(u16, Vec<u8>)> {
        let position = self.position.iter().map(|position| (TAG_POSITION, position.encode()));
        let opened = self.opened.map(|opened| (TAG_OPENED, opened.encode()));
        let runs = (!self.wal_runs.is_empty()).then(|| (TAG_WAL_RUNS, write_runs(&self.wal_runs)));
        let parts = self.map_in_parts.iter().map(|map| (TAG_MAP_IN_PARTS, map.encode()));
        let files = self.map_in_parts.as_ref().map_or(&self.added, |map| &map.added);
        let mut fields: Vec<_> =
            position.chain(opened).chain(runs).chain(parts).chain(labels::fields_of(files)).collect();
        fields.sort_unstable_by_key(|(tag, _)| *tag);
        fields
    }

    fn read(mut frame: FrameReader<'_>) -> Result<Self, FormatError> {
        let mut root = Self {
            id: RootId { epoch: frame.u64()?, slot: frame.u64()? },
            manifest: ManifestCopy { number: frame.u64()?, copy: frame.u32()? },
            manifest_bytes: frame.u64()?,
            manifest_crc32c: frame.u32()?,
            ddl_seq: frame.u64()?,
            wal_min: frame.u64()?,
            wal_first_chunk: frame.u64()?,
            wal_needed_end: frame.u64()?,
            published_ms: frame.u64()?,
            map_slot: frame.u64()?,
            files_count: frame.u64()?,
            map_in_parts: None,
            added: read_entries(&mut frame)?,
            removed: Vec::new(),
            wal_runs: Vec::new(),
            position: None,
            opened: None,
        };
        for _ in 0..frame.count(8)? {
            root.removed.push(frame.u64()?);
        }
        let [class, origin, key_id] = labels::TAGS;
        let known = [TAG_POSITION, TAG_OPENED, class, TAG_WAL_RUNS, origin, key_id, TAG_MAP_IN_PARTS];
        let fields = frame.extension(&known)?;
        if let Some(position) = fields.get(&TAG_POSITION) {
            let wrong = || frame.wrong("the position of the last commits is malformed");
            root.position = Some(Position::decode(position).ok_or_else(wrong)?);
        }
        if let Some(opened) = fields.get(&TAG_OPENED) {
            let wrong = || frame.wrong("the newest commit at the opening is malformed");
            root.opened = Some(Opened::decode(opened).ok_or_else(wrong)?);
        }
        if let Some(runs) = fields.get(&TAG_WAL_RUNS) {
            root.wal_runs =
                read_runs(runs).ok_or_else(|| frame.wrong("the list of merged WAL chunks is malformed"))?;
        }
        root.map_in_parts = read_in_parts(&frame, fields.get(&TAG_MAP_IN_PARTS).copied())?;
        let labelled = root.map_in_parts.as_mut().map_or(&mut root.added, |map| &mut map.added);
        read_labels(&frame, &fields, labelled)?;
        if root.id.slot == 0 || root.map_slot == 0 || root.map_slot > root.id.slot {
            return Err(frame.wrong("the slots of a root are out of order"));
        }
        root.check_map().map_err(|what| frame.wrong(what))?;
        frame.finish().map(|()| root)
    }
}

impl Root {
    /// Checks that the fields about the file map do not contradict each other.
    fn check_map(&self) -> Result<(), &'static str> {
        let count = match &self.map_in_parts {
            Some(map) if !self.is_full() || !self.added.is_empty() || map.epoch != self.id.epoch => {
                return Err("a file map in parts builds on other roots");
            }
            Some(map) => map.files_count,
            None if !self.is_full() => return Ok(()),
            None => self.added.len() as u64,
        };
        let is_whole = self.removed.is_empty() && self.files_count == count;
        if is_whole { Ok(()) } else { Err("a full file map has changes") }
    }

    /// Returns the numbers of the parts of this root's file map.
    pub(crate) fn map_parts(&self) -> impl Iterator<Item = u64> {
        self.map_in_parts.iter().flat_map(|map| &map.parts).map(|part| part.part)
    }
}

impl ManifestChunk {
    /// The bytes of an object of this kind without those of the MANIFEST, at least: format 2 has four more, the
    /// number of its extensions.
    pub(crate) const OVERHEAD_BYTES: u64 = FRAME_OVERHEAD_BYTES as u64 + 32;

    pub(crate) fn encode(&self, nonce: &Nonce) -> Vec<u8> {
        let mut frame = FrameWriter::new(KIND_MANIFEST_CHUNK, nonce, 64 + self.bytes.len());
        frame.u64(self.epoch).u64(self.manifest.number).u32(self.manifest.copy).u64(self.offset);
        frame.bytes(&self.bytes);
        frame.finish()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let mut frame = open(bytes, KIND_MANIFEST_CHUNK, "a MANIFEST chunk")?;
        let record = Self {
            epoch: frame.u64()?,
            manifest: ManifestCopy { number: frame.u64()?, copy: frame.u32()? },
            offset: frame.u64()?,
            bytes: frame.bytes()?.to_vec(),
        };
        frame.finish().map(|()| record)
    }
}

impl WalChunk {
    pub(crate) fn encode(&self, nonce: &Nonce) -> Vec<u8> {
        let mut frame = FrameWriter::new(KIND_WAL_CHUNK, nonce, 64 + self.bytes.len());
        frame.u64(self.epoch).u64(self.chunk).u64(self.log).u64(self.offset).u64(self.ddl_seq);
        frame.u32(self.previous_crc32c).bytes(&self.bytes);
        frame.finish()
    }

    fn read(mut frame: FrameReader<'_>) -> Result<Self, FormatError> {
        let record = Self {
            epoch: frame.u64()?,
            chunk: frame.u64()?,
            log: frame.u64()?,
            offset: frame.u64()?,
            ddl_seq: frame.u64()?,
            previous_crc32c: frame.u32()?,
            bytes: frame.bytes()?.to_vec(),
        };
        frame.finish().map(|()| record)
    }
}

impl Marker {
    pub(crate) fn encode(&self, nonce: &Nonce) -> Vec<u8> {
        let mut frame = FrameWriter::new(KIND_MARKER, nonce, 128);
        frame.bytes(self.db_uuid.as_bytes()).u64(self.epoch).u64(self.root.epoch).u64(self.root.slot);
        let nonces = [(TAG_CLAIM_NONCE, self.claim_nonce), (TAG_ROOT_NONCE, self.root_nonce)];
        let fields = nonces.into_iter().filter_map(|(tag, nonce)| Some((tag, nonce?.to_vec())));
        frame.extension(&fields.collect::<Vec<_>>());
        frame.finish()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let mut frame = open(bytes, KIND_MARKER, "a directory marker")?;
        let db_uuid = frame.string()?;
        let epoch = frame.u64()?;
        let root = RootId { epoch: frame.u64()?, slot: frame.u64()? };
        let fields = frame.extension(&[TAG_CLAIM_NONCE, TAG_ROOT_NONCE])?;
        let nonce = |tag| {
            let field = fields.get(&tag).map(|field| Nonce::try_from(*field));
            field.transpose().map_err(|_| frame.wrong("a nonce does not have 16 bytes"))
        };
        let (claim_nonce, root_nonce) = (nonce(TAG_CLAIM_NONCE)?, nonce(TAG_ROOT_NONCE)?);
        frame.finish().map(|()| Self { db_uuid, epoch, root, claim_nonce, root_nonce })
    }
}

impl RootSlot {
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let frame = FrameReader::open(bytes)?;
        match frame.kind() {
            KIND_CLAIM => ClaimRoot::read(frame).map(Self::Claim),
            KIND_ROOT => Root::read(frame).map(Self::Root),
            KIND_FENCE => Fence::read(frame).map(Self::Fence),
            kind => Err(unexpected(kind, "a root")),
        }
    }
}

impl WalSlot {
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, FormatError> {
        let frame = FrameReader::open(bytes)?;
        match frame.kind() {
            KIND_WAL_CHUNK => WalChunk::read(frame).map(Self::Chunk),
            KIND_FENCE => Fence::read(frame).map(Self::Fence),
            kind => Err(unexpected(kind, "a WAL chunk")),
        }
    }
}

pub(crate) fn open<'a>(bytes: &'a [u8], kind: u16, what: &str) -> Result<FrameReader<'a>, FormatError> {
    let frame = FrameReader::open(bytes)?;
    if frame.kind() != kind { Err(unexpected(frame.kind(), what)) } else { Ok(frame) }
}

fn unexpected(kind: u16, what: &str) -> FormatError {
    FormatError::new(format!("a record of kind {kind} was found in place of {what}"), 6)
}

pub(crate) fn read_flag(frame: &mut FrameReader<'_>) -> Result<bool, FormatError> {
    match frame.u8()? {
        0 => Ok(false),
        1 => Ok(true),
        other => Err(frame.wrong(format!("a flag is {other}"))),
    }
}

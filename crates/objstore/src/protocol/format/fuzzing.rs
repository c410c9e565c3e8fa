//! Fuzz targets for the functions that decode records, one target for each kind of bytes that come from a
//! bucket.
//!
//! A record has a checksum, which random bytes do not match. So each target reads its bytes as they are, and
//! once more with a valid frame around them. A record that can be read must be the same when it is written
//! and read again.

use crate::crc::crc32c;
use crate::files::Labels;
use crate::protocol::format::codec::{FormatError, FrameWriter, Nonce};
use crate::protocol::format::image;
use crate::protocol::format::names::{self, ManifestCopy};
use crate::protocol::format::records::{
    Alive, ClaimRoot, EpochClaim, Fence, ManifestChunk, Marker, Root, RootId, RootSlot, WalChunk, WalSlot,
};
use crate::protocol::format::settings_record::KeptSettings;
use crate::protocol::format::slots;
use crate::protocol::history::pin::{self, Pin, PinKind, SnapshotName};
use crate::protocol::publish::map_record::{FileMap, LocalFiles, MapEntry, MapInParts, MapPart, PartRef};
use crate::protocol::start::home::Home;
use crate::protocol::start::identity;
use crate::protocol::wal::marks::{BinlogPosition, Gtid};
use crate::protocol::wal::position::{Opened, Position};
use crate::protocol::wal::replay::ReplayEnd;
use crate::protocol::wal::wal_record::{MergedChunks, WalRun};
use bytes::Bytes;

/// A fuzz target: a function that decodes one kind of bytes, and inputs for it.
pub struct Target {
    /// The name of the target, which is also the name of its folder in `fuzz/corpus/`.
    pub name: &'static str,
    /// Decodes any bytes. It must not panic: a panic is the bug that the fuzzer looks for.
    pub run: fn(&[u8]),
    /// Returns some valid inputs, which the fuzzer changes to get others.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// All fuzz targets, for the fuzzer and for fuzzing_test.rs.
pub const TARGETS: &[Target] = &[
    Target { name: "roots", run: roots, seeds: root_seeds },
    Target { name: "maps", run: maps, seeds: map_seeds },
    Target { name: "parts", run: parts, seeds: part_seeds },
    Target { name: "chunks", run: chunks, seeds: chunk_seeds },
    Target { name: "merged", run: merged, seeds: merged_seeds },
    Target { name: "manifests", run: manifests, seeds: manifest_seeds },
    Target { name: "claims", run: claims, seeds: claim_seeds },
    Target { name: "pins", run: pins, seeds: pin_seeds },
    Target { name: "hints", run: hints, seeds: hint_seeds },
    Target { name: "local", run: local, seeds: local_seeds },
    Target { name: "identity", run: identities, seeds: identity_seeds },
    Target { name: "tombs", run: tombs, seeds: tomb_seeds },
    Target { name: "names", run: parsed_names, seeds: name_seeds },
    Target { name: "logs", run: logs, seeds: log_seeds },
];

const NONCE: Nonce = [7; 16];
const HEADER_BYTES: usize = 28;

/// Returns `bytes` with the magic, length and checksum of a valid frame. None: they are too few for a frame.
fn mended(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut frame = bytes.to_vec();
    let end = frame.len().checked_sub(4).filter(|end| *end >= HEADER_BYTES)?;
    frame[..4].copy_from_slice(b"ATLR");
    let body = u32::try_from(end - HEADER_BYTES).ok()?;
    frame[8..12].copy_from_slice(&body.to_le_bytes());
    let crc = crc32c(&frame[..end]);
    frame[end..].copy_from_slice(&crc.to_le_bytes());
    Some(frame)
}

/// Reads `bytes` as they are, and with a valid frame. A record that was read is written and read again, and
/// must be the same.
fn round_trip<T: PartialEq + std::fmt::Debug>(
    bytes: &[u8],
    decode: impl Fn(&[u8]) -> Result<T, FormatError>,
    encode: impl Fn(&T) -> Vec<u8>,
) {
    for input in [Some(bytes.to_vec()), mended(bytes)].into_iter().flatten() {
        if let Ok(record) = decode(&input) {
            assert_eq!(decode(&encode(&record)).as_ref(), Ok(&record), "another record came back");
        }
    }
}

fn encode_root_slot(slot: &RootSlot) -> Vec<u8> {
    match slot {
        RootSlot::Claim(claim) => claim.encode(&NONCE),
        RootSlot::Root(root) => root.encode(&NONCE),
        RootSlot::Fence(fence) => fence.encode(&NONCE),
    }
}

fn roots(bytes: &[u8]) {
    round_trip(bytes, RootSlot::decode, encode_root_slot);
    let id = RootId { epoch: 3, slot: 2 };
    let _ = slots::decode_root_slot("root/3/2", bytes, id);
}

/// Decodes several roots, one after the other: a full file map and then changes of it. Two bytes before each
/// frame hold the frame's length.
fn maps(mut bytes: &[u8]) {
    let mut files = FileMap::new();
    let mut map_slot = None;
    while let Some((length, rest)) = bytes.split_first_chunk::<2>() {
        let length = usize::from(u16::from_le_bytes(*length)).min(rest.len());
        let (part, rest) = rest.split_at(length);
        bytes = rest;
        let Some(Ok(RootSlot::Root(root))) = mended(part).map(|frame| RootSlot::decode(&frame)) else {
            return;
        };
        if image::apply(&mut files, &root, *map_slot.get_or_insert(root.map_slot)).is_err() {
            return;
        }
        assert!(root.map_in_parts.is_some() || files.len() as u64 == root.files_count);
    }
}

/// Decodes a part of a file map, and then applies the changes that a root makes to it.
fn parts(bytes: &[u8]) {
    round_trip(bytes, MapPart::decode, |part| part.encode(&NONCE));
    if let Some(Ok(part)) = mended(bytes).map(|frame| MapPart::decode(&frame)) {
        let _ = image::join(&[part], &in_parts(), "root/3/2");
    }
}

fn chunks(bytes: &[u8]) {
    round_trip(bytes, WalSlot::decode, |slot| match slot {
        WalSlot::Chunk(chunk) => chunk.encode(&NONCE),
        WalSlot::Fence(fence) => fence.encode(&NONCE),
    });
    let mut chain = image::Chain::new(3);
    for chunk in 1..3 {
        let _ = chain.check(chunk, &Bytes::from(mended(bytes).unwrap_or_default()));
    }
}

fn merged(bytes: &[u8]) {
    let decode = |bytes: &[u8]| MergedChunks::decode(&Bytes::copy_from_slice(bytes));
    round_trip(bytes, decode, |merged| {
        MergedChunks::encode(merged.epoch, merged.first, merged.chunks.clone(), &NONCE)
    });
}

fn manifests(bytes: &[u8]) {
    round_trip(bytes, ManifestChunk::decode, |chunk| chunk.encode(&NONCE));
}

fn claims(bytes: &[u8]) {
    round_trip(bytes, EpochClaim::decode, |claim| claim.encode(&NONCE));
}

fn pins(bytes: &[u8]) {
    round_trip(bytes, Pin::decode, |pin| pin.encode(&NONCE));
    round_trip(bytes, SnapshotName::decode, |name| name.encode(&NONCE));
}

fn hints(bytes: &[u8]) {
    round_trip(bytes, Alive::decode, |alive| alive.encode(&NONCE));
    round_trip(bytes, KeptSettings::decode, |settings| settings.encode(&NONCE));
}

/// Reads the two local files `ATOLL` and `ATOLL_FILES`. Possibly their directory was copied from elsewhere,
/// so their bytes are no more reliable than those of a bucket.
fn local(bytes: &[u8]) {
    round_trip(bytes, Marker::decode, |marker| marker.encode(&NONCE));
    round_trip(bytes, LocalFiles::decode, |files| files.encode(&NONCE));
}

fn identities(bytes: &[u8]) {
    let _ = identity::parse(bytes, "a bucket");
    // Random bytes do not match the checksum in the text. So the same content is parsed once more with a
    // correct one.
    if let Ok(found) = serde_json::from_slice::<identity::Identity>(bytes) {
        let text = serde_json::to_vec(&identity::summed(found)).unwrap_or_default();
        let _ = identity::parse(&text, "a bucket");
    }
}

fn tombs(bytes: &[u8]) {
    for key in crate::protocol::gc::decode_tomb(bytes).unwrap_or_default() {
        assert!(!key.contains('\n'));
        let _ = crate::protocol::start::local::check_file_key(&key, "tomb/1/1");
    }
}

fn parsed_names(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    let key = text.as_ref();
    if let Some(epoch) = names::parse_epoch(key) {
        assert_eq!(names::epoch(epoch), key);
    }
    if let Some(number) = names::parse_settings(key) {
        assert_eq!(names::settings(number), key);
    }
    if let Some((epoch, slot)) = names::parse_slot(names::ROOT_DIR, key) {
        assert_eq!(names::root(epoch, slot), key);
    }
    if let Some((epoch, chunk)) = names::parse_slot(names::WAL_DIR, key) {
        assert_eq!(names::wal_chunk(epoch, chunk), key);
    }
    if let Some((epoch, part)) = names::parse_slot(names::MAP_DIR, key) {
        assert_eq!(names::map_part(epoch, part), key);
    }
    if let Some((epoch, first, end)) = names::parse_merged_chunks(key) {
        assert_eq!(names::merged_chunks(epoch, first, end), key);
    }
    if let Some((epoch, manifest, offset)) = names::parse_manifest_chunk(key) {
        let again = names::manifest_chunk(epoch, manifest, offset);
        assert_eq!(names::parse_manifest_chunk(&again), Some((epoch, manifest, offset)));
    }
    let _ = (names::parse_file_epoch(key), crate::requests::bucket::is_plain_key(key));
}

/// Reads a log as a whole, and again in pieces. The first byte of the input is the size of the pieces. Both
/// times the same last record must be found.
fn logs(bytes: &[u8]) {
    let Some((piece, log)) = bytes.split_first() else { return };
    let mut whole = ReplayEnd::default();
    whole.read(1, log);
    let mut pieces = ReplayEnd::default();
    for part in log.chunks(usize::from(*piece).max(1)) {
        pieces.read(1, part);
    }
    assert_eq!(pieces.last_start(), whole.last_start(), "the pieces of the log matter");
}

fn entry(number: u64) -> MapEntry {
    MapEntry {
        number,
        key: format!("sst/0f/3-{number}.sst"),
        size_bytes: 10 * number,
        crc32c: number as u32,
        labels: Labels::default(),
    }
}

/// Returns an entry of a file that is in another database's prefix and has all labels.
fn labelled(number: u64) -> MapEntry {
    let labels = Labels { storage_class: Some("COLD".into()), key_id: Some("k1".into()) };
    MapEntry { key: format!("/shop/{}", entry(number).key), labels, ..entry(number) }
}

fn root(slot: u64, map_slot: u64, added: &[u64], removed: &[u64], files_count: u64) -> Root {
    Root {
        id: RootId { epoch: 3, slot },
        manifest: ManifestCopy { number: 5, copy: slot as u32 - 1 },
        manifest_bytes: 100,
        manifest_crc32c: 9,
        ddl_seq: 2,
        wal_min: 7,
        wal_first_chunk: 1,
        wal_needed_end: 2,
        published_ms: 1,
        map_slot,
        files_count,
        map_in_parts: None,
        added: added.iter().map(|number| entry(*number)).collect(),
        removed: removed.to_vec(),
        wal_runs: vec![WalRun { first: 1, end: 4, bytes: 99 }, WalRun { first: 4, end: 9, bytes: 100 }],
        position: Some(position()),
        opened: Some(Opened { sequence: 70, time_us: 71 }),
    }
}

fn position() -> Position {
    let gtid = |domain| (domain, Gtid { domain, server: 1, sequence: 5 });
    let binlog = Some(BinlogPosition { file: 7, offset: 400 });
    Position { sequence: 9, time_us: 1, gtids: [gtid(0), gtid(3)].into(), binlog }
}

fn fence() -> Vec<u8> {
    Fence { by_epoch: 4, by_server: "host:3306".to_owned() }.encode(&NONCE)
}

fn root_seeds() -> Vec<Vec<u8>> {
    let claim = ClaimRoot { epoch: 3, base: Some(RootId { epoch: 2, slot: 5 }), wal_end: 7 };
    let in_parts = Root { map_in_parts: Some(in_parts()), ..root(2, 2, &[], &[], 3) };
    let roots = [root(1, 1, &[10, 11], &[], 2), root(2, 1, &[12], &[10], 2), in_parts];
    let mut seeds: Vec<_> = roots.iter().map(|root| root.encode(&NONCE)).collect();
    seeds.extend([claim.encode(&NONCE), fence()]);
    seeds
}

fn map_seeds() -> Vec<Vec<u8>> {
    let frames = [root(1, 1, &[10, 11], &[], 2), root(2, 1, &[12], &[10], 2)].map(|root| root.encode(&NONCE));
    vec![frames.iter().flat_map(|frame| [&(frame.len() as u16).to_le_bytes(), &frame[..]].concat()).collect()]
}

fn in_parts() -> MapInParts {
    let part = PartRef { part: 4, first: 10, files: 3, bytes: 90, crc32c: 7 };
    MapInParts { epoch: 3, files_count: 3, parts: vec![part], removed: vec![10], added: vec![labelled(12)] }
}

/// Returns a part of a file map in which the names of objects have each of the forms that the encoding
/// distinguishes.
fn part_seeds() -> Vec<Vec<u8>> {
    let keyed = |number: u64, key: String| MapEntry { key, ..entry(number) };
    let key = |epoch, number: u64, extension| crate::files::object_key(epoch, &number.to_string(), extension);
    let entries = vec![
        keyed(10, key(3, 10, "sst")),
        keyed(11, key(2, 11, "blob")),
        keyed(300, crate::files::object_key(2, "s7", "sst")),
        labelled(301),
    ];
    vec![MapPart { epoch: 3, part: 4, entries }.encode(&NONCE)]
}

fn chunk() -> WalChunk {
    WalChunk {
        epoch: 3,
        chunk: 1,
        log: 8,
        offset: 40,
        ddl_seq: 1,
        previous_crc32c: 5,
        bytes: b"log".to_vec(),
    }
}

fn chunk_seeds() -> Vec<Vec<u8>> {
    vec![chunk().encode(&NONCE), fence()]
}

fn merged_seeds() -> Vec<Vec<u8>> {
    let object = Bytes::from(chunk().encode(&NONCE));
    vec![MergedChunks::encode(3, 1, vec![object.clone(), object], &NONCE)]
}

fn manifest_seeds() -> Vec<Vec<u8>> {
    let manifest = ManifestCopy { number: 5, copy: 1 };
    vec![ManifestChunk { epoch: 3, manifest, offset: 4096, bytes: b"edits".to_vec() }.encode(&NONCE)]
}

fn claim_seeds() -> Vec<Vec<u8>> {
    let home = Home { boot: "boot".to_owned(), device: 1, inode: 2 };
    let claim = EpochClaim { epoch: 3, server_id: "host:3306".to_owned(), claimed_ms: 1, home };
    let mut without_home = FrameWriter::fixed(crate::protocol::format::records::KIND_EPOCH, &NONCE);
    without_home.u64(3).bytes(b"host:3306").u64(1);
    vec![claim.encode(&NONCE), without_home.finish()]
}

fn pin_seeds() -> Vec<Vec<u8>> {
    let pin = |kind| Pin {
        kind,
        name: "before".to_owned(),
        root: RootId { epoch: 3, slot: 2 },
        wal_end: 9,
        created_ms: 1,
        creator: "host:1".to_owned(),
        position: position(),
        expires_s: (kind == PinKind::Clone).then_some(1_798_761_600),
    };
    let name = SnapshotName { name: "before".to_owned(), pin: pin::new_key(&NONCE) };
    let [first, second] = [PinKind::Snapshot, PinKind::Clone].map(|kind| pin(kind).encode(&NONCE));
    vec![first, second, name.encode(&NONCE)]
}

fn hint_seeds() -> Vec<Vec<u8>> {
    vec![
        Alive { epoch: 3, server_id: "host:3306".to_owned(), counter: 4, closed: true, covered_us: Some(5) }
            .encode(&NONCE),
        KeptSettings { number: 3, schedule: "daily 7".to_owned(), ..KeptSettings::default() }.encode(&NONCE),
    ]
}

fn local_seeds() -> Vec<Vec<u8>> {
    let db_uuid = "00000000-0000-4000-8000-000000000000".to_owned();
    let root = RootId { epoch: 3, slot: 2 };
    let marker =
        Marker { db_uuid: db_uuid.clone(), epoch: 3, root, claim_nonce: Some(NONCE), root_nonce: None };
    let files = LocalFiles { db_uuid: db_uuid.clone(), files: vec![entry(1), labelled(2)], in_parts: None };
    let in_parts = LocalFiles { db_uuid, files: vec![], in_parts: Some(in_parts()) };
    vec![marker.encode(&NONCE), files.encode(&NONCE), in_parts.encode(&NONCE)]
}

fn identity_seeds() -> Vec<Vec<u8>> {
    let found = identity::summed(identity::Identity {
        format: identity::BUCKET_FORMAT,
        db_uuid: "00000000-0000-4000-8000-000000000000".to_owned(),
        created_ms: 1,
        nonce: "0123456789abcdef".to_owned(),
        parent: Some(identity::Parent {
            db_uuid: "parent".to_owned(),
            epoch: 1,
            slot: 2,
            origins: vec!["shop".to_owned()],
        }),
        masked_in: vec!["00000000-0000-4000-8000-000000000000".to_owned()],
        crc32c: String::new(),
    });
    vec![serde_json::to_vec_pretty(&found).unwrap_or_default(), b"{\"format\": 9}".to_vec()]
}

fn tomb_seeds() -> Vec<Vec<u8>> {
    vec![b"aaaabbbbccccdddd\nsst/0f/3-10.sst\nsst/1f/3-11.sst".to_vec()]
}

fn name_seeds() -> Vec<Vec<u8>> {
    let manifest = ManifestCopy { number: 5, copy: 1 };
    let keys = [
        names::epoch(3),
        names::root(3, 1),
        names::wal_chunk(3, 1),
        names::merged_chunks(3, 1, 9),
        names::map_part(3, 4),
        names::manifest_chunk(3, manifest, 4096),
        entry(1).key,
    ];
    keys.into_iter().map(String::into_bytes).collect()
}

/// Returns an input for `logs`: one byte with the size of the pieces in which the log is read, and then a log
/// of complete records.
fn log_seeds() -> Vec<Vec<u8>> {
    let record = |sequence: u64| {
        let content = [&sequence.to_le_bytes()[..], b"changes"].concat();
        let body = [&[1], &content[..]].concat();
        let crc = crate::protocol::wal::replay::masked(crc32c(&body));
        [&crc.to_le_bytes()[..], &(content.len() as u16).to_le_bytes(), &body].concat()
    };
    vec![[vec![5], record(1), record(9), vec![0; 30]].concat()]
}

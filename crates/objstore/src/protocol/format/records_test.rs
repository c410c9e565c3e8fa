//! Goal:   every record is the same when it is written and read again, and damaged bytes are never taken for
//!         a record.
//! Method: seeded random records; then every truncation, every single flipped bit and every short tail of
//!         each.

use crate::crc::crc32c;
use crate::files::Labels;
use crate::protocol::format::codec::{FormatError, FrameWriter, Nonce};
use crate::protocol::format::names::ManifestCopy;
use crate::protocol::format::records::*;
use crate::protocol::publish::map_record::{LocalFiles, MapEntry};
use crate::protocol::start::home::Home;
use crate::protocol::testing::test_random::Random;
use crate::protocol::wal::marks::{BinlogPosition, Gtid};
use crate::protocol::wal::position::{Opened, Position};
use crate::protocol::wal::wal_record::{MergedChunks, WalRun};
use crate::requests::origin;
use bytes::Bytes;

const NONCE: Nonce = [7; 16];

fn text(random: &mut Random) -> String {
    let length = random.below(40) as usize;
    (0..length).map(|_| ['a', 'Z', '/', 'é', '漢', '0'][random.below(6) as usize]).collect()
}

fn entries(random: &mut Random) -> Vec<MapEntry> {
    let mut number = 0;
    (0..random.below(5))
        .map(|_| {
            number += 1 + random.below(9);
            let mut key = text(random).trim_start_matches('/').to_owned();
            if random.below(3) == 0 {
                key = origin::join("a/b", &format!("sst/{key}"));
            }
            let mut label = || (random.below(3) == 0).then(|| text(random).into());
            let labels = Labels { storage_class: label(), key_id: label() };
            MapEntry { number, key, size_bytes: random.next(), crc32c: random.next() as u32, labels }
        })
        .collect()
}

fn root(random: &mut Random) -> Root {
    let slot = 1 + random.below(1000);
    let full = random.below(2) == 0;
    let added = entries(random);
    Root {
        id: RootId { epoch: random.next(), slot },
        manifest: ManifestCopy { number: random.next(), copy: random.next() as u32 },
        manifest_bytes: random.next(),
        manifest_crc32c: random.next() as u32,
        ddl_seq: random.next(),
        wal_min: random.next(),
        wal_first_chunk: random.next(),
        wal_needed_end: random.next(),
        published_ms: random.next(),
        map_slot: if full || slot == 1 { slot } else { 1 + random.below(slot - 1) },
        files_count: added.len() as u64,
        map_in_parts: None,
        removed: if full || slot == 1 {
            vec![]
        } else {
            (0..random.below(4)).map(|_| random.next()).collect()
        },
        added,
        wal_runs: runs(random),
        position: position(random),
        opened: (random.below(4) != 0).then(|| opened(random)),
    }
}

fn opened(random: &mut Random) -> Opened {
    Opened { sequence: random.next(), time_us: random.next() }
}

fn position(random: &mut Random) -> Option<Position> {
    let gtids = (0..random.below(4) as u32)
        .map(|domain| (domain, Gtid { domain, server: random.next() as u32, sequence: random.next() }));
    let gtids = gtids.collect();
    let offset = random.below(2) * random.next();
    let binlog = (offset != 0).then(|| BinlogPosition { file: random.next(), offset });
    let position = Position { sequence: random.next(), time_us: random.next(), gtids, binlog };
    (random.below(4) != 0).then_some(position)
}

fn runs(random: &mut Random) -> Vec<WalRun> {
    let mut end = random.below(100);
    (0..random.below(4))
        .map(|_| {
            let first = end;
            end += 1 + random.below(50);
            WalRun { first, end, bytes: random.next() }
        })
        .collect()
}

fn claim(random: &mut Random) -> ClaimRoot {
    let epoch = 2 + random.below(1 << 40);
    let base = RootId { epoch: 1 + random.below(epoch - 1), slot: 1 + random.below(1 << 30) };
    if random.below(3) == 0 {
        ClaimRoot { epoch, base: None, wal_end: 0 }
    } else {
        ClaimRoot { epoch, base: Some(base), wal_end: random.next() }
    }
}

fn payload(random: &mut Random) -> Vec<u8> {
    (0..random.below(50)).map(|_| random.next() as u8).collect()
}

/// Decodes the bytes of one kind of record, and drops the record.
type Decoder = fn(&[u8]) -> Result<(), FormatError>;
/// Returns an example of every kind of record as bytes, with the function that decodes it. Also checks that
/// each record is the same after it was written and read.
fn samples(random: &mut Random) -> Vec<(Vec<u8>, Decoder)> {
    let home = Home { boot: text(random), device: random.next(), inode: random.next() };
    let (server_id, claimed_ms) = (text(random), random.next());
    let epoch = EpochClaim { epoch: random.next(), server_id, claimed_ms, home };
    let fence = Fence { by_epoch: random.next(), by_server: text(random).chars().take(30).collect() };
    let (claim, root) = (claim(random), root(random));
    let manifest = ManifestChunk {
        epoch: random.next(),
        manifest: root.manifest,
        offset: random.next(),
        bytes: payload(random),
    };
    let wal = WalChunk {
        epoch: random.next(),
        chunk: random.next(),
        log: random.next(),
        offset: random.next(),
        ddl_seq: random.next(),
        previous_crc32c: random.next() as u32,
        bytes: payload(random),
    };
    let merged = MergedChunks {
        epoch: random.next(),
        first: random.next(),
        chunks: (0..random.below(4)).map(|_| payload(random).into()).collect(),
    };
    let merged_bytes = MergedChunks::encode(merged.epoch, merged.first, merged.chunks.clone(), &NONCE);
    assert_eq!(MergedChunks::decode(&merged_bytes.clone().into()), Ok(merged));
    let alive = Alive {
        epoch: 3,
        server_id: text(random),
        counter: random.next(),
        closed: random.below(2) == 1,
        covered_us: (random.below(2) == 1).then(|| random.next()),
    };
    let mut nonce = || (random.below(2) == 1).then(|| [random.next() as u8; 16]);
    let (claim_nonce, root_nonce) = (nonce(), nonce());
    let marker =
        Marker { db_uuid: text(random), epoch: random.next(), root: root.id, claim_nonce, root_nonce };
    let local = LocalFiles { db_uuid: text(random), files: entries(random), in_parts: None };
    assert_eq!(EpochClaim::decode(&epoch.encode(&NONCE)), Ok(epoch.clone()));
    assert_eq!(RootSlot::decode(&fence.encode(&NONCE)), Ok(RootSlot::Fence(fence.clone())));
    assert_eq!(WalSlot::decode(&fence.encode(&NONCE)), Ok(WalSlot::Fence(fence.clone())));
    assert_eq!(RootSlot::decode(&claim.encode(&NONCE)), Ok(RootSlot::Claim(claim.clone())));
    assert_eq!(RootSlot::decode(&root.encode(&NONCE)), Ok(RootSlot::Root(root.clone())));
    assert_eq!(ManifestChunk::decode(&manifest.encode(&NONCE)), Ok(manifest.clone()));
    let overhead = manifest.encode(&NONCE).len() - manifest.bytes.len();
    assert_eq!(overhead as u64, ManifestChunk::OVERHEAD_BYTES + 4, "format 1 has no extensions");
    assert_eq!(WalSlot::decode(&wal.encode(&NONCE)), Ok(WalSlot::Chunk(wal.clone())));
    assert_eq!(Alive::decode(&alive.encode(&NONCE)), Ok(alive.clone()));
    assert_eq!(Marker::decode(&marker.encode(&NONCE)), Ok(marker.clone()));
    assert_eq!(LocalFiles::decode(&local.encode(&NONCE)), Ok(local.clone()));
    vec![
        (epoch.encode(&NONCE), |b| EpochClaim::decode(b).map(drop)),
        (fence.encode(&NONCE), |b| RootSlot::decode(b).map(drop)),
        (claim.encode(&NONCE), |b| RootSlot::decode(b).map(drop)),
        (root.encode(&NONCE), |b| RootSlot::decode(b).map(drop)),
        (manifest.encode(&NONCE), |b| ManifestChunk::decode(b).map(drop)),
        (wal.encode(&NONCE), |b| WalSlot::decode(b).map(drop)),
        (merged_bytes, |b| MergedChunks::decode(&Bytes::copy_from_slice(b)).map(drop)),
        (alive.encode(&NONCE), |b| Alive::decode(b).map(drop)),
        (marker.encode(&NONCE), |b| Marker::decode(b).map(drop)),
        (local.encode(&NONCE), |b| LocalFiles::decode(b).map(drop)),
    ]
}

#[test]
fn records_round_trip() {
    let mut random = Random::from_environment("records_round_trip");
    for _ in 0..300 {
        samples(&mut random);
    }
}

#[test]
fn every_truncation_flip_and_tail_is_refused() {
    let mut random = Random::from_environment("every_truncation_flip_and_tail_is_refused");
    for _ in 0..3 {
        for (bytes, decode) in samples(&mut random) {
            assert!(decode(&bytes).is_ok());
            for length in 0..bytes.len() {
                assert!(decode(&bytes[..length]).is_err(), "seed {}: cut at {length}", random.seed);
            }
            for bit in 0..bytes.len() * 8 {
                let mut damaged = bytes.clone();
                damaged[bit / 8] ^= 1 << (bit % 8);
                assert!(decode(&damaged).is_err(), "seed {}: flipped bit {bit}", random.seed);
            }
            let mut longer = bytes.clone();
            longer.push(0);
            assert!(decode(&longer).is_err());
        }
    }
}

/// A record whose length fields are wrong is refused even when its checksum is right.
#[test]
fn lengths_that_lie_under_a_good_checksum_are_refused() {
    let mut random = Random::from_environment("lengths_that_lie_under_a_good_checksum_are_refused");
    for (bytes, decode) in samples(&mut random) {
        for at in 28..bytes.len().saturating_sub(8) {
            let mut damaged = bytes.clone();
            damaged[at..at + 4].copy_from_slice(&u32::MAX.to_le_bytes());
            let end = damaged.len() - 4;
            let crc = crc32c(&damaged[..end]);
            damaged[end..].copy_from_slice(&crc.to_le_bytes());
            // At many offsets u32::MAX is a valid number, so decoding is allowed to succeed. But it must not
            // panic or allocate very much memory at any offset.
            let _ = decode(&damaged);
        }
    }
}

#[test]
fn a_claim_of_the_first_versions_has_no_home() {
    let mut frame = FrameWriter::fixed(1, &NONCE);
    frame.u64(7).bytes(b"db1:3306:77").u64(1_700_000_000_000);
    let claim = EpochClaim::decode(&frame.finish()).unwrap();
    assert_eq!((claim.epoch, claim.server_id.as_str(), &claim.home), (7, "db1:3306:77", &Home::default()));
    assert!(
        !claim.home.is_same(&Home::default()),
        "an unknown home is like no other, not even an unknown one"
    );
}

#[test]
fn a_fence_has_one_size_whatever_the_name() {
    for name in ["", "db1:3306:77", &"ä".repeat(100), &"x".repeat(5000)] {
        let fence = Fence { by_epoch: 9, by_server: name.to_string() };
        let bytes = fence.encode(&NONCE);
        assert_eq!(bytes.len() as u64, FENCE_BYTES);
        let Ok(RootSlot::Fence(read)) = RootSlot::decode(&bytes) else { panic!("not a fence") };
        assert!(name.starts_with(&read.by_server));
    }
}

#[test]
fn a_record_of_another_kind_is_refused_by_name() {
    let root = RootId { epoch: 1, slot: 0 };
    let marker = Marker { db_uuid: "u".into(), epoch: 1, root, claim_nonce: None, root_nonce: None };
    let marker = marker.encode(&NONCE);
    let error = RootSlot::decode(&marker).expect_err("a marker is no root");
    assert!(error.to_string().contains("kind 8"), "{error}");
    let mut newer = marker.clone();
    newer[4] = 3;
    let error = Marker::decode(&newer).expect_err("an unknown version");
    assert!(error.to_string().contains("format 3"), "{error}");
}

/// Returns `frame` with a correct checksum.
fn sealed(mut frame: Vec<u8>) -> Vec<u8> {
    let end = frame.len() - 4;
    let crc = crc32c(&frame[..end]);
    frame[end..].copy_from_slice(&crc.to_le_bytes());
    frame
}

/// Returns a root that format 1 of the records can store, because nothing of it is in the extension area.
pub(in crate::protocol) fn root_of_format_1() -> Root {
    let key = "sst/ab/00000000000000000003-25.sst".to_owned();
    Root {
        id: RootId { epoch: 3, slot: 9 },
        manifest: ManifestCopy { number: 17, copy: 2 },
        manifest_bytes: 4711,
        manifest_crc32c: 0x1234_5678,
        ddl_seq: 5,
        wal_min: 21,
        wal_first_chunk: 40,
        wal_needed_end: 44,
        published_ms: 1_764_000_000_000,
        map_slot: 8,
        files_count: 3,
        map_in_parts: None,
        added: vec![MapEntry {
            number: 25,
            key,
            size_bytes: 65_536,
            crc32c: 0x9abc_def0,
            labels: Labels::default(),
        }],
        removed: vec![11, 12],
        wal_runs: vec![],
        position: None,
        opened: None,
    }
}

/// Returns the bytes of a root whose extension area has the given `fields`.
fn root_with_fields(fields: &[(u16, &[u8])]) -> Vec<u8> {
    let mut bytes = root_of_format_1().encode(&NONCE);
    bytes.truncate(bytes.len() - 8);
    bytes.extend_from_slice(&(fields.len() as u32).to_le_bytes());
    for (tag, value) in fields {
        bytes.extend_from_slice(&tag.to_le_bytes());
        bytes.extend_from_slice(&(value.len() as u32).to_le_bytes());
        bytes.extend_from_slice(value);
    }
    bytes.extend_from_slice(&[0; 4]);
    let body_bytes = bytes.len() as u32 - 32;
    bytes[8..12].copy_from_slice(&body_bytes.to_le_bytes());
    sealed(bytes)
}

#[test]
fn unknown_fields_of_an_extension_area_are_ignored_or_refused_by_their_tag() {
    let read = RootSlot::decode(&root_with_fields(&[(0x0100, b"a later time"), (0x7fff, b"")]));
    assert_eq!(read, Ok(RootSlot::Root(root_of_format_1())));
    let error = RootSlot::decode(&root_with_fields(&[(0x0100, b"x"), (0x9000, b"y")])).expect_err("required");
    assert!(error.to_string().contains("field 0x9000"), "{error}");
    for fields in [[(0x0101u16, b"x".as_slice()), (0x0100, b"x")], [(0x0101, b"x"), (0x0101, b"x")]] {
        let error = RootSlot::decode(&root_with_fields(&fields)).expect_err("out of order");
        assert!(error.to_string().contains("out of order"), "{error}");
    }
}

/// The root of this test has one file, number 25. Each malformed list of labels names another number, or a
/// number twice, or ends too early or too late.
#[test]
fn labels_that_fit_no_file_are_refused() {
    let origins = |value: &[u8]| RootSlot::decode(&root_with_fields(&[(0x8002, value)]));
    let shop = [1, 4, b's', b'h', b'o', b'p', 1, 25];
    let Ok(RootSlot::Root(root)) = origins(&shop) else { panic!("refused") };
    assert_eq!(root.added[0].key, "/shop/sst/ab/00000000000000000003-25.sst");
    let twice = [&[2][..], &shop[1..], &[4, b's', b'h', b'o', b'q', 1, 25]].concat();
    let another = [&shop[..7], &[26]].concat();
    let again = [&[2][..], &shop[1..], &shop[1..]].concat();
    for malformed in [&twice[..], &another, &again, &shop[..7], &[&shop[..], &[0]].concat(), b""] {
        let error = origins(malformed).expect_err("malformed");
        assert!(error.to_string().contains("labels"), "{malformed:?}: {error}");
    }
}

#[test]
fn runs_that_overlap_or_are_cut_are_refused() {
    let words = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    for runs in
        [words(&[0, 5, 9, 4, 8, 9]), words(&[5, 5, 9]), words(&[0, 5]), words(&[0, 5, 9])[..23].to_vec()]
    {
        let error = RootSlot::decode(&root_with_fields(&[(0x8001, &runs)])).expect_err("malformed");
        assert!(error.to_string().contains("merged WAL chunks"), "{error}");
    }
}

#[test]
fn a_file_map_out_of_order_is_refused() {
    let entry =
        |number| MapEntry { number, key: "k".into(), size_bytes: 1, crc32c: 2, labels: Labels::default() };
    let map = LocalFiles { db_uuid: "u".into(), files: vec![entry(2), entry(2)], in_parts: None };
    assert!(LocalFiles::decode(&map.encode(&NONCE)).is_err());
}

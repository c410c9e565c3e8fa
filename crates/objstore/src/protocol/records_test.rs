//! Goal:   every record survives the way to bytes and back, and no damaged bytes are taken for a record.
//! Method: seeded random records; then every truncation, every single flipped bit and every short tail of each.

use super::codec::{FormatError, FrameWriter, Nonce};
use super::names::ManifestCopy;
use super::records::*;
use super::test_random::Random;
use crate::crc::crc32c;

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
            MapEntry { number, key: text(random), size_bytes: random.next(), crc32c: random.next() as u32 }
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
        removed: if full || slot == 1 {
            vec![]
        } else {
            (0..random.below(4)).map(|_| random.next()).collect()
        },
        added,
    }
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

/// Bytes of every kind of record, each already checked to decode to itself, with its decoder.
type Decoder = fn(&[u8]) -> Result<(), FormatError>;
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
    let alive =
        Alive { epoch: 3, server_id: text(random), counter: random.next(), closed: random.below(2) == 1 };
    let marker = Marker { db_uuid: text(random), epoch: random.next(), root: root.id };
    let local = LocalFiles { db_uuid: text(random), files: entries(random) };
    assert_eq!(EpochClaim::decode(&epoch.encode(&NONCE)), Ok(epoch.clone()));
    assert_eq!(RootSlot::decode(&fence.encode(&NONCE)), Ok(RootSlot::Fence(fence.clone())));
    assert_eq!(WalSlot::decode(&fence.encode(&NONCE)), Ok(WalSlot::Fence(fence.clone())));
    assert_eq!(RootSlot::decode(&claim.encode(&NONCE)), Ok(RootSlot::Claim(claim.clone())));
    assert_eq!(RootSlot::decode(&root.encode(&NONCE)), Ok(RootSlot::Root(root.clone())));
    assert_eq!(ManifestChunk::decode(&manifest.encode(&NONCE)), Ok(manifest.clone()));
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

/// A body that lies about its lengths is refused even when its checksum is right.
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
            // Many of these are valid numbers; none may panic or allocate without bound.
            let _ = decode(&damaged);
        }
    }
}

#[test]
fn a_claim_of_the_first_versions_has_no_home() {
    let mut frame = FrameWriter::new(1, &NONCE);
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
    let marker = Marker { db_uuid: "u".into(), epoch: 1, root }.encode(&NONCE);
    let error = RootSlot::decode(&marker).expect_err("a marker is no root");
    assert!(error.to_string().contains("kind 8"), "{error}");
    let mut newer = marker.clone();
    newer[4] = 2;
    let error = Marker::decode(&newer).expect_err("an unknown version");
    assert!(error.to_string().contains("format 2"), "{error}");
}

#[test]
fn a_file_map_out_of_order_is_refused() {
    let entry = |number| MapEntry { number, key: "k".into(), size_bytes: 1, crc32c: 2 };
    let map = LocalFiles { db_uuid: "u".into(), files: vec![entry(2), entry(2)] };
    assert!(LocalFiles::decode(&map.encode(&NONCE)).is_err());
}

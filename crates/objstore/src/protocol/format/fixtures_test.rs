//! Goal:   this version reads the records of every earlier version, and a change of the code that changes the
//!         written bytes makes this test fail.
//! Method: the folder fixtures/ has one record of each kind as bytes, in format 1 and as this version writes
//!         it. Each line is a name and the bytes in hexadecimal.

use crate::files::{Labels, object_key};
use crate::protocol::format::codec::Nonce;
use crate::protocol::format::records::*;
use crate::protocol::format::records_test::root_of_format_1;
use crate::protocol::format::settings_record::KeptSettings;
use crate::protocol::publish::map_record::{LocalFiles, MapEntry, MapInParts, MapPart, PartRef, checksum};
use crate::protocol::start::home::Home;
use crate::protocol::wal::marks::{BinlogPosition, Gtid};
use crate::protocol::wal::position::Position;
use crate::protocol::wal::wal_record::{MergedChunks, WalRun};
use crate::requests::origin;

const NONCE: Nonce = [7; 16];
const FORMAT_1: &str = include_str!("fixtures/format-1.txt");
const FORMAT_2: &str = include_str!("fixtures/format-2.txt");

fn fixture(text: &str, name: &str) -> Option<Vec<u8>> {
    let digits = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
    (0..digits.len()).step_by(2).map(|at| u8::from_str_radix(&digits[at..at + 2], 16).ok()).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn root() -> Root {
    let gtid = |domain, sequence| (domain, Gtid { domain, server: 101, sequence });
    Root {
        wal_runs: vec![WalRun { first: 40, end: 42, bytes: 1000 }],
        position: Some(Position {
            sequence: 77,
            time_us: 1_764_000_000_000_001,
            gtids: [gtid(0, 500), gtid(9, 7)].into(),
            binlog: Some(BinlogPosition { file: 3, offset: 1234 }),
        }),
        ..root_of_format_1()
    }
}

/// Returns a part of a file map. Its entries have keys of each form that the encoding distinguishes.
fn part() -> MapPart {
    let entry = |number, epoch, name: &str, extension| MapEntry {
        number,
        key: object_key(epoch, name, extension),
        size_bytes: 65_536 + number,
        crc32c: 0x9abc_def0,
        labels: Labels::default(),
    };
    let entries = vec![
        entry(25, 3, "25", "sst"),
        entry(26, 2, "26", "blob"),
        entry(400, 2, "s17", "sst"),
        entry(401, 3, "401-r2", "sst"),
        MapEntry { key: "sst/another".to_owned(), ..entry(402, 3, "", "") },
    ];
    MapPart { epoch: 3, part: 6, entries }
}

fn in_parts() -> MapInParts {
    let MapPart { epoch, part, entries } = part();
    let bytes = MapPart { epoch, part, entries: entries.clone() }.encode(&NONCE);
    let first = PartRef {
        part,
        first: 25,
        files: entries.len() as u64,
        bytes: bytes.len() as u64,
        crc32c: checksum(&bytes),
    };
    let added = vec![MapEntry { size_bytes: 5, ..entries[2].clone() }];
    MapInParts { epoch, files_count: 4, parts: vec![first], removed: vec![26, 400], added }
}

/// Which version wrote the bytes of the fixtures: one that knew only format 1, or the present one.
#[derive(Clone, Copy, PartialEq)]
enum Written {
    InFormat1,
    Now,
}

/// Checks that each fixture in `text` is read as the expected record and, if it is in the present format,
/// that the record is written as the same bytes.
fn check_all(text: &str, written: Written) {
    let check = |name: &str, encoded: Vec<u8>, is_read: &dyn Fn(&[u8]) -> bool| {
        let bytes = fixture(text, name).unwrap_or_else(|| panic!("no fixture for {name}: {}", hex(&encoded)));
        assert!(is_read(&bytes), "{name} is read as another record");
        if written == Written::Now {
            assert_eq!(hex(&encoded), hex(&bytes), "{name} is written in another way");
        }
    };
    let home = Home { boot: "0f3b".to_owned(), device: 64_769, inode: 131 };
    let server_id = "db1:3306:77".to_owned();
    let epoch = EpochClaim { epoch: 3, server_id: server_id.clone(), claimed_ms: 1_764_000_000_000, home };
    check("epoch", epoch.encode(&NONCE), &|b| EpochClaim::decode(b).as_ref() == Ok(&epoch));
    let fence = Fence { by_epoch: 4, by_server: server_id.clone() };
    check("fence", fence.encode(&NONCE), &|b| RootSlot::decode(b) == Ok(RootSlot::Fence(fence.clone())));
    let claim = ClaimRoot { epoch: 3, base: Some(RootId { epoch: 2, slot: 8 }), wal_end: 12 };
    check("claim", claim.encode(&NONCE), &|b| RootSlot::decode(b) == Ok(RootSlot::Claim(claim.clone())));
    let mut root = root();
    if written == Written::InFormat1 {
        root = Root { wal_runs: vec![], position: None, ..root };
    }
    check("root", root.encode(&NONCE), &|b| RootSlot::decode(b) == Ok(RootSlot::Root(root.clone())));
    let bytes = b"bytes of RocksDB".to_vec();
    let manifest = ManifestChunk { epoch: 3, manifest: root.manifest, offset: 100, bytes: bytes.clone() };
    check("manifest", manifest.encode(&NONCE), &|b| ManifestChunk::decode(b).as_ref() == Ok(&manifest));
    let (log, offset, previous_crc32c) = (21, 4096, 0x1234_5678);
    let wal = WalChunk { epoch: 3, chunk: 40, log, offset, ddl_seq: 5, previous_crc32c, bytes };
    check("wal", wal.encode(&NONCE), &|b| WalSlot::decode(b) == Ok(WalSlot::Chunk(wal.clone())));
    let alive = Alive { epoch: 3, server_id, counter: 9, closed: true, covered_us: None };
    check("alive", alive.encode(&NONCE), &|b| Alive::decode(b).as_ref() == Ok(&alive));
    let db_uuid = "11111111-2222-4333-8444-555555555555".to_owned();
    let (claim_nonce, root_nonce) = (None, None);
    let marker = Marker { db_uuid: db_uuid.clone(), epoch: 3, root: root.id, claim_nonce, root_nonce };
    check("marker", marker.encode(&NONCE), &|b| Marker::decode(b).as_ref() == Ok(&marker));
    let files = LocalFiles { db_uuid: db_uuid.clone(), files: root.added.clone(), in_parts: None };
    check("files", files.encode(&NONCE), &|b| LocalFiles::decode(b).as_ref() == Ok(&files));
    if written == Written::InFormat1 {
        return; // Merged chunks, maps in parts and markers with nonces came with format 2.
    }
    let marker = Marker { claim_nonce: Some([7; 16]), root_nonce: Some([8; 16]), ..marker };
    check("marker-nonces", marker.encode(&NONCE), &|b| Marker::decode(b).as_ref() == Ok(&marker));
    let part = part();
    check("part", part.encode(&NONCE), &|b| MapPart::decode(b).as_ref() == Ok(&part));
    let map_in_parts = Some(in_parts());
    let files = LocalFiles { db_uuid, files: vec![], in_parts: map_in_parts.clone() };
    check("files-in-parts", files.encode(&NONCE), &|b| LocalFiles::decode(b).as_ref() == Ok(&files));
    let (map_slot, added, removed) = (root.id.slot, vec![], vec![]);
    let root = Root { map_slot, files_count: 4, map_in_parts, added, removed, ..root };
    check("root-in-parts", root.encode(&NONCE), &|b| RootSlot::decode(b) == Ok(RootSlot::Root(root.clone())));
    check_labelled(&check, &root);
    let chunks = vec![wal.encode(&NONCE).into()];
    let merged = MergedChunks { epoch: 3, first: 40, chunks };
    let settings = KeptSettings {
        number: 3,
        changed_ms: 1_764_000_000_000,
        changed_by: "db1:3306:77".to_owned(),
        retention_s: 3600,
        bytes_max: 1 << 40,
        former_retention_s: 86_400,
        former_until_ms: 1_764_000_000_001,
        schedule: "hourly 24, daily 7".to_owned(),
    };
    check("settings", settings.encode(&NONCE), &|b| KeptSettings::decode(b).as_ref() == Ok(&settings));
    let encoded = MergedChunks::encode(3, 40, merged.chunks.clone(), &NONCE);
    check("merged", encoded, &|b| MergedChunks::decode(&b.to_vec().into()).as_ref() == Ok(&merged));
}

/// Checks the fixture of the given name. It must have the given bytes, which this version writes, and the
/// given function must find that the expected record is read from it.
type Check<'a> = dyn Fn(&str, Vec<u8>, &dyn Fn(&[u8]) -> bool) + 'a;

/// Checks the records that hold files, when some of these files have labels: an origin in another database, a
/// storage class, an encryption key.
fn check_labelled(check: &Check<'_>, in_parts: &Root) {
    let entries = labelled(part().entries);
    let part = MapPart { entries: entries.clone(), ..part() };
    check("part-labelled", part.encode(&NONCE), &|b| MapPart::decode(b).as_ref() == Ok(&part));
    let map =
        in_parts.map_in_parts.clone().map(|map| MapInParts { added: labelled(map.added.clone()), ..map });
    let root = Root { map_in_parts: map, ..in_parts.clone() };
    check("root-labelled", root.encode(&NONCE), &|b| RootSlot::decode(b) == Ok(RootSlot::Root(root.clone())));
    let db_uuid = "11111111-2222-4333-8444-555555555555".to_owned();
    let files = LocalFiles { db_uuid, files: entries, in_parts: None };
    check("files-labelled", files.encode(&NONCE), &|b| LocalFiles::decode(b).as_ref() == Ok(&files));
}

fn labelled(mut entries: Vec<MapEntry>) -> Vec<MapEntry> {
    for (at, entry) in entries.iter_mut().enumerate() {
        let origin = ["shop", "backup/shop"][at % 2];
        entry.key = if at < 3 { origin::join(origin, &entry.key) } else { entry.key.clone() };
        entry.labels.storage_class = (at == 1).then(|| "STANDARD_IA".into());
        entry.labels.key_id = (at == 3).then(|| "key-7".into());
    }
    entries
}

#[test]
fn records_of_format_1_are_read() {
    check_all(FORMAT_1, Written::InFormat1);
}

#[test]
fn records_of_format_2_are_read_and_written_as_ever() {
    check_all(FORMAT_2, Written::Now);
}

//! Goal:   the commands of atollctl tell the truth about a database in a directory, and exit as documented.
//! Method: publishes a small database through the object layer, runs the built program on it, then damages
//!         the bucket.

#![allow(clippy::unwrap_used)] // In a test, a panic is the report of a failure.

use objstore::protocol::{CloneRequest, Inspector, NotedCommit, Store};
use objstore::{Durability, StoreConfig, client, log};
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::sync::Arc;
use std::time::Duration;

const WAIT: Duration = Duration::from_secs(60);

/// A database with one table file and one MANIFEST, published and closed; returns its URL.
fn database(dir: &Path) -> String {
    database_with(dir, None)
}

/// As [`database`], with a commit.
fn database_with(dir: &Path, commit: Option<NotedCommit>) -> String {
    let url = format!("file://{}", dir.join("bucket").display());
    let local = dir.join("local");
    let config = StoreConfig {
        url: url.clone(),
        local_dir: local.clone(),
        cache_dir: dir.join("cache"),
        server_id: "testhost:3306:1".to_owned(),
        durability: Durability::Local,
        ..StoreConfig::default()
    };
    let store = Store::open(&config, log::silent()).unwrap();
    fs::write(local.join("MANIFEST-000005"), b"a manifest").unwrap();
    fs::write(local.join("000007.sst"), b"a table file").unwrap();
    store.files().add_file(7, &local.join("000007.sst")).unwrap();
    commit.iter().for_each(|commit| store.note_commit(commit));
    store.manifest_synced(5, 10);
    fs::write(local.join("CURRENT"), b"MANIFEST-000005\n").unwrap();
    store.current_set(5);
    store.close(WAIT).unwrap();
    url
}

fn atollctl(arguments: &[&str]) -> (Option<i32>, String) {
    let output: Output = Command::new(env!("CARGO_BIN_EXE_atollctl")).args(arguments).output().unwrap();
    let text =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    (output.status.code(), text)
}

#[test]
fn a_published_database_is_shown_and_verified() {
    let dir = tempfile::tempdir().unwrap();
    let url = database(dir.path());
    let (code, text) = atollctl(&["status", &url]);
    assert!(
        code == Some(0) && text.contains("testhost:3306:1") && text.contains("1 files, 12 B"),
        "{code:?} {text}"
    );
    let (code, text) = atollctl(&["ls", &url]);
    assert!(code == Some(0) && text.contains("-7.sst"), "{code:?} {text}");
    let (code, text) = atollctl(&["roots", &url, "--json"]);
    let roots: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert!(code == Some(0) && roots[0]["kind"] == "claim" && roots[1]["manifest_bytes"] == 10, "{text}");
    let (code, text) = atollctl(&["verify", "--deep", &url]);
    assert!(code == Some(0) && text.contains("12 B read") && text.contains("ok:"), "{code:?} {text}");
}

#[test]
fn damage_is_found_and_named_and_nothing_is_changed() {
    let dir = tempfile::tempdir().unwrap();
    let url = database(dir.path());
    let (_, text) = atollctl(&["ls", &url, "--json"]);
    let files: serde_json::Value = serde_json::from_str(&text).unwrap();
    let key = files[0]["key"].as_str().unwrap().to_owned();
    let object = dir.path().join("bucket").join(&key);
    let before = atollctl(&["ls", &url, "--objects"]).1;
    fs::write(&object, b"a tabel file").unwrap();
    let (code, text) = atollctl(&["verify", &url]);
    assert_eq!(code, Some(0), "sizes are right: {text}");
    let (code, text) = atollctl(&["verify", "--deep", &url]);
    assert!(code == Some(1) && text.contains(&key) && text.contains("checksum"), "{code:?} {text}");
    assert_eq!(atollctl(&["ls", &url, "--objects"]).1, before, "looking changes nothing");
    fs::remove_file(&object).unwrap();
    let (code, text) = atollctl(&["verify", &url]);
    assert!(code == Some(1) && text.contains(&key), "{code:?} {text}");
}

#[test]
fn verify_all_finds_what_only_a_snapshot_lacks() {
    let dir = tempfile::tempdir().unwrap();
    let url = database(dir.path());
    assert_eq!(atollctl(&["snapshot", "create", &url, "s9"]).0, Some(0));
    let (code, text) = atollctl(&["verify", "--all", &url]);
    assert!(code == Some(0) && text.contains("snapshot 's9'") && text.contains("all 1 states"), "{text}");
    let pin = fs::read_dir(dir.path().join("bucket/pin")).unwrap().next().unwrap().unwrap().path();
    let bytes = fs::read(&pin).unwrap();
    fs::write(&pin, &bytes[..bytes.len() / 2]).unwrap();
    assert_eq!(atollctl(&["verify", "--deep", &url]).0, Some(0), "the present is well");
    let (code, text) = atollctl(&["verify", "--all", &url]);
    assert!(code == Some(1) && text.contains("PROBLEM: pin/") && text.contains("1 of 1"), "{code:?} {text}");
    let (code, text) = atollctl(&["--json", "verify", "--all", &url]);
    assert!(code == Some(1) && text.contains("\"kind\": \"unknown\""), "{code:?} {text}");
}

#[test]
fn gc_shows_what_is_superfluous_and_deletes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let url = database(dir.path());
    let stray = "sst/00/00000000000000000001-99.sst";
    fs::create_dir_all(dir.path().join("bucket/sst/00")).unwrap();
    fs::write(dir.path().join("bucket").join(stray), b"stray").unwrap();
    for arguments in [&["gc", &url][..], &["gc", "--dry-run", &url]] {
        let (code, text) = atollctl(arguments);
        assert!(code == Some(0) && text.contains(&format!("stray: {stray}")), "{code:?} {text}");
        assert!(text.contains("1 in no root") && text.contains("nothing was deleted"), "{text}");
    }
    let (code, text) = atollctl(&["gc", "--pause", &url]);
    assert!(code == Some(0) && text.contains("paused"), "{code:?} {text}");
    assert!(atollctl(&["gc", &url]).1.contains("HELD: pin/"));
    let (code, text) = atollctl(&["gc", "--resume", &url]);
    assert!(code == Some(0) && text.contains("has ended"), "{code:?} {text}");
    assert!(!atollctl(&["gc", &url]).1.contains("HELD"));
    assert!(dir.path().join("bucket").join(stray).exists());
}

#[test]
fn snapshots_are_made_shown_and_dropped() {
    let dir = tempfile::tempdir().unwrap();
    let url = database(dir.path());
    let name = "vor dem\n'Umbau' é";
    let (code, text) = atollctl(&["snapshot", "create", &url, name]);
    assert!(
        code == Some(0) && text.contains("vor dem\\n'Umbau' é") && text.contains("1 files, 12 B"),
        "{text}"
    );
    let (code, text) = atollctl(&["snapshot", "create", &url, name]);
    assert!(code == Some(1) && text.contains("already"), "{code:?} {text}");
    let (code, text) = atollctl(&["snapshot", "list", &url, "--json"]);
    let all: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert!(code == Some(0) && all[0]["name"] == name && all[0]["kind"] == "snapshot", "{text}");
    assert!(all[0]["shared_bytes"] == 12 && all[0]["alone_bytes"] == 0, "{text}");
    let (code, text) = atollctl(&["snapshot", "drop", &url, name]);
    assert!(code == Some(1) && text.contains("--yes"), "nobody can be asked: {code:?} {text}");
    let (code, text) = atollctl(&["snapshot", "drop", "--yes", &url, "another"]);
    assert!(code == Some(1) && text.contains("no snapshot"), "{code:?} {text}");
    let (code, text) = atollctl(&["snapshot", "drop", "--yes", &url, name]);
    assert!(code == Some(0) && text.contains("dropped"), "{code:?} {text}");
    assert_eq!(atollctl(&["snapshot", "list", &url, "--json"]), (Some(0), "[]\n".to_owned()));
}

#[test]
fn a_clone_is_made_beside_its_parent_and_reads_its_files() {
    let dir = tempfile::tempdir().unwrap();
    let url = database(dir.path());
    let copy = format!("file://{}", dir.path().join("a copy").display());
    let (code, text) = atollctl(&["clone", &url, &copy]);
    assert!(
        code == Some(0) && text.contains("1 table files, 12 B") && text.contains("atoll_url="),
        "{code:?} {text}"
    );
    let (code, text) = atollctl(&["verify", "--deep", &copy]);
    assert!(code == Some(0) && text.contains("12 B read"), "{code:?} {text}");
    assert!(!dir.path().join("a copy/sst").exists());
    let (_, text) = atollctl(&["snapshot", "list", &url]);
    assert!(text.contains("clone") && text.contains(&copy), "{text}");
    let (code, text) = atollctl(&["clone", &url, &copy]);
    assert!(code == Some(1) && text.contains("holds a database"), "{code:?} {text}");
    let (code, text) = atollctl(&["release", &copy]);
    assert!(code == Some(1) && text.contains("still reads"), "{code:?} {text}");
    assert!(atollctl(&["status", &copy]).1.contains("cloned"));
}

/// Clones the database at `url` to `clone`, which expires at `expires_s`.
fn make_clone(url: &str, clone: &str, expires_s: u64) {
    let bucket = |url: &str| {
        let config = StoreConfig { url: url.to_owned(), ..StoreConfig::default() };
        client::connect(&config, Arc::default()).unwrap()
    };
    let request = CloneRequest {
        past: None,
        place: clone.to_owned(),
        creator: "tester".to_owned(),
        discards_unfinished: false,
        expires_s: Some(expires_s),
    };
    let made = Inspector::new(bucket(url));
    let child = bucket(clone);
    tokio::runtime::Runtime::new().unwrap().block_on(made.clone_to(&child, &request)).unwrap();
}

#[test]
fn clones_are_listed_and_removed_when_their_time_is_over() {
    let dir = tempfile::tempdir().unwrap();
    let url = database(dir.path());
    let place = |name: &str| format!("file://{}", dir.path().join(name).display());
    let [kept, expired, gone] = ["kept", "expired", "gone"].map(place);
    let (code, text) = atollctl(&["clone", &url, &kept, "--expires", "2020-01-31"]);
    assert!(code == Some(1) && text.contains("2020-01-31") && text.contains("is over"), "{code:?} {text}");
    assert_eq!(atollctl(&["clone", &url, &kept, "--expires", "2999-01-31"]).0, Some(0));
    make_clone(&url, &expired, 1);
    make_clone(&url, &gone, 1);
    fs::remove_dir_all(dir.path().join("gone")).unwrap();
    let (code, text) = atollctl(&["clone", "list", &url]);
    assert!(code == Some(0) && text.contains(&kept) && text.contains("2999-01-31"), "{code:?} {text}");
    assert!(text.contains(&format!("unknown: {gone}: ")), "{text}");
    assert_eq!(text.matches("is over").count(), 2, "{text}");
    let (code, text) = atollctl(&["clone", "drop-expired", &url]);
    assert!(code == Some(1) && text.contains("--yes"), "nobody can be asked: {code:?} {text}");
    let (code, text) = atollctl(&["clone", "drop-expired", &url, "--yes"]);
    assert!(code == Some(1) && text.contains(&format!("removed {expired}")), "{code:?} {text}");
    assert!(
        text.contains(&format!("{gone} stays: it is not there")) && !dir.path().join("gone").exists(),
        "{text}"
    );
    assert!(!dir.path().join("expired/db.json").exists() && dir.path().join("kept/db.json").exists());
    let (_, text) = atollctl(&["--json", "clone", "list", &url]);
    let left: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert!(left[0]["now"]["shared_bytes"] == 12 && left[0]["now"]["own_bytes"] == 0, "{text}");
    assert!(left[1]["now"].is_null() && left[1]["unread"] != "", "{text}");
    let places: Vec<_> =
        left.as_array().unwrap().iter().map(|clone| clone["name"].as_str().unwrap()).collect();
    assert_eq!(places, [kept, gone], "the pin of the clone that others have deleted is left");
}

#[test]
fn a_replica_is_seeded_and_its_statements_are_written() {
    let dir = tempfile::tempdir().unwrap();
    let url = database(dir.path());
    let place = |name: &str| format!("file://{}", dir.path().join(name).display());
    let file = dir.path().join("replica.sql").display().to_string();
    let (code, text) = atollctl(&["seed", &url, &place("one"), "--host", "db1", "--sql", &file]);
    let written = fs::read_to_string(&file).unwrap();
    assert!(code == Some(0) && text.contains("1 table files, 12 B") && text.ends_with(&written), "{text}");
    assert!(
        written.contains("SET GLOBAL gtid_slave_pos = '';\nCHANGE MASTER TO MASTER_HOST = 'db1'"),
        "{written}"
    );
    let (code, text) = atollctl(&["seed", &url, &place("two"), "--sql", &file]);
    assert!(
        code == Some(1)
            && text.contains("exists; nothing was done")
            && !dir.path().join("two/db.json").exists()
    );
    let (code, text) = atollctl(&["seed", &url, &place("two"), "--sql", "-"]);
    assert!(
        code == Some(0) && text.starts_with("-- 1. Start the replica") && text.ends_with("START SLAVE;\n")
    );
    let (code, text) = atollctl(&["seed", &url, &place("two")]);
    assert!(code == Some(1) && text.contains("holds a database"), "{code:?} {text}");
    fs::remove_file(dir.path().join("two/db.json")).unwrap();
    let (code, text) = atollctl(&["seed", &url, &place("two")]);
    assert!(code == Some(1) && text.contains("--discard-unfinished"), "{code:?} {text}");
    assert_eq!(atollctl(&["seed", &url, &place("two"), "--discard-unfinished"]).0, Some(0));
    let (_, text) = atollctl(&["status", &place("two")]);
    assert!(
        text.contains("shares     1 files, 12 B, of other databases; 0 files, 0 B, are its own"),
        "{text}"
    );
}

#[test]
fn a_replica_is_seeded_again_only_from_its_own_parent() {
    let dir = tempfile::tempdir().unwrap();
    let url = database(dir.path());
    let [replica, next] =
        ["replica", "next"].map(|name| format!("file://{}", dir.path().join(name).display()));
    assert_eq!(atollctl(&["seed", &url, &replica]).0, Some(0));
    assert_eq!(atollctl(&["seed", &replica, &next]).0, Some(0));
    let (code, text) = atollctl(&["seed", "--again", &replica, &url, "--yes"]);
    assert!(code == Some(1) && text.contains("is no clone"), "{code:?} {text}");
    let (code, text) = atollctl(&["seed", "--again", &url, &next, "--yes"]);
    assert!(code == Some(1) && text.contains("is a clone of"), "{code:?} {text}");
    let (code, text) = atollctl(&["seed", "--again", &url, &replica, "--yes"]);
    assert!(code == Some(1) && text.contains("reads its files"), "{code:?} {text}");
    let (code, text) = atollctl(&["seed", "--again", &replica, &next]);
    assert!(code == Some(1) && text.contains("give --yes"), "nobody can be asked: {code:?} {text}");
    let (code, text) = atollctl(&["seed", "--again", &replica, &next, "--yes"]);
    assert!(code == Some(0) && text.contains("-- 1. Move #atoll"), "{code:?} {text}");
    assert_eq!(atollctl(&["verify", "--deep", &next]).0, Some(0));
}

#[test]
fn a_database_whose_commits_have_no_gtid_seeds_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let commit = NotedCommit { sequence: 1, time_us: 1, gtid: None, binlog: None };
    let url = database_with(dir.path(), Some(commit));
    let replica = format!("file://{}", dir.path().join("replica").display());
    let (code, text) = atollctl(&["seed", &url, &replica]);
    assert!(code == Some(1) && text.contains("Set log_bin"), "{code:?} {text}");
    assert!(!dir.path().join("replica/db.json").exists());
    assert_eq!(atollctl(&["snapshot", "list", &url, "--json"]), (Some(0), "[]\n".to_owned()));
}

#[test]
fn a_materialized_clone_needs_no_parent() {
    let dir = tempfile::tempdir().unwrap();
    let url = database(dir.path());
    let clone = format!("file://{}", dir.path().join("clone").display());
    assert_eq!(atollctl(&["clone", &url, &clone]).0, Some(0));
    let (code, text) = atollctl(&["materialize", &url, "--yes"]);
    assert!(code == Some(1) && text.contains("no clone"), "{code:?} {text}");
    let (code, text) = atollctl(&["materialize", &clone]);
    assert!(
        code == Some(1) && text.contains("1 table files, 12 B") && text.contains("--yes"),
        "{code:?} {text}"
    );
    let (code, text) = atollctl(&["materialize", &clone, "--yes"]);
    assert!(code == Some(0) && text.contains("copied 1 table files, 12 B"), "{code:?} {text}");
    fs::remove_dir_all(dir.path().join("bucket")).unwrap();
    let (code, text) = atollctl(&["verify", "--restore", &clone]);
    assert!(code == Some(0) && text.contains("1 table files read (12 B)"), "{code:?} {text}");
}

#[test]
fn a_copy_in_another_place_is_made_kept_in_step_and_proved() {
    let dir = tempfile::tempdir().unwrap();
    let url = database(dir.path());
    let copy = format!("file://{}", dir.path().join("copy").display());
    let (code, text) = atollctl(&["copy", &url, &copy, "--limit-mib-per-second", "5"]);
    assert!(code == Some(0) && text.contains("copied 1 table files, 12 B"), "{code:?} {text}");
    let (code, text) = atollctl(&["copy", &url, &copy]);
    assert!(code == Some(0) && text.contains("up to date already"), "{code:?} {text}");
    assert_eq!(atollctl(&["snapshot", "list", &url, "--json"]), (Some(0), "[]\n".to_owned()));
    let (code, text) = atollctl(&["--json", "verify", "--restore", &copy]);
    assert!(code == Some(0) && text.contains("\"is_restorable\": true"), "{code:?} {text}");
    fs::remove_dir_all(dir.path().join("copy/sst")).unwrap();
    let (code, text) = atollctl(&["verify", "--restore", &copy]);
    assert!(code == Some(1) && text.contains("PROBLEM"), "{code:?} {text}");
    let proved = fs::read_to_string(dir.path().join("copy/hint/proved")).unwrap();
    assert!(proved.contains("\"is_restorable\": false"), "{proved}");
    let (code, text) = atollctl(&["copy", &copy, &url]);
    assert!(code == Some(1) && text.contains("no copy of"), "{code:?} {text}");
}

#[test]
fn a_database_is_removed_when_nobody_needs_it_and_the_user_agrees() {
    let dir = tempfile::tempdir().unwrap();
    let url = database(dir.path());
    let clone = format!("file://{}", dir.path().join("clone").display());
    assert_eq!(atollctl(&["clone", &url, &clone]).0, Some(0));
    let (code, text) = atollctl(&["reset", &clone, "--yes"]);
    assert!(code == Some(0) && text.contains("made database") && text.contains("#atoll"), "{code:?} {text}");
    let (code, text) = atollctl(&["reset", &url, "--yes"]);
    assert!(code == Some(1) && text.contains("is no clone"), "{code:?} {text}");
    assert_eq!(atollctl(&["snapshot", "create", &clone, "s"]).0, Some(0));
    let (code, text) = atollctl(&["drop", &url, "--yes"]);
    assert!(code == Some(1) && text.contains("reads its files") && text.contains(&clone), "{code:?} {text}");
    let (code, text) = atollctl(&["drop", &clone]);
    assert!(code == Some(1) && text.contains("with 1 snapshots ('s')") && text.contains("--yes"), "{text}");
    assert_eq!(atollctl(&["verify", "--deep", &clone]).0, Some(0), "nothing was deleted");
    let (code, text) = atollctl(&["drop", &clone, "--yes"]);
    assert!(code == Some(0) && text.contains("removed") && text.contains("released in"), "{code:?} {text}");
    let (code, text) = atollctl(&["drop", &clone, "--yes"]);
    assert!(code == Some(2) && text.contains("no Atoll database"), "{code:?} {text}");
    assert_eq!(atollctl(&["verify", "--deep", &url]).0, Some(0));
    assert_eq!(atollctl(&["drop", &url, "--yes"]).0, Some(0));
    let left = atollctl(&["status", &url]);
    assert!(left.0 == Some(2) && left.1.contains("no Atoll database"), "{left:?}");
}

#[test]
fn a_copy_says_what_it_does_not_have() {
    let dir = tempfile::tempdir().unwrap();
    let url = database(dir.path());
    let copy = format!("file://{}", dir.path().join("copy").display());
    let (code, text) = atollctl(&["copy", &url, &copy]);
    assert!(code == Some(0) && !text.contains("not in the copy"), "{code:?} {text}");
    for name in ["a", "b"] {
        assert_eq!(atollctl(&["snapshot", "create", &url, name]).0, Some(0));
    }
    assert_eq!(atollctl(&["snapshot", "protect", &url, "b", "--until", "2126-01-31"]).0, Some(0));
    let (code, text) = atollctl(&["copy", &url, &copy]);
    assert!(code == Some(0) && text.contains("2 snapshots ('a', 'b'), 1 of them protected"), "{text}");
    assert!(!text.contains("the history"), "{text}");
    let (_, text) = atollctl(&["--json", "copy", &url, &copy]);
    let told: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(told["left_behind"]["protected_snapshots"][0], "b", "{text}");
    // What the text advises works.
    let other = format!("file://{}", dir.path().join("other").display());
    assert_eq!(atollctl(&["clone", &url, &other, "--snapshot", "b"]).0, Some(0));
}

#[test]
fn a_protected_snapshot_is_kept() {
    let dir = tempfile::tempdir().unwrap();
    let url = database(dir.path());
    assert_eq!(atollctl(&["snapshot", "create", &url, "s"]).0, Some(0));
    let (code, text) = atollctl(&["snapshot", "protect", &url, "s", "--until", "2126-01-31"]);
    assert!(code == Some(0) && text.contains("until 2126-01-31 00:00:00 UTC"), "{code:?} {text}");
    assert!(atollctl(&["snapshot", "list", &url]).1.contains("2126-01-31"));
    let (code, text) = atollctl(&["snapshot", "drop", &url, "s", "--yes"]);
    assert!(code == Some(1) && text.contains("is protected until"), "{code:?} {text}");
    let (code, text) = atollctl(&["snapshot", "protect", &url, "s", "--until", "2020-01-31"]);
    assert!(code == Some(1) && text.contains("is over"), "{code:?} {text}");
}

#[test]
fn what_cannot_be_looked_at_is_said_with_status_2() {
    let dir = tempfile::tempdir().unwrap();
    let empty = format!("file://{}", dir.path().display());
    let commands: [&[&str]; 11] = [
        &["status"],
        &["ls"],
        &["roots"],
        &["commits"],
        &["verify"],
        &["verify", "--deep"],
        &["verify", "--all"],
        &["fsck"],
        &["gc"],
        &["gc", "--resume"],
        &["du"],
    ];
    for command in commands {
        let (code, text) = atollctl(&[command, &[empty.as_str()]].concat());
        assert!(code == Some(2) && text.contains("no Atoll database"), "{command:?}: {code:?} {text}");
    }
    let (code, text) = atollctl(&["status", "ftp://x"]);
    assert!(code == Some(2) && text.contains("s3://bucket/prefix"), "{code:?} {text}");
    let (code, text) = atollctl(&["doctor", &empty]);
    assert!(code == Some(0) && text.contains("create-only writes work"), "{code:?} {text}");
    let (code, text) = atollctl(&["doctor", "file:///nonexistent/bucket"]);
    assert!(code == Some(1) && text.contains("no directory"), "{code:?} {text}");
}

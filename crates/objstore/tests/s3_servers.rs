//! Goal:   what the object layer assumes about S3 is true of two independent servers: create-only PUT,
//!         listings, multipart uploads, ranges, and error answers that lead to messages a DBA can act on.
//! Method: starts MinIO and versitygw from ATOLL_TEST_MINIO and ATOLL_TEST_VERSITYGW (paths of binaries) on
//!         loopback ports of their own. Without these variables the tests say so on stderr and pass.

#![allow(clippy::unwrap_used, clippy::panic)] // A test says so by failing.

use objstore::bucket::fill_random;
use objstore::{Bucket, Code, PIECE_BYTES, SlotOutcome, Stats, StoreConfig, StoreError, client};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

const KEY: &str = "atollkey";
const SECRET: &str = "atollsecretsecret";

/// A running S3 server; it is killed when the test ends.
struct Server {
    child: Child,
    port: u16,
    _folder: tempfile::TempDir,
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Server {
    fn start(variable: &str, arguments: fn(&str, &str) -> Vec<String>) -> Option<Self> {
        let Ok(binary) = std::env::var(variable) else {
            eprintln!("SKIPPED: {variable} does not name an S3 server, nothing was tested");
            return None;
        };
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir(folder.path().join("atoll-bucket")).unwrap();
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let child = Command::new(&binary)
            .args(arguments(folder.path().to_str().unwrap(), &format!("127.0.0.1:{port}")))
            .env("MINIO_ROOT_USER", KEY)
            .env("MINIO_ROOT_PASSWORD", SECRET)
            .env("HOME", folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|e| panic!("{variable}={binary} cannot be started: {e}"));
        let server = Self { child, port, _folder: folder };
        for _ in 0..300 {
            if TcpStream::connect(("127.0.0.1", server.port)).is_ok() {
                return Some(server);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("{binary} does not listen");
    }

    fn config(&self) -> StoreConfig {
        StoreConfig {
            url: "s3://atoll-bucket/some/prefix".to_owned(),
            endpoint: format!("127.0.0.1:{}", self.port),
            access_key: KEY.to_owned(),
            secret_key: SECRET.to_owned(),
            request_timeout: Duration::from_secs(10),
            ..StoreConfig::default()
        }
    }

    fn bucket(&self) -> Bucket {
        client::connect(&self.config(), Arc::new(Stats::default())).unwrap()
    }
}

fn minio() -> Option<Server> {
    Server::start("ATOLL_TEST_MINIO", |folder, address| {
        ["server", folder, "--address", address, "--quiet"].map(str::to_owned).to_vec()
    })
}

fn versitygw() -> Option<Server> {
    Server::start("ATOLL_TEST_VERSITYGW", |folder, address| {
        ["--access", KEY, "--secret", SECRET, "--port", address, "posix", folder].map(str::to_owned).to_vec()
    })
}

fn slot(text: &str) -> (bytes::Bytes, [u8; 16]) {
    let mut nonce = [0; 16];
    fill_random(&mut nonce).unwrap();
    ([nonce.as_slice(), text.as_bytes()].concat().into(), nonce)
}

async fn wait_until_ready(bucket: &Bucket) {
    for _ in 0..100 {
        if bucket.list("hint", None).await.is_ok() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    panic!("the server never becomes ready: {:?}", bucket.list("hint", None).await);
}

/// Sends every kind of request to a real server and checks the answers on which the protocol relies.
async fn contract(server: &Server) {
    let bucket = server.bucket();
    wait_until_ready(&bucket).await;
    bucket.probe_conditional_put("hint/probe-1").await.unwrap();

    let (mine, nonce) = slot("first");
    let (late, late_nonce) = slot("second");
    assert_eq!(bucket.create_slot("root/1", mine.clone(), &nonce).await.unwrap(), SlotOutcome::Mine);
    assert_eq!(bucket.create_slot("root/1", mine.clone(), &nonce).await.unwrap(), SlotOutcome::Mine);
    let lost = bucket.create_slot("root/1", late, &late_nonce).await.unwrap();
    assert_eq!(lost, SlotOutcome::Lost(mine.clone()));

    assert!(bucket.get("root/2").await.unwrap_err().is_not_found());
    assert!(bucket.head("root/2").await.unwrap_err().is_not_found());
    bucket.delete("root/2").await.unwrap();
    assert_eq!(bucket.get_range("root/1", 16..21).await.unwrap(), "first");
    assert_eq!(bucket.get_range("root/1", 16..99).await.unwrap_err().code(), Code::Corruption);

    for n in 0..5 {
        let (bytes, nonce) = slot("x");
        bucket.create_slot(&format!("wal/7/{n:020}"), bytes, &nonce).await.unwrap();
    }
    let after = format!("wal/7/{:020}", 2);
    let listed = bucket.list("wal/7", Some(&after)).await.unwrap();
    let keys: Vec<_> = listed.iter().map(|o| o.key.as_str()).collect();
    assert_eq!(keys, [format!("wal/7/{:020}", 3), format!("wal/7/{:020}", 4)]);
    assert!(bucket.list("nothing", None).await.unwrap().is_empty());
    bucket.delete("root/1").await.unwrap();
    assert!(bucket.get("root/1").await.unwrap_err().is_not_found());
}

async fn racing_writers(server: &Server) {
    let bucket = server.bucket();
    wait_until_ready(&bucket).await;
    for round in 0..10 {
        let key = format!("root/{round:020}");
        let tries = (0..6).map(|_| {
            let (bucket, key) = (bucket.clone(), key.clone());
            tokio::spawn(async move {
                let (bytes, nonce) = slot("r");
                bucket.create_slot(&key, bytes, &nonce).await.unwrap()
            })
        });
        let outcomes = futures_util::future::join_all(tries).await;
        let winners = outcomes.iter().filter(|o| *o.as_ref().unwrap() == SlotOutcome::Mine).count();
        assert_eq!(winners, 1, "round {round}");
    }
}

async fn uploads(server: &Server) {
    let bucket = server.bucket();
    wait_until_ready(&bucket).await;
    let folder = tempfile::tempdir().unwrap();
    for (name, size) in [("empty", 0), ("small", 1000), ("large", 2 * PIECE_BYTES as usize + 12_345)] {
        let bytes: Vec<u8> = (0..size).map(|i| (i ^ (i >> 8) ^ (i >> 16)) as u8).collect();
        let path = folder.path().join(name);
        std::fs::write(&path, &bytes).unwrap();
        let key = format!("sst/00/1-{name}.sst");
        let done = bucket.put_file(&key, &path, &[("atoll-db", "uuid".to_owned())]).await.unwrap();
        assert_eq!((done.size, done.crc32c), (size as u64, objstore::crc::crc32c(&bytes)), "{name}");
        assert_eq!(bucket.head(&key).await.unwrap().size, size as u64, "{name}");
        assert!(bucket.get(&key).await.unwrap() == bytes, "{name} differs");
        bucket.put_file(&key, &path, &[]).await.unwrap();
    }
    let gone = bucket.put_file("sst/00/1-x.sst", &folder.path().join("gone"), &[]).await.unwrap_err();
    assert!(gone.is_not_found(), "{gone}");
}

/// Every kind of upload carries a checksum, and the server checks it.
async fn damaged_uploads(server: &Server) {
    let bucket = server.bucket();
    wait_until_ready(&bucket).await;
    let damaging = client::connect_damaging(&server.config(), Arc::new(Stats::default())).unwrap();
    assert!(damaging.refuses_damage("hint/damaged").await.unwrap());
    let (bytes, nonce) = slot("root");
    let error = damaging.create_slot("root/3", bytes, &nonce).await.unwrap_err();
    assert!(error.to_string().contains("damaged on their way"), "{error}");
    let folder = tempfile::tempdir().unwrap();
    for (name, size) in [("single", 1000), ("pieces", PIECE_BYTES as usize + 1000)] {
        let path = folder.path().join(name);
        std::fs::write(&path, vec![7; size]).unwrap();
        let error = damaging.put_file(&format!("sst/00/{name}"), &path, &[]).await.unwrap_err();
        assert!(error.to_string().contains("damaged on their way"), "{name}: {error}");
    }
    for folder in ["hint", "root", "sst"] {
        assert!(bucket.list(folder, None).await.unwrap().is_empty(), "{folder}");
    }
}

/// A failed upload leaves pieces, which are found and deleted. Returns how many uploads were listed.
async fn unfinished_uploads(server: &Server) -> usize {
    let bucket = server.bucket();
    wait_until_ready(&bucket).await;
    let damaging = client::connect_damaging(&server.config(), Arc::new(Stats::default())).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pieces");
    std::fs::write(&path, vec![7; PIECE_BYTES as usize + 1000]).unwrap();
    let key = "sst/00/00000000000000000001-7.sst";
    damaging.put_file(key, &path, &[]).await.unwrap_err();
    let found = bucket.unfinished_uploads().await.unwrap();
    for upload in &found {
        assert_eq!(upload.key, key);
        bucket.abort_upload(upload).await.unwrap();
        bucket.abort_upload(upload).await.unwrap();
    }
    assert_eq!(bucket.unfinished_uploads().await.unwrap(), []);
    found.len()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pieces_of_failed_uploads_are_found_on_versitygw() {
    if let Some(server) = versitygw() {
        assert_eq!(unfinished_uploads(&server).await, 1);
    }
}

/// MinIO lists unfinished uploads only for an exact name, so it finds none here. The test checks that this is
/// no error.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn asking_minio_for_unfinished_uploads_is_no_error() {
    if let Some(server) = minio() {
        unfinished_uploads(&server).await;
    }
}

/// Connects with a changed configuration and returns the error of the first request.
async fn refused(server: &Server, change: impl Fn(&mut StoreConfig)) -> StoreError {
    let mut config = server.config();
    config.request_timeout = Duration::from_secs(2);
    change(&mut config);
    let bucket = client::connect(&config, Arc::new(Stats::default())).unwrap();
    let (bytes, nonce) = slot("x");
    bucket.create_slot("epoch/1", bytes, &nonce).await.unwrap_err()
}

async fn messages(server: &Server) {
    wait_until_ready(&server.bucket()).await;
    let key = refused(server, |c| c.access_key = "wrongwrong".to_owned()).await;
    assert!(key.to_string().contains("atoll_s3_access_key"), "{key}");
    assert_eq!(key.code(), Code::Unavailable, "another key may work later: {key}");

    let secret = refused(server, |c| c.secret_key = "wrongwrong".to_owned()).await;
    assert!(secret.to_string().contains("atoll_s3_secret_key"), "{secret}");

    let bucket = refused(server, |c| c.url = "s3://no-such-bucket/x".to_owned()).await;
    assert!(bucket.to_string().contains("no bucket of this name"), "{bucket}");
    assert_eq!(bucket.code(), Code::Unavailable, "{bucket}");

    let closed = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let endpoint = refused(server, |c| c.endpoint = format!("127.0.0.1:{closed}")).await;
    assert!(endpoint.to_string().contains("atoll_s3_endpoint"), "{endpoint}");
    assert_eq!(endpoint.code(), Code::Unavailable);

    let tls = refused(server, |c| c.endpoint = format!("https://127.0.0.1:{}", server.port)).await;
    assert!(tls.to_string().contains("http://"), "{tls}");
    eprintln!("{key}\n{secret}\n{endpoint}\n{tls}");
}

macro_rules! on_both {
    ($($name:ident => $suite:ident;)*) => { $(
        mod $name {
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn minio() {
                if let Some(server) = super::minio() {
                    super::$suite(&server).await;
                }
            }
            #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn versitygw() {
                if let Some(server) = super::versitygw() {
                    super::$suite(&server).await;
                }
            }
        }
    )* };
}

on_both! {
    every_request_kind_works => contract;
    one_writer_wins_each_slot => racing_writers;
    files_arrive_whole => uploads;
    damaged_uploads_are_refused => damaged_uploads;
    refusals_name_the_setting_to_change => messages;
}

/// Makes a certificate authority and a certificate for 127.0.0.1 signed by it; returns (ca, certificate,
/// key).
fn certificates(folder: &std::path::Path) -> Option<[String; 3]> {
    let script = "openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.crt -days 2 -subj /CN=test-ca && \
         openssl req -newkey rsa:2048 -nodes -keyout server.key -out server.csr -subj /CN=127.0.0.1 && \
         printf 'subjectAltName=IP:127.0.0.1' > san && \
         openssl x509 -req -in server.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 2 -extfile san -out server.crt";
    let made = Command::new("sh").args(["-c", script]).current_dir(folder).output().ok()?;
    if !made.status.success() {
        eprintln!("SKIPPED: openssl cannot make certificates");
        return None;
    }
    Some(["ca.crt", "server.crt", "server.key"].map(|name| folder.join(name).to_str().unwrap().to_owned()))
}

/// https works when the certificate authority is known. When it is unknown, the error says what to do.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn https_needs_a_known_authority() {
    let Ok(binary) = std::env::var("ATOLL_TEST_VERSITYGW") else {
        eprintln!("SKIPPED: ATOLL_TEST_VERSITYGW does not name an S3 server, nothing was tested");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(folder.path().join("data/atoll-bucket")).unwrap();
    let Some([ca, certificate, key]) = certificates(folder.path()) else { return };
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let child = Command::new(&binary)
        .args(["--access", KEY, "--secret", SECRET, "--port", &format!("127.0.0.1:{port}")])
        .args(["--cert", &certificate, "--key", &key, "posix"])
        .arg(folder.path().join("data"))
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let server = Server { child, port, _folder: folder };
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        std::thread::sleep(Duration::from_millis(50));
    }
    let endpoint = format!("https://127.0.0.1:{port}");
    let unknown = refused(&server, |c| c.endpoint = endpoint.clone()).await;
    assert!(unknown.to_string().contains("certificate authority"), "{unknown}");
    eprintln!("{unknown}");
    let unreadable = |file: &str| {
        let config = StoreConfig { ca_file: file.to_owned(), endpoint: endpoint.clone(), ..server.config() };
        client::connect(&config, Arc::new(Stats::default())).unwrap_err().to_string()
    };
    assert!(
        unreadable("/nonexistent/ca.crt").contains("atoll_s3_ca_file"),
        "{}",
        unreadable("/nonexistent/ca.crt")
    );
    assert!(unreadable(&key).contains("holds no certificate"), "{}", unreadable(&key));
    let config = StoreConfig { ca_file: ca.clone(), endpoint: endpoint.clone(), ..server.config() };
    let bucket = client::connect(&config, Arc::new(Stats::default())).unwrap();
    assert!(bucket.list("hint", None).await.unwrap().is_empty(), "a named authority is trusted");
    // The authorities are read from the environment. A test must not change the environment of other tests,
    // so a child process with another environment is started.
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "https_child", "--nocapture"])
        .env("SSL_CERT_FILE", ca)
        .env("ATOLL_TEST_HTTPS_ENDPOINT", endpoint)
        .output()
        .unwrap();
    assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stderr));
}

/// The part of `https_needs_a_known_authority` in a child process, which trusts the authority; does nothing
/// on its own.
#[tokio::test]
async fn https_child() {
    let Ok(endpoint) = std::env::var("ATOLL_TEST_HTTPS_ENDPOINT") else { return };
    let config = StoreConfig {
        url: "s3://atoll-bucket/tls".to_owned(),
        endpoint,
        access_key: KEY.to_owned(),
        secret_key: SECRET.to_owned(),
        ..StoreConfig::default()
    };
    let bucket = client::connect(&config, Arc::new(Stats::default())).unwrap();
    let (bytes, nonce) = slot("over TLS");
    assert_eq!(bucket.create_slot("root/1", bytes.clone(), &nonce).await.unwrap(), SlotOutcome::Mine);
    assert_eq!(bucket.get("root/1").await.unwrap(), bytes);
}

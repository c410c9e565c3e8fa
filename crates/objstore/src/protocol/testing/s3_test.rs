//! Goal:   the protocol holds on real S3 servers as it does in memory: claims, roots, WAL, restore, trimming.
//! Method: the random histories of `model_test` against MinIO and versitygw, started from ATOLL_TEST_MINIO
//!         and ATOLL_TEST_VERSITYGW (paths of binaries) on loopback ports. Without these variables nothing is
//!         tested, and the tests say so.

use crate::config::StoreConfig;
use crate::protocol::inspection::inspect::Inspector;
use crate::protocol::testing::model_test::run;
use crate::protocol::testing::test_db::{block, quick, scratch};
use crate::protocol::testing::test_random::Random;
use crate::requests::client;
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

const KEY: &str = "atollkey";
const SECRET: &str = "atollsecretsecret";

struct Server(Child);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn histories(variable: &str, arguments: impl Fn(&str, &str) -> Vec<String>) {
    let Ok(binary) = std::env::var(variable) else {
        eprintln!("SKIPPED: {variable} does not name an S3 server, nothing was tested");
        return;
    };
    let folder = scratch();
    std::fs::create_dir(folder.path().join("atoll-bucket")).unwrap();
    let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let address = format!("127.0.0.1:{port}");
    let mut command = Command::new(&binary);
    command.args(arguments(folder.path().to_str().unwrap(), &address));
    command.env("MINIO_ROOT_USER", KEY).env("MINIO_ROOT_PASSWORD", SECRET).env("HOME", folder.path());
    let _server = Server(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    let is_up = || TcpStream::connect(("127.0.0.1", port)).is_ok();
    assert!(
        (0..1200).any(|_| is_up() || {
            std::thread::sleep(Duration::from_millis(50));
            false
        }),
        "{binary} is down"
    );
    let config = StoreConfig {
        url: "s3://atoll-bucket/some/prefix".to_owned(),
        endpoint: address,
        access_key: KEY.to_owned(),
        secret_key: SECRET.to_owned(),
        ..StoreConfig::default()
    };
    let bucket = client::connect(&config, Arc::default()).unwrap();
    // The server listens before it can answer requests.
    let is_ready = || block(bucket.list("hint", None)).is_ok();
    assert!((0..20).any(|_| is_ready()), "{binary} does not become ready");
    run(&mut Random::from_environment(variable), &bucket, 6, &quick(), 80);
    let report = block(Inspector::new(bucket).verify(true, |_, _| {})).unwrap();
    assert!(report.problems.is_empty(), "{:?}", report.problems);
}

#[test]
fn histories_on_minio() {
    histories("ATOLL_TEST_MINIO", |folder, address| {
        ["server", folder, "--address", address, "--quiet"].map(str::to_owned).to_vec()
    });
}

#[test]
fn histories_on_versitygw() {
    histories("ATOLL_TEST_VERSITYGW", |folder, address| {
        ["--access", KEY, "--secret", SECRET, "--port", address, "posix", folder].map(str::to_owned).to_vec()
    });
}

//! Goal:   a bucket that keeps its promises is certified and left clean; one that breaks any of them is not.
//! Method: buckets in memory whose store breaks one promise each. The same checks run against real S3 servers
//!         in tests/s3_servers.rs.

use super::*;
use crate::requests::fault::{Fault, faulty_bucket};
use crate::requests::liar::{Lie, lying_bucket};

fn few() -> CertifyOptions {
    CertifyOptions { rounds: 3, writers: 8, objects: 1010 }
}

fn verdict_of(certificate: &Certificate, property: &str) -> Verdict {
    certificate.findings.iter().find(|finding| finding.property == property).unwrap().verdict
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_good_bucket_is_certified_and_left_clean() {
    let bucket = Bucket::in_memory();
    let certificate = certify(&bucket, None, &few()).await.unwrap();
    assert_eq!(certificate.fitness, Fitness::Fit, "{certificate:?}");
    assert!(bucket.list("", None).await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_directory_is_certified() {
    let dir = tempfile::tempdir().unwrap();
    let config = crate::StoreConfig {
        url: format!("file://{}", dir.path().display()),
        ..crate::StoreConfig::default()
    };
    let bucket = crate::requests::client::connect(&config, std::sync::Arc::default()).unwrap();
    let options = CertifyOptions { objects: 100, ..few() }; // A directory syncs each object.
    let certificate = certify(&bucket, None, &options).await.unwrap();
    assert_eq!(certificate.fitness, Fitness::Fit, "{certificate:?}");
    assert!(bucket.list("", None).await.unwrap().is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_broken_promise_is_found() {
    for (lie, property) in [
        (Lie::Overwrites, "create-only PUT, one after another"),
        (Lie::LooksThenWrites, "create-only PUT, in a race"),
        (Lie::ListsLate, "read after write"),
        (Lie::ListsInOtherOrder, "listing"),
        (Lie::ForgetsAPage, "listing"),
        (Lie::IgnoresStartAfter, "listing"),
        (Lie::IgnoresRanges, "ranged reads"),
        (Lie::KeepsDeleted, "deletion"),
        (Lie::MixesPieces, "multipart upload"),
    ] {
        let certificate = certify(&lying_bucket(lie), None, &few()).await.unwrap();
        assert_eq!(certificate.fitness, Fitness::Unfit, "{lie:?}: {certificate:?}");
        assert_eq!(verdict_of(&certificate, property), Verdict::Failed, "{lie:?}: {certificate:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slow_down_is_repeated_and_counted() {
    let (bucket, faults) = faulty_bucket();
    for position in (5..200).step_by(7) {
        faults.hurt(position, Fault::Busy);
    }
    let certificate = certify(&bucket, None, &few()).await.unwrap();
    assert_eq!(certificate.fitness, Fitness::Fit, "{certificate:?}");
    assert_eq!(verdict_of(&certificate, "throttling"), Verdict::Ok, "{certificate:?}");
}

#[tokio::test]
async fn silence_is_no_verdict() {
    let (bucket, faults) = faulty_bucket();
    faults.outage(true);
    assert!(certify(&bucket, None, &few()).await.is_err());
    faults.outage(false);
    let findings =
        [finding("a", Ok(ok("fine"))), finding("b", Err(StoreError::Unavailable("no answer".to_owned())))];
    assert_eq!(fitness(&findings), Fitness::Unknown);
}

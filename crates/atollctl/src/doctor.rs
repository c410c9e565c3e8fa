//! `atollctl doctor`: makes the requests that a server makes, step by step. At the first failure it says what
//! the DBA can do.
//!
//! Writes only below `hint/doctor/` and deletes what it wrote. When a step fails, the steps that need its
//! result are skipped.

use crate::output::{Printer, Table};
use bytes::Bytes;
use objstore::protocol::Inspector;
use objstore::{Bucket, StoreConfig, StoreError, client};
use serde::Serialize;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

/// A greater difference between the clocks of this machine and of the bucket gives a warning. At 15 minutes
/// S3 refuses the signatures of requests.
const SKEW_MAX: Duration = Duration::from_secs(60);
/// A longer round trip to the bucket gives a warning, because with `atoll_durability=sync` each commit waits
/// for a round trip.
const ROUND_TRIP_SLOW: Duration = Duration::from_millis(100);
const ROUND_TRIPS: u32 = 5;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verdict {
    Ok,
    Warning,
    Failed,
}

/// The result of one step, such as a listing, a test write or a comparison of the clocks.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Finding {
    pub(crate) step: &'static str,
    pub(crate) verdict: Verdict,
    pub(crate) text: String,
}

/// Takes all steps and prints their results. Returns true when no step failed; a step with a warning has not
/// failed.
pub(crate) async fn run(printer: &Printer, config: Result<StoreConfig, StoreError>) -> bool {
    let findings = match config.and_then(|config| Ok((client::connect(&config, Arc::default())?, config))) {
        Ok((bucket, config)) => {
            let mut findings = examine(&bucket).await;
            if !bucket.is_directory() && is_well(&findings) {
                findings.push(upload_checksum(client::connect_damaging(&config, Arc::default())).await);
            }
            findings
        }
        Err(error) => vec![failed("configuration", &error)],
    };
    let mut table = Table::new(&["step", "verdict", ""]);
    for finding in &findings {
        let verdict = match finding.verdict {
            Verdict::Ok => "ok",
            Verdict::Warning => "warning",
            Verdict::Failed => "FAILED",
        };
        table.row(&[finding.step.to_owned(), verdict.to_owned(), finding.text.clone()]);
    }
    printer.table_or_json(&table, &findings);
    is_well(&findings)
}

fn is_well(findings: &[Finding]) -> bool {
    findings.iter().all(|finding| finding.verdict != Verdict::Failed)
}

/// Takes all steps except the upload checksum, in the order in which a server makes the same requests.
pub(crate) async fn examine(bucket: &Bucket) -> Vec<Finding> {
    let mut findings = vec![ok("configuration", bucket.place().to_owned())];
    let key = probe_key();
    match bucket.list("hint/doctor", None).await {
        Ok(_) => findings.push(ok("list", "allowed".to_owned())),
        Err(error) => {
            findings.push(failed("list", &error));
            return findings;
        }
    }
    if let Err(error) = bucket.put(&key, Bytes::from_static(b"atollctl doctor")).await {
        findings.push(failed("write", &error));
        return findings;
    }
    findings.push(ok("write", "allowed".to_owned()));
    findings.push(read_back(bucket, &key).await);
    findings.push(clock(bucket, &key).await);
    findings.push(deletion(bucket.delete(&key).await));
    findings.push(match bucket.probe_create_only(&format!("{key}-probe")).await {
        Ok(_) => ok("conditional write", "create-only writes work".to_owned()),
        Err(error) => failed("conditional write", &error),
    });
    findings.push(database(bucket).await);
    findings
}

/// A server works without the right to delete, see disasters.md.
fn deletion(outcome: Result<(), StoreError>) -> Finding {
    match outcome {
        Ok(()) => ok("delete", "allowed".to_owned()),
        Err(StoreError::Refused(why)) => {
            let text = format!(
                "{why}. A server works without this right: it deletes nothing, and the bucket grows. What the doctor wrote stays \
                 below hint/doctor/"
            );
            Finding { step: "delete", verdict: Verdict::Warning, text }
        }
        Err(error) => failed("delete", &error),
    }
}

/// Sends an upload that is damaged on its way: the store must refuse it.
async fn upload_checksum(damaging: Result<Bucket, StoreError>) -> Finding {
    let step = "upload checksum";
    let refused = match damaging {
        Ok(bucket) => bucket.refuses_damage(&format!("{}-damaged", probe_key())).await,
        Err(error) => Err(error),
    };
    match refused {
        Ok(true) => ok(step, "an upload damaged on its way is refused".to_owned()),
        Ok(false) => {
            let text = "the bucket accepts uploads that were damaged on their way: only a later read finds the damage. Use \
                        https, a network and memory that check themselves, and atollctl verify --deep now and then"
                .to_owned();
            Finding { step, verdict: Verdict::Warning, text }
        }
        Err(error) => failed(step, &error),
    }
}

/// Reads the probe object `ROUND_TRIPS` times. The time of the fastest read counts as the round trip.
async fn read_back(bucket: &Bucket, key: &str) -> Finding {
    let mut fastest = Duration::MAX;
    for _ in 0..ROUND_TRIPS {
        let began = Instant::now();
        match bucket.get(key).await {
            Ok(bytes) if bytes == b"atollctl doctor"[..] => fastest = fastest.min(began.elapsed()),
            Ok(_) => {
                let text = "the bucket returned other bytes than were written: do not use it".to_owned();
                return Finding { step: "read", verdict: Verdict::Failed, text };
            }
            Err(error) => return failed("read", &error),
        }
    }
    let text = format!("round trip {:.1} ms", fastest.as_secs_f64() * 1000.0);
    if fastest > ROUND_TRIP_SLOW {
        let text = format!(
            "{text}: atoll_durability=sync will wait as long for each commit; use a nearer bucket or async"
        );
        return Finding { step: "read", verdict: Verdict::Warning, text };
    }
    ok("read", text)
}

/// Compares the time at which the bucket says that `key` was written with the clock of this machine.
async fn clock(bucket: &Bucket, key: &str) -> Finding {
    let there = match bucket.head(key).await {
        Ok(info) => info.last_modified,
        Err(error) => return failed("clock", &error),
    };
    let here = SystemTime::now();
    let skew = here.duration_since(there).unwrap_or_else(|e| e.duration());
    if skew > SKEW_MAX {
        let text = format!(
            "this machine and the bucket differ by {} s; S3 refuses requests at 900 s: set the time (NTP)",
            skew.as_secs()
        );
        return Finding { step: "clock", verdict: Verdict::Warning, text };
    }
    ok("clock", format!("differs by at most {} s", skew.as_secs() + 1))
}

async fn database(bucket: &Bucket) -> Finding {
    match Inspector::new(bucket.clone()).status().await {
        Ok(status) => {
            let published = status.root.map_or("nothing published yet".to_owned(), |root| {
                format!("newest root {}/{}", root.epoch, root.slot)
            });
            ok("database", format!("{}, {published}", status.db_uuid))
        }
        Err(error) if error.is_not_found() => {
            ok("database", "none under this prefix yet; a server that starts here creates one".to_owned())
        }
        Err(error) => failed("database", &error),
    }
}

fn ok(step: &'static str, text: String) -> Finding {
    Finding { step, verdict: Verdict::Ok, text }
}

fn failed(step: &'static str, error: &StoreError) -> Finding {
    Finding { step, verdict: Verdict::Failed, text: error.to_string() }
}

/// Returns a new name for a probe object at each call.
fn probe_key() -> String {
    let now = SystemTime::UNIX_EPOCH.elapsed().map_or(0, |age| age.as_nanos());
    format!("hint/doctor/{}-{now}", std::process::id())
}

#[cfg(test)]
mod tests {
    use super::*;
    use objstore::fault::{Fault, faulty_bucket};

    #[tokio::test]
    async fn a_good_bucket_passes_and_is_left_clean() {
        let bucket = Bucket::in_memory();
        let findings = examine(&bucket).await;
        assert!(findings.iter().all(|f| f.verdict == Verdict::Ok), "{findings:?}");
        assert!(bucket.list("", None).await.unwrap().is_empty());
    }

    #[tokio::test]
    async fn an_outage_is_a_failure_with_words() {
        let (bucket, faults) = faulty_bucket();
        faults.outage(true);
        let findings = examine(&bucket).await;
        let last = findings.last().unwrap();
        assert_eq!((last.step, last.verdict), ("list", Verdict::Failed));
        assert!(!last.text.is_empty());
    }

    #[tokio::test]
    async fn a_key_without_the_right_to_delete_is_a_warning_that_says_what_stays() {
        let (bucket, faults) = faulty_bucket();
        faults.refuse_deletes(true);
        let findings = examine(&bucket).await;
        let warned: Vec<_> = findings.iter().filter(|f| f.verdict != Verdict::Ok).collect();
        assert_eq!(
            warned.iter().map(|f| (f.step, f.verdict)).collect::<Vec<_>>(),
            [("delete", Verdict::Warning)]
        );
        assert!(warned[0].text.contains("hint/doctor/"), "{}", warned[0].text);
    }

    #[tokio::test]
    async fn a_single_lost_reply_is_not_a_failure() {
        for position in 0..12 {
            let (bucket, faults) = faulty_bucket();
            faults.hurt(position, Fault::LostReply);
            let findings = examine(&bucket).await;
            assert!(findings.iter().all(|f| f.verdict != Verdict::Failed), "{position}: {findings:?}");
        }
    }
}

//! Tests whether a provider has the properties that Atoll relies on, by requests whose answers would reveal a
//! missing property.
//!
//! Each property gives one [`Finding`]. All objects are written below `hint/certify/<random>/`, which the
//! protocol ignores, and are deleted at the end, so the tests can run while a server uses the bucket. Answers
//! "slow down" of a busy provider are counted.

mod listing;
mod reading;
mod slots;
mod uploads;

use crate::error::{Result, StoreError};
use crate::machine::fill_random;
use crate::requests::bucket::Bucket;
use crate::requests::retry::RetryPolicy;
use crate::stats::read;
use futures_util::{StreamExt, TryStreamExt};
use serde::Serialize;

/// How many requests are in flight at a time, in tests where their order does not matter.
const IN_FLIGHT: usize = 16;
/// The most attempts at one request. With the waits between them, a request outlasts up to 20 s of answers
/// "slow down".
const ATTEMPTS_MAX: u32 = 9;

/// The result of the test of one property. The test chooses it, and [`Fitness`] sums up all verdicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// The provider has the property.
    Ok,
    /// The text has a fact worth knowing: the provider lacks a property that Atoll does not need, or the test
    /// saw nothing.
    Note,
    /// The provider lacks the property. Atoll works, but with less protection of its data.
    Warning,
    /// The provider lacks the property, and Atoll would lose data.
    Failed,
    /// The test had no result, for example because the bucket did not answer.
    Unknown,
}

/// The result of the test of one property.
#[derive(Debug, Clone, Serialize)]
pub struct Finding {
    /// The name of the property.
    pub property: &'static str,
    /// Whether the provider has the property.
    pub verdict: Verdict,
    /// What was done and seen, for people.
    pub text: String,
}

/// Whether Atoll can use a bucket. `atollctl certify` makes its exit status from this.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Fitness {
    /// Atoll can use it: no property failed, and all were examined. Warnings are possible.
    Fit,
    /// Atoll must not use it: some property failed.
    Unfit,
    /// No property failed, but some could not be examined.
    Unknown,
}

/// The results for one bucket.
#[derive(Debug, Clone, Serialize)]
pub struct Certificate {
    /// The bucket and its endpoint, as text for people.
    pub place: String,
    /// Whether Atoll can use the bucket, from the verdicts of all properties.
    pub fitness: Fitness,
    /// One result for each property, in the order in which they were examined.
    pub findings: Vec<Finding>,
    /// How many requests were sent in all, repeated ones included.
    pub requests: u64,
}

/// How much `certify` tests. More rounds find rarer faults.
#[derive(Debug, Clone)]
pub struct CertifyOptions {
    /// The number of races. In a race, several writers create the same object at once. Each race has a name
    /// of its own.
    pub rounds: usize,
    /// The number of writers in each race.
    pub writers: usize,
    /// The number of objects that are written to test listings. A page of S3 has 1000, so more objects give
    /// several pages.
    pub objects: usize,
}

impl Default for CertifyOptions {
    /// The numbers come from a measurement with a faulty proxy that checks whether a name exists and writes 2
    /// ms later. The first race found the fault in ten of ten runs, though in two runs only two or three
    /// writers noticed. 24 races find shorter windows, too. 1,100 objects are two pages.
    fn default() -> Self {
        Self { rounds: 24, writers: 16, objects: 1100 }
    }
}

/// Examines `bucket`. `damaging` is the same bucket, connected by
/// [`crate::requests::client::connect_damaging`] with the same counters. It is None for a directory, because
/// no network can damage uploads there.
///
/// Errors: those of the first listing, when nothing could be examined because the bucket does not answer or
/// refuses the keys. A later error becomes a finding.
/// Requests: about 3,800 with the default options; 41 MB up, 88 MB down.
pub async fn certify(
    bucket: &Bucket,
    damaging: Option<&Bucket>,
    options: &CertifyOptions,
) -> Result<Certificate> {
    let policy = RetryPolicy { attempts_max: ATTEMPTS_MAX, ..bucket.policy().clone() };
    let damaging = damaging.map(|damaging| damaging.with_policy(policy.clone()));
    let bucket = &bucket.with_policy(policy);
    let mut random = [0; 8];
    fill_random(&mut random)?;
    let place = format!("hint/certify/{:016x}", u64::from_le_bytes(random));
    bucket.list(&place, None).await?;
    let mut findings = vec![
        finding("create-only PUT, one after another", slots::in_sequence(bucket, &place).await),
        finding("create-only PUT, in a race", slots::in_a_race(bucket, &place, options).await),
        finding("read after write", reading::after_write(bucket, &place).await),
        finding("ranged reads", reading::ranges(bucket, &place).await),
        finding("listing", listing::order_and_pages(bucket, &place, options.objects).await),
        finding("deletion", reading::deletion(bucket, &place).await),
    ];
    findings.extend(uploads::examine(bucket, damaging.as_ref(), &place).await);
    if let Err(error) = clean_up(bucket, &place).await {
        let text = format!("objects below {place} may be left: {error}");
        findings.push(Finding { property: "cleaning up", verdict: Verdict::Warning, text });
    }
    findings.push(throttling(bucket));
    let requests = requests(bucket);
    let fitness = fitness(&findings);
    Ok(Certificate { place: bucket.place().to_owned(), fitness, findings, requests })
}

/// The result of a check: a verdict, and text that explains it. When the check returns an error instead,
/// [`finding`] decides the verdict.
type Seen = (Verdict, String);

fn ok(text: impl Into<String>) -> Seen {
    (Verdict::Ok, text.into())
}

fn failed(text: impl Into<String>) -> Seen {
    (Verdict::Failed, text.into())
}

/// Turns what a check returned into a finding. An error that a sound provider would not cause gives `Failed`;
/// any other error, such as no answer, gives `Unknown`.
fn finding(property: &'static str, seen: Result<Seen>) -> Finding {
    let (verdict, text) = seen.unwrap_or_else(|error| {
        let verdict = match &error {
            StoreError::ReadOnly(_) | StoreError::Corruption(_) | StoreError::NotFound { .. } => {
                Verdict::Failed
            }
            _ => Verdict::Unknown,
        };
        (verdict, error.to_string())
    });
    Finding { property, verdict, text }
}

fn fitness(findings: &[Finding]) -> Fitness {
    let has = |verdict: Verdict| findings.iter().any(|finding| finding.verdict == verdict);
    match (has(Verdict::Failed), has(Verdict::Unknown)) {
        (true, _) => Fitness::Unfit,
        (false, true) => Fitness::Unknown,
        (false, false) => Fitness::Fit,
    }
}

/// Reports how many of all requests so far the provider has answered with "slow down".
fn throttling(bucket: &Bucket) -> Finding {
    let throttled = read(&bucket.stats().requests_throttled);
    let sent = requests(bucket);
    let (verdict, text) = match throttled {
        0 => (
            Verdict::Note,
            format!("none of {sent} requests was answered with \"slow down\", so nothing was seen"),
        ),
        _ => {
            ok(format!("{throttled} of {sent} requests were answered with \"slow down\" and repeated later"))
        }
    };
    Finding { property: "throttling", verdict, text }
}

fn requests(bucket: &Bucket) -> u64 {
    let stats = bucket.stats();
    let kinds = [
        &stats.requests_get,
        &stats.requests_put,
        &stats.requests_head,
        &stats.requests_list,
        &stats.requests_delete,
    ];
    kinds.into_iter().map(read).sum()
}

/// Deletes everything below `place`.
async fn clean_up(bucket: &Bucket, place: &str) -> Result<()> {
    let left = bucket.list(place, None).await?;
    let deletions = left.iter().map(|object| bucket.delete(&object.key));
    futures_util::stream::iter(deletions).buffer_unordered(IN_FLIGHT).try_collect::<Vec<()>>().await?;
    Ok(())
}

#[cfg(test)]
#[path = "certify_test.rs"]
mod tests;

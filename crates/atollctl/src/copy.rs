//! `atollctl copy`: keeps a copy of the database in a second bucket up to date. The same code makes clones in
//! a place that cannot share files with the parent.

use crate::ask;
use crate::output::{Printer, shown, size};
use crate::progress::{bytes_bar, show};
use clap::Args;
use objstore::date::utc;
use objstore::protocol::{CopyRequest, CopyStatus, Inspector, LeftBehind, Past};
use objstore::{Bucket, Pace, StoreConfig, StoreError};

/// How to reach the place of the copy, where that differs from the database's.
#[derive(Args, Default)]
pub(crate) struct TargetOptions {
    /// S3 endpoint of the new place. Default of these options: as for the database.
    #[arg(long, env = "ATOLL_TO_S3_ENDPOINT", value_name = "ENDPOINT")]
    to_endpoint: Option<String>,
    /// Region of the new bucket.
    #[arg(long, env = "ATOLL_TO_S3_REGION", value_name = "REGION")]
    to_region: Option<String>,
    /// Access key for the new bucket.
    #[arg(long, env = "ATOLL_TO_S3_ACCESS_KEY", value_name = "KEY", hide_env_values = true)]
    to_access_key: Option<String>,
    /// Secret key for the new bucket. Better given in the environment.
    #[arg(long, env = "ATOLL_TO_S3_SECRET_KEY", value_name = "KEY", hide_env_values = true)]
    to_secret_key: Option<String>,
    /// PEM file of certificate authorities to trust for the new bucket.
    #[arg(long, env = "ATOLL_TO_S3_CA_FILE", value_name = "FILE")]
    to_ca_file: Option<String>,
    /// Where the new bucket's name stands in a URL: auto, path or virtual.
    #[arg(long, env = "ATOLL_TO_S3_ADDRESSING", value_name = "STYLE")]
    to_addressing: Option<String>,
}

impl TargetOptions {
    /// Returns `config`, the database's configuration with the new URL, after these options have changed it.
    pub(crate) fn apply(&self, config: StoreConfig) -> StoreConfig {
        let or = |given: &Option<String>, default: String| given.clone().unwrap_or(default);
        // A session token belongs to its access key: it is not sent with another key.
        let session_token =
            if self.to_access_key.is_some() { String::new() } else { config.session_token.clone() };
        StoreConfig {
            endpoint: or(&self.to_endpoint, config.endpoint.clone()),
            region: or(&self.to_region, config.region.clone()),
            access_key: or(&self.to_access_key, config.access_key.clone()),
            secret_key: or(&self.to_secret_key, config.secret_key.clone()),
            ca_file: or(&self.to_ca_file, config.ca_file.clone()),
            addressing: or(&self.to_addressing, config.addressing.clone()),
            session_token,
            ..config
        }
    }
}

/// Which state to copy, and whether the copy is brought up to date later. The command `copy` uses `InStep`.
/// The commands `clone` and `restore --to` use `Clone` when the new bucket cannot share files with the
/// database.
pub(crate) enum Purpose {
    /// Copy the present state. A later call brings the copy up to date.
    InStep { limit_mib_per_second: Option<u64> },
    /// Copy one state once: a past one, or the present state for None.
    Clone { past: Option<Past>, must_mask: bool },
}

/// Returns the name of the target for the source's list of pins. A copy deletes the pins that former copies to
/// the same place have left, so other places need other names, even if their URLs are the same: the directories
/// of two machines, and the buckets of two endpoints.
fn place_of(target: &Bucket, url: &str) -> String {
    if target.is_directory() {
        format!("{url} on {}", ask::host())
    } else {
        format!("{url} ({})", target.place())
    }
}

/// Copies the database of `inspector` into the bucket `target`, whose URL is `target_url`. Returns true when
/// the copy is complete. False: the request cannot be carried out, and a message on standard error says why.
pub(crate) async fn run(
    printer: &Printer,
    inspector: &Inspector,
    target: &Bucket,
    target_url: &str,
    purpose: Purpose,
) -> Result<bool, StoreError> {
    let (past, stays_in_step, must_mask, limit) = match purpose {
        Purpose::InStep { limit_mib_per_second } => (None, true, false, limit_mib_per_second),
        Purpose::Clone { past, must_mask } => (past, false, must_mask, None),
    };
    let request = CopyRequest {
        past,
        place: place_of(target, target_url),
        creator: ask::this_process(),
        stays_in_step,
        must_mask,
        pace: Pace::new(limit.map(|mib| mib.max(1) << 20)),
    };
    let bar = bytes_bar(printer);
    let outcome = inspector.copy_to(target, &request, &|done, total| show(&bar, done, total)).await;
    bar.finish_and_clear();
    let done = match outcome {
        Err(error @ (StoreError::Invalid(_) | StoreError::NotFound { .. } | StoreError::Corruption(_))) => {
            eprintln!("atollctl: {error}");
            return Ok(false);
        }
        done => done?,
    };
    match printer.is_json() {
        true => printer.json(&done),
        false => {
            print_done(printer, &done, target_url);
            lines_about(&done.left_behind).iter().for_each(|line| printer.line(line));
        }
    }
    Ok(true)
}

/// Says what the copy does not have, and how to take it along; no line if it has everything.
fn lines_about(left: &LeftBehind) -> Vec<String> {
    let mut lines = Vec::new();
    if !left.snapshots.is_empty() {
        let names: Vec<String> =
            left.snapshots.iter().take(5).map(|name| format!("'{}'", shown(name))).collect();
        let more = if left.snapshots.len() > 5 { ", ..." } else { "" };
        lines.push(format!(
            "not in the copy: {} snapshots ({}{more}), {} of them protected. `atollctl clone URL NEWURL --snapshot NAME` takes one \
             along, as a database of its own",
            left.snapshots.len(),
            names.join(", "),
            left.protected_snapshots.len()
        ));
    }
    if left.history {
        lines.push(
            "not in the copy: the history. A server that is started on the copy begins its own, as long as that of this database"
                .to_owned(),
        );
    }
    lines
}

fn print_done(printer: &Printer, done: &CopyStatus, target_url: &str) {
    let ((epoch, slot), adopted) = (done.source_root, &done.adopted);
    let commit = done.commit_us.map_or("none".to_owned(), |time| format!("{} UTC", utc(time)));
    let gtid = if done.gtid_position.is_empty() { "none" } else { &done.gtid_position };
    if done.is_unchanged {
        printer
            .line(&format!("{target_url} is up to date already: root {epoch}/{slot}, last commit {commit}"));
        return;
    }
    printer.line(&format!(
        "database {} in {target_url} has root {epoch}/{slot}: last commit {commit}, GTID position {gtid}",
        done.db_uuid
    ));
    printer.line(&format!(
        "copied {} table files, {}, and {} of MANIFEST and log; {} files, {}, were there already; {} objects of earlier copies deleted",
        adopted.copied_files,
        size(adopted.copied_bytes),
        size(done.copied_log_bytes),
        adopted.reused_files,
        size(adopted.reused_bytes),
        done.deleted_objects
    ));
}

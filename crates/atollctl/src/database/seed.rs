//! `atollctl seed` makes the clone with which a replica by the binary log begins, and writes the statements that
//! start the replication at the clone's GTID position.

use crate::ask::{self, Consent};
use crate::clone::{self, tell};
use crate::database::reset::refused;
use crate::database::seed_script::{Primary, script};
use crate::output::Printer;
use clap::Args;
use objstore::protocol::{CloneRequest, CloneStatus, Inspector, check_clone_of, check_replica_start};
use objstore::{Bucket, StoreError};
use std::path::{Path, PathBuf};

/// Where the primary is, and what becomes of the replica.
#[derive(Debug, Args)]
pub(crate) struct SeedOptions {
    #[command(flatten)]
    primary: Primary,
    /// A file that gets the statements for the replica, with remarks. It must not exist. `-`: standard output gets
    /// them, and nothing else.
    #[arg(long, value_name = "FILE")]
    sql: Option<PathBuf>,
    /// Delete what an unfinished clone into NEW_URL has left. No such clone may be running.
    #[arg(long, conflicts_with = "again")]
    discard_unfinished: bool,
    /// Put the stopped replica in NEW_URL back to the primary's files and newest state: since it was seeded, it has
    /// written files of its own.
    #[arg(long)]
    again: bool,
    /// With --again: the replica's server did not end in order, and surely does not run any more.
    #[arg(long, requires = "again")]
    take_over: bool,
    /// With --again: do not ask.
    #[arg(long, requires = "again")]
    yes: bool,
}

impl SeedOptions {
    /// The file for the statements. None: no file was given, or it is standard output.
    fn file(&self) -> Option<&Path> {
        self.sql.as_deref().filter(|_| !self.prints_sql_only())
    }

    fn prints_sql_only(&self) -> bool {
        self.sql.as_deref() == Some(Path::new("-"))
    }
}

/// Makes the clone of `inspector` in `child`, and writes the statements. `urls`: of the two. Returns true when this is
/// done. False: the request cannot be carried out, and a message on standard error says why.
pub(crate) async fn run(
    printer: &Printer,
    inspector: &Inspector,
    child: &Bucket,
    urls: (&str, &str),
    options: &SeedOptions,
) -> Result<bool, StoreError> {
    let (url, child_url) = urls;
    if !clone::shares_files(url, child_url)? {
        eprintln!(
            "atollctl: {child_url} cannot share files with {url}: give another prefix of the same bucket. `atollctl clone` \
             copies a database into another bucket, and prints the GTID position, too"
        );
        return Ok(false);
    }
    if let Some(file) = options.file().filter(|file| file.exists()) {
        eprintln!("atollctl: {} exists; nothing was done", file.display());
        return Ok(false);
    }
    let made = match make(inspector, child, child_url, options).await {
        Ok(made) => made,
        Err(error) => return refused(error),
    };
    let sql = script(&made, &options.primary, child_url, options.again);
    show(printer, &made, &sql, options);
    if let Some(file) = options.file()
        && let Err(error) = std::fs::write(file, &sql)
    {
        eprintln!("atollctl: {}: {error}. The clone is made; its statements stand above", file.display());
        return Ok(false);
    }
    Ok(true)
}

/// Makes the clone, or makes it again. Errors: `Invalid`, `NotFound` or `ReadOnly` when the request cannot be carried
/// out, or the user does not agree.
async fn make(
    primary: &Inspector,
    child: &Bucket,
    child_url: &str,
    options: &SeedOptions,
) -> Result<CloneStatus, StoreError> {
    check_replica_start(primary).await?;
    let request = CloneRequest {
        past: None,
        place: child_url.to_owned(),
        creator: ask::this_process(),
        discards_unfinished: options.discard_unfinished,
        expires_s: None,
    };
    if !options.again {
        return primary.clone_to(child, &request).await;
    }
    let replica = Inspector::new(child.clone());
    check_clone_of(&replica, primary).await?;
    replica.plan_reset(options.take_over).await?;
    Consent::of(options.yes).to(&format!(
        "Seeding {child_url} again: its files are removed, and it begins with the primary's."
    ))?;
    replica.reset_clone(&request, options.take_over).await
}

fn show(printer: &Printer, made: &CloneStatus, sql: &str, options: &SeedOptions) {
    if printer.is_json() {
        return printer.json(&serde_json::json!({ "clone": made, "statements": sql }));
    }
    if !options.prints_sql_only() {
        tell(printer, made);
    }
    sql.lines().for_each(|line| printer.line(line));
}

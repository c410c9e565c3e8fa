//! `atollctl seed` makes the clone with which a replica by the binary log begins, and writes the statements that
//! start the replication at the clone's GTID position.

use crate::ask::{self, Consent};
use crate::clone::{self, tell};
use crate::database::reset::refused;
use crate::output::Printer;
use clap::Args;
use objstore::protocol::{CloneRequest, CloneStatus, Inspector};
use objstore::{Bucket, StoreError};
use std::path::PathBuf;

/// Where the primary is, and what becomes of the replica.
#[derive(Debug, Args)]
pub(crate) struct SeedOptions {
    /// The host at which the replica reaches the primary.
    #[arg(long, value_name = "HOST", default_value = "PRIMARY")]
    primary_host: String,
    /// The primary's port.
    #[arg(long, value_name = "PORT", default_value_t = 3306)]
    primary_port: u16,
    /// The primary's account with REPLICATION SLAVE. The statements leave its password empty.
    #[arg(long, value_name = "USER", default_value = "replication")]
    primary_user: String,
    /// A file that gets the statements for the replica. It must not exist.
    #[arg(long, value_name = "FILE")]
    sql: Option<PathBuf>,
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
    if let Some(file) = options.sql.as_ref().filter(|file| file.exists()) {
        eprintln!("atollctl: {} exists; nothing was done", file.display());
        return Ok(false);
    }
    let made = match options.again {
        false => inspector.clone_to(child, &request(child_url)).await,
        true => seed_again(&Inspector::new(child.clone()), child_url, options).await,
    };
    let made = match made {
        Ok(made) => made,
        Err(error) => return refused(error),
    };
    if made.gtid_position.is_empty() {
        eprintln!(
            "atollctl: {child_url} is a clone now, but its state has no GTID: the primary needs log_bin and a transaction \
             behind it. Then run this command again with --again"
        );
        return Ok(false);
    }
    let sql = statements(&made, options);
    if let Some(file) = &options.sql {
        std::fs::write(file, &sql)
            .map_err(|error| StoreError::Invalid(format!("{}: {error}", file.display())))?;
    }
    show(printer, &made, &sql, child_url, options);
    Ok(true)
}

fn request(child_url: &str) -> CloneRequest {
    let (place, creator) = (child_url.to_owned(), ask::this_process());
    CloneRequest { past: None, place, creator, discards_unfinished: false, expires_s: None }
}

async fn seed_again(
    replica: &Inspector,
    url: &str,
    options: &SeedOptions,
) -> Result<CloneStatus, StoreError> {
    replica.plan_reset(options.take_over).await?;
    Consent::of(options.yes)
        .to(&format!("Seeding {url} again: its files are removed, and it begins with the primary's."))?;
    replica.reset_clone(&request(url), options.take_over).await
}

/// The statements that start the replication at the state of the clone.
fn statements(made: &CloneStatus, options: &SeedOptions) -> String {
    let quoted = |text: &str| format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"));
    format!(
        "STOP SLAVE;\n\
         SET GLOBAL gtid_slave_pos = {};\n\
         CHANGE MASTER TO MASTER_HOST = {}, MASTER_PORT = {}, MASTER_USER = {}, MASTER_PASSWORD = '', \
         MASTER_USE_GTID = slave_pos;\n\
         START SLAVE;\n",
        quoted(&made.gtid_position),
        quoted(&options.primary_host),
        options.primary_port,
        quoted(&options.primary_user),
    )
}

fn show(printer: &Printer, made: &CloneStatus, sql: &str, child_url: &str, options: &SeedOptions) {
    if printer.is_json() {
        return printer.json(&serde_json::json!({ "clone": made, "statements": sql }));
    }
    tell(printer, made);
    let (host, port) = (&options.primary_host, options.primary_port);
    let aside = if options.again { "move #atoll of its data directory away, " } else { "" };
    printer.line(&format!(
        "1. {aside}start the replica with atoll_url={child_url}, its own server_id, and skip_slave_start"
    ));
    printer.line(&format!(
        "2. accounts, views, routines and events are not in the bucket. Load them from the primary: \
         mariadb-dump -h {host} -P {port} --system=all"
    ));
    printer.line(&format!(
        "3. NO TABLE OF ANOTHER ENGINE IS IN THE REPLICA. This names them: mariadb -h {host} -P {port} -e \"{}\"",
        OTHER_ENGINES
    ));
    printer.line("4. run these statements in the replica:");
    sql.lines().for_each(|line| printer.line(line));
}

const OTHER_ENGINES: &str = "SELECT table_schema, table_name, engine FROM information_schema.tables WHERE engine <> 'ATOLL' \
                             AND table_schema NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema')";

//! Reads rows for `diff --rows` and `verify --restore --rows`, and the catalog for `ls --schema`. It runs the
//! program `atollctl-rows`, because that takes RocksDB, which is not linked into atollctl.

use crate::ask;
use crate::output::{Table, shown};
use objstore::protocol::TableNames;
use objstore::{StoreConfig, StoreError};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// The program that reads rows. It is installed in the directory of atollctl.
const PROGRAM: &str = "atollctl-rows";
/// The last line that `atollctl-rows` prints when it has succeeded.
const END: &str = ".";
/// The exit status of `atollctl-rows` when a state cannot be opened because it is damaged.
const EXIT_CORRUPTION: i32 = 3;

/// The bucket whose rows are read, and the directory for RocksDB's local files.
pub(crate) struct Place {
    pub(crate) config: StoreConfig,
    /// None: a scratch directory below the one for temporary files.
    pub(crate) scratch: Option<PathBuf>,
}

/// How the rows of one table differ between two states.
#[derive(Debug, PartialEq, Serialize)]
pub(crate) struct ChangedRows {
    name: String,
    /// `changed` when only rows differ; or else `altered`, `renamed`, `rebuilt`, `added` or `dropped`.
    change: String,
    /// The earlier name of a renamed table; None for a table that was not renamed.
    former_name: Option<String>,
    /// Which columns and keys have changed; empty when none have, or when one of the states is of an earlier
    /// version of Atoll, whose catalog does not know them.
    altered: String,
    inserted: u64,
    changed: u64,
    deleted: u64,
    /// How many keys were read for the comparison.
    keys_read: u64,
}

/// What `verify --restore --rows` found in one table.
#[derive(Debug, PartialEq)]
pub(crate) struct ReadTable {
    pub(crate) name: String,
    pub(crate) rows: u64,
    /// The number of entries of all indexes except the primary key.
    pub(crate) entries: u64,
    /// What is damaged; empty when no damage was found.
    pub(crate) problem: String,
}

/// Compares the rows of the states `first` and `second`. Errors: as [`run`].
pub(crate) async fn diff(
    place: &Place,
    names: &TableNames,
    first: &str,
    second: &str,
) -> Result<Vec<ChangedRows>, StoreError> {
    run(place, "diff", &[first, second], |fields| changed_rows(fields, names)).await
}

/// Reads all rows and index entries of a state. Errors: as [`run`]. Damage to a table is no error; it
/// is returned in [`ReadTable`].
pub(crate) async fn check(
    place: &Place,
    names: &TableNames,
    state: &str,
) -> Result<Vec<ReadTable>, StoreError> {
    run(place, "check", &[state], |fields| read_table(fields, names)).await
}

/// A line about a table's columns: the table itself, a column, or a key.
#[derive(Debug, PartialEq)]
pub(crate) struct SchemaLine {
    /// The table; a partitioned table has no name of a partition.
    pub(crate) table: String,
    /// `table`, `column` or `key`.
    pub(crate) kind: String,
    /// The name of the column or key; for the table, the version of the server that described it.
    pub(crate) name: String,
    pub(crate) definition: String,
}

/// Reads the columns and keys of all tables of a state. Errors: those of [`run`].
pub(crate) async fn schema(
    place: &Place,
    names: &TableNames,
    state: &str,
) -> Result<Vec<SchemaLine>, StoreError> {
    run(place, "schema", &[state], |fields| schema_line(fields, names)).await
}

/// Runs `atollctl-rows` and parses each line of its output with `read`.
///
/// Errors: `Corruption` when a state cannot be opened because it is damaged; `Unavailable` when the program
/// cannot be started, or fails. The message is what the program has written to standard error.
async fn run<T>(
    place: &Place,
    verb: &str,
    states: &[&str],
    read: impl Fn(&[&str]) -> Option<T>,
) -> Result<Vec<T>, StoreError> {
    let scratch = place
        .scratch
        .clone()
        .unwrap_or_else(std::env::temp_dir)
        .join(format!("{PROGRAM}-{}", std::process::id()));
    let mut command = command(place, verb, &scratch, states)?;
    let program = command.get_program().to_string_lossy().into_owned();
    let failed = |what: String| StoreError::Unavailable(format!("reading rows: {what}"));
    let output = tokio::task::spawn_blocking(move || command.output()).await;
    // The program deletes its scratch directory when it ends. The directory still exists only if the program
    // was killed.
    let _ = std::fs::remove_dir_all(&scratch);
    let output = output.map_err(|error| failed(error.to_string()))?;
    let Output { status, stdout, stderr } = output.map_err(|error| {
        failed(format!("starting {program}, which is installed beside atollctl: {error}"))
    })?;
    let told = String::from_utf8_lossy(&stderr);
    if status.code() == Some(EXIT_CORRUPTION) {
        return Err(StoreError::Corruption(told.trim().to_owned()));
    }
    if !status.success() {
        return Err(failed(if told.trim().is_empty() { status.to_string() } else { told.trim().to_owned() }));
    }
    parse(&String::from_utf8_lossy(&stdout), read).ok_or_else(|| failed(format!("{program} ended early")))
}

fn command(place: &Place, verb: &str, scratch: &Path, states: &[&str]) -> Result<Command, StoreError> {
    let own = std::env::current_exe()
        .map_err(|error| StoreError::Invalid(format!("finding {PROGRAM}: {error}")))?;
    let config = &place.config;
    let mut command = Command::new(own.with_file_name(PROGRAM));
    command
        .args([verb, &config.url])
        .arg(scratch)
        .args(states)
        .env("ATOLL_S3_ENDPOINT", &config.endpoint)
        .env("ATOLL_S3_REGION", &config.region)
        .env("ATOLL_S3_ACCESS_KEY", &config.access_key)
        .env("ATOLL_S3_SECRET_KEY", &config.secret_key)
        .env("ATOLL_S3_SESSION_TOKEN", &config.session_token)
        .env("ATOLL_S3_CA_FILE", &config.ca_file)
        .env("ATOLL_S3_ADDRESSING", &config.addressing)
        .env("ATOLL_S3_SSE", &config.sse)
        .env("ATOLL_S3_SSE_KMS_KEY_ID", &config.sse_kms_key_id)
        .env("ATOLL_REQUEST_TIMEOUT_MS", config.request_timeout.as_millis().to_string())
        .env("ATOLL_VISITOR", ask::this_process());
    Ok(command)
}

/// Parses the output of the program (engine/visitor/main.cc). None when its last line is missing or a line
/// cannot be parsed, so that the output is incomplete.
fn parse<T>(text: &str, read: impl Fn(&[&str]) -> Option<T>) -> Option<Vec<T>> {
    let lines: Vec<&str> = text.lines().collect();
    let (last, lines) = lines.split_last()?;
    if *last != END {
        return None;
    }
    lines.iter().map(|line| read(&line.split('\t').collect::<Vec<_>>())).collect()
}

fn changed_rows(fields: &[&str], names: &TableNames) -> Option<ChangedRows> {
    let (name, rest) = named(fields, names)?;
    let [change, inserted, changed, deleted, keys_read, former_database, former_table, altered] = *rest
    else {
        return None;
    };
    Some(ChangedRows {
        name,
        change: if change.is_empty() { "changed".to_owned() } else { change.to_owned() },
        former_name: (change == "renamed").then(|| full_name(former_database, former_table)),
        altered: decoded(altered),
        inserted: inserted.parse().ok()?,
        changed: changed.parse().ok()?,
        deleted: deleted.parse().ok()?,
        keys_read: keys_read.parse().ok()?,
    })
}

fn read_table(fields: &[&str], names: &TableNames) -> Option<ReadTable> {
    let (name, rest) = named(fields, names)?;
    let [rows, entries, problem] = *rest else { return None };
    Some(ReadTable {
        name,
        rows: rows.parse().ok()?,
        entries: entries.parse().ok()?,
        problem: problem.to_owned(),
    })
}

fn schema_line(fields: &[&str], names: &TableNames) -> Option<SchemaLine> {
    let (table, rest) = named(fields, names)?;
    let [kind, name, definition] = *rest else { return None };
    let whole = table.split("#P#").next().unwrap_or_default().to_owned();
    Some(SchemaLine {
        table: whole,
        kind: kind.to_owned(),
        name: decoded(name),
        definition: decoded(definition),
    })
}

/// Splits a line of the program's output into the table's name, which its first four fields give, and the
/// other fields.
fn named<'a, 'b>(fields: &'a [&'b str], names: &TableNames) -> Option<(String, &'a [&'b str])> {
    let [family, prefix, database, table, rest @ ..] = fields else { return None };
    let place = (family.parse().ok()?, prefix.parse().ok()?);
    // Only the server can decode some codes. The owner has noted the decoded name in the bucket. But that is the
    // table's present name, and the table may have had another name at the time of the state that is read. So
    // the noted name is used only when this function cannot decode the name.
    let noted = names.tables.iter().chain(&names.gone).find(|noted| noted.place() == place);
    let name = match noted {
        Some(noted) if [database, table].into_iter().any(|name| has_short_code(name)) => {
            format!("{}.{}", noted.database, noted.name)
        }
        _ => full_name(database, table),
    };
    Some((name, rest))
}

fn full_name(database: &str, table: &str) -> String {
    format!("{}.{}", decoded(database), decoded(table))
}

/// Decodes the name of a table file: the server writes some characters as `@` and four hexadecimal digits. It
/// has shorter codes for letters of some alphabets, which are left as they are.
fn decoded(name: &str) -> String {
    let mut parts = name.split('@');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        let code = code_of(part);
        match code.and_then(char::from_u32) {
            Some(character) => text.push(character),
            None => text.push('@'),
        }
        text.push_str(if code.is_some() { part.get(4..).unwrap_or_default() } else { part });
    }
    text
}

/// True: `name` has a code that decoded() does not know.
fn has_short_code(name: &str) -> bool {
    name.split('@').skip(1).any(|part| code_of(part).is_none())
}

/// Returns the number that the four hexadecimal digits at the beginning of `part` give. None: there are none.
fn code_of(part: &str) -> Option<u32> {
    part.get(..4).and_then(|digits| u32::from_str_radix(digits, 16).ok())
}

/// Makes a table for people from the changed rows.
pub(crate) fn table(rows: &[ChangedRows]) -> Table {
    let mut table = Table::new(&["table", "change", ">inserted", ">changed", ">deleted", ">keys read"]);
    for row in rows {
        let name = match &row.former_name {
            Some(former) => format!("{} (was {})", shown(&row.name), shown(former)),
            None => shown(&row.name),
        };
        let change = match row.altered.is_empty() {
            true => row.change.clone(),
            false => format!("{} ({})", row.change, shown(&row.altered)),
        };
        let [inserted, changed, deleted, read] =
            [row.inserted, row.changed, row.deleted, row.keys_read].map(|count| count.to_string());
        table.row(&[name, change, inserted, changed, deleted, read]);
    }
    table
}

#[cfg(test)]
#[path = "rows_test.rs"]
mod tests;

//! `atollctl`: examines an Atoll database in a bucket, from any machine, with or without a running server.
//!
//! `restore`, `materialize`, `reset`, `seed --again` and `drop` claim a database, and `copy` claims the copy. The other commands write only
//! these objects to a database: `doctor` and `certify` write probe objects and delete them again,
//! `verify --restore` writes its outcome, `settings` the settings of the database, and pins are written for
//! snapshots, for clones, for commands that read while they run, and by `gc --pause`.
//!
//! Exit status: 0 when all is well; 1 when something is wrong with the database or the bucket, or when the
//! request cannot be carried out; 2 when the command could not find out.

mod ask;
mod certify;
mod clone;
mod command;
mod copy;
mod database;
mod doctor;
mod figures;
mod gc;
mod manual;
mod materialize;
mod output;
mod policy;
mod progress;
mod protect;
mod prove;
mod restore;
mod rows;
mod snapshot;
mod verify;

use ask::Consent;
use clap::{Args, Parser};
use command::Command;
use database::clones::{self, CloneAction};
use database::{remove, reset, seed, settings};
use figures::{cost, diff, du, schema, tail, ui};
use gc::print_unneeded;
use objstore::certify::{CertifyOptions, Fitness};
use objstore::date::utc;
use objstore::protocol::{FsckOptions, Inspector, OwnerStatus, Past};
use objstore::region::with_region;
use objstore::{Bucket, StoreConfig, StoreError, client};
use output::{Printer, Table, age, now_ms, size};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// Looks at Atoll databases in buckets.
#[derive(Parser)]
#[command(name = "atollctl", version, about, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    connection: Connection,
    /// Print JSON instead of text.
    #[arg(long, global = true)]
    json: bool,
}

/// How to reach the bucket; the same settings as the server's `atoll_s3_*` variables.
#[derive(Args)]
struct Connection {
    /// S3 endpoint: host:port or http(s)://host:port. Empty: Amazon's.
    #[arg(long, global = true, env = "ATOLL_S3_ENDPOINT", default_value = "")]
    endpoint: String,
    /// Region of the bucket. Empty: the one that the server tells.
    #[arg(long, global = true, env = "ATOLL_S3_REGION", default_value = "")]
    region: String,
    /// Access key. Empty: AWS_ACCESS_KEY_ID, a profile, or the machine's role.
    #[arg(long, global = true, env = "ATOLL_S3_ACCESS_KEY", default_value = "", hide_env_values = true)]
    access_key: String,
    /// Secret key. Better given in the environment than on the command line, where others see it.
    #[arg(long, global = true, env = "ATOLL_S3_SECRET_KEY", default_value = "", hide_env_values = true)]
    secret_key: String,
    /// Token of temporary credentials.
    #[arg(long, global = true, env = "ATOLL_S3_SESSION_TOKEN", default_value = "", hide_env_values = true)]
    session_token: String,
    /// PEM file of certificate authorities to trust beside the system's.
    #[arg(long, global = true, env = "ATOLL_S3_CA_FILE", default_value = "")]
    ca_file: String,
    /// Where the bucket's name stands in a URL: auto, path or virtual.
    #[arg(long, global = true, env = "ATOLL_S3_ADDRESSING", default_value = "auto")]
    addressing: String,
    /// Encryption asked for with uploads: AES256 or aws:kms. Empty: the bucket's own.
    #[arg(long, global = true, env = "ATOLL_S3_SSE", default_value = "")]
    sse: String,
    /// Key for aws:kms.
    #[arg(long, global = true, env = "ATOLL_S3_SSE_KMS_KEY_ID", default_value = "")]
    sse_kms_key_id: String,
    /// Longest time for one request.
    #[arg(long, global = true, value_name = "SECONDS", default_value_t = 20)]
    request_timeout: u64,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return fail(&format!("starting threads: {error}")),
    };
    match runtime.block_on(run(&cli)) {
        Ok(code) => ExitCode::from(code),
        Err(error) => fail(&error.to_string()),
    }
}

fn fail(message: &str) -> ExitCode {
    eprintln!("atollctl: {message}");
    ExitCode::from(2)
}

/// Runs the command and returns the exit status.
async fn run(cli: &Cli) -> Result<u8, StoreError> {
    let printer = Printer::new(cli.json);
    let is_well = match &cli.command {
        Command::Doctor { policy: true, .. } => {
            printer.json(&policy::least(&config(cli)?)?);
            true
        }
        Command::Doctor { .. } => doctor::run(&printer, complete_config(cli).await).await,
        Command::Certify { rounds, .. } => {
            let options = CertifyOptions { rounds: *rounds, ..CertifyOptions::default() };
            return certify(cli, &printer, &options).await;
        }
        Command::Completion { shell } => manual::completion::<Cli>(&printer, *shell)?,
        Command::Man { directory } => manual::pages::<Cli>(&printer, directory)?,
        _ => look(cli, &printer, &Inspector::new(connect(cli).await?)).await?,
    };
    Ok(u8::from(!is_well))
}

async fn certify(cli: &Cli, printer: &Printer, options: &CertifyOptions) -> Result<u8, StoreError> {
    let config = complete_config(cli).await?;
    let bucket = client::connect(&config, Arc::default())?;
    let damaging = match bucket.is_directory() {
        true => None,
        false => Some(client::connect_damaging(&config, Arc::clone(bucket.stats()))?),
    };
    Ok(match certify::run(printer, &bucket, damaging.as_ref(), options).await? {
        Fitness::Fit => 0,
        Fitness::Unfit => 1,
        Fitness::Unknown => 2,
    })
}

/// Runs one of the commands that work on the database of `inspector`. Returns true when all is well. False
/// gives exit status 1: something is wrong with the database, or the request cannot be carried out.
async fn look(cli: &Cli, printer: &Printer, inspector: &Inspector) -> Result<bool, StoreError> {
    match &cli.command {
        Command::Status { .. } => status(printer, inspector).await,
        Command::Settings { options, .. } => settings::run(printer, inspector, options).await,
        Command::Ls { schema: true, state, scratch, .. } => {
            let place = place(cli, scratch.as_deref()).await?;
            schema::run(printer, inspector, &place, state).await
        }
        Command::Ls { objects: false, .. } => files(printer, inspector).await,
        Command::Ls { objects: true, .. } => objects(printer, inspector).await,
        Command::Roots { .. } => roots(printer, inspector).await,
        Command::Commits { .. } => commits(printer, inspector).await,
        Command::Verify { restore: true, scratch, rows, .. } => {
            let place = place_of_rows(cli, *rows, scratch.as_deref()).await?;
            prove::run(printer, inspector, scratch.as_deref(), place.as_ref()).await
        }
        Command::Verify { deep, all, .. } => verify::run(printer, inspector, *deep, *all).await,
        Command::Fsck { deep, grace_hours, .. } => {
            let grace = Duration::from_secs(grace_hours.saturating_mul(3600));
            fsck(printer, inspector, FsckOptions { deep: *deep, grace, ..FsckOptions::default() }).await
        }
        Command::Du { indexes, .. } => du::run(printer, inspector, *indexes).await,
        Command::Diff { first, second, rows, scratch, .. } => {
            let place = place_of_rows(cli, *rows, scratch.as_deref()).await?;
            diff::run(printer, inspector, first, second, place.as_ref()).await
        }
        Command::Tail { seconds, .. } => tail::run(printer, inspector.clone(), *seconds).await,
        Command::Cost { options, .. } => cost::run(printer, inspector, options).await,
        Command::Ui { url, options } => ui::run(printer, inspector, url, options).await,
        Command::Snapshot { action } => snapshot::run(printer, inspector, action).await,
        Command::Clone { .. } => clone_command(cli, printer, inspector).await,
        Command::Seed { new_url, options, .. } => {
            let child = connect_target(cli, &copy::TargetOptions::default(), new_url).await?;
            seed::run(printer, inspector, &child, (cli.command.url(), new_url), options).await
        }
        Command::Copy { new_url, to, limit_mib_per_second: limit, .. } => {
            let purpose = copy::Purpose::InStep { limit_mib_per_second: *limit };
            let target = connect_target(cli, to, new_url).await?;
            copy::run(printer, inspector, &target, new_url, purpose).await
        }
        Command::Materialize { yes, .. } => materialize::run(printer, inspector, Consent::of(*yes)).await,
        Command::Restore { past, to: Some(new_url), dry_run: false, .. } => {
            let past = Some(restore::wanted(past)?);
            clone_into(cli, printer, inspector, new_url, past, clone::Options::default()).await
        }
        Command::Restore { past, dry_run: true, .. } => {
            restore::plan(printer, inspector, &restore::wanted(past)?).await
        }
        Command::Restore { past, keep, take_over, yes, .. } => {
            let consent = Consent::of(*yes);
            restore::run(printer, inspector, restore::wanted(past)?, keep.as_deref(), *take_over, consent)
                .await
        }
        Command::Reset { url, past, take_over, yes } => {
            reset::run(printer, inspector, url, past.get(), *take_over, Consent::of(*yes)).await
        }
        Command::Drop { take_over, yes, .. } => {
            remove::run(printer, inspector, *take_over, Consent::of(*yes)).await
        }
        Command::Release { .. } => clone::release(printer, inspector).await,
        Command::Gc { pause: true, .. } => gc::pause(printer, inspector).await,
        Command::Gc { resume: true, .. } => gc::resume(printer, inspector).await,
        Command::Gc { .. } => gc::plan(printer, inspector).await,
        Command::Doctor { .. }
        | Command::Certify { .. }
        | Command::Completion { .. }
        | Command::Man { .. } => Ok(true),
    }
}

/// Runs one of the commands that begin with `clone`.
async fn clone_command(cli: &Cli, printer: &Printer, inspector: &Inspector) -> Result<bool, StoreError> {
    let connect = async |url: &str| connect_target(cli, &copy::TargetOptions::default(), url).await;
    match &cli.command {
        Command::Clone { action: Some(CloneAction::List { .. }), .. } => {
            clones::list(printer, inspector, connect).await
        }
        Command::Clone { action: Some(CloneAction::DropExpired { yes, .. }), .. } => {
            clones::drop_expired(printer, inspector, Consent::of(*yes), connect).await
        }
        Command::Clone { new_url, past, discard_unfinished, mask, expires, .. } => {
            let options = clone::Options {
                discards_unfinished: *discard_unfinished,
                must_mask: *mask,
                expires_s: expires.map(|time_us| time_us / 1_000_000),
            };
            clone_into(cli, printer, inspector, new_url.as_deref().unwrap_or_default(), past.get(), options)
                .await
        }
        _ => Ok(true),
    }
}

/// The bucket and the scratch directory for reading rows; None if `is_wanted` is false. Errors, requests: as
/// [`complete_config`] if `is_wanted`, otherwise none.
async fn place_of_rows(
    cli: &Cli,
    is_wanted: bool,
    scratch: Option<&Path>,
) -> Result<Option<rows::Place>, StoreError> {
    if is_wanted { place(cli, scratch).await.map(Some) } else { Ok(None) }
}

/// The bucket and the scratch directory for the program that reads rows. Errors, requests: as
/// [`complete_config`].
async fn place(cli: &Cli, scratch: Option<&Path>) -> Result<rows::Place, StoreError> {
    Ok(rows::Place { config: complete_config(cli).await?, scratch: scratch.map(Path::to_owned) })
}

/// Clones the database of `inspector` into `new_url`. Returns true when the clone was made.
async fn clone_into(
    cli: &Cli,
    printer: &Printer,
    inspector: &Inspector,
    new_url: &str,
    past: Option<Past>,
    options: clone::Options,
) -> Result<bool, StoreError> {
    let child = connect_target(cli, &copy::TargetOptions::default(), new_url).await?;
    if !clone::shares_files(cli.command.url(), new_url)? {
        if options.expires_s.is_some() {
            eprintln!(
                "atollctl: --expires is kept in the bucket of {}, which knows no copy in another one",
                cli.command.url()
            );
            return Ok(false);
        }
        eprintln!("atollctl: {new_url} cannot share files with {}: all are copied", cli.command.url());
        let purpose = copy::Purpose::Clone { past, must_mask: options.must_mask };
        return copy::run(printer, inspector, &child, new_url, purpose).await;
    }
    clone::run(printer, inspector, &child, new_url, past, options).await
}

/// Connects to the bucket at `url`, where a clone or a copy is or is to be made.
async fn connect_target(cli: &Cli, to: &copy::TargetOptions, url: &str) -> Result<Bucket, StoreError> {
    client::connect(&with_region(&to.apply(config_of(cli, url))).await, Arc::default())
}

async fn connect(cli: &Cli) -> Result<Bucket, StoreError> {
    client::connect(&complete_config(cli).await?, Arc::default())
}

/// The configuration from the command line, with the bucket's own region if none was given.
///
/// Errors: as [`config`]. Requests: one HEAD, unless the region is given.
async fn complete_config(cli: &Cli) -> Result<StoreConfig, StoreError> {
    Ok(with_region(&config(cli)?).await)
}

/// The configuration for the command's URL. Errors: `Invalid` when it names a directory that does not exist.
fn config(cli: &Cli) -> Result<StoreConfig, StoreError> {
    let config = config_of(cli, cli.command.url());
    if let Some(path) = config.url.strip_prefix("file://") {
        // Connecting would create the directory, as a server needs it. This tool must not create it.
        if !Path::new(path).is_dir() {
            return Err(StoreError::Invalid(format!("there is no directory {path}")));
        }
    }
    Ok(config)
}

/// The configuration from the command line, for `url`.
fn config_of(cli: &Cli, url: &str) -> StoreConfig {
    let connection = &cli.connection;
    StoreConfig {
        url: url.to_owned(),
        endpoint: connection.endpoint.clone(),
        region: connection.region.clone(),
        access_key: connection.access_key.clone(),
        secret_key: connection.secret_key.clone(),
        session_token: connection.session_token.clone(),
        ca_file: connection.ca_file.clone(),
        addressing: connection.addressing.clone(),
        sse: connection.sse.clone(),
        sse_kms_key_id: connection.sse_kms_key_id.clone(),
        request_timeout: Duration::from_secs(connection.request_timeout.max(1)),
        ..StoreConfig::default()
    }
}

async fn status(printer: &Printer, inspector: &Inspector) -> Result<bool, StoreError> {
    let status = inspector.status().await?;
    if printer.is_json() {
        printer.json(&status);
        return Ok(true);
    }
    printer.line(&format!("database   {}", status.db_uuid));
    printer.line(&format!("place      {}", status.place));
    printer.line(&format!("created    {}", age(status.created_ms)));
    if let Some(parent) = &status.parent {
        printer.line(&format!("cloned     from {} at root {}/{}", parent.db_uuid, parent.epoch, parent.slot));
    }
    if status.must_be_masked {
        printer.line("masking    its tables open only when their rows are masked (atoll_mask_file)");
    }
    let (epoch, claimed) = (status.newest_epoch, age(status.claimed_ms));
    printer.line(&format!("epoch      {epoch}, claimed {claimed} by '{}'", status.claimed_by));
    match &status.owner {
        Some(owner) if owner.closed => {
            printer.line(&format!("owner      none; '{}' closed it cleanly", owner.server_id));
        }
        Some(owner) => {
            printer.line(&format!(
                "owner      '{}' (epoch {}), {}",
                owner.server_id,
                owner.epoch,
                life(owner)
            ));
        }
        None => printer.line("owner      unknown"),
    }
    match &status.root {
        Some(root) => printer.line(&format!(
            "root       {}/{}, published {}: {} files, {}",
            root.epoch,
            root.slot,
            age(root.published_ms),
            root.files,
            size(root.files_bytes.unwrap_or(0))
        )),
        None => printer.line("root       none: nothing was published yet"),
    }
    if let Some(sharing) = status.sharing.as_ref().filter(|_| status.parent.is_some()) {
        printer.line(&format!("shares     {}", clones::describe(sharing)));
    }
    for reader in &status.readers {
        printer.line(&format!("reader     {}", snapshot::describe_reader(reader)));
    }
    let mut table = Table::new(&["kind", ">objects", ">size"]);
    for (kind, count) in &status.objects {
        table.row(&[kind.clone(), count.objects.to_string(), size(count.bytes)]);
    }
    printer.line("");
    printer.table(&table);
    Ok(true)
}

/// Whether the owner has given a sign of life in time. It gives one every 65 s.
fn is_alive(owner: &OwnerStatus) -> bool {
    now_ms().saturating_sub(owner.seen_ms) < 140_000
}

/// What the owner's last sign of life says.
fn life(owner: &OwnerStatus) -> String {
    let seen = age(owner.seen_ms);
    match is_alive(owner) {
        true => format!("seen {seen}"),
        false => format!("seen {seen}: it does not run any more, or does not reach the bucket"),
    }
}

async fn files(printer: &Printer, inspector: &Inspector) -> Result<bool, StoreError> {
    let files = inspector.files().await?;
    let mut table = Table::new(&[">file", ">bytes", "crc32c", "object"]);
    for file in &files {
        let crc = format!("{:08x}", file.crc32c);
        table.row(&[file.number.to_string(), file.size.to_string(), crc, file.key.clone()]);
    }
    printer.table_or_json(&table, &files);
    Ok(true)
}

async fn objects(printer: &Printer, inspector: &Inspector) -> Result<bool, StoreError> {
    let objects = inspector.objects().await?;
    let mut table = Table::new(&[">bytes", "object"]);
    let mut values = Vec::new();
    for object in &objects {
        table.row(&[object.size.to_string(), object.key.clone()]);
        values.push(serde_json::json!({ "key": object.key, "size": object.size }));
    }
    printer.table_or_json(&table, &values);
    Ok(true)
}

async fn roots(printer: &Printer, inspector: &Inspector) -> Result<bool, StoreError> {
    let roots = inspector.roots().await?;
    let mut table = Table::new(&[
        ">epoch",
        ">slot",
        "kind",
        "published",
        ">manifest",
        ">files",
        "last commit (UTC)",
        "GTID position",
        ">binlog:offset",
        "note",
    ]);
    for root in &roots {
        let is_root = root.kind == "root";
        let if_root = |text: String| if is_root { text } else { String::new() };
        table.row(&[
            root.epoch.to_string(),
            root.slot.to_string(),
            root.kind.clone(),
            if_root(age(root.published_ms)),
            if_root(format!("{}:{}", root.manifest, root.manifest_bytes)),
            if_root(root.files.to_string()),
            root.commit_us.map(utc).unwrap_or_default(),
            root.gtid_position.clone(),
            root.binlog.map(|at| format!("{:06}:{}", at.file, at.offset)).unwrap_or_default(),
            root.note.clone(),
        ]);
    }
    printer.table_or_json(&table, &roots);
    Ok(true)
}

async fn commits(printer: &Printer, inspector: &Inspector) -> Result<bool, StoreError> {
    let commits = inspector.commits().await?;
    let mut table = Table::new(&["time (UTC)", "GTID", ">binlog", ">offset", "note"]);
    for commit in &commits {
        let (file, offset) =
            commit.binlog.map(|at| (format!("{:06}", at.file), at.offset.to_string())).unwrap_or_default();
        let gtid = commit.gtid.map(|gtid| gtid.to_string()).unwrap_or_default();
        let note = if commit.is_recovered { "decided at the next start" } else { "" };
        table.row(&[utc(commit.time_us), gtid, file, offset, note.to_owned()]);
    }
    printer.table_or_json(&table, &commits);
    Ok(true)
}

async fn fsck(printer: &Printer, inspector: &Inspector, options: FsckOptions) -> Result<bool, StoreError> {
    inspector.check_exists().await?;
    let report = inspector.fsck(options, |_, _| {}).await?;
    let is_well = verify::is_restorable(&report.verified);
    if printer.is_json() {
        printer.json(&report);
        return Ok(is_well);
    }
    verify::print_newest(printer, &report.verified);
    print_unneeded(printer, "ORPHANED", &report.orphaned);
    print_unneeded(printer, "pending", &report.pending);
    for key in &report.foreign {
        printer.line(&format!("FOREIGN: {key} has no name of Atoll's and is never deleted"));
    }
    let bytes = report.orphaned.iter().map(|object| object.size).sum();
    printer.line(&format!(
        "{} objects: {} orphaned ({}), {} not published or not deleted yet, {} foreign",
        report.objects,
        report.orphaned.len(),
        size(bytes),
        report.pending.len(),
        report.foreign.len()
    ));
    Ok(is_well)
}

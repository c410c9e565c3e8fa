//! The commands of atollctl with their options, as the crate clap parses them. `--help` shows the comments of
//! commands and options.

use crate::copy::TargetOptions;
use crate::database::clones::CloneAction;
use crate::database::seed::SeedOptions;
use crate::database::settings::SettingsOptions;
use crate::figures::cost::CostOptions;
use crate::figures::ui::UiOptions;
use crate::protect;
use crate::snapshot::SnapshotAction;
use clap::{Args, Subcommand};
use clap_complete::Shell;
use objstore::certify::CertifyOptions;
use objstore::date;
use objstore::protocol::{Gtid, PRESENT, Past};
use std::path::PathBuf;

/// One request.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Shows identity, owner, newest root and what the bucket holds.
    Status {
        /// file:///absolute/path or s3://bucket/prefix
        url: String,
    },
    /// Shows or changes the settings that the bucket keeps for all servers of the database: history, schedule.
    Settings {
        /// file:///absolute/path or s3://bucket/prefix
        url: String,
        #[command(flatten)]
        options: SettingsOptions,
    },
    /// Lists the table files of the newest root.
    Ls {
        /// file:///absolute/path or s3://bucket/prefix
        url: String,
        /// List every object below the prefix instead.
        #[arg(long)]
        objects: bool,
        /// List the columns and keys of all tables instead.
        #[arg(long, conflicts_with = "objects")]
        schema: bool,
        /// Of which state: the name of a snapshot; or a moment, '2026-11-20 10:00:00' in UTC; or `now`
        #[arg(long, value_name = "STATE", default_value = PRESENT, requires = "schema")]
        state: String,
        /// Where a scratch directory is made for the schema. Default: that for temporary files. Takes twice the log.
        #[arg(long, value_name = "DIRECTORY", requires = "schema")]
        scratch: Option<PathBuf>,
    },
    /// Lists the published roots, claims and fences.
    Roots {
        /// file:///absolute/path or s3://bucket/prefix
        url: String,
    },
    /// Lists the commits in the log behind the newest root, in order: when, GTID, position in the binary log.
    Commits {
        /// file:///absolute/path or s3://bucket/prefix
        url: String,
    },
    /// Checks that the bucket holds everything a restore of the newest root needs; with --all, also of the past.
    Verify {
        /// file:///absolute/path or s3://bucket/prefix
        url: String,
        /// Also read every table file and check its checksum.
        #[arg(long)]
        deep: bool,
        /// Also check what each snapshot, each clone and the whole history need.
        #[arg(long, conflicts_with = "restore")]
        all: bool,
        /// Prove it: restore into a scratch directory as a new server does, read every table file, and leave the outcome in the bucket.
        #[arg(long)]
        restore: bool,
        /// Where the scratch directory is made. Default: that for temporary files. Needs room for MANIFEST and log.
        #[arg(long, value_name = "DIRECTORY", requires = "restore")]
        scratch: Option<PathBuf>,
        /// Also open the restored database with RocksDB, read every row and index entry, and compare their numbers. Takes up to 2 GiB
        /// and twice the log more for the scratch directory.
        #[arg(long, requires = "restore")]
        rows: bool,
    },
    /// Verifies, and looks for objects that nobody needs: orphaned, waiting, or of somebody else. Deletes nothing.
    Fsck {
        /// file:///absolute/path or s3://bucket/prefix
        url: String,
        /// Also read every table file and check its checksum.
        #[arg(long)]
        deep: bool,
        /// Objects younger than this are never called orphaned.
        #[arg(long, value_name = "HOURS", default_value_t = 24)]
        grace_hours: u64,
    },
    /// Shows what the owner's collector will delete. Deletes nothing: only the server that owns the database does, by itself.
    Gc {
        /// file:///absolute/path or s3://bucket/prefix
        url: String,
        /// Only show what would be deleted, which is also what happens without any option.
        #[arg(long, conflicts_with_all = ["pause", "resume"])]
        dry_run: bool,
        /// Let no owner delete anything until --resume.
        #[arg(long, conflicts_with = "resume")]
        pause: bool,
        /// End the pause.
        #[arg(long)]
        resume: bool,
    },
    /// Shows what takes space, by table, and for whom: the present, the past, both, or nobody.
    Du {
        /// file:///absolute/path or s3://bucket/prefix
        url: String,
        /// Each index on a line of its own, where a file holds one index only.
        #[arg(long)]
        indexes: bool,
    },
    /// Shows what differs between two states, by table: which bytes of table files only one of them has.
    Diff {
        /// file:///absolute/path or s3://bucket/prefix
        url: String,
        /// The name of a snapshot; or a moment, '2026-11-20 10:00:00' in UTC; or `now`
        first: String,
        /// The state to compare it with, written in the same ways
        #[arg(default_value = PRESENT)]
        second: String,
        /// Also count the rows that were inserted, changed and deleted. Reads the table files that only one state has, and looks up
        /// their keys in both.
        #[arg(long)]
        rows: bool,
        /// Where a scratch directory is made for the rows. Default: that for temporary files. Takes up to 2 GiB, and twice the logs
        /// of both states.
        #[arg(long, value_name = "DIRECTORY", requires = "rows")]
        scratch: Option<PathBuf>,
    },
    /// Follows what is being published: roots, table files, chunks of the log. Ends on Ctrl-C.
    Tail {
        /// file:///absolute/path or s3://bucket/prefix
        url: String,
        /// End after this time.
        #[arg(long, value_name = "SECONDS")]
        seconds: Option<u64>,
    },
    /// Shows what the stored bytes cost in a month, and the requests of a running server.
    Cost {
        /// file:///absolute/path or s3://bucket/prefix
        url: String,
        #[command(flatten)]
        options: CostOptions,
    },
    /// Serves a page with pictures on this machine only: time line, space, cost. Ends on Ctrl-C.
    Ui {
        /// file:///absolute/path or s3://bucket/prefix
        url: String,
        #[command(flatten)]
        options: UiOptions,
    },
    /// Prints a script that completes commands and options in a shell.
    Completion {
        /// The shell.
        shell: Shell,
    },
    /// Writes man pages.
    Man {
        /// Directory for them.
        directory: PathBuf,
    },
    /// Makes, shows and drops snapshots: states of the database that stay in the bucket.
    Snapshot {
        #[command(subcommand)]
        action: SnapshotAction,
    },
    /// Makes another database that begins with the state of this one, beside a running server or without one. Copies no table file.
    #[command(subcommand_negates_reqs = true)]
    Clone {
        #[command(subcommand)]
        action: Option<CloneAction>,
        /// file:///absolute/path or s3://bucket/prefix of the database to clone
        #[arg(required = true)]
        url: Option<String>,
        /// Where the clone will be: another prefix of the same bucket, or another directory. Must be empty.
        #[arg(required = true)]
        new_url: Option<String>,
        /// Begin with a state of the past instead of what is in the bucket now.
        #[command(flatten)]
        past: PastOptions,
        /// Delete what an unfinished clone into NEW_URL has left. No such clone may be running.
        #[arg(long)]
        discard_unfinished: bool,
        /// No server opens the tables of the clone, or of clones of it, before it has masked their rows: see atoll_mask_file.
        #[arg(long)]
        mask: bool,
        /// From when on the clone is not needed any more: '2027-01-31' or '2027-01-31 10:00:00', in UTC. `clone list` shows it;
        /// `clone drop-expired` removes the clone then.
        #[arg(long, value_name = "DATE", value_parser = protect::parse_until)]
        expires: Option<u64>,
    },
    /// Makes the clone with which a replica by the binary log begins, and writes the statements that start the replication.
    Seed {
        /// file:///absolute/path or s3://bucket/prefix of the primary's database
        url: String,
        /// Where the replica's database will be: another prefix of the same bucket, or another directory.
        new_url: String,
        #[command(flatten)]
        options: SeedOptions,
    },
    /// Keeps a copy of the database in another bucket, service or directory in step, beside a running server: copies what is new.
    Copy {
        /// file:///absolute/path or s3://bucket/prefix of the database to copy
        url: String,
        /// Where the copy is, or will be; must be empty the first time.
        new_url: String,
        #[command(flatten)]
        to: TargetOptions,
        /// Copy at most this many MiB of table files a second.
        #[arg(long, value_name = "MIB", value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
        limit_mib_per_second: Option<u64>,
    },
    /// Makes a clone, whose server does not run, independent of its parent: copies the table files that they share.
    Materialize {
        /// file:///absolute/path or s3://bucket/prefix of the clone
        url: String,
        /// Do not ask.
        #[arg(long)]
        yes: bool,
    },
    /// Puts the database back to a snapshot or a moment, while no server runs. The present becomes a snapshot first.
    Restore {
        /// file:///absolute/path or s3://bucket/prefix
        url: String,
        #[command(flatten)]
        past: PastOptions,
        /// Name of the snapshot that keeps the present. Default: "before restore", and the time.
        #[arg(long, value_name = "NAME", conflicts_with = "to")]
        keep: Option<String>,
        /// Leave this database as it is, and make another one of that state here: see clone.
        #[arg(long, value_name = "NEW_URL")]
        to: Option<String>,
        /// The last server did not end in order, and surely does not run any more.
        #[arg(long, conflicts_with = "to")]
        take_over: bool,
        /// Only say what would be done.
        #[arg(long)]
        dry_run: bool,
        /// Do not ask.
        #[arg(long)]
        yes: bool,
    },
    /// Puts a clone back to the present of its parent, or to a state of the past: removes it, and makes it again in the same place.
    Reset {
        /// file:///absolute/path or s3://bucket/prefix of the clone
        url: String,
        #[command(flatten)]
        past: PastOptions,
        /// The last server of the clone did not end in order, and surely does not run any more.
        #[arg(long)]
        take_over: bool,
        /// Do not ask.
        #[arg(long)]
        yes: bool,
    },
    /// Removes a whole database, for example a clone, with its snapshots and its history. Refused while a server or a clone needs it.
    Drop {
        /// file:///absolute/path or s3://bucket/prefix
        url: String,
        /// The last server did not end in order, and surely does not run any more.
        #[arg(long)]
        take_over: bool,
        /// Do not ask.
        #[arg(long)]
        yes: bool,
    },
    /// Tells the parents of a clone that it reads none of their files any more, so that they need not keep them.
    Release {
        /// file:///absolute/path or s3://bucket/prefix of the clone
        url: String,
    },
    /// Finds out why a bucket does not work: connection, permissions, clock, conditional writes.
    Doctor {
        /// file:///absolute/path or s3://bucket/prefix
        url: String,
        /// Print the least policy (AWS IAM) that the access key needs for this URL instead. Makes no request.
        #[arg(long)]
        policy: bool,
    },
    /// Proves by about 3,800 requests whether a provider keeps what Atoll builds on: create-only writes under a race,
    /// listings, ranges, uploads in pieces, checksums. Deletes what it writes.
    Certify {
        /// file:///absolute/path or s3://bucket/prefix; may hold a database, which is not touched
        url: String,
        /// Races of many writers for one name. More find a rarer fault.
        #[arg(long, default_value_t = CertifyOptions::default().rounds)]
        rounds: usize,
    },
}

/// A state of the past.
#[derive(Args)]
#[group(multiple = false)]
pub(crate) struct PastOptions {
    /// The state that this snapshot keeps.
    #[arg(long, value_name = "NAME")]
    snapshot: Option<String>,
    /// The state after the last transaction that was committed by this moment: '2026-11-20 10:00:00' is UTC,
    /// '2026-11-20 10:00:00+02:00' is not. Needs atoll_history_retention.
    #[arg(long, value_name = "MOMENT", value_parser = |text: &str| date::parse(text).map_err(|error| error.to_string()))]
    at: Option<u64>,
    /// The state after this transaction: domain-server-sequence. Needs atoll_history_retention.
    #[arg(long, value_name = "GTID", value_parser = |text: &str| text.parse::<Gtid>().map_err(|error| error.to_string()))]
    gtid: Option<Gtid>,
}

impl PastOptions {
    /// The state that the options name. None: no option was given.
    pub(crate) fn get(&self) -> Option<Past> {
        let snapshot = self.snapshot.clone().map(Past::Snapshot);
        snapshot.or_else(|| self.at.map(Past::At)).or_else(|| self.gtid.map(Past::Gtid))
    }
}

impl Command {
    /// The URL of the database; "" for a command that needs no database.
    pub(crate) fn url(&self) -> &str {
        match self {
            Self::Snapshot { action } => action.url(),
            Self::Clone { action: Some(action), .. } => action.url(),
            Self::Clone { url, .. } => url.as_deref().unwrap_or_default(),
            Self::Status { url }
            | Self::Settings { url, .. }
            | Self::Ls { url, .. }
            | Self::Roots { url }
            | Self::Commits { url }
            | Self::Verify { url, .. }
            | Self::Fsck { url, .. }
            | Self::Doctor { url, .. }
            | Self::Certify { url, .. }
            | Self::Copy { url, .. }
            | Self::Materialize { url, .. }
            | Self::Restore { url, .. }
            | Self::Reset { url, .. }
            | Self::Seed { url, .. }
            | Self::Drop { url, .. }
            | Self::Release { url }
            | Self::Du { url, .. }
            | Self::Diff { url, .. }
            | Self::Tail { url, .. }
            | Self::Cost { url, .. }
            | Self::Ui { url, .. }
            | Self::Gc { url, .. } => url,
            // These commands need no database.
            Self::Completion { .. } | Self::Man { .. } => "",
        }
    }
}

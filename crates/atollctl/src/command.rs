//! What can be asked for on the command line.

use crate::snapshot::SnapshotAction;
use clap::Subcommand;
use objstore::certify::CertifyOptions;

/// One request.
#[derive(Subcommand)]
pub(crate) enum Command {
    /// Shows identity, owner, newest root and what the bucket holds.
    Status {
        /// file:///absolute/path or s3://bucket/prefix
        url: String,
    },
    /// Lists the table files of the newest root.
    Ls {
        /// file:///absolute/path or s3://bucket/prefix
        url: String,
        /// List every object below the prefix instead.
        #[arg(long)]
        objects: bool,
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
    /// Checks that the bucket holds everything a restore of the newest root needs.
    Verify {
        /// file:///absolute/path or s3://bucket/prefix
        url: String,
        /// Also read every table file and check its checksum.
        #[arg(long)]
        deep: bool,
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
        /// Only show; what happens without any option, too.
        #[arg(long, conflicts_with_all = ["pause", "resume"])]
        dry_run: bool,
        /// Let no owner delete anything until --resume.
        #[arg(long, conflicts_with = "resume")]
        pause: bool,
        /// End the pause.
        #[arg(long)]
        resume: bool,
    },
    /// Makes, shows and drops snapshots: states of the database that stay in the bucket.
    Snapshot {
        #[command(subcommand)]
        action: SnapshotAction,
    },
    /// Makes another database that begins with the state of this one, beside a running server or without one. Copies no table file.
    Clone {
        /// file:///absolute/path or s3://bucket/prefix of the database to clone
        url: String,
        /// Where the clone will be: another prefix of the same bucket, or another directory. Must be empty.
        new_url: String,
        /// Begin with this snapshot instead of what is in the bucket now.
        #[arg(long, value_name = "NAME")]
        snapshot: Option<String>,
        /// Delete what a clone into NEW_URL that did not end has left. None may be running.
        #[arg(long)]
        discard_unfinished: bool,
    },
    /// Puts the database back to a snapshot, while no server runs. The present becomes a snapshot first.
    Restore {
        /// file:///absolute/path or s3://bucket/prefix
        url: String,
        /// The snapshot to go back to.
        #[arg(long, value_name = "NAME")]
        snapshot: String,
        /// Name of the snapshot that keeps the present. Default: "before restore", and the time.
        #[arg(long, value_name = "NAME", conflicts_with = "to")]
        keep: Option<String>,
        /// Leave this database as it is, and make another one of the snapshot here: see clone.
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

impl Command {
    /// Where the database is.
    pub(crate) fn url(&self) -> &str {
        match self {
            Self::Snapshot { action } => action.url(),
            Self::Status { url }
            | Self::Ls { url, .. }
            | Self::Roots { url }
            | Self::Commits { url }
            | Self::Verify { url, .. }
            | Self::Fsck { url, .. }
            | Self::Doctor { url, .. }
            | Self::Certify { url, .. }
            | Self::Clone { url, .. }
            | Self::Restore { url, .. }
            | Self::Release { url }
            | Self::Gc { url, .. } => url,
        }
    }
}

//! Opening a database: does the bucket belong to the local directory, does another owner live, and is the
//! directory still the newest?
//!
//! ```text
//! lock the local directory · look at the marker
//! a directory: refuse a bucket of another database or history (lineage.rs), or one that is older (age.rs)
//! probe the bucket · read or create db.json
//! refuse while another owner lives (alive.rs, opener.rs) · can the newest state be restored? (precheck.rs)
//! claim an epoch (claim.rs)
//! read the settings of the database (kept_settings.rs)
//! base root newer than the marker? set the directory aside, restore
//! no directory, but a base?        restore
//! base root not newer?             compare the local WALs with the bucket's (local_wal.rs)
//! register table files and WALs, start the tasks
//! ```

use crate::config::StoreConfig;
use crate::error::{Result, StoreError};
use crate::files::{Files, FilesConfig};
use crate::log::{Level, LogFn};
use crate::machine::{Executor, fill_random};
use crate::protocol::format::image::{self, Image};
use crate::protocol::format::names;
use crate::protocol::format::records::{Alive, ClaimRoot, Marker, RootId};
use crate::protocol::kept_settings::{self, KeptSettings};
use crate::protocol::publish::labels;
use crate::protocol::publish::local_map;
use crate::protocol::publish::map_record::FileMap;
use crate::protocol::publish::shared_notes::read_notes;
use crate::protocol::shared::{Former, Owner, Shared, Tuning};
use crate::protocol::start::age;
use crate::protocol::start::alive;
use crate::protocol::start::aside::{Aside, forget_closed};
use crate::protocol::start::claim::{StopAfter, close_and_claim, unless_overtaken};
use crate::protocol::start::home::Home;
use crate::protocol::start::identity::{self, Identity};
use crate::protocol::start::lineage;
use crate::protocol::start::local::{self, LocalState};
use crate::protocol::start::local_wal;
use crate::protocol::start::opener::{Newcomer, Opener};
use crate::protocol::start::precheck::{check_restorable, refuse_to_begin_empty};
use crate::protocol::start::restore::{fresh_marker, restore};
use crate::protocol::store::Store;
use crate::protocol::wal::lag::CommitPath;
use crate::protocol::wal::position::{Position, Tracker};
use crate::requests::bucket::Bucket;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// What opening needs besides the configuration; tests change it.
pub(crate) struct Options {
    pub(crate) tuning: Tuning,
    pub(crate) stop_after: StopAfter,
    pub(crate) opener: Opener,
}

impl Default for Options {
    fn default() -> Self {
        Self { tuning: Tuning::default(), stop_after: StopAfter::Nothing, opener: Opener::default() }
    }
}

/// The database after the claim, before its tasks run.
struct Opened {
    owner: Owner,
    directory: Directory,
    base: Option<RootId>,
    settings: KeptSettings,
}

/// The local directory, ready for RocksDB.
struct Directory {
    files: FileMap,
    was_restored: bool,
    former: Former,
    /// The position (position.rs) that the base root records. The base root is the newest root of the former
    /// owners.
    position: Position,
}

/// Opens the database in `bucket` for `config`.
///
/// Errors: see `atoll_store_open` in objstore.h.
/// Requires: not called on a thread of a tokio runtime.
pub(crate) fn open(config: &StoreConfig, bucket: Bucket, log: LogFn, options: Options) -> Result<Arc<Store>> {
    let executor = Executor::new()?;
    let lock = local::lock(&config.local_dir)?;
    let home = alive::home_of(&lock, &config.local_dir)?;
    let local_state = local::inspect(&config.local_dir)?;
    let Opened { owner, directory, base, settings } =
        executor.block_on(own(config, &bucket, &log, &options, &home, local_state))?;
    options.opener.opened();
    let (db_uuid, runtime) = (owner.db_uuid.clone(), executor.handle().clone());
    let files = Files::new(FilesConfig::of(config, bucket.clone(), db_uuid, log.clone(), runtime))?;
    files.set_epoch(owner.epoch.number);
    refuse_unreadable(&directory.files)?;
    let noted = read_notes(&owner.local_dir, &owner.db_uuid)?;
    files.install(directory.files.into_iter().collect(), noted)?;
    let path = CommitPath::new(config.durability, config.lag_max, config.lag_bytes_max);
    let shared = Arc::new(Shared::new(bucket, files, owner, path, options.tuning, log));
    shared.lock().former = directory.former;
    shared.history.set_limits(settings.limits(config.history));
    *shared.settings.lock() = settings;
    if let Some(base) = base {
        shared.history.offer_base(base);
    }
    add_existing_wals(&shared)?;
    let mut commits = Tracker::new(directory.position);
    commits.note_wals(&shared.local_dir, &shared.log)?;
    commits.set_opened();
    *shared.commits.lock() = commits;
    if !directory.was_restored {
        shared.path.set_inherited();
    }
    Ok(Store::start(shared, executor, lock, directory.was_restored))
}

async fn own(
    config: &StoreConfig,
    bucket: &Bucket,
    log: &LogFn,
    options: &Options,
    home: &Home,
    local_state: LocalState,
) -> Result<Opened> {
    let at_open = |error: StoreError| error.with("opening the database in the bucket");
    let mut needs_restore = true;
    let mut found = None;
    if let LocalState::Present { marker, has_database } = &local_state {
        // Rules OPEN-3 and OPEN-4: the bucket is only read until it is known to belong to the directory.
        found = Some(check_identity(bucket, marker, &config.local_dir).await.map_err(at_open)?);
        lineage::refuse_other_history(bucket, config, marker).await.map_err(at_open)?;
        let newest = age::refuse_older_bucket(bucket, config, marker).await.map_err(at_open)?;
        needs_restore = !has_database || newest > Some(marker.root);
    }
    let opener = &options.opener;
    let former = opener.begin();
    if former.is_none() {
        probe(bucket, log).await.map_err(at_open)?;
    }
    let Identity { db_uuid, masked_in, .. } = match found {
        Some(identity) => identity,
        None => identity::read_or_create(bucket).await.map_err(at_open)?,
    };
    let server_id = config.server_id.clone();
    // Up to here nothing has changed in the bucket, except that a new database has got its identity.
    let epoch = match opener.epoch_of_former_try(bucket).await.map_err(at_open)? {
        Some(epoch) => epoch,
        None => {
            if !config.take_over {
                let own_epoch = marker_epoch(&local_state);
                let by =
                    Newcomer { place: bucket.place(), own_epoch, patience: options.tuning.alive_patience };
                let sight = alive::look(bucket, home).await.map_err(at_open)?;
                opener.be_polite(former, sight, &by, log).map_err(at_open)?;
            }
            if needs_restore {
                // Rules OPEN-5 and OPEN-6: a start that must fail changes nothing in the bucket.
                check_restorable(bucket).await.map_err(at_open)?;
            }
            opener.take_epoch(bucket, &server_id, home).await.map_err(at_open)?
        }
    };
    let number = epoch.number;
    let claimed = match close_and_claim(bucket, number, &server_id, options.stop_after).await {
        Ok(claimed) => claimed,
        Err(error) => return Err(at_open(unless_overtaken(bucket, number, error).await)),
    };
    if claimed.base.is_none() {
        refuse_to_begin_empty(bucket).await.map_err(at_open)?;
    }
    let hint =
        Alive { epoch: number, server_id: server_id.clone(), counter: 0, closed: false, covered_us: None };
    if let Err(error) = alive::show(bucket, &hint).await {
        log(Level::Warning, &format!("writing the liveness hint: {error}"));
    }
    let settings = kept_settings::read(bucket).await.map_err(at_open)?;
    let owner = Owner { local_dir: config.local_dir.clone(), db_uuid, masked_in, server_id, epoch };
    match prepare_directory(bucket, log, &owner, &claimed, local_state).await {
        Ok(directory) => Ok(Opened { owner, directory, base: claimed.base, settings }),
        Err(error) => Err(at_open(unless_overtaken(bucket, number, error).await)),
    }
}

/// Refuses a bucket without working create-only writes: it cannot keep two writers apart. A bucket that only
/// refuses deletions is used: some people want keys that cannot delete.
async fn probe(bucket: &Bucket, log: &LogFn) -> Result<()> {
    let mut random = [0; 8];
    fill_random(&mut random)?;
    match bucket.probe_create_only(&names::probe(u64::from_le_bytes(random))).await? {
        Err(StoreError::Refused(why)) => {
            bucket.stats().trim_disabled.store(true, Ordering::Relaxed);
            log(
                Level::Warning,
                &format!("{why}. The server works without this right, deletes nothing, and the bucket grows"),
            );
            Ok(())
        }
        deleted => deleted,
    }
}

fn marker_epoch(local_state: &LocalState) -> u64 {
    match local_state {
        LocalState::Absent => 0,
        LocalState::Present { marker, .. } => marker.epoch,
    }
}

/// Refuses a bucket that does not hold the database of the directory. Returns the identity of the database.
async fn check_identity(bucket: &Bucket, marker: &Marker, dir: &Path) -> Result<Identity> {
    match identity::read(bucket).await? {
        Some(found) if found.db_uuid == marker.db_uuid => Ok(found),
        Some(found) => Err(StoreError::Invalid(format!(
            "the directory {} belongs to database {}, but {} holds database {}. Correct the bucket URL, or move \
             the directory away to have it rebuilt from this bucket",
            dir.display(),
            marker.db_uuid,
            bucket.place(),
            found.db_uuid
        ))),
        None => Err(StoreError::Invalid(format!(
            "the directory {} belongs to database {}, but {} holds no database. Correct the bucket URL, or move \
             the directory away to start a new database there",
            dir.display(),
            marker.db_uuid,
            bucket.place()
        ))),
    }
}

/// Prepares the local directory for `owner`: a directory that is current stays, any other one is replaced by
/// a restore.
async fn prepare_directory(
    bucket: &Bucket,
    log: &LogFn,
    owner: &Owner,
    claimed: &ClaimRoot,
    local_state: LocalState,
) -> Result<Directory> {
    let dir = &owner.local_dir;
    let is_current = match (&local_state, claimed.base) {
        (LocalState::Absent, base) => base.is_none(),
        (LocalState::Present { has_database: false, .. }, base) => base.is_none(),
        (LocalState::Present { marker, .. }, base) => base.is_none_or(|base| base <= marker.root),
    };
    if is_current {
        std::fs::create_dir_all(dir).map_err(|e| StoreError::from_io("creating", dir, &e))?;
        forget_closed(dir)?;
        let (former, position) = compare_wals(bucket, log, dir, claimed).await?;
        let files = known_files(bucket, owner, claimed).await?;
        local::write_marker(dir, &fresh_marker(&owner.db_uuid, owner.epoch))?;
        return Ok(Directory { files, was_restored: false, former, position });
    }
    let Some(base) = claimed.base else {
        return Err(StoreError::Bug("a database that never published cannot be newer".to_owned()));
    };
    let aside = match &local_state {
        LocalState::Absent => None,
        LocalState::Present { marker, has_database } => {
            Some(Aside::set(bucket, log, dir, marker, *has_database, base).await?)
        }
    };
    let image = image::load(bucket, base).await?;
    let former = restore_logged(bucket, log, owner, &image, claimed.wal_end).await?;
    if let Some(aside) = aside {
        aside.successor_is_there(dir, log);
    }
    let position = image.root.position.clone().unwrap_or_default();
    Ok(Directory { files: image.files, was_restored: true, former, position })
}

/// Adds to the local WALs what only the bucket has, before RocksDB reads them. Also returns the position that
/// the base root records.
async fn compare_wals(
    bucket: &Bucket,
    log: &LogFn,
    dir: &Path,
    claimed: &ClaimRoot,
) -> Result<(Former, Position)> {
    let Some(base) = claimed.base else { return Ok((Former::NeededTo(0), Position::default())) };
    let root = image::read_root(bucket, base).await?;
    let compared = local_wal::compare(bucket, &root, claimed.wal_end, dir, log).await?;
    let needed_to = Former::NeededTo(compared.last_start.unwrap_or(0));
    Ok((if compared.is_whole { needed_to } else { Former::Kept }, root.position.unwrap_or_default()))
}

async fn restore_logged(
    bucket: &Bucket,
    log: &LogFn,
    owner: &Owner,
    image: &Image,
    wal_end: u64,
) -> Result<Former> {
    let id = image.root.id;
    let marker = fresh_marker(&owner.db_uuid, owner.epoch);
    let done = restore(bucket, image, Some(wal_end), &owner.local_dir, &marker).await?;
    log(
        Level::Info,
        &format!(
            "rebuilt {} from root {}/{} in {}: {} table files stay in the bucket, {} WAL chunks ({} bytes) will be \
             replayed",
            owner.local_dir.display(),
            id.epoch,
            id.slot,
            bucket.place(),
            done.files,
            done.wal_chunks,
            done.wal_bytes
        ),
    );
    Ok(Former::NeededTo(done.last_start.unwrap_or(0)))
}

/// Returns where the table files of a current directory are.
async fn known_files(bucket: &Bucket, owner: &Owner, claimed: &ClaimRoot) -> Result<FileMap> {
    if let Some(files) = local_map::read_files(&owner.local_dir, &owner.db_uuid)? {
        return Ok(files);
    }
    match claimed.base {
        // ATOLL_FILES was deleted by hand: the published root knows every file that is not local.
        Some(base) => Ok(image::load(bucket, base).await?.files),
        None => Ok(FileMap::new()),
    }
}

/// Refuses table files that this version cannot read, although it understands the file map. Errors: `Invalid`
/// names the first one.
fn refuse_unreadable(files: &FileMap) -> Result<()> {
    let unreadable = files.values().find_map(|file| Some((file, labels::obstacle(&file.labels)?)));
    unreadable.map_or(Ok(()), |(file, why)| {
        Err(StoreError::Invalid(format!(
            "the table file {} cannot be read: {why}. Use the version that wrote it",
            file.key
        )))
    })
}

/// Registers the WALs of the former process: they are complete, and are shipped again, as chunks of this
/// epoch.
fn add_existing_wals(shared: &Shared) -> Result<()> {
    for (number, length) in local::wal_files(&shared.local_dir)? {
        let solid_bytes = local::solid_bytes(&local::wal_path(&shared.local_dir, number))?;
        let mut state = shared.lock();
        state.wal.add_existing(number, length);
        state.wal.set_solid(number, solid_bytes);
        shared.sync_path(&state);
    }
    Ok(())
}

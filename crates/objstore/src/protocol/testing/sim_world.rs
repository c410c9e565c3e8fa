//! The servers of a simulation: each opens the database in the bucket, works, is overtaken by another server,
//! dies or shuts down in order.

use crate::config::Durability;
use crate::error::{Result, StoreError};
use crate::log::silent;
use crate::protocol::format::names;
use crate::protocol::gc::{Doubts, GcTuning, HistoryLimits};
use crate::protocol::shared::Tuning;
use crate::protocol::start::open::{Options, open};
use crate::protocol::start::opener::Opener;
use crate::protocol::store::Store;
use crate::protocol::testing::sim_checks::{Watcher, at_once, direct};
use crate::protocol::testing::test_db::*;
use crate::requests::bucket::{Bucket, Parts};
use crate::requests::retry::RetryPolicy;
use crate::sim::network::{Line, Network, Remote};
use crate::sim::{self, below, fail, note, once_in};
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

type Commits = Vec<(u64, u64, u64)>;

/// Rules that a simulation can switch off, to show that it finds the errors which they prevent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    /// PUB-G2 and PUB-G7: a root waits until the WAL that it needs is shipped.
    G2,
    /// An object that no root needs stays for the grace time.
    Grace,
    /// GC-7: the horizon is raised before pins are listed.
    Horizon,
    /// GC-8: the collector believes no listing of pins that contradicts what it knows.
    Listings,
    /// GC-9: while the root of a snapshot is absent, nothing is deleted.
    Absence,
    /// HISTORY-3: a jump of the clock makes no pin too old.
    Clock,
}

/// How far the clocks jump. It is longer than any history takes, so that the checks can tell a time that was
/// taken meanwhile.
pub(crate) const JUMP: Duration = Duration::from_secs(36_000);

/// The bucket, its network, and the commits that were acknowledged to clients.
pub(crate) struct World {
    pub(crate) network: Arc<Network>,
    pub(crate) tuning: Tuning,
    history: HistoryLimits,
    pub(crate) watcher: Arc<Watcher>,
    ledger: Mutex<Ledger>,
    clocks: Mutex<Clocks>,
}

/// Whether the clocks may jump: not while a server starts, because it has no time to compare with.
#[derive(Default)]
struct Clocks {
    starting: u32,
    are_ahead: bool,
}

/// What all servers together have done.
#[derive(Default)]
struct Ledger {
    /// The commits of each life of a server; its successor finds a prefix of one of these histories.
    histories: Vec<Arc<Mutex<Model>>>,
    /// The longest list of commits that was acknowledged as being in the bucket.
    promised: Commits,
    /// The newest epoch that was opened, and the commits that its owner found.
    epoch: u64,
    found: Commits,
    lives: u64,
}

/// One server from its start to its end.
pub(crate) struct Life {
    world: Arc<World>,
    line: Arc<Line>,
    number: u64,
    epoch: u64,
    dir: Arc<TempDir>,
    pub(crate) db: Db,
    history: Arc<Mutex<Model>>,
}

impl World {
    /// A world whose settings the seed determines. All servers in it work without the rule `without`.
    pub(crate) fn new(without: Option<Rule>) -> Arc<Self> {
        let network = Network::new();
        let grace = Duration::from_millis(below(4000));
        let gc = GcTuning {
            gather: Duration::from_millis(10 + below(300)),
            grace: if without == Some(Rule::Grace) { Duration::ZERO } else { grace },
            raises_horizon: without != Some(Rule::Horizon),
            doubts: Doubts {
                listings: without != Some(Rule::Listings),
                absence: without != Some(Rule::Absence),
            },
            clock_trust: Duration::from_secs(if without == Some(Rule::Clock) { 0 } else { 20 }),
            hold_interval: Duration::from_millis(500),
            reader_pin_life: Duration::from_secs(900),
            search_interval: Duration::from_secs(2 + below(5)),
            deletes_per_second: 1000,
            history_interval_min: Duration::from_millis(200),
            retry_min: Duration::from_millis(100),
            retry_max: Duration::from_secs(3),
        };
        let tuning = Tuning {
            ship_interval: Duration::from_millis(20),
            publish_interval: Duration::from_millis(30),
            alive_interval: Duration::from_secs(3),
            alive_patience: Duration::from_secs(8),
            gc,
            gate_wal: without != Some(Rule::G2),
            ..quick()
        };
        let keeps_history = without == Some(Rule::Clock) || (without.is_none() && once_in(2));
        let retention = Duration::from_secs(if keeps_history { 1 + below(10) } else { 0 });
        let watcher = Watcher::watch(&network, grace, retention);
        let history = HistoryLimits { retention, ..HistoryLimits::default() };
        let (ledger, clocks) = Default::default();
        Arc::new(Self { network, tuning, history, watcher, ledger, clocks })
    }

    pub(crate) fn bucket(&self, line: &Arc<Line>) -> Bucket {
        Bucket::new(Parts {
            policy: RetryPolicy {
                delay_min: Duration::from_millis(5),
                delay_max: Duration::from_millis(200),
                request_timeout: Duration::from_secs(2),
                ..RetryPolicy::default()
            },
            ..Parts::in_process(Arc::new(Remote(Arc::clone(line))), "the simulated bucket")
        })
    }

    /// The bucket without the simulated network, so that each request ends at once.
    pub(crate) fn direct(&self) -> Bucket {
        direct(&self.network.store)
    }

    /// Whether an epoch above `epoch` was claimed.
    fn is_overtaken(&self, epoch: u64) -> bool {
        let claims = at_once(self.direct().list(names::EPOCH_DIR, None)).unwrap();
        claims.iter().filter_map(|claim| names::parse_epoch(&claim.key)).any(|claimed| claimed > epoch)
    }

    /// Sets the clocks ahead for up to 2.5 s, unless a server is starting.
    pub(crate) fn jump_clocks(&self) {
        {
            let mut clocks = self.clocks.lock();
            if clocks.starting > 0 {
                return;
            }
            clocks.are_ahead = true;
        }
        sim::set_clocks_ahead(JUMP);
        sim::sleep(Duration::from_millis(below(2500)));
        sim::set_clocks_ahead(Duration::ZERO);
        self.clocks.lock().are_ahead = false;
    }

    /// Opens the database for a server whose data is in `dir`; None when the server cannot have it now.
    pub(crate) fn open(self: &Arc<Self>, dir: &Arc<TempDir>, takes_over: bool) -> Option<Life> {
        while self.clocks.lock().are_ahead {
            sim::sleep(Duration::from_millis(50));
        }
        self.clocks.lock().starting += 1;
        let life = self.try_open(dir, takes_over);
        self.clocks.lock().starting -= 1;
        life
    }

    fn try_open(self: &Arc<Self>, dir: &Arc<TempDir>, takes_over: bool) -> Option<Life> {
        let number = {
            let mut ledger = self.ledger.lock();
            ledger.lives += 1;
            ledger.lives
        };
        let line = self.network.line(number);
        let bucket = self.bucket(&line);
        let durability = [Durability::Async, Durability::Sync][below(2) as usize];
        let mut config = config(dir.path(), &format!("server:{number}"), durability);
        config.take_over = takes_over;
        config.history = self.history;
        config.cache_bytes = if once_in(3) { 0 } else { 1 << 20 };
        let opener = Opener::default();
        for _ in 0..60 {
            let options =
                Options { tuning: self.tuning.clone(), opener: opener.clone(), ..Options::default() };
            match open(&config, bucket.clone(), silent(), options) {
                Ok(store) => return self.begin(store, line, number, dir),
                // The bucket does not answer, or wrongly, another owner may live, or a reply was damaged several
                // times in a row.
                Err(StoreError::Unavailable(_) | StoreError::Corruption(_) | StoreError::NotFound { .. }) => {
                    sim::sleep(Duration::from_millis(50 + below(1000)));
                }
                Err(error @ (StoreError::Fenced(_) | StoreError::ReadOnly(_))) => {
                    note(&format!("server {number} is not given the database: {}", error.code() as u32));
                    return None;
                }
                Err(error) => {
                    fail(format!("server {number} cannot open: {error}"));
                    return None;
                }
            }
        }
        fail(format!("server {number} cannot open"));
        None
    }

    /// Opens the pretend RocksDB of test_db.rs, and checks that it finds all commits that were acknowledged.
    fn begin(
        self: &Arc<Self>,
        store: Arc<Store>,
        line: Arc<Line>,
        number: u64,
        dir: &Arc<TempDir>,
    ) -> Option<Life> {
        let epoch = store.stats().epoch;
        note(&format!("server {number} owns epoch {epoch}, restored: {}", store.was_restored()));
        let flushes = once_in(2);
        let opened = {
            let (store, dir) = (Arc::clone(&store), Arc::clone(dir));
            std::panic::catch_unwind(std::panic::AssertUnwindSafe(move || {
                Db::open(store, dir.path(), flushes)
            }))
        };
        let db = match opened {
            Ok(db) => db,
            // It is possible that the next owner has deleted objects that this server was about to read.
            Err(panic) if (panic.is::<String>() || panic.is::<&str>()) && self.is_overtaken(epoch) => {
                line.cut();
                store.kill();
                return None;
            }
            Err(panic) => std::panic::resume_unwind(panic),
        };
        let history = self.compare(&db, epoch, number);
        Some(Life { world: Arc::clone(self), line, number, epoch, dir: Arc::clone(dir), db, history })
    }

    /// Checks IMAGE-4: the commits found are a prefix of a history, and include everything that was
    /// acknowledged.
    fn compare(&self, db: &Db, epoch: u64, number: u64) -> Arc<Mutex<Model>> {
        // A server that was overtaken while it opened has found an earlier state, so it may lack later
        // acknowledged commits.
        let is_overtaken = self.is_overtaken(epoch);
        let mut ledger = self.ledger.lock();
        let prefix_of = |history: &Arc<Mutex<Model>>| {
            let history = history.lock();
            let commits = history.commits.get(..db.last_seq as usize)?.to_vec();
            let has_promised = is_overtaken || commits.starts_with(&ledger.promised);
            (db.matches(&history) && has_promised).then_some(commits)
        };
        let found = if db.last_seq == 0 && (is_overtaken || ledger.promised.is_empty()) {
            Some(Commits::new())
        } else {
            ledger.histories.iter().rev().find_map(prefix_of)
        };
        let found = found.unwrap_or_else(|| {
            let promised = ledger.promised.len();
            panic!("server {number}, epoch {epoch}: found {} commits that never were the state, or not all of {promised} acknowledged ones", db.last_seq)
        });
        note(&format!("server {number} found {} commits", found.len()));
        let history = Arc::new(Mutex::new(Model { commits: found.clone() }));
        ledger.histories.push(Arc::clone(&history));
        if epoch > ledger.epoch {
            (ledger.epoch, ledger.found) = (epoch, found);
        }
        history
    }

    /// Checks IMAGE-3: the server that acknowledges commits owns the newest epoch, or its successor has found
    /// these commits.
    fn acknowledged(&self, epoch: u64, commits: &[(u64, u64, u64)], number: u64) {
        let mut ledger = self.ledger.lock();
        note(&format!("server {number} acknowledges {} commits", commits.len()));
        if epoch < ledger.epoch {
            if !ledger.found.starts_with(commits) {
                fail(format!(
                    "server {number} acknowledged in epoch {epoch} what epoch {} lacks",
                    ledger.epoch
                ));
            }
        } else if commits.starts_with(&ledger.promised) {
            ledger.promised = commits.to_vec();
        } else if !ledger.promised.starts_with(commits) {
            fail(format!(
                "server {number} acknowledged in epoch {epoch} without what was acknowledged before"
            ));
        }
    }
}

impl Life {
    /// One step of a client. False when this server was overtaken.
    pub(crate) fn step(&mut self) -> bool {
        let db = &mut self.db;
        let families = db.families();
        let any = families[below(families.len() as u64) as usize];
        match below(40) {
            0 => {
                db.create_next_family();
            }
            1 if any >= FAMILIES => db.drop_family(any),
            2 | 3 => {
                let is_kept = !once_in(3);
                return db.load(any, is_kept);
            }
            4..=7 => return db.flush(any, once_in(2)),
            8 | 9 => db.delete_obsolete_wals(),
            10 => db.roll_manifest(),
            11 | 12 => {
                let published = db.store.publish(WAIT);
                return self.goes_on(published, "publish");
            }
            13..=16 => db.sync(),
            17..=19 => sim::sleep(Duration::from_millis(below(500))),
            20..=24 => return self.acknowledge(),
            _ => self.commit(),
        }
        if once_in(2) {
            sim::sleep(Duration::from_millis(below(20)));
        }
        true
    }

    /// Commits one transaction that writes to all families. It waits for nothing.
    pub(crate) fn commit(&mut self) {
        let bits = self.db.families().iter().fold(0, |bits, family| bits | 1 << family);
        self.db.commit(&mut self.history.lock(), bits, below(20), below(u64::MAX));
    }

    /// Waits until the bucket has everything that was committed. False when this server was overtaken.
    pub(crate) fn acknowledge(&mut self) -> bool {
        let (position, commits) = (self.db.store.wal_position(), self.history.lock().commits.clone());
        let shipped = self.db.store.wait_shipped(position, WAIT);
        if shipped.is_ok() {
            self.world.acknowledged(self.epoch, &commits, self.number);
        }
        self.goes_on(shipped, "wait for the bucket")
    }

    fn goes_on(&self, outcome: Result<()>, what: &str) -> bool {
        match outcome {
            Ok(()) => true,
            Err(StoreError::Fenced(_)) => {
                if !self.world.is_overtaken(self.epoch) {
                    fail(format!("server {} was fenced and nobody has claimed: {what}", self.number));
                }
                false
            }
            Err(StoreError::Unavailable(message)) => {
                note(&format!("server {}: {what}: too late", self.number));
                let _ = message;
                true
            }
            Err(error) => {
                fail(format!("server {}: {what}: {error}", self.number));
                false
            }
        }
    }

    /// Simulates the death of the process; its directory stays.
    pub(crate) fn crash(self) {
        note(&format!("server {} crashes", self.number));
        self.line.cut();
        crash(self.db);
    }

    /// Simulates the loss of the machine, with its directory.
    pub(crate) fn lose(self) {
        note(&format!("server {} is lost", self.number));
        self.line.cut();
        lose(self.db, self.dir.path());
    }

    /// Shuts the server down in order; a server that was overtaken crashes instead.
    pub(crate) fn close(mut self) {
        note(&format!("server {} closes", self.number));
        if self.acknowledge() {
            let _ = self.db.store.close(WAIT);
        } else {
            self.crash();
        }
    }
}

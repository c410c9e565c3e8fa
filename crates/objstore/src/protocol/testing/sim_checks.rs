//! Checks what must hold in the bucket at every moment of a simulation, whenever a root is created or an
//! object deleted.

use crate::protocol::format::image::{self, Image};
use crate::protocol::format::names;
use crate::protocol::format::records::RootId;
use crate::protocol::gc::{Needs, Use};
use crate::protocol::history::pin;
use crate::protocol::inspection::inspect::Inspector;
use crate::protocol::start::claim;
use crate::protocol::testing::sim_world::JUMP;
use crate::requests::bucket::{Bucket, Parts};
use crate::sim::network::{Network, Verb};
use crate::sim::{BEGIN_S, elapsed, fail};
use object_store::memory::InMemory;
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashSet};
use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// Folders whose objects no reader of the database reads.
const UNREAD: [&str; 5] = ["hint/", names::TOMB_DIR, names::PIN_DIR, names::SNAPSHOT_DIR, names::HORIZON_DIR];

/// A root that is or was the newest, and the objects that its readers need.
struct Newest {
    id: RootId,
    needs: Needs,
    files: HashSet<String>,
    /// The time since which another root is the newest; None: this one is.
    former_since: Option<Duration>,
}

/// Watches the bucket of a simulation, and reports a failure when a rule is broken.
pub(crate) struct Watcher {
    inspector: Inspector,
    /// How long the objects of a root stay readable after another root has become the newest.
    grace: Duration,
    /// How long a state stays in the history.
    retention: Duration,
    roots: Mutex<Vec<Newest>>,
    /// The keys that each snapshot needs, by its name, and each pin of the history, by the key of the pin.
    pinned: Mutex<BTreeMap<String, HashSet<String>>>,
    /// Pins of the history that were dropped. When a late PUT creates such a pin once more, the pin keeps
    /// nothing.
    dropped: Mutex<HashSet<String>>,
}

/// The bucket without the simulated network, so that each request ends at once.
pub(crate) fn direct(store: &Arc<InMemory>) -> Bucket {
    Bucket::new(Parts::in_process(Arc::clone(store) as _, "the simulated bucket"))
}

/// Runs `work`, which never waits, to its end without letting simulated time pass.
pub(crate) fn at_once<T>(work: impl Future<Output = T>) -> T {
    let mut work = std::pin::pin!(work);
    for _ in 0..100_000 {
        if let Poll::Ready(result) = work.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return result;
        }
    }
    panic!("a look into the bucket waits for something")
}

impl Watcher {
    /// Checks every PUT and DELETE that reaches the bucket of `network` from now on.
    pub(crate) fn watch(network: &Arc<Network>, grace: Duration, retention: Duration) -> Arc<Self> {
        let inspector = Inspector::new(direct(&network.store));
        let (roots, pinned, dropped) = Default::default();
        let watcher = Arc::new(Self { inspector, grace, retention, roots, pinned, dropped });
        let hears = Arc::clone(&watcher);
        network.on_landed(Box::new(move |verb, key| hears.landed(verb, key)));
        watcher
    }

    /// Notes that the snapshot `name` was made: from now on none of its objects may be deleted.
    pub(crate) fn pinned(&self, name: &str) {
        match at_once(self.inspector.verify_snapshot(name, true, |_, _| {})) {
            Ok(report) if report.problems.is_empty() => {}
            Ok(report) => {
                return fail(format!("the new snapshot '{name}' misses something: {:?}", report.problems));
            }
            Err(error) => return fail(format!("the new snapshot '{name}' cannot be read: {error}")),
        }
        let keys = at_once(self.inspector.snapshot_keys(name)).unwrap();
        self.pinned.lock().insert(name.to_owned(), keys);
    }

    /// Notes that the snapshot `name` is about to be dropped, so that its objects may be deleted.
    pub(crate) fn unpinned(&self, name: &str) {
        self.pinned.lock().remove(name);
    }

    /// Notes a pin of the history that was created. A pin of an overtaken owner does not count, because it
    /// may come too late; that owner notices this afterwards.
    fn note_history(&self, key: &str, root: RootId) {
        let bucket = self.inspector.bucket();
        let is_owner = at_once(claim::newest_epoch(bucket)).is_ok_and(|newest| newest == root.epoch);
        let load = async { image::objects(bucket, &image::load(bucket, root).await?).await };
        if is_owner && let Ok(objects) = at_once(load) {
            let keys = objects.into_iter().map(|(key, _)| key.as_ref().to_owned()).collect();
            self.pinned.lock().insert(key.to_owned(), keys);
        }
    }

    /// Checks HISTORY-2 and HISTORY-3: when the pin `key` of `root` is dropped, the next one is as old as the
    /// retention.
    fn check_history(&self, key: &str, root: RootId) {
        if !self.pinned.lock().contains_key(key) {
            return;
        }
        let pins = at_once(self.inspector.bucket().list(names::PIN_DIR, None)).unwrap();
        let roots = pins.iter().filter_map(|pin| pin::history_root_of(&pin.key));
        let next = roots.filter(|other| *other > root).min();
        let Some(next) = next else { return };
        let Ok(published) = at_once(image::read_root(self.inspector.bucket(), next)) else { return };
        let (now, jump) = (elapsed(), JUMP);
        let by_clock =
            Duration::from_millis(published.published_ms).saturating_sub(Duration::from_secs(BEGIN_S));
        let published = if by_clock > now { by_clock.saturating_sub(jump) } else { by_clock };
        if now + Duration::from_millis(5) < published + self.retention {
            let age = now.saturating_sub(published);
            fail(format!("{key} was dropped although {next:?} behind it is only {age:?} old"));
        }
    }

    fn check_snapshots(&self, key: &str) {
        if let Some((name, _)) = self.pinned.lock().iter().find(|(_, keys)| keys.contains(key)) {
            fail(format!("{key} was deleted although the snapshot '{name}' needs it"));
        }
    }

    fn landed(&self, verb: Verb, key: &str) {
        match (verb, pin::history_root_of(key)) {
            (Verb::Put, Some(root)) if !self.dropped.lock().contains(key) => self.note_history(key, root),
            (Verb::Delete, Some(root)) => {
                self.check_history(key, root);
                self.dropped.lock().insert(key.to_owned());
                self.unpinned(key);
            }
            _ => {}
        }
        if names::parse_slot(names::ROOT_DIR, key).is_some() && verb == Verb::Put {
            self.note_newest();
            self.verify(&format!("after {key} was created"));
        } else if verb == Verb::Delete && !UNREAD.iter().any(|dir| key.starts_with(dir)) {
            self.check_readers(key);
            self.check_snapshots(key);
            self.verify(&format!("after {key} was deleted"));
        }
    }

    /// Checks IMAGE-1 and IMAGE-5: the newest root can be restored.
    fn verify(&self, when: &str) {
        match at_once(self.inspector.verify(true, |_, _| {})) {
            Ok(report) if report.problems.is_empty() => {}
            Ok(report) => fail(format!("{when} the newest root misses something: {:?}", report.problems)),
            Err(error) => fail(format!("{when} the newest root cannot be read: {error}")),
        }
    }

    fn note_newest(&self) {
        let Ok(Some((image, _))) = at_once(self.inspector.newest_image()) else { return };
        let Image { root, files } = image;
        let mut roots = self.roots.lock();
        if roots.last().is_some_and(|newest| newest.id == root.id) {
            return;
        }
        let now = elapsed();
        roots.retain(|root| root.former_since.is_none_or(|since| since + self.grace > now));
        for former in roots.iter_mut() {
            former.former_since.get_or_insert(now);
        }
        let mut needs = Needs::of_root(&root, 0);
        needs.is_former_superfluous = true;
        let files = files.values().map(|file| file.key.as_ref().to_owned()).collect();
        roots.push(Newest { id: root.id, needs, files, former_since: None });
    }

    /// Checks that a reader does not lose object `key`: a root's objects stay for the grace time after
    /// another root has become the newest.
    fn check_readers(&self, key: &str) {
        if names::parse_slot(names::ROOT_DIR, key).is_some() {
            return; // Readers have read their root already.
        }
        let now = elapsed();
        let is_read = |root: &&Newest| root.former_since.is_none_or(|since| since + self.grace > now);
        for root in self.roots.lock().iter().filter(is_read) {
            if root.needs.use_of(key, None, |key| root.files.contains(key)) == Use::Needed {
                let RootId { epoch, slot } = root.id;
                fail(format!("{key} was deleted while a reader of root {epoch}/{slot} may need it"));
            }
        }
    }
}

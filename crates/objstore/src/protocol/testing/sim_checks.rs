//! What must hold in the bucket at every moment of a simulation, checked whenever a root or a DELETE lands.

use crate::protocol::format::image::{self, Image};
use crate::protocol::format::names;
use crate::protocol::format::records::RootId;
use crate::protocol::gc::{Needs, Use};
use crate::protocol::history::pin;
use crate::protocol::inspection::inspect::Inspector;
use crate::protocol::start::claim;
use crate::requests::bucket::{Bucket, Parts};
use crate::sim::network::{Network, Verb};
use crate::sim::{elapsed, fail};
use object_store::memory::InMemory;
use parking_lot::Mutex;
use std::collections::{BTreeMap, HashSet};
use std::future::Future;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

/// Names that no reader of the database reads begin with these.
const UNREAD: [&str; 5] = ["hint/", names::TOMB_DIR, names::PIN_DIR, names::SNAPSHOT_DIR, names::HORIZON_DIR];

/// A root that is or was the newest, and what its readers need.
struct Newest {
    id: RootId,
    needs: Needs,
    files: HashSet<String>,
    /// Since when another root is the newest.
    former_since: Option<Duration>,
}

/// Watches the bucket of a simulation.
pub(crate) struct Watcher {
    inspector: Inspector,
    /// For how long a reader of a root finds all of it after the root was the newest.
    grace: Duration,
    roots: Mutex<Vec<Newest>>,
    /// What snapshots need, by their names, and pins of the history by their keys.
    pinned: Mutex<BTreeMap<String, HashSet<String>>>,
    /// Pins of the history that were dropped: if the PUT of one lands once more, that pin holds nothing.
    dropped: Mutex<HashSet<String>>,
}

/// The bucket itself: without the network, each request ends at once.
pub(crate) fn direct(store: &Arc<InMemory>) -> Bucket {
    Bucket::new(Parts::in_process(Arc::clone(store) as _, "the simulated bucket"))
}

/// Runs `work`, which waits for nothing, to its end at this moment of the history.
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
    /// Looks at everything that lands in the bucket of `network` from now on.
    pub(crate) fn watch(network: &Arc<Network>, grace: Duration) -> Arc<Self> {
        let inspector = Inspector::new(direct(&network.store));
        let (roots, pinned, dropped) = Default::default();
        let watcher = Arc::new(Self { inspector, grace, roots, pinned, dropped });
        let hears = Arc::clone(&watcher);
        network.on_landed(Box::new(move |verb, key| hears.landed(verb, key)));
        watcher
    }

    /// The snapshot `name` was made: from now on nothing of it may go.
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

    /// The snapshot `name` is about to be dropped.
    pub(crate) fn unpinned(&self, name: &str) {
        self.pinned.lock().remove(name);
    }

    /// A pin of the history has landed. The pin of an overtaken owner may be too late, which that owner sees
    /// afterwards.
    fn note_history(&self, key: &str, root: RootId) {
        let bucket = self.inspector.bucket();
        let is_owner = at_once(claim::newest_epoch(bucket)).is_ok_and(|newest| newest == root.epoch);
        let load = async { image::objects(bucket, &image::load(bucket, root).await?).await };
        if is_owner && let Ok(objects) = at_once(load) {
            let keys = objects.into_iter().map(|(key, _)| key.as_ref().to_owned()).collect();
            self.pinned.lock().insert(key.to_owned(), keys);
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
            (Verb::Delete, Some(_)) => {
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

    /// IMAGE-1, IMAGE-5: the newest root can be restored.
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

    /// A reader that works from a root that was the newest less than the grace time ago finds all of it.
    fn check_readers(&self, key: &str) {
        if names::parse_slot(names::ROOT_DIR, key).is_some() {
            return; // A reader has read its root.
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

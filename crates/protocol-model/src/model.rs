//! The whole model for the checker: the state of the bucket and all servers, and all steps.

use crate::bucket::{Bucket, Files, Nonce, Request};
use crate::claim::{self, Claim, Next};
use crate::disk::Disk;
use crate::open;
use crate::owner::Owner;
use crate::publish::{self, Publish};
use crate::restore::{Commits, Damage, restore_newest};
use crate::step::Step;
use crate::{Bound, Gates, invariants};
use stateright::{Model, Property};

/// The model, for given bounds and rules.
#[derive(Debug, Clone)]
pub struct Protocol {
    /// How many events of each kind may happen in one history.
    pub bound: Bound,
    /// The rules that are switched on.
    pub gates: Gates,
}

/// The process of a server, if one runs.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub enum Process {
    /// No process runs.
    #[default]
    Down,
    /// The process is taking the database over.
    Claiming(Claim),
    /// The process owns the database, or believes that it does.
    Open(Box<Owner>),
}

/// One server: its directory and its process.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Server {
    /// The content of the server's local directory.
    pub disk: Disk,
    /// What the server's process does.
    pub process: Process,
    /// How often the server was started.
    pub starts: u8,
}

/// How many of the events that [`Bound`] limits have happened so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Spent {
    flushes: u8,
    compactions: u8,
    creates: u8,
    drops: u8,
    roots: u8,
    crashes: u8,
    lost_disks: u8,
    damages: u8,
    repeats: u8,
    lies: u8,
}

/// The error of an open that went wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Wrong {
    /// The bucket was mistaken for an older state that was put back (OPEN-3).
    Refused,
    /// The base could not be restored.
    Damaged(Damage),
    /// Transactions that had been acknowledged were not found.
    Lost,
    /// The directory of the server that published the base was set aside, and with it everything that is not
    /// in the bucket.
    SetAside,
}

/// The state of the bucket and of all servers, and what was promised.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct State {
    /// The bucket.
    pub bucket: Bucket,
    /// The servers.
    pub servers: Vec<Server>,
    /// All transactions of the history.
    pub commits: Commits,
    /// The transactions that were acknowledged with `atoll_durability=sync`, as bits.
    pub acknowledged: u32,
    /// How many creations of families were acknowledged.
    pub edits_acknowledged: u8,
    /// The epoch in which each table file was made. The index is the number of the table file.
    pub files: Vec<u8>,
    /// The result of a restore from the bucket alone in this state: the damage, or whether it finds
    /// everything that was acknowledged. The other fields determine it. None: no server has sent a request
    /// yet.
    pub found: Option<Result<bool, Damage>>,
    /// The first open that went wrong; None: no open went wrong. The model takes no step after it.
    pub wrong: Option<Wrong>,
    spent: Spent,
}

impl Model for Protocol {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        vec![State { servers: vec![Server::default(); usize::from(self.bound.servers)], ..State::default() }]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        if state.wrong.is_some() {
            return;
        }
        for (at, server) in (0..).zip(&state.servers) {
            match &server.process {
                Process::Down => self.steps_down(state, at, server, steps),
                Process::Claiming(claim) => {
                    if let Claim::Listing(_, former) = claim {
                        let slots = state.bucket.epoch(*former).roots.len() as u8;
                        steps.extend((0..=slots).map(|seen| Step::List(at, seen)));
                    } else if claim::step(&state.bucket, claim, state.nonce(at), &self.gates).is_some() {
                        steps.push(Step::Claim(at));
                    }
                    let looks = matches!(claim, Claim::LookingBehind(_));
                    steps.extend((looks && state.spent.lies < self.bound.lies).then_some(Step::Lie(at)));
                }
                Process::Open(owner) => self.steps_open(state, at, &server.disk, owner, steps),
            }
            if server.process != Process::Down && state.spent.crashes < self.bound.crashes {
                steps.push(Step::Crash(at));
            }
        }
        for request in &state.bucket.requests {
            steps.push(Step::Land(request.clone()));
            if state.spent.repeats < self.bound.repeats && !matches!(request, Request::Delete(_)) {
                steps.push(Step::LandTwice(request.clone()));
            }
        }
    }

    fn next_state(&self, state: &State, step: Step) -> Option<State> {
        let mut next = state.clone();
        match step {
            Step::Land(request) => {
                next.bucket.land(&request);
                next.bucket.requests.remove(&request);
            }
            Step::LandTwice(request) => {
                next.bucket.land(&request);
                next.spent.repeats += 1;
            }
            Step::Start(at) => self.start(&mut next, at),
            Step::List(at, seen) => self.list(&mut next, at, seen)?,
            Step::Claim(at) => self.claim(&mut next, at)?,
            Step::Lie(at) => self.lie(&mut next, at)?,
            Step::Crash(at) => {
                next.servers[usize::from(at)].process = Process::Down;
                next.spent.crashes += 1;
            }
            Step::LoseDisk(at) => {
                next.servers[usize::from(at)].disk = Disk::default();
                next.spent.lost_disks += 1;
            }
            Step::Damage(at) => {
                next.servers[usize::from(at)].disk.cut_wal();
                next.spent.damages += 1;
            }
            Step::Commit(at) => next.commit(at),
            Step::Flush(..) | Step::Compact(_) | Step::Create(_) | Step::Drop(_) | Step::DeleteWal(_) => {
                self.rocksdb(&mut next, &step)?;
            }
            step => self.owner(&mut next, &step)?,
        }
        next.bucket.forget_futile();
        if next.bucket != state.bucket || next.acknowledged != state.acknowledged {
            next.look(&self.gates);
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        invariants::all()
    }
}

impl State {
    /// The owner at `at` with its directory; None when no owner runs there.
    fn open_mut(&mut self, at: u8) -> Option<(&mut Owner, &mut Disk)> {
        let server = &mut self.servers[usize::from(at)];
        match &mut server.process {
            Process::Open(owner) => Some((owner, &mut server.disk)),
            _ => None,
        }
    }

    fn look(&mut self, gates: &Gates) {
        let found = restore_newest(&self.bucket, &self.commits, gates);
        self.found = Some(found.map(|found| {
            open::has_all(&found.line, self.acknowledged) && found.edits >= self.edits_acknowledged
        }));
    }

    fn stop(&mut self, at: u8) {
        self.servers[usize::from(at)].process = Process::Down;
    }

    fn nonce(&self, at: u8) -> Nonce {
        (at, self.servers[usize::from(at)].starts)
    }

    fn commit(&mut self, at: u8) {
        let commit = self.commits.len() as u8 + 1;
        if let Some((owner, disk)) = self.open_mut(at) {
            let made = (disk.last(), disk.edits);
            disk.line.push(commit);
            owner.appended(disk);
            self.commits.push(made);
        }
    }

    fn former_files(&self, epoch: u8) -> Files {
        (0..).zip(&self.files).filter(|(_, made_in)| **made_in < epoch).map(|(file, _)| 1 << file).sum()
    }

    /// Acknowledges the transactions that newly count as covered for the owner at `at`.
    fn acknowledge(&mut self, at: u8, gates: &Gates) {
        let Some((owner, _)) = self.open_mut(at) else { return };
        let covered = owner.cover(gates);
        self.acknowledged |= covered.iter().map(|commit| 1 << commit).sum::<u32>();
    }
}

impl Protocol {
    fn steps_down(&self, state: &State, at: u8, server: &Server, steps: &mut Vec<Step>) {
        let Protocol { bound, .. } = self;
        let starts = state.servers.iter().map(|server| server.starts).sum::<u8>();
        // Servers are alike. So a server starts for the first time only after the one before it has started,
        // which leaves out histories that differ only in the numbers of the servers.
        let is_next = at == 0 || state.servers[usize::from(at) - 1].starts > 0;
        if starts < bound.starts && is_next {
            steps.push(Step::Start(at));
        }
        if server.disk.is_present && state.spent.lost_disks < bound.lost_disks {
            steps.push(Step::LoseDisk(at));
        }
        if server.disk.is_present && state.spent.damages < bound.damages {
            steps.push(Step::Damage(at));
        }
    }

    fn steps_open(&self, state: &State, at: u8, disk: &Disk, owner: &Owner, steps: &mut Vec<Step>) {
        let Protocol { bound, gates } = self;
        let spent = &state.spent;
        let mut may = |is_possible: bool, step: Step| {
            if is_possible {
                steps.push(step);
            }
        };
        may(state.commits.len() < usize::from(bound.commits), Step::Commit(at));
        for is_a in [true, false] {
            may(spent.flushes < bound.flushes && disk.may_flush(is_a), Step::Flush(at, is_a));
        }
        may(spent.compactions < bound.compactions && disk.live.count_ones() > 1, Step::Compact(at));
        may(spent.creates < bound.creates, Step::Create(at));
        may(spent.drops < bound.drops && disk.last() > disk.drop, Step::Drop(at));
        may(disk.deletable_wal() > disk.wal_from, Step::DeleteWal(at));
        let held = match &owner.publish {
            Some(Publish::Waiting(snapshot)) => snapshot.files,
            _ => 0,
        };
        for file in 0..state.files.len() as u8 {
            let is = |files: Files| files & (1 << file) != 0;
            may(is(disk.local) && is(disk.live | held) && !is(owner.uploaded), Step::Upload(at, file));
            let may_go = if gates.root_before_evict { owner.published } else { owner.uploaded };
            may(is(disk.local & disk.live & may_go), Step::Evict(at, file));
        }
        may(!owner.uncut.is_empty(), Step::Ship(at));
        for chunk in owner.pieces.iter().filter(|piece| !piece.has_arrived).filter_map(|piece| piece.chunk) {
            may(state.bucket.wal(owner.epoch, chunk).is_some(), Step::Shipped(at, chunk));
        }
        match &owner.publish {
            None => may(spent.roots < bound.roots, Step::Snapshot(at)),
            Some(Publish::Waiting(snapshot)) => {
                let is_stale = gates.files_before_root && publish::is_stale(owner, disk, snapshot);
                may(is_stale || publish::may_send(owner, snapshot, gates), Step::Send(at));
            }
            Some(Publish::Sent(root)) => may(state.bucket.root(root.id).is_some(), Step::Published(at)),
        }
    }

    fn start(&self, state: &mut State, at: u8) {
        let server = &mut state.servers[usize::from(at)];
        if open::is_refused(&state.bucket, &server.disk) {
            state.wrong = Some(Wrong::Refused);
            return;
        }
        server.starts += 1;
        let (claim, request) = claim::begin(&state.bucket, (at, server.starts));
        server.process = Process::Claiming(claim);
        state.bucket.requests.insert(request);
    }

    fn list(&self, state: &mut State, at: u8, seen: u8) -> Option<()> {
        let Process::Claiming(Claim::Listing(epoch, former)) = &state.servers[usize::from(at)].process else {
            return None;
        };
        let next = claim::list(&state.bucket, *epoch, *former, seen, &self.gates)?;
        self.go(state, at, next);
        Some(())
    }

    fn claim(&self, state: &mut State, at: u8) -> Option<()> {
        let nonce = state.nonce(at);
        let Process::Claiming(claim) = &state.servers[usize::from(at)].process else { return None };
        let next = claim::step(&state.bucket, claim, nonce, &self.gates)?;
        self.go(state, at, next);
        Some(())
    }

    fn lie(&self, state: &mut State, at: u8) -> Option<()> {
        state.spent.lies += 1;
        let Process::Claiming(Claim::LookingBehind(fencing)) = &state.servers[usize::from(at)].process else {
            return None;
        };
        if !self.gates.fence_is_listed {
            let next = claim::believe(&state.bucket, fencing, &self.gates);
            self.go(state, at, next);
        }
        Some(())
    }

    fn go(&self, state: &mut State, at: u8, next: Next) {
        let State { bucket, servers, commits, .. } = state;
        let server = &mut servers[usize::from(at)];
        match next {
            Next::Go(claim, request) => {
                server.process = Process::Claiming(claim);
                bucket.requests.extend(request);
            }
            Next::Failed => server.process = Process::Down,
            Next::Done(epoch, base, wal_end) => {
                match open::prepare(bucket, &mut server.disk, (epoch, base, wal_end), commits, &self.gates) {
                    Ok(owner) => {
                        let has_all = open::has_all(&server.disk.line, state.acknowledged);
                        // If there is a newer epoch, commits of its owner may have been acknowledged
                        // meanwhile. This process is fenced then, so their absence is no loss.
                        if !has_all && bucket.newest_epoch() == epoch {
                            state.wrong = Some(Wrong::Lost);
                        }
                        server.process = Process::Open(Box::new(owner));
                    }
                    Err(wrong) if bucket.newest_epoch() == epoch => state.wrong = Some(wrong),
                    // A newer owner has deleted the base, so reading it fails. The next start finds the
                    // fence.
                    Err(_) => server.process = Process::Down,
                }
            }
        }
    }

    /// Takes a step of RocksDB, and models the call with which RocksDB notifies the store.
    fn rocksdb(&self, state: &mut State, step: &Step) -> Option<()> {
        let file = state.files.len() as u8;
        let spent = &mut state.spent;
        let (Step::Flush(at, _)
        | Step::Compact(at)
        | Step::Create(at)
        | Step::Drop(at)
        | Step::DeleteWal(at)) = step
        else {
            return None;
        };
        let server = &mut state.servers[usize::from(*at)];
        let (Process::Open(owner), disk) = (&mut server.process, &mut server.disk) else { return None };
        match step {
            Step::Flush(_, is_a) => {
                disk.flush(*is_a, file);
                spent.flushes += 1;
                state.files.push(owner.epoch);
            }
            Step::Compact(_) => {
                disk.compact(file);
                spent.compactions += 1;
                state.files.push(owner.epoch);
            }
            Step::Create(_) => {
                disk.edits += 1;
                spent.creates += 1;
                owner.ddl_noted += 1;
            }
            Step::Drop(_) => {
                disk.drop = disk.last();
                spent.drops += 1;
                owner.drop_noted = disk.len();
            }
            _ => {
                disk.wal_from = disk.deletable_wal();
                owner.wal_deleted(disk.wal_from, &self.gates);
            }
        }
        owner.seen |= disk.live;
        Some(())
    }

    /// Takes a step of one of the store's background tasks.
    fn owner(&self, state: &mut State, step: &Step) -> Option<()> {
        let gates = &self.gates;
        match step {
            Step::Upload(at, file) => {
                state.open_mut(*at)?.0.uploaded |= 1 << file;
                state.bucket.files |= 1 << file;
            }
            Step::Evict(at, file) => state.open_mut(*at)?.1.local &= !(1 << file),
            Step::Ship(at) => {
                let request = state.open_mut(*at)?.0.cut();
                state.bucket.requests.insert(request);
            }
            Step::Shipped(at, chunk) => {
                let State { bucket, servers, .. } = state;
                let Process::Open(owner) = &mut servers[usize::from(*at)].process else { return None };
                match owner.resolve_chunk(bucket, *chunk)? {
                    true => state.acknowledge(*at, gates),
                    false => state.stop(*at),
                }
            }
            Step::Snapshot(at) => {
                let (owner, disk) = state.open_mut(*at)?;
                publish::take_snapshot(owner, disk, gates);
                state.spent.roots += 1;
            }
            Step::Send(at) => self.send(state, *at)?,
            Step::Published(at) => self.published(state, *at)?,
            _ => return None,
        }
        Some(())
    }

    fn send(&self, state: &mut State, at: u8) -> Option<()> {
        let (owner, disk) = state.open_mut(at)?;
        let Some(Publish::Waiting(snapshot)) = owner.publish.clone() else { return None };
        if publish::is_stale(owner, disk, &snapshot) && self.gates.files_before_root {
            publish::take_snapshot(owner, disk, &self.gates);
        } else if publish::may_send(owner, &snapshot, &self.gates) {
            let requests = publish::send(owner, disk, &snapshot, &self.gates, self.bound.roots_kept);
            state.bucket.requests.extend(requests);
        } else {
            return None;
        }
        Some(())
    }

    fn published(&self, state: &mut State, at: u8) -> Option<()> {
        let epoch = state.open_mut(at)?.0.epoch;
        let former = state.former_files(epoch);
        let State { bucket, servers, .. } = state;
        let server = &mut servers[usize::from(at)];
        let Process::Open(owner) = &mut server.process else { return None };
        let kept = self.bound.roots_kept;
        match publish::resolve(owner, &mut server.disk, bucket, &self.gates, kept, former)? {
            Ok(request) => {
                state.bucket.requests.insert(request);
                let edits = state.bucket.last_edits(epoch);
                state.edits_acknowledged = state.edits_acknowledged.max(edits);
                state.acknowledge(at, &self.gates);
            }
            Err(()) => state.stop(at),
        }
        Some(())
    }
}

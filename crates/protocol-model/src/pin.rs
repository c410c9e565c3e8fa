//! A model of pins and the collector (gate PUB-G5, rules GC-8 and GC-9). It models protocol/history/pin.rs,
//! protocol/history/snapshot.rs and protocol/gc/collector.rs of objstore.
//!
//! ```text
//! pin root R:                       collect:
//!   create pin/<id> {R}               a tomb: what the newest root H does not need
//!   read the horizon                  create gc/horizon/<H>
//!   H > R: delete the pin, give up    list pin/
//!                                     delete what only roots < H need that no pin names
//! copy a pin of R, as a clone of a snapshot or of a clone does:
//!   create pin/<id> {R}
//!   look at the other pin: is it gone? delete the own one, give up
//! ```

use stateright::{Model, Property};

/// The model: how many events of each kind may happen, and which rules are switched on.
#[derive(Debug, Clone)]
pub struct Pins {
    /// How many roots are published.
    pub roots: u8,
    /// How many processes make a pin; each makes one.
    pub pinners: u8,
    /// How often the collector runs.
    pub runs: u8,
    /// PUB-G5: the horizon is durable before pins are listed.
    pub horizon_before_list: bool,
    /// The writer of a pin reads the horizon after it has written the pin.
    pub horizon_after_pin: bool,
    /// A program that copies a pin checks afterwards whether the original still exists.
    pub original_after_copy: bool,
    /// How often a listing of the pins is wrong and shows none.
    pub lies: u8,
    /// How often the root of a pin that is in use is absent for a moment while the collector looks.
    pub losses: u8,
    /// GC-8: the collector does not believe a listing that lacks a pin which it knows and which is there, and
    /// repeats one without any pin.
    pub doubts_listings: bool,
    /// GC-9: the collector deletes nothing while the root of a pin that certainly counts is absent.
    pub absence_holds: bool,
}

/// A process that pins a root.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Pinner {
    /// The process has not begun.
    Idle,
    /// The process has seen this root as the newest, and has sent its pin.
    Sent(u8),
    /// The pin is in the bucket.
    Written(u8),
    /// The process has seen that another pinner has a pin of a root, and has sent a copy of it. The numbers
    /// are the root and the other pinner.
    CopySent(u8, u8),
    /// The copy of the pin is in the bucket.
    CopyWritten(u8, u8),
    /// The process relies on the pin and uses the root.
    Using(u8),
    /// The process has given up, or does not need its pin any more.
    Done,
}

/// How far a run of the collector is. The root number is its horizon: objects that only roots below the
/// horizon need may be deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Run {
    /// The collector does not run.
    Idle,
    /// The collector has written a tomb: the list of objects that it will delete.
    Tomb(u8),
    /// The collector is about to list the pins. PUB-G5 demands that it has created the horizon in the bucket
    /// before. Without PUB-G5 it creates the horizon only after the listing.
    Horizon(u8),
    /// The collector has listed the pins. The second number has a bit for each root that they keep.
    Listed(u8, u8),
}

/// The state of the bucket and of all processes. Object R is needed by root R only. `objects` and `deletes`
/// (DELETEs on their way to the bucket) have one bit for each object.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct State {
    newest: u8,
    horizon: u8,
    objects: u8,
    deletes: u8,
    runs: u8,
    run: Run,
    /// The pinners whose pins the collector has listed, as bits.
    known: u8,
    lies: u8,
    losses: u8,
    pinners: Vec<Pinner>,
}

/// One step of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The owner publishes a root.
    Publish,
    /// The collector takes its next step.
    Collect,
    /// The collector's listing of the pins shows none.
    Lie,
    /// The collector does not find the root of a pin that is in use, and later it is there again.
    Miss(u8),
    /// The collector dies. The bucket can still carry out the requests that the collector has sent.
    CollectorDies,
    /// The bucket carries out the DELETE of an object.
    Delete(u8),
    /// A pinner takes its next step.
    Pin(usize),
    /// A pinner begins to copy the pin of another.
    Copy(usize, usize),
}

impl Model for Pins {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let pinners = vec![Pinner::Idle; usize::from(self.pinners)];
        let (horizon, deletes, runs, known, lies, losses) = Default::default();
        let (newest, objects, run) = (1, 2, Run::Idle);
        vec![State { newest, horizon, objects, deletes, runs, run, known, lies, losses, pinners }]
    }

    fn actions(&self, state: &State, steps: &mut Vec<Step>) {
        if state.newest < self.roots {
            steps.push(Step::Publish);
        }
        if state.run != Run::Idle {
            steps.extend([Step::Collect, Step::CollectorDies]);
        } else if state.runs < self.runs {
            steps.push(Step::Collect);
        }
        if matches!(state.run, Run::Horizon(_)) {
            steps.extend((state.lies < self.lies).then_some(Step::Lie));
            let used = state.pinners.iter().filter_map(|pinner| match pinner {
                Pinner::Using(root) if state.losses < self.losses => Some(Step::Miss(*root)),
                _ => None,
            });
            steps.extend(used);
        }
        steps.extend((0..8).filter(|object| state.deletes & (1 << object) != 0).map(Step::Delete));
        let pinners = 0..state.pinners.len();
        steps.extend(pinners.clone().filter(|at| state.pinners[*at] != Pinner::Done).map(Step::Pin));
        for at in pinners.clone().filter(|at| state.pinners[*at] == Pinner::Idle) {
            let originals = pinners.clone().filter(|from| matches!(state.pinners[*from], Pinner::Using(_)));
            steps.extend(originals.map(|from| Step::Copy(at, from)));
        }
    }

    fn next_state(&self, state: &State, step: Step) -> Option<State> {
        let mut next = state.clone();
        match step {
            Step::Publish => {
                next.newest += 1;
                next.objects |= 1 << next.newest;
            }
            Step::Collect => self.collect(&mut next),
            Step::Lie => self.lie(&mut next),
            Step::Miss(root) => self.miss(&mut next, root),
            Step::CollectorDies => (next.run, next.known) = (Run::Idle, 0),
            Step::Delete(object) => {
                next.objects &= !(1 << object);
                next.deletes &= !(1 << object);
            }
            Step::Pin(at) => next.pinners[at] = self.pin(state, state.pinners[at]),
            Step::Copy(at, from) => {
                let Pinner::Using(root) = state.pinners[from] else { return None };
                next.pinners[at] = Pinner::CopySent(root, from as u8);
            }
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("a pinned root keeps its objects", |_, state: &State| {
                state.pinners.iter().all(|pinner| match pinner {
                    Pinner::Using(root) => state.objects & (1 << root) != 0,
                    _ => true,
                })
            }),
            Property::always("the newest root keeps its objects", |_, state: &State| {
                state.objects & (1 << state.newest) != 0
            }),
            Property::sometimes("a root that is not the newest is in use", |_, state: &State| {
                state
                    .pinners
                    .iter()
                    .any(|pinner| matches!(pinner, Pinner::Using(root) if *root < state.newest))
            }),
            Property::sometimes("objects are collected while a pin is in use", |_, state: &State| {
                let is_used = state.pinners.iter().any(|pinner| matches!(pinner, Pinner::Using(_)));
                is_used && state.objects.count_ones() < u32::from(state.newest)
            }),
            Property::sometimes(
                "a copy outlives its original, and the horizon is above it",
                |_, state: &State| {
                    let is_below =
                        |pinner: &Pinner| matches!(pinner, Pinner::Using(root) if *root < state.horizon);
                    state.pinners.iter().any(is_below) && state.pinners.contains(&Pinner::Done)
                },
            ),
        ]
    }
}

impl Pins {
    fn collect(&self, state: &mut State) {
        state.run = match state.run {
            Run::Idle => {
                state.runs += 1;
                Run::Tomb(state.newest)
            }
            Run::Tomb(horizon) => {
                if self.horizon_before_list {
                    state.horizon = state.horizon.max(horizon);
                }
                Run::Horizon(horizon)
            }
            Run::Horizon(horizon) => {
                state.known = existing(&state.pinners);
                Run::Listed(horizon, pinned(&state.pinners))
            }
            Run::Listed(horizon, pinned) => {
                state.horizon = state.horizon.max(horizon);
                let old = (1..horizon).map(|root| 1 << root).sum::<u8>();
                state.deletes |= old & !pinned & state.objects;
                Run::Idle
            }
        };
    }

    /// A listing shows no pin. If the collector doubts it, a HEAD finds each pin that it knows, or the second
    /// listing is right.
    fn lie(&self, state: &mut State) {
        state.lies += 1;
        if !self.doubts_listings {
            if let Run::Horizon(horizon) = state.run {
                (state.run, state.known) = (Run::Listed(horizon, 0), 0);
            }
        } else if state.known & existing(&state.pinners) != 0 {
            state.run = Run::Idle;
        } else {
            self.collect(state);
        }
    }

    /// The root of a pin in use is absent. The collector deletes nothing, or takes the pin for one that came
    /// too late.
    fn miss(&self, state: &mut State, root: u8) {
        state.losses += 1;
        let Run::Horizon(horizon) = state.run else { return };
        state.known = existing(&state.pinners);
        let others = pinned(&state.pinners) & !(1 << root);
        state.run = if self.absence_holds { Run::Idle } else { Run::Listed(horizon, others) };
    }

    fn pin(&self, state: &State, pinner: Pinner) -> Pinner {
        match pinner {
            Pinner::Idle => Pinner::Sent(state.newest),
            Pinner::Sent(root) => Pinner::Written(root),
            Pinner::Written(root) if self.horizon_after_pin && state.horizon > root => Pinner::Done,
            Pinner::Written(root) => Pinner::Using(root),
            Pinner::CopySent(root, from) => Pinner::CopyWritten(root, from),
            Pinner::CopyWritten(root, from) => {
                let is_there = state.pinners[usize::from(from)] == Pinner::Using(root);
                if is_there || !self.original_after_copy { Pinner::Using(root) } else { Pinner::Done }
            }
            Pinner::Using(_) | Pinner::Done => Pinner::Done,
        }
    }
}

/// The pinners whose pins are in the bucket, as bits.
fn existing(pinners: &[Pinner]) -> u8 {
    let has_pin =
        |pinner: &Pinner| matches!(pinner, Pinner::Written(_) | Pinner::CopyWritten(..) | Pinner::Using(_));
    (0..).zip(pinners).filter(|(_, pinner)| has_pin(pinner)).map(|(at, _): (u8, _)| 1 << at).sum()
}

/// The roots whose pins are in the bucket, as bits.
fn pinned(pinners: &[Pinner]) -> u8 {
    let roots = pinners.iter().filter_map(|pinner| match pinner {
        Pinner::Written(root) | Pinner::CopyWritten(root, _) | Pinner::Using(root) => Some(1 << root),
        _ => None,
    });
    roots.fold(0, |all, root| all | root)
}

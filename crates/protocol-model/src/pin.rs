//! Pins and the collector, as section 3.6 of the design has them (gate G5). No code follows this model yet: it is here for
//! the one that comes next.
//!
//! ```text
//! pin root R:                       collect:
//!   create pin/<id> {R}               H = newest root outside of the retention; create gc/horizon {H}
//!   read the horizon                  list pin/
//!   H >= R: delete the pin, give up   delete what only roots <= H need that no pin names
//! ```

use stateright::{Model, Property};

/// The model.
#[derive(Debug, Clone)]
pub struct Pins {
    /// Roots that are published.
    pub roots: u8,
    /// Processes that each make one pin.
    pub pinners: u8,
    /// Runs of the collector.
    pub runs: u8,
    /// G5: the horizon is durable before pins are listed.
    pub horizon_before_list: bool,
    /// The writer of a pin reads the horizon after it.
    pub horizon_after_pin: bool,
}

/// A process that pins a root.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Pinner {
    /// It has not begun.
    Idle,
    /// It has seen this root as the newest, and has sent its pin.
    Sent(u8),
    /// The pin is in the bucket.
    Written(u8),
    /// It relies on the root.
    Using(u8),
    /// It has given up, or is done.
    Done,
}

/// How far a run of the collector is; root numbers are those at and below which objects may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Run {
    /// Between two runs.
    Idle,
    /// The horizon is durable (or, without G5, is not).
    Horizon(u8),
    /// The roots that stay, as bits.
    Listed(u8, u8),
}

/// Bucket and processes. Root R alone needs object R.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct State {
    newest: u8,
    horizon: u8,
    objects: u8,
    deletes: u8,
    runs: u8,
    run: Run,
    pinners: Vec<Pinner>,
}

/// One step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// The owner publishes a root.
    Publish,
    /// The collector goes on.
    Collect,
    /// The collector dies; its requests may still land.
    CollectorDies,
    /// The DELETE of an object lands.
    Delete(u8),
    /// A pinner goes on.
    Pin(usize),
}

impl Model for Pins {
    type State = State;
    type Action = Step;

    fn init_states(&self) -> Vec<State> {
        let pinners = vec![Pinner::Idle; usize::from(self.pinners)];
        vec![State { newest: 1, horizon: 0, objects: 2, deletes: 0, runs: 0, run: Run::Idle, pinners }]
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
        steps.extend((0..8).filter(|object| state.deletes & (1 << object) != 0).map(Step::Delete));
        steps.extend((0..state.pinners.len()).filter(|at| state.pinners[*at] != Pinner::Done).map(Step::Pin));
    }

    fn next_state(&self, state: &State, step: Step) -> Option<State> {
        let mut next = state.clone();
        match step {
            Step::Publish => {
                next.newest += 1;
                next.objects |= 1 << next.newest;
            }
            Step::Collect => self.collect(&mut next),
            Step::CollectorDies => next.run = Run::Idle,
            Step::Delete(object) => {
                next.objects &= !(1 << object);
                next.deletes &= !(1 << object);
            }
            Step::Pin(at) => next.pinners[at] = self.pin(state, state.pinners[at]),
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
        ]
    }
}

impl Pins {
    fn collect(&self, state: &mut State) {
        state.run = match state.run {
            Run::Idle => {
                state.runs += 1;
                let below = state.newest - 1;
                if self.horizon_before_list {
                    state.horizon = state.horizon.max(below);
                }
                Run::Horizon(below)
            }
            Run::Horizon(below) => Run::Listed(below, pinned(&state.pinners)),
            Run::Listed(below, pinned) => {
                state.horizon = state.horizon.max(below);
                let old = (1..=below).map(|root| 1 << root).sum::<u8>();
                state.deletes |= old & !pinned & state.objects;
                Run::Idle
            }
        };
    }

    fn pin(&self, state: &State, pinner: Pinner) -> Pinner {
        match pinner {
            Pinner::Idle => Pinner::Sent(state.newest),
            Pinner::Sent(root) => Pinner::Written(root),
            Pinner::Written(root) if self.horizon_after_pin && state.horizon >= root => Pinner::Done,
            Pinner::Written(root) => Pinner::Using(root),
            Pinner::Using(_) | Pinner::Done => Pinner::Done,
        }
    }
}

/// What LIST pin/ shows, as bits.
fn pinned(pinners: &[Pinner]) -> u8 {
    let roots = pinners.iter().filter_map(|pinner| match pinner {
        Pinner::Written(root) | Pinner::Using(root) => Some(1 << root),
        _ => None,
    });
    roots.fold(0, |all, root| all | root)
}

//! Wrong answers in a simulation: what a proxy, an old cache or a damaged store answers in place of the bucket.
//!
//! A listing shows nothing, or only its first objects, as if the later pages were lost; the GET of a root does
//! not find it. A server can find out that an answer is wrong only within limits, and the simulation stays
//! within them: [`LISTINGS`] says how many answers to one question are wrong in a row. A listing of pins is
//! either right or empty, because nothing tells that it lacks a pin which the server has never seen. A listing
//! shows only its first objects if the answer before was right. So if a listing of roots shows a fence, it shows
//! everything that was written before that fence, as in the model.

use super::network::{Fate, Verb};
use super::{below, once_in};
use parking_lot::Mutex;
use std::collections::HashMap;

/// The prefixes about whose listings all histories lie, and how many answers to one question are wrong in a row
/// at most.
const LISTINGS: [(&str, u32); 4] = [("db/epoch", 2), ("db/root", 2), (PINS, 1), ("db/man", 1)];

const PINS: &str = "db/pin";

/// Decides which answers are wrong.
#[derive(Default)]
pub(super) struct Wrong {
    /// Besides [`LISTINGS`]: one listing in so many of this prefix is wrong.
    often: Mutex<Option<(u64, &'static str)>>,
    /// How many answers were wrong since the last right one, by server and question.
    in_a_row: Mutex<HashMap<(u64, String), u32>>,
}

impl Wrong {
    /// From now on one listing in `one_in` of the prefix `about` is wrong. None: no more than in other histories.
    pub(super) fn lie(&self, often: Option<(u64, &'static str)>) {
        *self.often.lock() = often;
    }

    /// Returns what happens to the request of `server`: `fate`, another wrong answer, or the right one because
    /// too many were wrong already.
    pub(super) fn fate(&self, server: u64, verb: Verb, name: &str, fate: Fate) -> Fate {
        let often = self.often.lock().filter(|(_, about)| verb == Verb::List && name.starts_with(about));
        let fate = match often {
            Some((one_in, _)) if fate == Fate::Arrives && once_in(one_in) => {
                if name.starts_with(PINS) || below(2) == 0 { Fate::Lies } else { Fate::Short }
            }
            _ => fate,
        };
        if matches!(fate, Fate::Lost | Fate::ReplyLost | Fate::Hangs | Fate::LandsLate | Fate::Busy) {
            return fate; // There is no answer.
        }
        let most = match verb {
            Verb::List => LISTINGS.iter().find(|(prefix, _)| name.starts_with(prefix)).map(|(_, most)| *most),
            Verb::Get => name.starts_with("db/root/").then_some(1),
            Verb::Put | Verb::Delete => None,
        };
        let most = most.unwrap_or(u32::from(often.is_some()));
        let mut in_a_row = self.in_a_row.lock();
        let wrong = in_a_row.entry((server, format!("{verb:?} {name}"))).or_default();
        let may_be_wrong = match fate {
            Fate::Lies => *wrong < most,
            Fate::Short => *wrong == 0 && most > 0 && verb == Verb::List && !name.starts_with(PINS),
            _ => false,
        };
        *wrong = if may_be_wrong { *wrong + 1 } else { 0 };
        if !may_be_wrong && matches!(fate, Fate::Lies | Fate::Short) { Fate::Arrives } else { fate }
    }
}

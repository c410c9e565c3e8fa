//! What one process remembers from one attempt to open a database to the next: the owner that it waits for,
//! and the epoch that it took.
//!
//! OPEN-1: an attempt changes nothing in the bucket's database before [`Opener::be_polite`] lets it go on.
//! OPEN-2: an attempt that fails after it has taken an epoch leaves that epoch to the next one, so a server
//!         that tries again for hours adds only one claim. Only this process may go on with that epoch,
//!         because a former process could have written files in it.

use crate::config::StoreConfig;
use crate::error::{Result, StoreError};
use crate::log::{Level, LogFn};
use crate::protocol::start::alive::Sight;
use crate::protocol::start::claim::{self, OwnEpoch, newest_epoch};
use crate::protocol::start::home::Home;
use crate::protocol::start::open::{self, Options};
use crate::protocol::store::Store;
use crate::requests::bucket::Bucket;
use crate::requests::client;
use crate::requests::s3::region::with_region_blocking;
use crate::stats::Stats;
use parking_lot::Mutex;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

/// Opens one database, in as many attempts as that takes. Clones of an `Opener` share what it remembers.
#[derive(Debug, Clone, Default)]
pub struct Opener {
    memory: Arc<Mutex<Memory>>,
}

#[derive(Debug, Default)]
struct Memory {
    /// What the last attempt saw of an owner that may live, and since when that has not changed.
    watched: Option<(Sight, Instant)>,
    /// How much of the patience is left after the last attempt; zero when it did not wait for an owner.
    left: Duration,
    /// The epoch that a failed attempt has taken, for the next one (OPEN-2); None: none has taken one.
    epoch: Option<OwnEpoch>,
}

/// The server that wants to open the database, and how long it watches the present owner before it takes
/// over.
pub(crate) struct Newcomer<'a> {
    pub(crate) place: &'a str,
    /// The epoch of the local directory; 0 without one.
    pub(crate) own_epoch: u64,
    pub(crate) patience: Duration,
}

impl Opener {
    /// Tries to open the database of `config`, which must be the same in every attempt.
    ///
    /// Errors: as `atoll_store_open` in objstore.h says. `Unavailable` while [`Opener::waits`] is not zero:
    /// another owner may live, so call again. `ReadOnly`: another owner lives.
    pub fn open(&self, config: &StoreConfig, log: LogFn) -> Result<Arc<Store>> {
        let config = &with_region_blocking(config);
        let bucket = client::connect(config, Arc::new(Stats::default()))?;
        open::open(config, bucket, log, Options { opener: self.clone(), ..Options::default() })
    }

    /// How much longer the owner that the last attempt has seen must show no sign of life before this server
    /// takes over; zero when the last attempt did not wait for an owner. No request.
    pub fn waits(&self) -> Duration {
        self.memory.lock().left
    }

    /// Begins an attempt. Returns what the former attempt saw, for [`Opener::be_polite`].
    ///
    /// When an attempt fails before [`Opener::be_polite`], the patience begins anew: while the bucket does
    /// not answer, its owner cannot show that it lives, either.
    pub(crate) fn begin(&self) -> Option<(Sight, Instant)> {
        let mut memory = self.memory.lock();
        memory.left = Duration::ZERO;
        memory.watched.take()
    }

    /// Refuses an attempt that sees `sight`, until the owner has shown no sign of life for the whole
    /// patience. `sight` None: surely no owner lives, so the attempt goes on.
    ///
    /// `former`: what [`Opener::begin`] returned. Errors: `Unavailable` until the same sight was seen for the
    /// whole patience; `ReadOnly`, with the owner's name, when the sight has changed, because then the owner
    /// lives.
    pub(crate) fn be_polite(
        &self,
        former: Option<(Sight, Instant)>,
        sight: Option<Sight>,
        by: &Newcomer<'_>,
        log: &LogFn,
    ) -> Result<()> {
        let Some(now) = sight else { return Ok(()) };
        let since = match former {
            Some((before, _)) if before != now => return Err(StoreError::ReadOnly(in_use(&now, by))),
            Some((_, since)) => since,
            None => Instant::now(),
        };
        let mut memory = self.memory.lock();
        memory.watched = Some((now.clone(), since));
        let left = by.patience.saturating_sub(since.elapsed());
        if left.is_zero() {
            let message = format!(
                "{} of the database in {} has shown no sign of life for {} s: this server takes over",
                now.owner(),
                by.place,
                by.patience.as_secs()
            );
            log(Level::Warning, &message);
            return Ok(());
        }
        memory.left = left;
        Err(StoreError::Unavailable(may_be_in_use(&now, by, left)))
    }

    /// The epoch that a former attempt of this process has taken, if it is still the newest one.
    ///
    /// Requests: one LIST of the claims when there was such an attempt.
    pub(crate) async fn epoch_of_former_try(&self, bucket: &Bucket) -> Result<Option<OwnEpoch>> {
        let taken = self.memory.lock().epoch;
        match taken {
            Some(epoch) if newest_epoch(bucket).await? == epoch.number => Ok(Some(epoch)),
            _ => Ok(None),
        }
    }

    /// Takes a new epoch, and remembers it until [`Opener::opened`].
    ///
    /// Requests: as [`claim::take_epoch`].
    pub(crate) async fn take_epoch(&self, bucket: &Bucket, server: &str, home: &Home) -> Result<OwnEpoch> {
        let epoch = claim::take_epoch(bucket, server, home).await?;
        self.memory.lock().epoch = Some(epoch);
        Ok(epoch)
    }

    /// Forgets the epoch of an attempt that has come so far that files can be written in the epoch: no later
    /// attempt is allowed to use it.
    pub(crate) fn opened(&self) {
        *self.memory.lock() = Memory::default();
    }
}

fn may_be_in_use(sight: &Sight, by: &Newcomer<'_>, left: Duration) -> String {
    format!(
        "the database in {} may be in use: {} was not shut down cleanly. This server waits until it has shown no sign \
         of life for {} s, {} s more, and changes nothing before. If you are sure that it is dead, start with \
         atoll_take_over=ON to go on at once",
        by.place,
        sight.owner(),
        by.patience.as_secs(),
        left.as_secs()
    )
}

fn in_use(sight: &Sight, by: &Newcomer<'_>) -> String {
    let copy = if by.own_epoch == sight.newest_epoch {
        ". The local directory is a copy of the one that server uses; use another atoll_url for an independent \
         copy"
    } else {
        ""
    };
    format!(
        "the database in {} is in use by {}{copy}. Stop that server first, or start this one with \
         atoll_take_over=ON to fence it off",
        by.place,
        sight.owner()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::silent;

    const PATIENCE: Duration = Duration::from_millis(50);

    fn sight(newest_epoch: u64) -> Option<Sight> {
        Some(Sight { newest_epoch, server_id: "s:1".to_owned(), hint: None })
    }

    fn polite(opener: &Opener, sight: Option<Sight>, patience: Duration) -> Result<()> {
        let by = Newcomer { place: "bucket", own_epoch: 4, patience };
        opener.be_polite(opener.begin(), sight, &by, &silent())
    }

    #[test]
    fn whoever_shows_no_change_for_the_whole_patience_is_succeeded() {
        let opener = Opener::default();
        let began = Instant::now();
        while let Err(error) = polite(&opener, sight(3), PATIENCE) {
            assert!(matches!(error, StoreError::Unavailable(_)), "{error}");
            assert!(!opener.waits().is_zero() && opener.waits() <= PATIENCE);
            std::thread::sleep(PATIENCE / 10);
        }
        assert!(began.elapsed() >= PATIENCE, "{:?}", began.elapsed());
        assert!(opener.waits().is_zero());
        // The claim that follows can fail: the next attempt need not wait again.
        assert!(polite(&opener, sight(3), PATIENCE).is_ok());
    }

    #[test]
    fn any_change_is_a_sign_of_life_and_good_bye_ends_the_wait() {
        let opener = Opener::default();
        let long = Duration::from_secs(3600);
        assert!(matches!(polite(&opener, sight(3), long), Err(StoreError::Unavailable(_))));
        let Err(StoreError::ReadOnly(message)) = polite(&opener, sight(4), long) else {
            panic!("not refused")
        };
        assert!(message.contains("atoll_take_over=ON") && message.contains("is a copy"), "{message}");
        assert!(opener.waits().is_zero());
        assert!(matches!(polite(&opener, sight(4), long), Err(StoreError::Unavailable(_))));
        assert!(polite(&opener, None, long).is_ok());
        assert!(opener.waits().is_zero());
    }

    #[test]
    fn the_patience_begins_anew_after_a_try_that_did_not_reach_the_bucket() {
        let opener = Opener::default();
        assert!(polite(&opener, sight(3), PATIENCE).is_err());
        std::thread::sleep(PATIENCE);
        opener.begin();
        assert!(opener.waits().is_zero(), "that try waits for the bucket, not for an owner");
        assert!(matches!(polite(&opener, sight(3), PATIENCE), Err(StoreError::Unavailable(_))));
    }
}

//! Checks create-only PUTs: exactly one of all writers of a name wins, and its bytes stay.

use super::{CertifyOptions, Seen, failed, ok};
use crate::error::Result;
use crate::machine::fill_random;
use crate::requests::bucket::{Bucket, SlotOutcome};
use bytes::Bytes;
use futures_util::future::try_join_all;
use std::sync::Arc;
use tokio::sync::Barrier;

/// Sizes of the written objects, used in turn: roots and claims are small, chunks of the log larger. If a
/// provider wrongly checks for the name before it receives the body, a long body lengthens the time between
/// its check and its write.
const BODY_BYTES: [usize; 3] = [100, 8 << 10, 256 << 10];

/// Makes bytes that no other writer has, by repeating a random nonce. Returns the bytes and the nonce.
fn own_bytes(size: usize) -> Result<(Bytes, [u8; 16])> {
    let mut nonce = [0; 16];
    fill_random(&mut nonce)?;
    let bytes: Vec<u8> = nonce.iter().copied().cycle().take(size.max(nonce.len())).collect();
    Ok((bytes.into(), nonce))
}

/// Checks that a create-only PUT of an existing name does not replace the object.
pub(super) async fn in_sequence(bucket: &Bucket, place: &str) -> Result<Seen> {
    bucket.probe_conditional_put(&format!("{place}/sequence/1")).await?;
    Ok(ok("the second write of a name is refused"))
}

/// Lets many writers create the same name at once, in several rounds. In each round one writer must win, and
/// all must agree which one.
pub(super) async fn in_a_race(bucket: &Bucket, place: &str, options: &CertifyOptions) -> Result<Seen> {
    let mut winners = Vec::new();
    for (round, size) in (0..options.rounds).zip(BODY_BYTES.into_iter().cycle()) {
        let key = format!("{place}/race/{round}");
        match race(bucket, &key, options.writers, size).await? {
            Ok(winner) => winners.push((key, winner)),
            Err(text) => return Ok(failed(format!("race {}: {text}", round + 1))),
        }
    }
    for (key, winner) in &winners {
        let (late, nonce) = own_bytes(100)?;
        let outcome = bucket.create_slot(key, late, &nonce).await?;
        if outcome != SlotOutcome::Lost(winner.clone()) || bucket.get(key).await? != *winner {
            return Ok(failed(format!("{key} does not hold the bytes of the writer that had won it")));
        }
    }
    Ok(ok(format!(
        "{} races of {} writers: each had one winner, whose bytes stay",
        options.rounds, options.writers
    )))
}

/// Runs one race for the name `key`. Returns the winner's bytes, or a text that says what went wrong.
async fn race(bucket: &Bucket, key: &str, writers: usize, size: usize) -> Result<Result<Bytes, String>> {
    let start = Arc::new(Barrier::new(writers));
    let attempts = (0..writers).map(|_| {
        let (bucket, key, start) = (bucket.clone(), key.to_owned(), Arc::clone(&start));
        tokio::spawn(async move {
            let own = own_bytes(size);
            start.wait().await;
            let (bytes, nonce) = own?;
            Ok((bucket.create_slot(&key, bytes.clone(), &nonce).await?, bytes))
        })
    });
    let mut outcomes = Vec::new();
    for ended in futures_util::future::join_all(attempts).await {
        let outcome: Result<_> =
            ended.unwrap_or_else(|e| Err(crate::StoreError::Bug(format!("a writer of the race ended: {e}"))));
        outcomes.push(outcome?);
    }
    let won: Vec<&Bytes> = outcomes
        .iter()
        .filter_map(|(outcome, bytes)| (*outcome == SlotOutcome::Mine).then_some(bytes))
        .collect();
    let [winner] = won.as_slice() else {
        let text = format!(
            "{} of {writers} writers were told that they had created the same object: create-only writes \
             (If-None-Match: *) are not atomic there, and two servers could overwrite each other",
            won.len()
        );
        return Ok(Err(text));
    };
    let agree = |(outcome, _): &(SlotOutcome, Bytes)| match outcome {
        SlotOutcome::Mine => true,
        SlotOutcome::Lost(seen) => seen == *winner,
    };
    if !outcomes.iter().all(agree) {
        return Ok(Err("the writers that lost saw other bytes than the winner's".to_owned()));
    }
    let reads = try_join_all((0..4).map(|_| bucket.get(key))).await?;
    if reads.iter().any(|bytes| bytes != *winner) {
        return Ok(Err("the object does not hold the winner's bytes".to_owned()));
    }
    Ok(Ok((*winner).clone()))
}

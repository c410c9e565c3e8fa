//! Checks reads: a written object is visible at once, a deleted one is gone at once, and a GET of a range
//! returns exactly that range.

use super::{Seen, failed, ok};
use crate::error::Result;
use crate::requests::bucket::Bucket;
use bytes::Bytes;
use futures_util::future::try_join_all;
use std::ops::Range;

/// The number of objects that each check writes, or writes and deletes, and then looks for by GET, HEAD and
/// LIST.
const PROBES: usize = 12;
/// The size of the object that is read in ranges. It has several parts of the cache (256 KiB each), of which
/// the last one is short.
const RANGED_BYTES: u64 = (1 << 20) + 77;

/// Checks that GET, HEAD and LIST find an object as soon as its PUT was answered, even if a GET before the
/// PUT found no object. After an overwriting PUT they show the new bytes.
pub(super) async fn after_write(bucket: &Bucket, place: &str) -> Result<Seen> {
    let checks = (0..PROBES).map(|probe| async move {
        let folder = format!("{place}/fresh/{probe}");
        let key = format!("{folder}/object");
        let first = Bytes::from(format!("first {probe}"));
        let second = Bytes::from(format!("second, longer {probe}"));
        if !matches!(bucket.get(&key).await, Err(error) if error.is_not_found()) {
            return Ok(Some("an object was read that was never written"));
        }
        for bytes in [first, second] {
            bucket.put(&key, bytes.clone()).await?;
            if bucket.get(&key).await? != bytes {
                return Ok(Some("a GET right after a PUT gave other bytes"));
            }
            if bucket.head(&key).await?.size != bytes.len() as u64 {
                return Ok(Some("a HEAD right after a PUT gave another size"));
            }
            let listed = bucket.list(&folder, None).await?;
            if !listed.iter().any(|object| object.key == key && object.size == bytes.len() as u64) {
                return Ok(Some("a LIST right after a PUT does not have the object with its new size"));
            }
        }
        Ok::<_, crate::StoreError>(None)
    });
    match try_join_all(checks).await?.into_iter().flatten().next() {
        Some(text) => Ok(failed(text)),
        None => Ok(ok(format!(
            "{PROBES} objects were found by GET, HEAD and LIST at once, also when overwritten"
        ))),
    }
}

/// Checks that GET, HEAD and LIST do not find deleted objects, that deleting an object again is no error, and
/// that its name can be created anew.
pub(super) async fn deletion(bucket: &Bucket, place: &str) -> Result<Seen> {
    let checks = (0..PROBES).map(|probe| async move {
        let folder = format!("{place}/gone/{probe}");
        let key = format!("{folder}/object");
        bucket.put(&key, Bytes::from_static(b"to be deleted")).await?;
        for _ in 0..2 {
            bucket.delete(&key).await?;
        }
        if !matches!(bucket.get(&key).await, Err(error) if error.is_not_found())
            || !matches!(bucket.head(&key).await, Err(error) if error.is_not_found())
        {
            return Ok(Some("an object was read after its deletion"));
        }
        if !bucket.list(&folder, None).await?.is_empty() {
            return Ok(Some("an object was listed after its deletion"));
        }
        Ok::<_, crate::StoreError>(None)
    });
    match try_join_all(checks).await?.into_iter().flatten().next() {
        Some(text) => Ok(failed(text)),
        None => Ok(ok(format!("{PROBES} deleted objects were gone for GET, HEAD and LIST at once"))),
    }
}

/// Checks GETs of ranges at the start, in the middle and at the end of an object. A range beyond the end must
/// give an error.
pub(super) async fn ranges(bucket: &Bucket, place: &str) -> Result<Seen> {
    let key = format!("{place}/ranged");
    let whole: Vec<u8> = (0..RANGED_BYTES).map(|n| (n ^ (n >> 8) ^ (n >> 16)) as u8).collect();
    bucket.put(&key, Bytes::from(whole.clone())).await?;
    let end = RANGED_BYTES;
    let wanted: [Range<u64>; 6] = [0..1, 0..end, 1..2, 262_144..524_288, end - 77..end, end - 1..end];
    let got = bucket.get_ranges(&key, &wanted).await?;
    for (range, bytes) in wanted.iter().zip(&got) {
        let expected = whole.get(range.start as usize..range.end as usize);
        if expected != Some(bytes) {
            return Ok(failed(format!(
                "bytes {}..{} were asked for, and others came",
                range.start, range.end
            )));
        }
    }
    if bucket.get_range(&key, end..end + 10).await.is_ok()
        || bucket.get_range(&key, end - 5..end + 10).await.is_ok()
    {
        return Ok(failed("a read past the end of an object returned bytes"));
    }
    Ok(ok(format!(
        "{} parallel reads of ranges returned the right bytes; a read past the end returned none",
        wanted.len()
    )))
}

//! Checks listings: they name every object once, in the byte order of the names, over several pages, and from
//! any name on.

use super::{IN_FLIGHT, Seen, failed, ok};
use crate::error::{Result, StoreError};
use crate::requests::bucket::Bucket;
use crate::requests::failure::Failure;
use bytes::Bytes;
use futures_util::{StreamExt, TryStreamExt};

/// The names of the test objects, in byte order. Most look like Atoll's (numbers, folders of two digits). The
/// order of the others shows whether the store compares bytes: `-` and `.` are smaller than `/`, and `_` and
/// `a` are larger than `Z`.
fn names(folder: &str, count: usize) -> Vec<String> {
    let tricky = ["a-b", "a.b", "a/b", "a/c/d", "Z", "_", "a=b"];
    let numbers = (tricky.len()..count).map(|n| match n % 3 {
        0 => format!("{n:020}"),
        1 => format!("{n:020}-{:020}", n + 1),
        _ => format!("{:02x}/1-{n}.sst", n % 256),
    });
    let mut names: Vec<String> = tricky
        .iter()
        .map(|name| (*name).to_owned())
        .chain(numbers)
        .map(|name| format!("{folder}/{name}"))
        .collect();
    names.sort_unstable();
    names
}

/// Writes `count` objects. Checks that one listing names them all in order, and that a listing that begins
/// after a name gives the rest. A directory has no order, so only the second check is made there.
pub(super) async fn order_and_pages(bucket: &Bucket, place: &str, count: usize) -> Result<Seen> {
    let folder = format!("{place}/list");
    let names = names(&folder, count);
    let puts = names.iter().map(|name| bucket.put(name, Bytes::from_static(b"x")));
    futures_util::stream::iter(puts).buffer_unordered(IN_FLIGHT).try_collect::<Vec<()>>().await?;
    if !bucket.is_directory() {
        let order = order_given(bucket, &folder).await?;
        if order != names {
            let at = order.iter().zip(&names).position(|(given, expected)| given != expected);
            let at = at.unwrap_or(order.len().min(names.len()));
            return Ok(failed(format!(
                "{} objects were written and {} listed; at position {at} the listing has '{}', not '{}'",
                names.len(),
                order.len(),
                order.get(at).map_or("", String::as_str),
                names.get(at).map_or("", String::as_str)
            )));
        }
    }
    // Listings that start at the beginning, in the middle, around the border of the first page (1000 names),
    // and at the end.
    for at in [0, count / 2, 998, 999, 1000, count.saturating_sub(2), count.saturating_sub(1)] {
        let Some(after) = names.get(at) else { continue };
        let rest: Vec<String> =
            bucket.list(&folder, Some(after)).await?.into_iter().map(|object| object.key).collect();
        if Some(rest.as_slice()) != names.get(at + 1..) {
            return Ok(failed(format!("the listing from '{after}' on is not the rest of the whole listing")));
        }
    }
    Ok(ok(format!("{} objects, in the order of their names, whole and from any name on", names.len())))
}

/// The names below `folder` in the order in which the store gives them. (`Bucket::list` sorts them, which
/// would hide a wrong order.)
async fn order_given(bucket: &Bucket, folder: &str) -> Result<Vec<String>> {
    let path = bucket.path(folder)?;
    let listing = bucket.repeat("listing", folder, &bucket.stats().requests_list, 1 << 20, || async {
        let metas = bucket.parts.store.list(Some(&path)).try_collect::<Vec<_>>().await;
        metas.map_err(|e| Failure::new(&e))
    });
    listing.await?.iter().map(|meta| Ok::<_, StoreError>(bucket.info(meta)?.key)).collect()
}

//! Tombs: `tomb/<E>/<n>` lists keys that are to be deleted after the grace time, so that no key is forgotten
//! in a crash.
//!
//! A tomb is a text: a line of 16 letters that identify the attempt to write it, a line for each key, and a
//! last line with the CRC-32C of all lines before. A tomb without that last line comes from an older server,
//! and lists only table files.

use crate::crc::crc32c;
use crate::error::{Result, StoreError};
use crate::machine::fill_random;
use crate::protocol::format::names;
use crate::protocol::format::records::RootId;
use crate::requests::bucket::{Bucket, SlotOutcome};
use bytes::Bytes;
use std::collections::HashSet;
use tokio::time::Instant;

/// The most keys in one tomb. A key has about 60 bytes.
pub(super) const KEYS_PER_TOMB_MAX: usize = 1000;
const CRC_PREFIX: &str = "crc32c ";

/// Keys that wait for the end of their grace time.
#[derive(Debug)]
pub(super) struct Tomb {
    pub(super) name: String,
    pub(super) keys: Vec<String>,
    /// The root that was the newest when this owner wrote the tomb, or took it over from a former owner.
    /// Neither this root nor a later one needs the objects.
    pub(super) horizon: RootId,
    /// The objects are deleted at this moment or later.
    pub(super) due: Instant,
}

/// Writes tomb `name`. Errors: as [`Bucket::create_slot`]. After an error the tomb may exist; then a
/// search of the bucket finds it.
pub(super) async fn write(bucket: &Bucket, name: &str, keys: &[String]) -> Result<()> {
    let mut nonce = [0u8; 16];
    fill_random(&mut nonce)?;
    // The first line holds the nonce, so its bytes must not contain a line feed.
    nonce.iter_mut().for_each(|byte| *byte = b'a' + (*byte & 15));
    match bucket.create_slot(name, Bytes::from(encode(&nonce, keys)), &nonce).await? {
        SlotOutcome::Mine => Ok(()),
        SlotOutcome::Lost(_) => Err(StoreError::Unavailable(format!("{name} exists already"))),
    }
}

/// Returns the keys of tomb `name`. None: the tomb is gone. A damaged tomb gives no keys. Nothing is lost by
/// that, because a search of the bucket finds the objects again.
///
/// Requests: one GET, two when the bytes were damaged.
pub(super) async fn read(bucket: &Bucket, name: &str) -> Result<Option<Vec<String>>> {
    for _ in 0..2 {
        match bucket.get(name).await {
            Ok(bytes) => match decode(&bytes) {
                Some(keys) => return Ok(Some(keys)),
                None => continue,
            },
            Err(error) if error.is_not_found() => return Ok(None),
            Err(error) => return Err(error),
        }
    }
    Ok(Some(Vec::new()))
}

/// Returns the keys that all tombs list.
///
/// Errors: the bucket's. Requests: a LIST, and a GET per tomb.
pub(in crate::protocol) async fn listed_keys(bucket: &Bucket) -> Result<HashSet<String>> {
    let mut listed = HashSet::new();
    for tomb in bucket.list(names::TOMB_DIR, None).await? {
        listed.extend(read(bucket, &tomb.key).await?.unwrap_or_default());
    }
    Ok(listed)
}

fn encode(nonce: &[u8], keys: &[String]) -> Vec<u8> {
    let mut text = nonce.to_vec();
    for key in keys {
        text.push(b'\n');
        text.extend_from_slice(key.as_bytes());
    }
    let last = format!("\n{CRC_PREFIX}{:08x}", crc32c(&text));
    text.extend_from_slice(last.as_bytes());
    text
}

/// Decodes the keys of a tomb. None: the bytes are damaged.
pub(in crate::protocol) fn decode(bytes: &[u8]) -> Option<Vec<String>> {
    let text = std::str::from_utf8(bytes).ok()?;
    let (_, body) = text.split_once('\n')?;
    let (listed, last) = body.rsplit_once('\n').unwrap_or(("", body));
    let keys = |lines: &str| lines.lines().map(str::to_owned).collect::<Vec<_>>();
    match last.strip_prefix(CRC_PREFIX) {
        Some(crc) => {
            let before = bytes.len() - last.len() - 1;
            (format!("{:08x}", crc32c(&bytes[..before])) == crc).then(|| keys(listed))
        }
        None => Some(keys(body)).filter(|keys| keys.iter().all(|key| key.starts_with(names::FILE_DIR))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONCE: &[u8; 16] = b"abcdefghijklmnop";

    #[test]
    fn a_tomb_gives_its_keys_back_and_a_damaged_one_gives_none() {
        for keys in
            [vec![], vec!["wal/1/2".to_owned()], vec!["sst/00/1-2.sst".to_owned(), "man/1".to_owned()]]
        {
            let bytes = encode(NONCE, &keys);
            assert_eq!(decode(&bytes), Some(keys.clone()));
            for at in 0..bytes.len() {
                let mut damaged = bytes.clone();
                damaged[at] ^= 4;
                assert_eq!(decode(&damaged), None, "byte {at} of {keys:?}");
            }
        }
    }

    #[test]
    fn a_tomb_of_an_older_server_may_list_table_files_only() {
        assert_eq!(decode(b"nonce\nsst/00/a\nsst/01/b"), Some(vec!["sst/00/a".into(), "sst/01/b".into()]));
        assert_eq!(decode(b"nonce\nsst/00/a\nroot/1/1"), None);
        assert_eq!(decode(b"nonce"), None);
    }
}

//! `db.json`: tells which database the prefix holds, as a text that people and other tools can read.
//!
//! The object is written with a create-only PUT, so two servers that start on an empty bucket agree on one
//! identity. A format that this version does not know is refused: an older server must not touch what a newer
//! one wrote.

use crate::crc::crc32c;
use crate::error::{Result, StoreError};
use crate::machine::fill_random;
use crate::protocol::format::names;
use crate::protocol::format::slots::read_record;
use crate::protocol::start::claim::{newest_epoch, wall_clock_ms};
use crate::requests::bucket::{Bucket, SlotOutcome};
use serde::{Deserialize, Serialize};

/// The number of the layout of the whole bucket. A new version raises it when an older server could damage
/// the new layout.
pub(crate) const BUCKET_FORMAT: u32 = 1;

/// Where a clone began: a root of another database.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Parent {
    pub db_uuid: String,
    pub epoch: u64,
    pub slot: u64,
    /// The origins (origin.rs) of the databases whose files the clone can read; that of the parent is the
    /// first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub origins: Vec<String>,
}

/// The content of `db.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Identity {
    pub(crate) format: u32,
    pub(crate) db_uuid: String,
    /// When the database was created, in milliseconds since 1970; for people only.
    pub(crate) created_ms: u64,
    /// Sixteen hexadecimal digits. They tell a creator whose answer was lost whether the object in the bucket
    /// is its own.
    pub(crate) nonce: String,
    /// Where the clone began; None when the database is no clone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) parent: Option<Parent>,
    /// The uuids of the databases in one of which the rows must have been masked before any server shows them
    /// (rule MASK-3): of this clone, and of those from which it was cloned. Empty: nothing must be masked.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) masked_in: Vec<String>,
    /// CRC-32C of the other fields, see [`Identity::sum`], so that a damaged uuid does not look like another
    /// database.
    pub(crate) crc32c: String,
}

impl Identity {
    fn sum(&self) -> String {
        let mut text = format!("{} {} {} {}", self.format, self.db_uuid, self.created_ms, self.nonce);
        if let Some(Parent { db_uuid, epoch, slot, origins }) = &self.parent {
            text += &format!(" {db_uuid} {epoch} {slot}");
            origins.iter().for_each(|origin| text += &format!(" '{origin}'"));
        }
        self.masked_in.iter().for_each(|uuid| text += &format!(" masked in {uuid}"));
        format!("{:08x}", crc32c(text.as_bytes()))
    }

    /// Whether the rows of this database must still be masked before anybody may read them (rule MASK-3), when
    /// they were masked in the database with the uuid `done_in` last; "": they were never masked.
    pub(crate) fn owes_masking(&self, done_in: &str) -> bool {
        is_owed(&self.masked_in, done_in)
    }

    /// Returns [`Identity::masked_in`] for `child`, a clone of this database. `must_mask`: the rows must be
    /// masked in the clone itself. Otherwise the clone has the duty of this database, which the rows meet that
    /// were masked here before they were cloned.
    pub(crate) fn masked_in_of_clone(&self, child: &str, must_mask: bool) -> Vec<String> {
        let inherited: &[String] = if must_mask { &[] } else { &self.masked_in };
        let has_duty = must_mask || !inherited.is_empty();
        inherited.iter().cloned().chain(has_duty.then(|| child.to_owned())).collect()
    }
}

/// As [`Identity::owes_masking`], with the duty `masked_in`.
pub(crate) fn is_owed(masked_in: &[String], done_in: &str) -> bool {
    !masked_in.is_empty() && !masked_in.iter().any(|uuid| uuid == done_in)
}

/// `identity` with the checksum of its other fields.
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) fn summed(identity: Identity) -> Identity {
    Identity { crc32c: identity.sum(), ..identity }
}

/// Reads the identity; None when the prefix holds no database.
///
/// Errors: `Invalid` for a format of the future, `Corruption` for anything that is no identity.
/// Requests: one GET.
pub(crate) async fn read(bucket: &Bucket) -> Result<Option<Identity>> {
    match read_record(bucket, names::DB, |bytes| parse(bytes, bucket.place())).await {
        Ok(identity) => Ok(Some(identity)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}

/// Reads the identity, or creates one.
///
/// Errors: `Corruption` when the prefix holds a database whose identity was deleted.
pub(crate) async fn read_or_create(bucket: &Bucket) -> Result<Identity> {
    if let Some(identity) = read(bucket).await? {
        return Ok(identity);
    }
    if newest_epoch(bucket).await? > 0 {
        // It can happen that another server creates the database between these two requests. So the identity
        // is read again.
        return read(bucket).await?.ok_or_else(|| {
            StoreError::Corruption(format!(
                "{} is missing in {}, but the prefix holds the records of a database: somebody deleted it, or a clone was not \
                 finished. Restore that object from an older version, or make the clone again; a new one would be another database",
                names::DB,
                bucket.place()
            ))
        });
    }
    let (bytes, identity, nonce) = made(new_uuid()?, None, Vec::new())?;
    match bucket.create_slot(names::DB, bytes.into(), &nonce).await? {
        SlotOutcome::Mine => Ok(identity),
        SlotOutcome::Lost(bytes) => parse(&bytes, bucket.place()),
    }
}

/// Creates the identity of the database `db_uuid`. `masked_in`: see [`Identity::masked_in`].
///
/// Errors: `Invalid` when the prefix holds another database; `Unavailable` when the outcome is not known.
pub(crate) async fn create(
    bucket: &Bucket,
    db_uuid: String,
    parent: Option<Parent>,
    masked_in: Vec<String>,
) -> Result<()> {
    let (bytes, _, nonce) = made(db_uuid, parent, masked_in)?;
    match bucket.create_slot(names::DB, bytes.into(), &nonce).await? {
        SlotOutcome::Mine => Ok(()),
        SlotOutcome::Lost(_) => {
            Err(StoreError::Invalid(format!("{} holds another database now", bucket.place())))
        }
    }
}

/// A new identity, its bytes, and the nonce in them.
fn made(
    db_uuid: String,
    parent: Option<Parent>,
    masked_in: Vec<String>,
) -> Result<(Vec<u8>, Identity, [u8; 16])> {
    let mut random = [0; 8];
    fill_random(&mut random)?;
    let nonce = hex(&random);
    let mut slot_nonce = [0; 16];
    slot_nonce.copy_from_slice(nonce.as_bytes());
    let created_ms = wall_clock_ms();
    let mut identity = Identity {
        format: BUCKET_FORMAT,
        db_uuid,
        created_ms,
        nonce,
        parent,
        masked_in,
        crc32c: String::new(),
    };
    identity.crc32c = identity.sum();
    let mut text = serde_json::to_string_pretty(&identity).map_err(|e| StoreError::Bug(e.to_string()))?;
    text.push('\n');
    Ok((text.into_bytes(), identity, slot_nonce))
}

/// Makes a uuid for a new database.
pub(crate) fn new_uuid() -> Result<String> {
    let mut random = [0; 16];
    fill_random(&mut random)?;
    Ok(uuid_of(&random))
}

/// Decodes the content of `db.json`. Errors: as [`read`].
pub(crate) fn parse(bytes: &[u8], place: &str) -> Result<Identity> {
    let damaged = |what: String| {
        StoreError::Corruption(format!("{} in {place} is no identity of a database: {what}", names::DB))
    };
    // The format is checked before the fields: a later format may have other fields.
    let value: serde_json::Value = serde_json::from_slice(bytes).map_err(|e| damaged(e.to_string()))?;
    let format = value.get("format").and_then(serde_json::Value::as_u64);
    match format {
        Some(format) if format == u64::from(BUCKET_FORMAT) => {}
        // A later format has another checksum. So when this version's checksum fits, only the format's number
        // is damaged.
        Some(_) if is_ours_but_for_the_format(&value) => {
            return Err(damaged("its format is damaged".to_owned()));
        }
        Some(format) => {
            return Err(StoreError::Invalid(format!(
                "the database in {place} has bucket format {format}; this version knows {BUCKET_FORMAT} only. \
                 Use the version that wrote it, or a newer one"
            )));
        }
        None => return Err(damaged("it states no format".to_owned())),
    }
    let identity: Identity = serde_json::from_value(value).map_err(|e| damaged(e.to_string()))?;
    if identity.crc32c != identity.sum() {
        return Err(damaged("its checksum does not match".to_owned()));
    }
    if identity.db_uuid.is_empty() || identity.db_uuid.len() > 39 {
        return Err(damaged("its db_uuid is malformed".to_owned()));
    }
    Ok(identity)
}

/// Whether `value` is an identity of this version's format in which only the number of the format has been
/// changed.
fn is_ours_but_for_the_format(value: &serde_json::Value) -> bool {
    let mut value = value.clone();
    value["format"] = BUCKET_FORMAT.into();
    serde_json::from_value::<Identity>(value).is_ok_and(|identity| identity.crc32c == identity.sum())
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A version 4 UUID from sixteen random bytes.
fn uuid_of(random: &[u8]) -> String {
    let mut digits = hex(random);
    digits.replace_range(12..13, "4");
    let variant = ["8", "9", "a", "b"][usize::from(random[8] & 3)];
    digits.replace_range(16..17, variant);
    let parts = [&digits[..8], &digits[8..12], &digits[12..16], &digits[16..20], &digits[20..]];
    parts.join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_identity_is_created_once_and_read_back() {
        let bucket = Bucket::in_memory();
        assert_eq!(read(&bucket).await.unwrap(), None);
        let first = read_or_create(&bucket).await.unwrap();
        assert_eq!(read_or_create(&bucket).await.unwrap(), first);
        assert_eq!(first.db_uuid.len(), 36);
        assert_eq!(&first.db_uuid[14..15], "4");
    }

    #[tokio::test]
    async fn a_deleted_identity_is_not_replaced() {
        let bucket = Bucket::in_memory();
        read_or_create(&bucket).await.unwrap();
        crate::protocol::start::claim::claim(&bucket, "s", Default::default()).await.unwrap();
        bucket.delete(names::DB).await.unwrap();
        let Err(StoreError::Corruption(message)) = read_or_create(&bucket).await else { panic!("replaced") };
        assert!(message.contains("db.json"), "{message}");
    }

    #[tokio::test]
    async fn a_damaged_identity_is_not_another_database() {
        let bucket = Bucket::in_memory();
        read_or_create(&bucket).await.unwrap();
        let bytes = bucket.get(names::DB).await.unwrap();
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.to_vec();
            damaged[bit / 8] ^= 1 << (bit % 8);
            match parse(&damaged, "b") {
                Ok(same) => assert_eq!(same, parse(&bytes, "b").unwrap(), "only white space may change"),
                Err(StoreError::Corruption(_)) => {}
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// The identity that a server of the first versions wrote, and a clone's.
    #[test]
    fn identities_with_and_without_a_parent_are_read() {
        let first = parse(include_bytes!("../format/fixtures/db.json"), "b").unwrap();
        assert_eq!((first.format, first.created_ms, &first.parent), (1, 1_764_000_000_000, &None));
        let clone = parse(include_bytes!("../format/fixtures/db-clone.json"), "b").unwrap();
        let parent = Parent { db_uuid: first.db_uuid, epoch: 3, slot: 9, origins: vec![] };
        assert_eq!(clone.parent, Some(parent));
        let orphan = include_str!("../format/fixtures/db-clone.json").replace("\"slot\": 9", "\"slot\": 8");
        assert!(matches!(parse(orphan.as_bytes(), "b"), Err(StoreError::Corruption(_))));
    }

    /// A release that does not know the duty to mask computes another checksum, so it refuses the clone.
    #[test]
    fn the_duty_to_mask_is_part_of_the_checksum_and_is_inherited() {
        let must_mask = |masked_in: Vec<String>| {
            let (bytes, identity, _) = made("child".to_owned(), None, masked_in).unwrap();
            assert_eq!(parse(&bytes, "b").unwrap(), identity);
            (String::from_utf8(bytes).unwrap(), identity)
        };
        let (text, identity) = must_mask(vec!["child".to_owned()]);
        let mut forgotten: serde_json::Value = serde_json::from_str(&text).unwrap();
        forgotten.as_object_mut().unwrap().remove("masked_in").unwrap();
        let forgotten = forgotten.to_string();
        assert!(matches!(parse(forgotten.as_bytes(), "b"), Err(StoreError::Corruption(_))), "{forgotten}");
        assert_eq!(identity.masked_in_of_clone("next", false), ["child", "next"]);
        assert_eq!(identity.masked_in_of_clone("next", true), ["next"]);
        let (_, free) = must_mask(vec![]);
        assert!(free.masked_in_of_clone("next", false).is_empty());
        assert_eq!(free.masked_in_of_clone("next", true), ["next"]);
    }

    #[test]
    fn an_unknown_format_and_damage_are_refused_differently() {
        let future = br#"{"format": 2, "other": 1}"#;
        assert!(matches!(parse(future, "b"), Err(StoreError::Invalid(m)) if m.contains("format 2")));
        for wrong in
            [&b"{"[..], b"{}", br#"{"format": 1}"#, br#"{"format":1,"db_uuid":"","created_ms":1,"nonce":""}"#]
        {
            assert!(matches!(parse(wrong, "b"), Err(StoreError::Corruption(_))));
        }
    }
}

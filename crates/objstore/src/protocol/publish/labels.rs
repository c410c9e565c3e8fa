//! The labels in a file map: facts that it records for some of its files only, beside their entries. A label
//! is the database in whose prefix a file lies, the key that the file is encrypted with, or its storage class
//! (byte table FMT-W14 of docs/internals/formats-bucket.md).
//!
//! Each kind of label is a field in the extension area of the record that holds the entries. Pure.

use crate::files::Labels;
use crate::protocol::publish::compact::{Reader, write_text, write_varint};
use crate::protocol::publish::map_record::MapEntry;
use crate::requests::origin;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The field that tells which files lie in the prefix of another database (origin), and in which. It is a
/// required field: a reader that skipped it would look for such a file in the database's own prefix.
pub(crate) const TAG_ORIGINS: u16 = 0x8002;
/// The field that tells with which key each encrypted file is encrypted. It is a required field: a reader
/// that skipped it would take the encrypted file for a damaged one.
pub(crate) const TAG_KEY_IDS: u16 = 0x8003;
/// The field that tells the storage classes that were asked for. It is not a required field, because an
/// object is read in the same way whatever its storage class.
pub(crate) const TAG_STORAGE_CLASSES: u16 = 0x0002;
/// The tags of all kinds of labels.
pub(crate) const TAGS: [u16; 3] = [TAG_STORAGE_CLASSES, TAG_ORIGINS, TAG_KEY_IDS];

/// Returns the label of one kind that an entry has; None when it has none.
type LabelOf = fn(&MapEntry) -> Option<&str>;

/// Encodes the labels of `entries`, which are ascending by number: one field for each kind of label that
/// occurs.
pub(crate) fn fields_of(entries: &[MapEntry]) -> Vec<(u16, Vec<u8>)> {
    let labels: [(u16, LabelOf); 3] = [
        (TAG_STORAGE_CLASSES, |entry| entry.labels.storage_class.as_deref()),
        (TAG_ORIGINS, |entry| origin::split(&entry.key).0),
        (TAG_KEY_IDS, |entry| entry.labels.key_id.as_deref()),
    ];
    let field = |(tag, label): (u16, LabelOf)| {
        let mut groups: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
        for (number, text) in entries.iter().filter_map(|entry| Some((entry.number, label(entry)?))) {
            groups.entry(text).or_default().push(number);
        }
        (!groups.is_empty()).then(|| (tag, encode(&groups)))
    };
    labels.into_iter().filter_map(field).collect()
}

/// Gives the labels in `fields` to `entries`. None: a field is malformed, or names a file that is not in
/// `entries`.
pub(crate) fn apply(fields: &BTreeMap<u16, &[u8]>, entries: &mut [MapEntry]) -> Option<()> {
    for (text, entry) in labelled(fields, TAG_STORAGE_CLASSES, entries)? {
        entries[entry].labels.storage_class = Some(Arc::clone(&text));
    }
    for (text, entry) in labelled(fields, TAG_KEY_IDS, entries)? {
        entries[entry].labels.key_id = Some(Arc::clone(&text));
    }
    for (origin, entry) in labelled(fields, TAG_ORIGINS, entries)? {
        // Splitting the joined key must give back this origin and key; else the label is malformed.
        let joined = origin::join(&origin, &entries[entry].key);
        if origin::split(&joined) != (Some(&*origin), &*entries[entry].key) {
            return None;
        }
        entries[entry].key = joined;
    }
    Some(())
}

/// Decodes the field `tag`: each label with the index of its entry; empty when `fields` lacks the field.
/// None: the field is malformed, or names a file that is not in `entries`.
fn labelled(fields: &BTreeMap<u16, &[u8]>, tag: u16, entries: &[MapEntry]) -> Option<Vec<(Arc<str>, usize)>> {
    let Some(value) = fields.get(&tag) else { return Some(Vec::new()) };
    let mut found = Vec::new();
    for (text, numbers) in decode(value)? {
        for number in numbers {
            let entry = entries.binary_search_by_key(&number, |entry| entry.number).ok()?;
            found.push((Arc::clone(&text), entry));
        }
    }
    Some(found)
}

fn encode(groups: &BTreeMap<&str, Vec<u64>>) -> Vec<u8> {
    let mut value = Vec::new();
    write_varint(&mut value, groups.len() as u64);
    for (text, numbers) in groups {
        write_text(&mut value, text);
        write_varint(&mut value, numbers.len() as u64);
        let mut next = 0;
        for number in numbers {
            write_varint(&mut value, number - next);
            next = number.wrapping_add(1);
        }
    }
    value
}

/// Decodes a field; None when it is malformed, or its texts or the numbers of one text are not ascending.
fn decode(value: &[u8]) -> Option<Vec<(Arc<str>, Vec<u64>)>> {
    let mut reader = Reader::new(value);
    let mut groups: Vec<(Arc<str>, Vec<u64>)> = Vec::new();
    for _ in 0..reader.varint()? {
        let text: Arc<str> = reader.text()?.into();
        if groups.last().is_some_and(|(last, _)| *last >= text) {
            return None;
        }
        let mut numbers = Vec::new();
        for _ in 0..reader.varint()? {
            numbers.push(reader.ascending(numbers.last().copied())?);
        }
        groups.push((text, numbers));
    }
    reader.is_at_end().then_some(groups)
}

/// Returns why this version cannot read a file with `labels`; None: it can.
pub(crate) fn obstacle(labels: &Labels) -> Option<String> {
    let key_id = labels.key_id.as_ref()?;
    Some(format!("it is encrypted with the key '{key_id}', and this version has no keys"))
}

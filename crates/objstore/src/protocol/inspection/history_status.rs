//! The history as `atollctl snapshot list` shows it: one row for all of its pins together.

use crate::error::Result;
use crate::protocol::format::image::Image;
use crate::protocol::gc::{Held, Use};
use crate::protocol::history::pin::{self, Listed};
use crate::protocol::history::snapshot::SnapshotStatus;
use crate::protocol::inspection::fsck::needs_of;
use crate::protocol::inspection::inspect::Inspector;
use crate::protocol::inspection::snapshot_list::status_of_pin;
use std::collections::HashSet;
use std::sync::Arc;

/// The row of the history in `atollctl snapshot list`, and the history's table files.
pub(in crate::protocol) struct HistoryStatus {
    pub(in crate::protocol) status: SnapshotStatus,
    /// The table files that the pinned roots of the history need, with their sizes.
    pub(in crate::protocol) files: Vec<(Arc<str>, u64)>,
}

impl Inspector {
    /// Makes one row for all pins of the history among `listed`. None: there is no pin of the history.
    /// `newest`: the newest root, by which the row tells files that only the history needs from files that
    /// this root needs, too.
    ///
    /// Requests: for each pin those that read its root, the LISTs of the pieces of its MANIFEST, and the
    /// LISTs of its log's chunks.
    pub(in crate::protocol) async fn history_status(
        &self,
        listed: &Listed,
        newest: Option<&Image>,
    ) -> Result<Option<HistoryStatus>> {
        let mut roots = listed.pins.iter().filter_map(|key| pin::history_root_of(key));
        let Some(oldest) = roots.next() else { return Ok(None) };
        let key = pin::history_key(oldest);
        let pin = match pin::read(self.bucket(), &key).await {
            Err(error) if error.is_not_found() => return Ok(None), // The pin has expired since the listing.
            read => read?,
        };
        let mut held = Held::default();
        held.update(self.bucket(), listed).await?;
        let live: HashSet<&str> =
            newest.iter().flat_map(|image| image.files.values()).map(|file| file.key.as_ref()).collect();
        let needs = needs_of(newest);
        let is_live = |key: &str| live.contains(key);
        let is_alone = |(key, bytes): &(&str, u64)| {
            needs.use_of(key, Some(*bytes), is_live) == Use::Unneeded && !held.is_pinned(key)
        };
        let alone = held.history.objects().filter(is_alone).map(|(_, bytes)| bytes);
        let alone_bytes = alone.sum::<u64>() + held.chunk_bytes_of_history_alone(&needs);
        let is_shared = |key: &&Arc<str>| is_live(key) || held.is_pinned(key);
        let shared = held.history.files().filter(|(key, _)| is_shared(key));
        let shared_bytes = shared.map(|(_, bytes)| bytes).sum();
        let files: Vec<(Arc<str>, u64)> =
            held.history.files().map(|(key, bytes)| (Arc::clone(key), bytes)).collect();
        let status = SnapshotStatus {
            files: files.len() as u64,
            shared_bytes,
            alone_bytes,
            problem: held.holds_all().map_or_else(String::new, |(_, why)| why.to_owned()),
            ..status_of_pin(key, &pin)
        };
        Ok(Some(HistoryStatus { status, files }))
    }
}

//! Follows from outside what an owner publishes, for `atollctl tail`. Writes nothing to the bucket. While the
//! owner publishes nothing, each call of `poll` costs two requests.

use crate::error::Result;
use crate::protocol::format::image::{self, Image};
use crate::protocol::format::names;
use crate::protocol::format::records::{Root, RootId, RootSlot};
use crate::protocol::format::slots::read_root_slot;
use crate::protocol::inspection::inspect::{Inspector, RootStatus, status_of_image};
use crate::protocol::publish::map_record::{FileMap, MapInParts, PartRef};
use serde::Serialize;

/// Something new in the bucket.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
#[allow(missing_docs)]
pub enum TailEvent {
    /// A new root. The first event has the root that was already the newest when the follower began.
    Root { root: Box<RootStatus>, added: FileChange, dropped: FileChange },
    /// New chunks of the log, each an object. `first` is the number of the first.
    Log { epoch: u64, first: u64, chunks: u64, bytes: u64 },
    /// This epoch gets no more roots, because another server has claimed the database.
    Closed { epoch: u64, by_epoch: u64, by_server: String },
}

/// How many table files, and how many bytes, came or went between two roots.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
#[allow(missing_docs)]
pub struct FileChange {
    pub files: u64,
    pub bytes: u64,
}

/// Reports what is new in the bucket, from one call of `poll` to the next.
#[derive(Debug)]
pub struct Follower {
    inspector: Inspector,
    /// The newest root that was reported. None: no root was reported yet.
    at: Option<RootId>,
    files: FileMap,
    /// The epoch and the parts of the file map that were read last, and the files in these parts. The changes
    /// that a root makes to the parts are not applied here.
    parts: (u64, Vec<PartRef>, FileMap),
    /// The newest log chunk that was reported. Before any was: the chunk before the first one that the root
    /// needs with which the follower began this epoch. None: the log is reported from its beginning.
    chunk: Option<u64>,
}

impl Follower {
    /// Makes a follower that has reported nothing yet.
    pub fn new(inspector: Inspector) -> Self {
        Self { inspector, at: None, files: FileMap::new(), parts: Default::default(), chunk: None }
    }

    /// Returns what is new since the last call, in order. The first call returns the newest root.
    ///
    /// Errors: the bucket's; the caller can call again. Requests: two LISTs, a GET per root, and those
    /// that read the parts of a file map when these have changed.
    pub async fn poll(&mut self) -> Result<Vec<TailEvent>> {
        let mut events = Vec::new();
        let Some(at) = self.at else {
            self.begin(&mut events).await?;
            return Ok(events);
        };
        self.poll_log(at, &mut events).await?;
        let after = names::root(at.epoch, at.slot);
        let listed = self.inspector.bucket().list(&names::root_dir(at.epoch), Some(&after)).await?;
        for (epoch, slot) in listed.iter().filter_map(|o| names::parse_slot(names::ROOT_DIR, &o.key)) {
            match read_root_slot(self.inspector.bucket(), RootId { epoch, slot }).await {
                Ok(RootSlot::Root(root)) => events.push(self.step(root).await?),
                Ok(RootSlot::Fence(fence)) => {
                    let (by_epoch, by_server) = (fence.by_epoch, fence.by_server);
                    events.push(TailEvent::Closed { epoch, by_epoch, by_server });
                    self.begin(&mut events).await?;
                }
                Ok(RootSlot::Claim(_)) => {}
                // This root was deleted since the listing, so there is a newer one.
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(events)
    }

    /// Reports the newest root, unless it was reported before.
    async fn begin(&mut self, events: &mut Vec<TailEvent>) -> Result<()> {
        self.inspector.identity().await?;
        let Some((image, _)) = self.inspector.newest_image().await? else { return Ok(()) };
        if self.at == Some(image.root.id) {
            return Ok(());
        }
        if self.at.is_none_or(|at| at.epoch != image.root.id.epoch) {
            self.chunk = image.root.wal_first_chunk.checked_sub(1);
        }
        events.push(self.tell(image));
        Ok(())
    }

    async fn step(&mut self, root: Root) -> Result<TailEvent> {
        let files = match &root.map_in_parts {
            Some(map) => self.join(&root, map).await?,
            None => image::load(self.inspector.bucket(), root.id).await?.files,
        };
        Ok(self.tell(Image { root, files }))
    }

    /// Returns the files of `root`. Reads the parts of its file map only when they differ from those of the
    /// root before.
    async fn join(&mut self, root: &Root, map: &MapInParts) -> Result<FileMap> {
        if (self.parts.0, &self.parts.1) != (map.epoch, &map.parts) {
            let without_changes = MapInParts {
                removed: Vec::new(),
                added: Vec::new(),
                files_count: map.parts.iter().map(|part| part.files).sum(),
                ..map.clone()
            };
            let files = image::load_parts(self.inspector.bucket(), &without_changes, root.id).await?;
            self.parts = (map.epoch, map.parts.clone(), files);
        }
        let mut files = self.parts.2.clone();
        let object = names::root(root.id.epoch, root.id.slot);
        image::change(&mut files, &object, &map.removed, &map.added, map.files_count)?;
        Ok(files)
    }

    fn tell(&mut self, image: Image) -> TailEvent {
        let count = |of: &FileMap, without: &FileMap| {
            let other =
                of.iter().filter(|(number, file)| without.get(number).is_none_or(|f| f.key != file.key));
            other.fold(FileChange::default(), |sum, (_, file)| FileChange {
                files: sum.files + 1,
                bytes: sum.bytes + file.size,
            })
        };
        let is_first = self.at.is_none();
        let added = if is_first { FileChange::default() } else { count(&image.files, &self.files) };
        let dropped = count(&self.files, &image.files);
        let root = Box::new(status_of_image(&image));
        self.at = Some(image.root.id);
        self.files = image.files;
        TailEvent::Root { root, added, dropped }
    }

    async fn poll_log(&mut self, at: RootId, events: &mut Vec<TailEvent>) -> Result<()> {
        let after = self.chunk.map(|chunk| names::wal_chunk(at.epoch, chunk));
        let listed = self.inspector.bucket().list(&names::wal_dir(at.epoch), after.as_deref()).await?;
        let chunks: Vec<(u64, u64)> = listed
            .iter()
            .filter_map(|o| names::parse_slot(names::WAL_DIR, &o.key).map(|(_, chunk)| (chunk, o.size)))
            .collect();
        if let (Some((first, _)), Some((last, _))) = (chunks.first(), chunks.last()) {
            let bytes = chunks.iter().map(|(_, bytes)| bytes).sum();
            events.push(TailEvent::Log {
                epoch: at.epoch,
                first: *first,
                chunks: chunks.len() as u64,
                bytes,
            });
            self.chunk = Some(*last);
        }
        Ok(())
    }
}

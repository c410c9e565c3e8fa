//! Finds out what takes space in the bucket, and who needs it: the newest root, past states, both, or nobody.
//! Writes nothing to the bucket.

use crate::error::{Result, StoreError};
use crate::protocol::format::image::{self, Image};
use crate::protocol::format::names::ManifestCopy;
use crate::protocol::format::records::RootId;
use crate::protocol::gc::{Needs, Use, held_among};
use crate::protocol::history::pin::{self, Listed};
use crate::protocol::inspection::families::{Families, FileOwner};
use crate::protocol::inspection::inspect::Inspector;
use crate::protocol::inspection::table_names::{self, TableNames};
use crate::requests::bucket::ObjectInfo;
use crate::requests::origin;
use serde::Serialize;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::SystemTime;

/// Who needs an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum SpaceUse {
    /// The newest root or the protocol itself needs it.
    Live,
    /// The newest root needs it, and so does a snapshot, a clone or the history.
    Shared,
    /// Only snapshots, clones or the history need it.
    History,
    /// Nobody needs it: it waits for the collector, or is about to be published.
    Unneeded,
    /// Its name is not of Atoll's protocol, so another program has put it there.
    Foreign,
}

/// The kind of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum ObjectKind {
    /// Table files, with rows and index entries.
    Table,
    /// Chunks and merged objects of the log.
    Log,
    /// Chunks of MANIFESTs.
    Manifest,
    /// Roots and parts of file maps.
    Root,
    /// Everything else: claims, pins, hints, tombs.
    Other,
}

/// One object in the bucket.
#[derive(Debug, Clone, Serialize)]
#[allow(missing_docs)]
pub struct SpaceObject {
    pub key: String,
    pub bytes: u64,
    /// Unix time in milliseconds, by the bucket's clock.
    pub written_ms: u64,
    pub kind: ObjectKind,
    pub usage: SpaceUse,
    /// The table to which a table file belongs. None: another kind of object, or no MANIFEST that was read
    /// names the file.
    pub owner: Option<FileOwner>,
}

/// What takes space in the prefix of a database.
#[derive(Debug, Clone, Default)]
pub struct Space {
    /// All objects, ordered by their keys.
    pub objects: Vec<SpaceObject>,
    /// Number and bytes of the table files that the newest root reads from other databases, if this one is a
    /// clone.
    pub elsewhere: (u64, u64),
    /// RocksDB's names of the column families, by RocksDB's numbers of them.
    pub families: BTreeMap<u32, String>,
    /// The names of the tables, from the hint that the owner writes.
    pub names: TableNames,
    /// Which pin forbids all deletions, and why; empty when no pin does.
    pub held_by: String,
    /// Why the tables of some table files are not known; empty when all is well.
    pub problem: String,
}

impl Inspector {
    /// Returns all objects in the bucket, who needs each of them, and which table it belongs to.
    ///
    /// Errors: `NotFound` without a database; the bucket's. A MANIFEST that cannot be read is reported
    /// in [`Space::problem`]. Requests: a LIST of everything, those that read the newest root, its MANIFEST
    /// and the root of each pin; when only pins need a file, also those that read a MANIFEST which names it.
    pub async fn space(&self) -> Result<Space> {
        self.identity().await?;
        let names = table_names::read(self.bucket()).await?;
        let objects = self.objects().await?;
        // The root is read after the listing. If it were read before, the listing could show objects that
        // only a newer root names, and they would seem unneeded.
        let image = self.newest_image().await?.map(|(image, _)| image);
        let held = held_among(self.bucket(), &objects).await?;
        let mut needs = image.as_ref().map_or_else(Needs::nothing, |image| Needs::of_root(&image.root, 0));
        needs.is_former_superfluous = image.is_some();
        if let Some(image) = &image {
            self.add_parts_of_kept_roots(&mut needs, image, &objects).await?;
        }
        let files = image.iter().flat_map(|image| image.files.values());
        let live: HashSet<&str> = files.clone().map(|file| file.key.as_ref()).collect();
        let elsewhere = files
            .filter(|file| origin::is_foreign(&file.key))
            .fold((0, 0), |(count, bytes), file| (count + 1, bytes + file.size));
        let use_of = |object: &ObjectInfo| {
            let usage = needs.use_of(&object.key, Some(object.size), |key| live.contains(key));
            match (usage, held.needs(&object.key)) {
                (Use::Foreign, _) => SpaceUse::Foreign,
                (Use::Needed, true) => SpaceUse::Shared,
                (Use::Needed, false) => SpaceUse::Live,
                (Use::Unneeded, true) => SpaceUse::History,
                (Use::Unneeded, false) => SpaceUse::Unneeded,
            }
        };
        let mut space = Space {
            objects: objects.iter().map(|object| described(object, use_of(object))).collect(),
            elsewhere,
            names,
            held_by: held.holds_all().map_or_else(String::new, |(pin, why)| format!("{pin}: {why}")),
            ..Space::default()
        };
        self.find_owners(&mut space, image, &objects).await?;
        Ok(space)
    }

    /// Finds out to which table each table file belongs. Reads the newest root's MANIFEST, then the MANIFESTs
    /// of pinned roots until the table of every file that only pins need is known.
    async fn find_owners(
        &self,
        space: &mut Space,
        newest: Option<Image>,
        objects: &[ObjectInfo],
    ) -> Result<()> {
        let mut owners = Owners::default();
        if let Some(image) = newest {
            self.learn(&mut owners, &image, space).await?;
        }
        let pinned =
            |object: &SpaceObject| object.kind == ObjectKind::Table && object.usage == SpaceUse::History;
        let mut unknown: HashSet<String> =
            space.objects.iter().filter(|object| pinned(object)).map(|object| object.key.clone()).collect();
        unknown.retain(|key| !owners.of_key.contains_key(key.as_str()));
        for key in Listed::among(objects).pins.into_iter().rev() {
            if unknown.is_empty() {
                break;
            }
            let Some(image) = self.image_of_pin(&key).await? else { continue };
            if image.files.values().any(|file| unknown.contains(file.key.as_ref())) {
                self.learn(&mut owners, &image, space).await?;
                unknown.retain(|key| !owners.of_key.contains_key(key.as_str()));
            }
        }
        for object in &mut space.objects {
            object.owner = owners.of_key.get(object.key.as_str()).copied();
        }
        Ok(())
    }

    /// Returns the root of the pin `key`. None: the pin or the root cannot be read. The list of snapshots
    /// reports why.
    async fn image_of_pin(&self, key: &str) -> Result<Option<Image>> {
        let load = async {
            let root = match pin::history_root_of(key) {
                Some(root) => root,
                None => pin::read(self.bucket(), key).await?.root,
            };
            image::load(self.bucket(), root).await
        };
        match load.await {
            Ok(image) => Ok(Some(image)),
            Err(StoreError::Corruption(_) | StoreError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Notes in `owners` to which table each file of `image` belongs, and in `space` the names of the
    /// families, or why the MANIFEST cannot be read.
    async fn learn(&self, owners: &mut Owners, image: &Image, space: &mut Space) -> Result<()> {
        let manifest = (image.root.id.epoch, image.root.manifest);
        if owners.read.get(&manifest).is_none_or(|(bytes, _)| *bytes < image.root.manifest_bytes) {
            let families = match image::read_manifest(self.bucket(), &image.root).await {
                Ok(bytes) => Families::read(&bytes),
                Err(error @ (StoreError::Corruption(_) | StoreError::NotFound { .. })) => {
                    space.problem = error.to_string();
                    Families { is_whole: true, ..Families::default() }
                }
                Err(error) => return Err(error),
            };
            if !families.is_whole {
                let RootId { epoch, slot } = image.root.id;
                space.problem = format!(
                    "the MANIFEST of root {epoch}/{slot} has entries that this version does not understand"
                );
            }
            for (number, name) in &families.names {
                space.families.entry(*number).or_insert_with(|| name.clone());
            }
            owners.read.insert(manifest, (image.root.manifest_bytes, families));
        }
        let Some((_, families)) = owners.read.get(&manifest) else { return Ok(()) };
        for (number, file) in &image.files {
            if let Some(owner) = families.files.get(number) {
                owners.of_key.insert(Arc::clone(&file.key), *owner);
            }
        }
        Ok(())
    }
}

/// The table to which each table file belongs, as far as the MANIFESTs that were read so far tell.
#[derive(Default)]
struct Owners {
    of_key: HashMap<Arc<str>, FileOwner>,
    /// The MANIFESTs that were read, by epoch and number, each with its size and content. The number of a
    /// file is unique within one MANIFEST only.
    read: HashMap<(u64, ManifestCopy), (u64, Families)>,
}

fn described(object: &ObjectInfo, usage: SpaceUse) -> SpaceObject {
    let written = object.last_modified.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let dir = object.key.split_once('/').map_or("", |(dir, _)| dir);
    let kind = match dir {
        "sst" => ObjectKind::Table,
        "wal" => ObjectKind::Log,
        "man" => ObjectKind::Manifest,
        "root" | "map" => ObjectKind::Root,
        _ => ObjectKind::Other,
    };
    let (key, bytes, written_ms) = (object.key.clone(), object.size, written.as_millis() as u64);
    SpaceObject { key, bytes, written_ms, kind, usage, owner: None }
}

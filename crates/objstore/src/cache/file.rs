//! One object's parts on the local disk: a sparse data file, and a small index file with the parts'
//! checksums.
//!
//! Data:  part p lies at its natural offset, p * 256 KiB; absent parts are holes.
//! Index: bytes 0..8 "ATPARTS1", 8..16 object size (u64 LE), then per part its CRC-32C (u32 LE), 0 = absent
//!        (a part whose checksum is 0 stores 0xFFFFFFFF). Neither file is synced: a crash of the machine can
//!        leave a half-written part. Its checksum is then wrong, so it is fetched again.
//!
//! CACHE-3  A part is read only while its flag PRESENT is set, and the bytes that were read are used only if
//!          `evictions` did not change meanwhile. Eviction clears PRESENT, then raises `evictions`, then
//!          punches the hole.
//! CACHE-4  Writing a part and punching its hole exclude each other (`write_lock`); a hole is punched only
//!          while the part's flag PRESENT is clear.
//! CACHE-5  A part that comes from an earlier process is checked against its checksum before its first use.

use crate::crc::{PART_BYTES, crc32c};
use parking_lot::Mutex;
use std::collections::HashMap;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use super::fetch::Flight;

const PRESENT: u8 = 1;
const VERIFIED: u8 = 2;
const USED: u8 = 4;

const MAGIC: &[u8; 8] = b"ATPARTS1";
const HEADER_BYTES: u64 = 16;

/// The outcome when the bytes of a part are compared with its checksum. A reader uses only bytes that are
/// `Good`.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Check {
    Good,
    /// The part is not in the cache, or was evicted while it was read: its bytes cannot be judged.
    Gone,
    /// The bytes differ from those that were stored, or the disk fails to read them.
    Bad,
}

/// The cached parts of one object.
pub(crate) struct CacheFile {
    pub(super) id: u32,
    pub(super) key: Arc<str>,
    size: u64,
    path: PathBuf,
    flags: Box<[AtomicU8]>,
    crcs: Box<[AtomicU32]>,
    evictions: AtomicU64,
    write_lock: Mutex<()>,
    dead: AtomicBool,
    data: Mutex<Weak<File>>,
    pub(super) flights: Mutex<HashMap<u32, Flight>>,
}

impl CacheFile {
    /// Creates the two files of an object of which no part is cached yet.
    pub(super) fn create(id: u32, key: Arc<str>, size: u64, path: PathBuf) -> io::Result<Self> {
        let file = OpenOptions::new().create(true).truncate(true).write(true).open(&path)?;
        file.set_len(size)?;
        let made = Self::new(id, key, size, path);
        made.write_index()?;
        Ok(made)
    }

    /// Makes the file `path`, which holds the whole object, the object's data file. Its bytes are not checked
    /// again, because this process has computed `crcs` from them.
    pub(super) fn adopt(id: u32, key: Arc<str>, size: u64, path: PathBuf, crcs: &[u32]) -> io::Result<Self> {
        let made = Self::new(id, key, size, path);
        for ((flag, slot), crc) in made.flags.iter().zip(&made.crcs).zip(crcs) {
            slot.store(stored(*crc), Ordering::Relaxed);
            flag.store(PRESENT | VERIFIED, Ordering::Relaxed);
        }
        made.write_index()?;
        Ok(made)
    }

    /// Opens the files that an earlier process left. Errors: a file is missing or damaged, or belongs to
    /// another object.
    pub(super) fn load(id: u32, key: Arc<str>, size: u64, path: PathBuf) -> io::Result<Self> {
        let made = Self::new(id, key, size, path);
        let index = std::fs::read(made.index_path())?;
        let bad = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
        let header = index.get(..HEADER_BYTES as usize).ok_or_else(|| bad("short index"))?;
        let (magic, size_bytes) = header.split_at(MAGIC.len());
        if magic != MAGIC || size_bytes != size.to_le_bytes() || std::fs::metadata(&made.path)?.len() != size
        {
            return Err(bad("index of another object"));
        }
        let entries = index.get(HEADER_BYTES as usize..).unwrap_or_default();
        if entries.len() != made.flags.len() * 4 {
            return Err(bad("index of another length"));
        }
        for ((flag, slot), entry) in made.flags.iter().zip(&made.crcs).zip(entries.chunks_exact(4)) {
            let crc = u32::from_le_bytes(entry.try_into().unwrap_or_default());
            slot.store(crc, Ordering::Relaxed);
            flag.store(if crc == 0 { 0 } else { PRESENT }, Ordering::Relaxed);
        }
        Ok(made)
    }

    fn new(id: u32, key: Arc<str>, size: u64, path: PathBuf) -> Self {
        let parts = size.div_ceil(PART_BYTES) as usize;
        Self {
            id,
            key,
            size,
            path,
            flags: (0..parts).map(|_| AtomicU8::new(0)).collect(),
            crcs: (0..parts).map(|_| AtomicU32::new(0)).collect(),
            evictions: AtomicU64::new(0),
            write_lock: Mutex::new(()),
            dead: AtomicBool::new(false),
            data: Mutex::new(Weak::new()),
            flights: Mutex::new(HashMap::new()),
        }
    }

    /// Size of the object in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    /// The number of parts of the object, cached or not.
    pub(super) fn parts_count(&self) -> u32 {
        self.flags.len() as u32
    }

    /// The length of part `part` in bytes; the object's last part may be shorter than the others.
    pub(super) fn part_length(&self, part: u32) -> u64 {
        PART_BYTES.min(self.size.saturating_sub(u64::from(part) * PART_BYTES))
    }

    /// The parts that hold `length` bytes at `offset`. Requires: `length` > 0, inside the object.
    pub(super) fn parts_of(offset: u64, length: u64) -> std::ops::RangeInclusive<u32> {
        (offset / PART_BYTES) as u32..=((offset + length - 1) / PART_BYTES) as u32
    }

    pub(super) fn is_present(&self, part: u32) -> bool {
        self.flag(part) & PRESENT != 0
    }

    /// Returns the data file. Threads that use it at the same time share one descriptor, which is closed when
    /// the last of them drops it; the next call opens the file again.
    pub(crate) fn data(&self) -> io::Result<Arc<File>> {
        let mut weak = self.data.lock();
        if let Some(open) = weak.upgrade() {
            return Ok(open);
        }
        let opened = Arc::new(OpenOptions::new().read(true).write(true).open(&self.path)?);
        *weak = Arc::downgrade(&opened);
        Ok(opened)
    }

    /// Fills `out` from `offset` when all parts of that range are cached and undamaged. Else the error names
    /// a part: the first that is missing or damaged, or the first of the range when the disk fails to read.
    ///
    /// The hot path: one bit test per part, one pread, one counter compared. `Check::Bad` in the error means
    /// that the part failed its check: the caller counts it and removes it from the cache.
    pub(super) fn read(&self, data: &File, offset: u64, out: &mut [u8]) -> Result<(), (u32, Check)> {
        let parts = Self::parts_of(offset, out.len() as u64);
        loop {
            let evictions = self.evictions.load(Ordering::Acquire);
            for part in parts.clone() {
                let flag = self.flag(part);
                if flag & PRESENT == 0 {
                    return Err((part, Check::Gone));
                }
                if flag & VERIFIED == 0 {
                    match self.verify(data, part) {
                        Check::Good => {}
                        check => return Err((part, check)),
                    }
                }
                if flag & USED == 0 {
                    self.set(part, USED);
                }
            }
            if data.read_exact_at(out, offset).is_err() {
                return Err((*parts.start(), Check::Bad));
            }
            if self.evictions.load(Ordering::Acquire) == evictions {
                return Ok(());
            }
        }
    }

    /// Compares a part with its checksum, once per process.
    fn verify(&self, data: &File, part: u32) -> Check {
        let evictions = self.evictions.load(Ordering::Acquire);
        let mut bytes = vec![0; self.part_length(part) as usize];
        let is_read = data.read_exact_at(&mut bytes, u64::from(part) * PART_BYTES).is_ok();
        let is_same = is_read && stored(crc32c(&bytes)) == self.crc(part);
        if self.evictions.load(Ordering::Acquire) != evictions || !self.is_present(part) {
            return Check::Gone;
        }
        if is_same {
            self.set(part, VERIFIED);
            Check::Good
        } else {
            Check::Bad
        }
    }

    /// Writes a part that was just fetched. Returns false when the part is cached already or the files are
    /// deleted.
    pub(super) fn write_part(&self, data: &File, part: u32, bytes: &[u8]) -> io::Result<bool> {
        let _exclusive = self.write_lock.lock();
        if self.is_present(part) || self.is_deleted() {
            return Ok(false);
        }
        data.write_all_at(bytes, u64::from(part) * PART_BYTES)?;
        let crc = stored(crc32c(bytes));
        if let Some(slot) = self.crcs.get(part as usize) {
            slot.store(crc, Ordering::Relaxed);
        }
        self.write_index_entry(part, crc)?;
        self.set(part, PRESENT | VERIFIED);
        Ok(true)
    }

    /// Removes a part from the cache; readers stop using it at once. Returns its length in bytes, or 0 when
    /// the part was not cached.
    pub(super) fn clear(&self, part: u32) -> u64 {
        let Some(flag) = self.flags.get(part as usize) else { return 0 };
        if flag.fetch_and(!(PRESENT | VERIFIED | USED), Ordering::AcqRel) & PRESENT == 0 {
            return 0;
        }
        self.evictions.fetch_add(1, Ordering::AcqRel);
        self.part_length(part)
    }

    /// Gives the disk space of a part back by punching a hole. Requires: [`Self::clear`] was called for the
    /// part.
    pub(super) fn punch(&self, part: u32) -> io::Result<()> {
        let _exclusive = self.write_lock.lock();
        if self.is_present(part) || self.is_deleted() {
            return Ok(()); // The part was fetched again meanwhile, or both files are deleted.
        }
        self.write_index_entry(part, 0)?;
        let data = self.data()?;
        let mode = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
        rustix::fs::fallocate(&*data, mode, u64::from(part) * PART_BYTES, self.part_length(part))?;
        Ok(())
    }

    /// Removes all parts from the cache and gives their space back by truncating the data file, for file
    /// systems that cannot punch holes. Returns the number of bytes that were cached.
    pub(super) fn clear_all(&self) -> io::Result<u64> {
        let _exclusive = self.write_lock.lock();
        let freed = (0..self.parts_count()).map(|part| self.clear(part)).sum();
        self.crcs.iter().for_each(|crc| crc.store(0, Ordering::Relaxed));
        self.write_index()?;
        let data = self.data()?;
        data.set_len(0)?;
        data.set_len(self.size)?;
        Ok(freed)
    }

    /// The number of bytes of all cached parts.
    pub(super) fn bytes_present(&self) -> u64 {
        (0..self.parts_count()).filter(|p| self.is_present(*p)).map(|p| self.part_length(p)).sum()
    }

    /// Deletes both files; open descriptors stay readable. Returns the number of bytes that were cached.
    pub(super) fn unlink(&self) -> u64 {
        let _exclusive = self.write_lock.lock();
        self.dead.store(true, Ordering::Release);
        let freed = self.bytes_present();
        let _ = std::fs::remove_file(&self.path);
        let _ = std::fs::remove_file(self.index_path());
        freed
    }

    /// Whether both files are deleted. Readers with an open descriptor can still read the cached parts, but
    /// no more parts are stored.
    pub(crate) fn is_deleted(&self) -> bool {
        self.dead.load(Ordering::Acquire)
    }

    /// Returns true when a reader has used the part since the last call, and clears the mark.
    pub(super) fn take_used(&self, part: u32) -> bool {
        match self.flags.get(part as usize) {
            Some(flag) => flag.fetch_and(!USED, Ordering::Relaxed) & USED != 0,
            None => false,
        }
    }

    fn flag(&self, part: u32) -> u8 {
        self.flags.get(part as usize).map_or(0, |flag| flag.load(Ordering::Acquire))
    }

    fn crc(&self, part: u32) -> u32 {
        self.crcs.get(part as usize).map_or(0, |crc| crc.load(Ordering::Relaxed))
    }

    fn set(&self, part: u32, bits: u8) {
        if let Some(flag) = self.flags.get(part as usize) {
            flag.fetch_or(bits, Ordering::AcqRel);
        }
    }

    fn index_path(&self) -> PathBuf {
        index_path(&self.path)
    }

    fn write_index(&self) -> io::Result<()> {
        let mut bytes = Vec::with_capacity(HEADER_BYTES as usize + self.crcs.len() * 4);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&self.size.to_le_bytes());
        for crc in &self.crcs {
            bytes.extend_from_slice(&crc.load(Ordering::Relaxed).to_le_bytes());
        }
        std::fs::write(self.index_path(), bytes)
    }

    fn write_index_entry(&self, part: u32, crc: u32) -> io::Result<()> {
        let index = OpenOptions::new().write(true).open(self.index_path())?;
        index.write_all_at(&crc.to_le_bytes(), HEADER_BYTES + u64::from(part) * 4)
    }
}

/// The name of the index beside a data file.
pub(super) fn index_path(data: &Path) -> PathBuf {
    let mut name = data.as_os_str().to_owned();
    name.push(".parts");
    PathBuf::from(name)
}

/// The checksum as the index stores it, where 0 means absent.
fn stored(crc: u32) -> u32 {
    if crc == 0 { u32::MAX } else { crc }
}

//! The tasks that upload queued files, four at a time, and retry each upload without end.

use super::entry::{Entry, Upload};
use super::{Files, Garbage};
use crate::crc::crc_of_parts;
use crate::error::StoreError;
use crate::log::Level;
use crate::requests::retry::RetryPolicy;
use crate::requests::upload::{UploadedFile, blocking, is_worth_repeating};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinHandle;

/// Files uploaded at once: enough to fill a 1 Gbit/s line at 50 ms per request with 16 MiB pieces.
const UPLOADERS: usize = 4;

/// How often the free space on the part cache's disk is looked at.
const DISK_INTERVAL: Duration = Duration::from_secs(1);

/// A local file counts as lost after this many attempts that did not find it; together they take about 4 s.
const MISSING_ATTEMPTS: u32 = 4;

/// The waits between attempts to upload one file. The requests within an attempt are retried after shorter
/// waits of their own.
const ATTEMPT_DELAYS: RetryPolicy = RetryPolicy {
    attempts_max: u32::MAX,
    delay_min: Duration::from_millis(500),
    delay_max: Duration::from_secs(20),
    request_timeout: Duration::from_secs(30),
};

impl Files {
    /// Starts the uploaders, and the task that watches the disk of the part cache.
    pub(super) fn start_tasks(self: &Arc<Self>) {
        let mut tasks = self.tasks.lock();
        for _ in 0..UPLOADERS {
            // The tasks keep the registry alive until `stop`.
            let files = Arc::clone(self);
            tasks.push(self.spawn_endless("uploader", async move { files.upload_forever().await }));
        }
        if !self.bucket.is_directory() {
            let files = Arc::clone(self);
            tasks
                .push(self.spawn_endless("watch of the disk", async move { files.give_way_forever().await }));
        }
    }

    fn spawn_endless(
        self: &Arc<Self>,
        name: &'static str,
        task: impl Future<Output = ()> + Send + 'static,
    ) -> JoinHandle<()> {
        let files = Arc::clone(self);
        self.supervisor.spawn(name, move || files.state.lock().ended.is_some(), task)
    }

    /// Keeps the part cache from filling its disk. No request.
    async fn give_way_forever(self: &Arc<Self>) {
        while self.state.lock().ended.is_none() {
            tokio::time::sleep(DISK_INTERVAL).await;
            let files = Arc::clone(self);
            // An error means that the store closes.
            let _ = blocking(move || {
                files.make_room();
                Ok(())
            })
            .await;
        }
    }

    async fn upload_forever(&self) {
        loop {
            let queued = self.queued.notified();
            let next = {
                let mut state = self.state.lock();
                if state.ended.is_some() {
                    return;
                }
                let next = state.queue.pop_front();
                if !state.queue.is_empty() {
                    self.queued.notify_one();
                }
                next
            };
            match next {
                Some(entry) => self.upload(&entry).await,
                None => queued.await,
            }
        }
    }

    /// Uploads one file; retries until that succeeds, RocksDB removes the file, the file is lost, or the
    /// registry ends.
    async fn upload(&self, entry: &Arc<Entry>) {
        if !self.begin(entry) {
            return;
        }
        let metadata = [("atoll-db", self.db_uuid.clone()), ("atoll-size", entry.size.to_string())];
        let mut attempt = 0;
        loop {
            attempt += 1;
            let Some(path) = entry.local_path() else { return };
            let error = match self.bucket.put_file(&entry.key, &path, &metadata).await {
                Ok(uploaded) => return self.finish(entry, uploaded),
                Err(error) => error,
            };
            if matches!(&*entry.upload.lock(), Upload::Dropped) || self.state.lock().ended.is_some() {
                return;
            }
            if let StoreError::Fenced(_) = error {
                self.supervisor.end_with(error.clone());
                return self.fence(error);
            }
            if !is_worth_repeating(&error) && self.is_lost(entry, attempt) {
                return self.fail(entry, &path, error);
            }
            self.report(attempt, &error);
            tokio::time::sleep(ATTEMPT_DELAYS.delay(attempt)).await;
        }
    }

    /// Marks the upload as running; false when RocksDB removed the file while it was queued.
    fn begin(&self, entry: &Entry) -> bool {
        let mut upload = entry.upload.lock();
        if !matches!(&*upload, Upload::Queued) {
            return false;
        }
        *upload = Upload::Running;
        true
    }

    /// Whether a local file that cannot be opened is lost for good. One failed attempt is no proof, because
    /// RocksDB renames a staged file just before `bind_file` tells its new path. A file without a number,
    /// which is staged, never counts as lost, because it is bound or unstaged later.
    fn is_lost(&self, entry: &Entry, attempt: u32) -> bool {
        entry.number() != 0 && attempt >= MISSING_ATTEMPTS
    }

    fn finish(&self, entry: &Arc<Entry>, uploaded: UploadedFile) {
        let mut state = self.state.lock();
        let mut upload = entry.upload.lock();
        if matches!(&*upload, Upload::Dropped) {
            // RocksDB removed the file during its upload. The object may have been created after its key was
            // given to the collector, so the key is given again.
            drop(upload);
            let generation = state.generation;
            state.keys.add(&entry.key);
            state.garbage.push(Garbage { key: Arc::clone(&entry.key), generation });
            return;
        }
        debug_assert!(matches!(&*upload, Upload::Running), "{} was not being uploaded", entry.key);
        debug_assert!(
            uploaded.part_crcs.is_empty() || crc_of_parts(&uploaded.part_crcs, entry.size) == uploaded.crc32c,
            "reads of {} would check its parts against other bytes than its upload had",
            entry.key
        );
        *upload = Upload::Done { crc32c: uploaded.crc32c, part_crcs: uploaded.part_crcs };
        drop(upload);
        self.leave_backlog(&mut state, entry);
    }

    fn fail(&self, entry: &Arc<Entry>, path: &std::path::Path, error: StoreError) {
        let message = format!(
            "the local file {} cannot be uploaded and RocksDB still needs it: {error}. The bucket keeps its \
             last consistent state",
            path.display()
        );
        (self.log)(Level::Error, &message);
        let mut state = self.state.lock();
        let mut upload = entry.upload.lock();
        if matches!(&*upload, Upload::Dropped) {
            return;
        }
        *upload = Upload::Failed(StoreError::Corruption(message));
        drop(upload);
        self.leave_backlog(&mut state, entry);
    }

    /// Logs the first failed attempt and then every 15th, so that an outage of hours does not fill the error
    /// log.
    fn report(&self, attempt: u32, error: &StoreError) {
        if attempt == 1 || attempt.is_multiple_of(15) {
            (self.log)(
                Level::Warning,
                &format!("uploading (attempt {attempt}, retried without end): {error}"),
            );
        }
    }
}

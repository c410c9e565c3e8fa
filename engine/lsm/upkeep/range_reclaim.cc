#include "lsm/upkeep/range_reclaim.h"

#include <rocksdb/convenience.h>

#include <chrono>

#include "base/border/border.h"

namespace atoll::lsm {
namespace {

// The pause between two jobs. After many small tables were dropped at once, there are many jobs; in the
// pauses, statements have the disk to themselves.
constexpr auto kPause = std::chrono::milliseconds(200);

}  // namespace

RangeReclaim::RangeReclaim(rocksdb::DB *db, atoll_store *store)
    : db_(db), store_(store), task_("atoll-reclaim", RepeatedTask::kNoRhythm, [this] { reclaim_first(); }) {}

// Merges the new range with queued ranges of the same family that overlap it or are adjacent: one job for
// all.
void RangeReclaim::add(Family *family, std::string begin, std::string end) {
  MutexLock lock(mutex_);
  for (auto job = jobs_.begin(); job != jobs_.end();) {
    if (job->family != family || job->end < begin || end < job->begin) {
      ++job;
      continue;
    }
    begin = std::min(begin, job->begin);
    end = std::max(end, job->end);
    job = jobs_.erase(job);
  }
  jobs_.push_back({family, std::move(begin), std::move(end)});
  task_.ask(kPause);
}

size_t RangeReclaim::pending() {
  MutexLock lock(mutex_);
  return jobs_.size() + running_;
}

void RangeReclaim::reclaim_first() {
  MutexLock lock(mutex_);
  if (jobs_.empty()) return;
  const Job job = std::move(jobs_.front());
  jobs_.pop_front();
  running_ = 1;
  lock.unlock();
  // After an exception, the space stays in use until RocksDB's ordinary compactions free it.
  guarded_or_nothing([&] { reclaim(job); });
  lock.lock();
  running_ = 0;
  if (!jobs_.empty()) task_.ask(kPause);
}

void RangeReclaim::reclaim(const Job &job) {
  const rocksdb::Slice begin(job.begin);
  const rocksdb::Slice end(job.end);
  rocksdb::ColumnFamilyHandle *handle = job.family->handle();
  if (store_ != nullptr) atoll_store_note_drop(store_);
  // Deletes files that lie wholly inside the range, without reading them. No reader uses them, because the
  // catalog stopped naming the range before the range was deleted.
  (void)rocksdb::DeleteFilesInRange(db_, handle, &begin, &end, false);
  rocksdb::CompactRangeOptions options;
  options.exclusive_manual_compaction = false;
  options.allow_write_stall = false;
  options.bottommost_level_compaction = rocksdb::BottommostLevelCompaction::kIfHaveCompactionFilter;
  options.canceled = task_.stopping();
  (void)db_->CompactRange(options, handle, &begin, &end);
}

}  // namespace atoll::lsm

#include "lsm/upkeep/companion_flush.h"

#include "base/border/border.h"

namespace atoll::lsm {
namespace {

using Properties = rocksdb::DB::Properties;

// Each family that is flushed with a full memtable makes one more object in the bucket. So if more other
// families than this have rows in memory, none of them is flushed.
constexpr size_t kCompanionsMax = 8;

}  // namespace

CompanionFlush::CompanionFlush(uint64_t bytes_max)
    : bytes_max_(bytes_max),
      task_("atoll-companion", RepeatedTask::kNoRhythm, [this] { flush_companions(); }) {}

void CompanionFlush::start(rocksdb::DB *db, LiveFamilies live_families) {
  const MutexLock lock(mutex_);
  db_ = db;
  live_families_ = std::move(live_families);
}

void CompanionFlush::OnFlushBegin(rocksdb::DB * /*db*/, const rocksdb::FlushJobInfo &flush) noexcept {
  if (flush.flush_reason != rocksdb::FlushReason::kWriteBufferFull &&
      flush.flush_reason != rocksdb::FlushReason::kWriteBufferManager)
    return;
  guarded_or_nothing([&] {
    {
      const MutexLock lock(mutex_);
      full_family_ = flush.cf_id;
    }
    task_.ask();
  });
}

void CompanionFlush::flush_companions() {
  MutexLock lock(mutex_);
  if (db_ == nullptr) return;
  rocksdb::DB *const db = db_;
  const uint32_t full_family = full_family_;
  const std::vector<FamilyImpl *> families = live_families_();
  lock.unlock();

  uint64_t bytes = 0;
  std::vector<rocksdb::ColumnFamilyHandle *> companions;
  for (FamilyImpl *family : families) {
    rocksdb::ColumnFamilyHandle *const handle = family->handle();
    if (family->id() == full_family || int_property(db, handle, Properties::kNumEntriesActiveMemTable) == 0)
      continue;
    // A full memtable still waits for its flush: flushes make no progress, perhaps because the bucket does
    // not answer. More flushes would only delay writers.
    if (int_property(db, handle, Properties::kNumImmutableMemTable) > 0) return;
    bytes += int_property(db, handle, Properties::kCurSizeActiveMemTable);
    companions.push_back(handle);
    if (bytes > bytes_max_ || companions.size() > kCompanionsMax) return;
  }
  rocksdb::FlushOptions options;
  options.wait = false;
  options.allow_write_stall = true;  // otherwise Flush() might wait, and a shutdown with it
  // The result is ignored: a failed flush is a background error, which ErrorWatch reports.
  for (rocksdb::ColumnFamilyHandle *companion : companions) (void)db->Flush(options, companion);
}

}  // namespace atoll::lsm

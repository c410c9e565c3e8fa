#include "lsm/upkeep/error_watch.h"

#include <chrono>

#include "base/border/border.h"
#include "bridge/objstore.h"
#include "lsm/family.h"

namespace atoll::lsm {
namespace {

constexpr auto kResumeInterval = std::chrono::seconds(1);  // between two calls of Resume()

const char *reason_text(rocksdb::BackgroundErrorReason reason) {
  switch (reason) {
    case rocksdb::BackgroundErrorReason::kFlush:
    case rocksdb::BackgroundErrorReason::kFlushNoWAL:
      return "flushing to table files";
    case rocksdb::BackgroundErrorReason::kCompaction:
      return "compacting table files";
    case rocksdb::BackgroundErrorReason::kManifestWrite:
    case rocksdb::BackgroundErrorReason::kManifestWriteNoWAL:
      return "writing the MANIFEST";
    case rocksdb::BackgroundErrorReason::kWriteCallback:
    case rocksdb::BackgroundErrorReason::kMemTable:
      return "writing the WAL";
    case rocksdb::BackgroundErrorReason::kAsyncFileOpen:
      return "opening table files";
  }
  return "working in the background";
}

}  // namespace

ErrorWatch::ErrorWatch(Log log)
    : log_(std::move(log)), task_("atoll-resume", RepeatedTask::kNoRhythm, [this] { resume(); }) {}

void ErrorWatch::start(rocksdb::DB *db) {
  MutexLock lock(mutex_);
  db_ = db;
  task_.ask(kResumeInterval);
}

Status ErrorWatch::last_error() const {
  MutexLock lock(mutex_);
  return error_;
}

void ErrorWatch::OnBackgroundError(rocksdb::BackgroundErrorReason reason, rocksdb::Status *error) noexcept {
  const Status status = guarded([&] { return from_rocksdb(*error).with(reason_text(reason)); });
  guarded_or_nothing([&] { note_error(reason, status); });
}

void ErrorWatch::note_error(rocksdb::BackgroundErrorReason reason, const Status &status) {
  errors_.fetch_add(1, std::memory_order_relaxed);
  bool is_new = false;
  {
    MutexLock lock(mutex_);
    // RocksDB repeats a failed compaction by itself, without a recovery that ends in OnErrorRecoveryEnd(). So
    // nothing would ever clear the compaction's error, and it does not become the last error. A fence does,
    // because it lasts for ever.
    const bool is_compaction = reason == rocksdb::BackgroundErrorReason::kCompaction;
    is_new = status.code() != (is_compaction ? compaction_error_ : error_.code());
    if (is_compaction) compaction_error_ = status.code();
    if (!is_compaction || status.code() == Code::kFenced) error_ = status;
    task_.ask(kResumeInterval);
  }
  if (is_new && log_) log_(ATOLL_LOG_ERROR, status.message());
}

void ErrorWatch::OnErrorRecoveryEnd(const rocksdb::BackgroundErrorRecoveryInfo &recovery) noexcept {
  if (recovery.new_bg_error.ok()) guarded_or_nothing([this] { clear_error(); });
}

void ErrorWatch::clear_error() {
  {
    MutexLock lock(mutex_);
    if (error_.ok()) return;
    error_ = Status();
  }
  if (log_) log_(ATOLL_LOG_INFO, "background work has resumed");
}

void ErrorWatch::OnFlushCompleted(rocksdb::DB * /*db*/, const rocksdb::FlushJobInfo &flush) noexcept {
  bytes_flushed_.fetch_add(flush.table_properties.data_size, std::memory_order_relaxed);
}

void ErrorWatch::OnCompactionCompleted(rocksdb::DB * /*db*/,
                                       const rocksdb::CompactionJobInfo &compaction) noexcept {
  guarded_or_nothing([&] { note_compaction(compaction); });
}

// RocksDB also reports compactions that failed, after it has called OnBackgroundError().
void ErrorWatch::note_compaction(const rocksdb::CompactionJobInfo &compaction) {
  bytes_compacted_.fetch_add(compaction.stats.total_output_bytes, std::memory_order_relaxed);
  if (!compaction.status.ok()) return;
  MutexLock lock(mutex_);
  compaction_error_ = Code::kOk;
}

// After a full disk, calls Resume() once a second until it succeeds. After other retryable errors, RocksDB
// retries by itself.
void ErrorWatch::resume() {
  MutexLock lock(mutex_);
  if (db_ == nullptr || error_.code() != Code::kNoSpace) return;
  rocksdb::DB *const db = db_;
  lock.unlock();
  task_.ask(kResumeInterval);
  if (db->Resume().ok()) clear_error();
}

}  // namespace atoll::lsm

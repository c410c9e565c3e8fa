// Watches a RocksDB database for background errors and resumes its background work.
//
// RocksDB retries by itself after a retryable I/O error, but after a full disk it waits for a call of
// Resume(). The thread of ErrorWatch calls Resume() once a second, as long as the error lasts. A fence,
// corruption or any other fatal error is only remembered.
#pragma once

#include <rocksdb/db.h>
#include <rocksdb/listener.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/mutex.h"
#include "base/status.h"
#include "base/threads/repeated_task.h"

namespace atoll::lsm {

class ErrorWatch final : public rocksdb::EventListener {
 public:
  using Log = std::function<void(int level, const std::string &)>;
  explicit ErrorWatch(Log log);

  // From now on until stop(), the thread calls Resume() of `db` when that is needed.
  void start(rocksdb::DB *db);
  void stop() { task_.stop(); }

  // The error that stops background work now; kOk if there is none.
  Status last_error() const;
  uint64_t errors() const { return errors_.load(std::memory_order_relaxed); }
  uint64_t bytes_flushed() const { return bytes_flushed_.load(std::memory_order_relaxed); }
  uint64_t bytes_compacted() const { return bytes_compacted_.load(std::memory_order_relaxed); }

  // RocksDB calls these functions from its own threads, some of them with its mutex held. So they must not
  // call RocksDB.
  void OnBackgroundError(rocksdb::BackgroundErrorReason reason, rocksdb::Status *error) noexcept override;
  void OnErrorRecoveryEnd(const rocksdb::BackgroundErrorRecoveryInfo &recovery) noexcept override;
  void OnFlushCompleted(rocksdb::DB *db, const rocksdb::FlushJobInfo &flush) noexcept override;
  void OnCompactionCompleted(rocksdb::DB *db, const rocksdb::CompactionJobInfo &compaction) noexcept override;

 private:
  void note_error(rocksdb::BackgroundErrorReason reason, const Status &status);
  void note_compaction(const rocksdb::CompactionJobInfo &compaction);
  void resume();
  void clear_error();

  const Log log_;
  mutable Mutex mutex_;
  Status error_ ATOLL_GUARDED_BY(mutex_);  // see last_error()
  // The code of the last failed compaction that the log reported; kOk after a compaction that succeeded.
  Code compaction_error_ ATOLL_GUARDED_BY(mutex_) = Code::kOk;
  rocksdb::DB *db_ ATOLL_GUARDED_BY(mutex_) = nullptr;
  std::atomic<uint64_t> errors_{0}, bytes_flushed_{0}, bytes_compacted_{0};
  RepeatedTask task_;  // declared last, because its thread uses the other members
};

}  // namespace atoll::lsm

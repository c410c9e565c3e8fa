// The compactions of one RocksDB: those that run and the last ones that ended, for INFORMATION_SCHEMA.
#pragma once

#include <rocksdb/db.h>
#include <rocksdb/listener.h>

#include <deque>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "lsm/figures/figures.h"

namespace atoll::lsm {

class CompactionLog final : public rocksdb::EventListener {
 public:
  // Oldest first. Any thread.
  std::vector<Compaction> list() const;
  // How many compactions have ended since the start: done, failed.
  std::pair<uint64_t, uint64_t> ended() const;

  // RocksDB's side: called from its threads, not with its mutex held.
  void OnCompactionBegin(rocksdb::DB *db, const rocksdb::CompactionJobInfo &job) noexcept override;
  void OnCompactionCompleted(rocksdb::DB *db, const rocksdb::CompactionJobInfo &job) noexcept override;

 private:
  void begin(const rocksdb::CompactionJobInfo &job);
  void end(const rocksdb::CompactionJobInfo &job);

  mutable Mutex mutex_;
  std::deque<Compaction> compactions_ ATOLL_GUARDED_BY(mutex_);
  uint64_t done_ ATOLL_GUARDED_BY(mutex_) = 0;
  uint64_t failed_ ATOLL_GUARDED_BY(mutex_) = 0;
};

}  // namespace atoll::lsm

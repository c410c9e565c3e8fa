// Keeps a list of a RocksDB database's compactions for INFORMATION_SCHEMA: those that run, and those that
// ended last.
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
  // Returns the compactions in the list, oldest first. Threads: any.
  std::vector<Compaction> list() const;
  // Returns how many compactions have succeeded, and how many have failed, since the server started.
  std::pair<uint64_t, uint64_t> ended() const;

  // RocksDB calls these functions from its own threads, without holding its mutex.
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

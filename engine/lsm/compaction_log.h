// The compactions of one RocksDB: those that run and the last ones that ended, for INFORMATION_SCHEMA.
#pragma once

#include <rocksdb/db.h>
#include <rocksdb/listener.h>

#include <deque>
#include <mutex>
#include <vector>

#include "lsm/database.h"

namespace atoll::lsm {

class CompactionLog final : public rocksdb::EventListener {
 public:
  // Oldest first. Any thread.
  std::vector<Compaction> list() const;

  // RocksDB's side: called from its threads, not with its mutex held.
  void OnCompactionBegin(rocksdb::DB *db, const rocksdb::CompactionJobInfo &job) override;
  void OnCompactionCompleted(rocksdb::DB *db, const rocksdb::CompactionJobInfo &job) override;

 private:
  mutable std::mutex mutex_;
  std::deque<Compaction> compactions_;
};

}  // namespace atoll::lsm

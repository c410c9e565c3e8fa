// Writes rows that come in ascending order to a series of table files, on a thread of its own: the adding
// thread only copies bytes, as it also reads the source table and is the bottleneck of an ALTER.
#pragma once

#include <rocksdb/options.h>

#include <atomic>
#include <deque>
#include <future>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "bridge/objstore.h"

namespace rocksdb {
class SstFileWriter;
struct ExternalSstFileInfo;
}  // namespace rocksdb

namespace atoll::lsm {

// Rows back to back: key length, value length (4 bytes each, native order: it never leaves the process),
// key, value.
class RowChunk {
 public:
  explicit RowChunk(size_t bytes_max) { bytes_.reserve(bytes_max); }
  bool fits(size_t key_bytes, size_t value_bytes) const {
    return bytes_.empty() || bytes_.size() + 8 + key_bytes + value_bytes <= bytes_.capacity();
  }
  void add(std::string_view key, std::string_view value);
  bool empty() const { return bytes_.empty(); }
  template <typename Each>  // bool each(key, value); stops at false
  bool for_each(Each each) const;

 private:
  std::string bytes_;
};

class SortedFileWriter {
 public:
  struct Settings {
    rocksdb::Options file_options;
    std::string path_prefix;  // files are <prefix>000001.sst, ...
    uint64_t file_bytes = 0;
    atoll_store *store = nullptr;              // finished files are staged here; may be nullptr
    const std::atomic<bool> *abort = nullptr;  // true: nobody waits for the bucket any more; may be nullptr
  };
  explicit SortedFileWriter(Settings settings);
  ~SortedFileWriter();

  // Requires: key above all former keys. Blocks: while the writing thread is several chunks behind, which it
  // is while the bucket is away. Errors: kInterrupted when the statement was killed meanwhile.
  Status add(std::string_view key, std::string_view value);
  // Completes the last file and waits for it.
  Status finish();
  // Ends the writing thread without finishing; nothing is written or staged after it.
  void stop();
  // The files that exist on disk, complete or not, in key order. Call after finish() or stop(), also if that
  // failed.
  const std::vector<std::string> &paths() const { return paths_; }
  std::vector<std::shared_ptr<const rocksdb::ExternalSstFileInfo>> infos() const {
    const MutexLock lock(mutex_);
    return infos_;
  }

 private:
  void run();
  Status write_chunk(const RowChunk &chunk);
  Status open_file();
  void finish_file();
  Status finish_in_background(rocksdb::SstFileWriter *file, size_t index);
  Status wait_finished();
  Status push_chunk();
  void fail(const Status &status);

  const Settings settings_;
  RowChunk filling_;
  // Used by the writing thread:
  std::unique_ptr<rocksdb::SstFileWriter> file_;
  uint64_t until_size_check_ = 0;
  std::vector<std::string> paths_;
  std::deque<std::future<Status>> finishing_files_;  // full files being synced and staged

  mutable Mutex mutex_;
  std::vector<std::shared_ptr<const rocksdb::ExternalSstFileInfo>> infos_
      ATOLL_GUARDED_BY(mutex_);  // as paths_
  Condition changed_;
  std::deque<RowChunk> queue_ ATOLL_GUARDED_BY(mutex_);
  bool finishing_ ATOLL_GUARDED_BY(mutex_) = false;
  bool stopping_ ATOLL_GUARDED_BY(mutex_) = false;
  Status status_ ATOLL_GUARDED_BY(mutex_);
  std::atomic<bool> failed_{false};
  std::vector<std::thread> thread_;  // one; none: failed_
};

}  // namespace atoll::lsm

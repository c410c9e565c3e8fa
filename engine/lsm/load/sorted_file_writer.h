// Writes rows that come in ascending order to a series of table files, on a thread of its own. The adding
// thread only copies bytes, because it also reads the source table and is the bottleneck of an ALTER.
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

// A buffer of rows, one after the other. A row is the lengths of key and value (4 bytes each, in native byte
// order, because a chunk never leaves the process), key, value.
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

// The writer of one series of files, with its thread; the destructor ends the thread. One thread at a
// time adds rows.
class SortedFileWriter {
 public:
  struct Settings {
    rocksdb::Options file_options;
    std::string path_prefix;       // files are <prefix>000001.sst, ...
    uint64_t file_bytes = 0;       // size at which a file is finished and the next one begins
    atoll_store *store = nullptr;  // gets each finished file and uploads it; nullptr: no bucket
    // When the flag becomes true, waits for the bucket end with an error. nullptr: nothing ends them.
    const std::atomic<bool> *abort = nullptr;
  };
  explicit SortedFileWriter(Settings settings);
  ~SortedFileWriter();

  // Requires: `key` is greater than all keys added before. Blocks: while 16 chunks wait for the writing
  // thread, for example because the bucket does not answer. Errors: kInterrupted when the statement was
  // killed during that wait; kNoMemory, kNoSpace, kUnavailable, kFenced from the writing thread.
  Status add(std::string_view key, std::string_view value);
  // Completes the last file, and waits until all files are synced and passed to the store.
  Status finish();
  // Ends the writing thread without completing the last file. After it, nothing is written or staged any
  // more.
  void stop();
  // Returns the files that exist on disk, complete or not, in key order. Call it after finish() or stop(),
  // even if finish() failed.
  const std::vector<std::string> &paths() const { return paths_; }
  // Returns what RocksDB knows about each finished file, in the order of paths(), so that the ingestion need
  // not read the files.
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
  RowChunk filling_;  // the chunk to which add() adds rows
  // Used by the writing thread:
  std::unique_ptr<rocksdb::SstFileWriter> file_;  // the file being written; nullptr: none
  uint64_t until_size_check_ = 0;                 // rows until the size of file_ is checked
  std::vector<std::string> paths_;
  std::deque<std::future<Status>> finishing_files_;  // full files being synced and staged

  mutable Mutex mutex_;
  std::vector<std::shared_ptr<const rocksdb::ExternalSstFileInfo>> infos_
      ATOLL_GUARDED_BY(mutex_);  // one for each file, in the order of paths_
  Condition changed_;
  std::deque<RowChunk> queue_ ATOLL_GUARDED_BY(mutex_);  // full chunks that wait for the writing thread
  bool finishing_ ATOLL_GUARDED_BY(mutex_) = false;      // true: no more rows come
  bool stopping_ ATOLL_GUARDED_BY(mutex_) = false;       // true: the writing thread must end at once
  Status status_ ATOLL_GUARDED_BY(mutex_);               // the failure of the writing thread
  std::atomic<bool> failed_{false};                      // true: status_ is a failure
  std::vector<std::thread> thread_;  // the writing thread; none if it could not be started
};

}  // namespace atoll::lsm

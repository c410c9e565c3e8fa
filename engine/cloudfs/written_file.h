// The files RocksDB writes and the store must hear about: table files, MANIFESTs, WALs. All are plain
// local files; these wrappers only tell the store what has become durable, after it has. RocksDB gets them
// within the GuardedWriter of guarded_files.h.
#pragma once

#include <rocksdb/file_system.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include "base/mutex.h"
#include "base/namespace.h"
#include "bridge/objstore.h"
#include "cloudfs/log_space.h"

namespace atoll::cloudfs {

// A table file: handed to the store when RocksDB closes it, always synced before. A file that is dropped
// without Close() was abandoned and is never handed over.
class TableWriter : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  TableWriter(std::unique_ptr<rocksdb::FSWritableFile> file, atoll_store *store, uint64_t number,
              std::string path);
  using rocksdb::FSWritableFileOwnerWrapper::Append;
  rocksdb::IOStatus Append(const rocksdb::Slice &bytes, const rocksdb::IOOptions &options,
                           rocksdb::IODebugContext *debug) override;
  rocksdb::IOStatus Append(const rocksdb::Slice &bytes, const rocksdb::IOOptions &options,
                           const rocksdb::DataVerificationInfo &verification,
                           rocksdb::IODebugContext *debug) override;
  rocksdb::IOStatus Sync(const rocksdb::IOOptions &options, rocksdb::IODebugContext *debug) override;
  rocksdb::IOStatus Fsync(const rocksdb::IOOptions &options, rocksdb::IODebugContext *debug) override;
  // Blocks: while the upload backlog is over its limit, which is how RocksDB's own write stall starts.
  rocksdb::IOStatus Close(const rocksdb::IOOptions &options, rocksdb::IODebugContext *debug) override;

 private:
  atoll_store *const store_;
  const uint64_t number_;
  const std::string path_;
  bool synced_ = true;
  bool closed_ = false;
};

// Counts appended bytes and reports what a sync has covered. Append and Sync may run at the same time (a
// WAL), so the length is taken before the sync starts.
class LogWriter : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  LogWriter(std::unique_ptr<rocksdb::FSWritableFile> file, atoll_store *store, uint64_t number);
  using rocksdb::FSWritableFileOwnerWrapper::Append;
  rocksdb::IOStatus Append(const rocksdb::Slice &bytes, const rocksdb::IOOptions &options,
                           rocksdb::IODebugContext *debug) override;
  rocksdb::IOStatus Append(const rocksdb::Slice &bytes, const rocksdb::IOOptions &options,
                           const rocksdb::DataVerificationInfo &verification,
                           rocksdb::IODebugContext *debug) override;
  rocksdb::IOStatus Sync(const rocksdb::IOOptions &options, rocksdb::IODebugContext *debug) override;
  rocksdb::IOStatus Fsync(const rocksdb::IOOptions &options, rocksdb::IODebugContext *debug) override;

 protected:
  virtual void appended(uint64_t /*length*/) noexcept {}
  virtual void synced(uint64_t length) noexcept = 0;

  uint64_t length() const { return length_.load(std::memory_order_acquire); }
  atoll_store *const store_;
  const uint64_t number_;

 private:
  rocksdb::IOStatus count(const rocksdb::IOStatus &status, size_t bytes);
  std::atomic<uint64_t> length_{0};
};

class ManifestWriter : public LogWriter {
 public:
  using LogWriter::LogWriter;

 private:
  void synced(uint64_t length) noexcept override { atoll_store_manifest_synced(store_, number_, length); }
};

class WalWriter : public LogWriter {
 public:
  WalWriter(std::unique_ptr<rocksdb::FSWritableFile> file, atoll_store *store, uint64_t number,
            std::string path);
  ~WalWriter() override;
  using LogWriter::Append;
  rocksdb::IOStatus Append(const rocksdb::Slice &bytes, const rocksdb::IOOptions &options,
                           rocksdb::IODebugContext *debug) override;
  rocksdb::IOStatus Append(const rocksdb::Slice &bytes, const rocksdb::IOOptions &options,
                           const rocksdb::DataVerificationInfo &verification,
                           rocksdb::IODebugContext *debug) override;
  // A failure is final: RocksDB refuses all writes from then on and does not resume by itself.
  rocksdb::IOStatus Sync(const rocksdb::IOOptions &options, rocksdb::IODebugContext *debug) override;
  rocksdb::IOStatus Fsync(const rocksdb::IOOptions &options, rocksdb::IODebugContext *debug) override;
  rocksdb::IOStatus Close(const rocksdb::IOOptions &options, rocksdb::IODebugContext *debug) override;

 private:
  void appended(uint64_t length) noexcept override { atoll_store_wal_appended(store_, number_, length); }
  void synced(uint64_t length) noexcept override { atoll_store_wal_synced(store_, number_, length); }
  void prepare(size_t bytes);
  void note_synced();
  void note_closed();
  bool closed_ = false;
  Mutex space_mutex_;  // Append and Sync may run at the same time
  LogSpace space_ ATOLL_GUARDED_BY(space_mutex_);
};

}  // namespace atoll::cloudfs

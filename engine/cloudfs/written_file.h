// Wrappers of the files that RocksDB writes and that the store must know about: table files, MANIFESTs, WALs.
// All of them are plain local files. A wrapper tells the store which bytes are durable, after they have
// become durable. RocksDB gets a wrapper inside the GuardedWriter of guarded_files.h.
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

// Makes room on the disk for a file that grows: for each MiB it asks the part cache to leave enough free
// space. Threads: one at a time.
class RoomMaker {
 public:
  void before_append(atoll_store *store, size_t bytes);

 private:
  uint64_t bytes_ = 0;  // appended since the last look at the disk
};

// A table file. Close() syncs it if necessary and then hands it to the store. When RocksDB destroys a file
// without Close(), RocksDB has abandoned the file, and the store never gets it.
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
  // Blocks while more bytes wait for their upload than the limit allows. The flush or compaction that writes
  // the file then waits, too, so RocksDB slows down the writers by its own write stall.
  rocksdb::IOStatus Close(const rocksdb::IOOptions &options, rocksdb::IODebugContext *debug) override;

 private:
  atoll_store *const store_;
  const uint64_t number_;
  const std::string path_;
  RoomMaker room_;
  bool synced_ = true;   // true: no byte was appended since the last successful sync
  bool closed_ = false;  // true: Close() has closed the local file
};

// A WAL or MANIFEST. Counts the appended bytes, and tells the store how many of them a sync has covered.
// RocksDB can call Append and Sync of a WAL at the same time, so Sync reads the length before it starts: the
// sync does not always cover bytes that are appended meanwhile.
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
  // Called after an append or a sync that succeeded. `length`: how many bytes the file has, or how many of
  // them the sync has covered.
  virtual void appended(uint64_t /*length*/) noexcept {}
  virtual void synced(uint64_t length) noexcept = 0;

  uint64_t length() const { return length_.load(std::memory_order_acquire); }
  atoll_store *const store_;
  const uint64_t number_;

 private:
  rocksdb::IOStatus count(const rocksdb::IOStatus &status, size_t bytes);
  std::atomic<uint64_t> length_{0};
};

// A MANIFEST: the store uploads only bytes that a sync has covered.
class ManifestWriter : public LogWriter {
 public:
  using LogWriter::LogWriter;

 private:
  void synced(uint64_t length) noexcept override { atoll_store_manifest_synced(store_, number_, length); }
};

// A WAL: the store also learns of its creation, of each append and of its end. Space on disk is
// prepared before bytes are appended (log_space.h).
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
  RoomMaker room_;     // RocksDB appends to a log by one thread at a time
  Mutex space_mutex_;  // needed because RocksDB can call Append and Sync at the same time
  LogSpace space_ ATOLL_GUARDED_BY(space_mutex_);
};

}  // namespace atoll::cloudfs

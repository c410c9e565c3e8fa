// For tests only: a wrapper of the local file system. It counts the writes and syncs of RocksDB's WAL files,
// and can let the writes fail. It can report a full disk to table files. It can delay reads as if they came
// from a bucket.
#pragma once

#include <rocksdb/env.h>
#include <rocksdb/file_system.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>

#include "base/namespace.h"

namespace atoll::txn {

// What a test tells the file system to do, and what the file system has counted.
struct FileFaults {
  std::atomic<uint32_t> read_delay_us{0};               // how long each read takes at least
  std::atomic<uint64_t> reads{0};                       // reads so far
  std::atomic<int> reads_now{0}, reads_at_once_max{0};  // concurrent reads, now and at most
  std::atomic<bool> fail_appends{false};                // true: appends to WAL files fail
  // How many more appends to table files succeed before the disk is full. Negative: the disk is never full.
  std::atomic<int> table_appends_left{-1};
  std::atomic<uint64_t> appended_bytes{0};  // to WAL files
  std::atomic<uint64_t> syncs{0};           // of WAL files
};

class WalFile final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  WalFile(std::unique_ptr<rocksdb::FSWritableFile> file, FileFaults *faults)
      : FSWritableFileOwnerWrapper(std::move(file)), faults_(faults) {}
  using FSWritableFileOwnerWrapper::Append;
  rocksdb::IOStatus Append(const rocksdb::Slice &data, const rocksdb::IOOptions &options,
                           rocksdb::IODebugContext *debug) override {
    if (faults_->fail_appends) return rocksdb::IOStatus::IOError("injected");
    faults_->appended_bytes += data.size();
    return FSWritableFileOwnerWrapper::Append(data, options, debug);
  }
  rocksdb::IOStatus Append(const rocksdb::Slice &data, const rocksdb::IOOptions &options,
                           const rocksdb::DataVerificationInfo &, rocksdb::IODebugContext *debug) override {
    return Append(data, options, debug);
  }
  rocksdb::IOStatus Sync(const rocksdb::IOOptions &options, rocksdb::IODebugContext *debug) override {
    ++faults_->syncs;
    return FSWritableFileOwnerWrapper::Sync(options, debug);
  }

 private:
  FileFaults *faults_;
};

class TableFile final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  TableFile(std::unique_ptr<rocksdb::FSWritableFile> file, FileFaults *faults)
      : FSWritableFileOwnerWrapper(std::move(file)), faults_(faults) {}
  using FSWritableFileOwnerWrapper::Append;
  rocksdb::IOStatus Append(const rocksdb::Slice &data, const rocksdb::IOOptions &options,
                           rocksdb::IODebugContext *debug) override {
    if (faults_->table_appends_left == 0) return rocksdb::IOStatus::NoSpace("injected");
    if (faults_->table_appends_left > 0) --faults_->table_appends_left;
    return FSWritableFileOwnerWrapper::Append(data, options, debug);
  }
  rocksdb::IOStatus Append(const rocksdb::Slice &data, const rocksdb::IOOptions &options,
                           const rocksdb::DataVerificationInfo &, rocksdb::IODebugContext *debug) override {
    return Append(data, options, debug);
  }

 private:
  FileFaults *faults_;
};

class SlowFile final : public rocksdb::FSRandomAccessFileOwnerWrapper {
 public:
  SlowFile(std::unique_ptr<rocksdb::FSRandomAccessFile> file, FileFaults *faults)
      : FSRandomAccessFileOwnerWrapper(std::move(file)), faults_(faults) {}
  rocksdb::IOStatus Read(uint64_t offset, size_t size, const rocksdb::IOOptions &options,
                         rocksdb::Slice *result, char *scratch,
                         rocksdb::IODebugContext *debug) const override {
    const Delay delay(faults_);
    return FSRandomAccessFileOwnerWrapper::Read(offset, size, options, result, scratch, debug);
  }
  rocksdb::IOStatus MultiRead(rocksdb::FSReadRequest *requests, size_t count,
                              const rocksdb::IOOptions &options, rocksdb::IODebugContext *debug) override {
    const Delay delay(faults_);
    return FSRandomAccessFileOwnerWrapper::MultiRead(requests, count, options, debug);
  }

 private:
  struct Delay {
    explicit Delay(FileFaults *of) : faults(of) {
      ++faults->reads;
      const int now = ++faults->reads_now;
      int most = faults->reads_at_once_max;
      while (now > most && !faults->reads_at_once_max.compare_exchange_weak(most, now)) continue;
      const uint32_t wait_us = faults->read_delay_us;
      if (wait_us > 0) std::this_thread::sleep_for(std::chrono::microseconds(wait_us));
    }
    ~Delay() { --faults->reads_now; }
    FileFaults *faults;
  };
  FileFaults *faults_;
};

class FaultyFileSystem final : public rocksdb::FileSystemWrapper {
 public:
  explicit FaultyFileSystem(FileFaults *faults)
      : FileSystemWrapper(rocksdb::FileSystem::Default()), faults_(faults) {}
  const char *Name() const override { return "FaultyFileSystem"; }
  rocksdb::IOStatus NewWritableFile(const std::string &name, const rocksdb::FileOptions &options,
                                    std::unique_ptr<rocksdb::FSWritableFile> *result,
                                    rocksdb::IODebugContext *debug) override {
    rocksdb::IOStatus status = FileSystemWrapper::NewWritableFile(name, options, result, debug);
    if (status.ok() && name.ends_with(".log"))
      *result = std::make_unique<WalFile>(std::move(*result), faults_);
    else if (status.ok() && name.ends_with(".sst"))
      *result = std::make_unique<TableFile>(std::move(*result), faults_);
    return status;
  }
  rocksdb::IOStatus NewRandomAccessFile(const std::string &name, const rocksdb::FileOptions &options,
                                        std::unique_ptr<rocksdb::FSRandomAccessFile> *result,
                                        rocksdb::IODebugContext *debug) override {
    rocksdb::IOStatus status = FileSystemWrapper::NewRandomAccessFile(name, options, result, debug);
    if (status.ok()) *result = std::make_unique<SlowFile>(std::move(*result), faults_);
    return status;
  }

 private:
  FileFaults *faults_;
};

}  // namespace atoll::txn

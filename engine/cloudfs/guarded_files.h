// The border between RocksDB and this folder, which no exception may pass (rule BORDER-1). RocksDB gets the
// classes below. They derive from this folder's file classes and file system, and return an IOStatus in place
// of an exception. They override each virtual function that is not noexcept; `make check` verifies that none
// is missing.
#pragma once

#include <utility>

#include "cloudfs/cloud_file_system.h"
#include "cloudfs/io_status.h"

namespace atoll::cloudfs {

// `File` is a writer of written_file.h.
template <typename File>
class GuardedWriter final : public File {
 public:
  using File::File;

  rocksdb::IOStatus Append(const rocksdb::Slice &bytes, const rocksdb::IOOptions &options,
                           rocksdb::IODebugContext *debug) override {
    return guarded_io([&] { return File::Append(bytes, options, debug); });
  }
  rocksdb::IOStatus Append(const rocksdb::Slice &bytes, const rocksdb::IOOptions &options,
                           const rocksdb::DataVerificationInfo &verification,
                           rocksdb::IODebugContext *debug) override {
    return guarded_io([&] { return File::Append(bytes, options, verification, debug); });
  }
  rocksdb::IOStatus Sync(const rocksdb::IOOptions &options, rocksdb::IODebugContext *debug) override {
    return guarded([&] { return File::Sync(options, debug); }, final_io_status_of_exception);
  }
  rocksdb::IOStatus Fsync(const rocksdb::IOOptions &options, rocksdb::IODebugContext *debug) override {
    return guarded([&] { return File::Fsync(options, debug); }, final_io_status_of_exception);
  }
  rocksdb::IOStatus Close(const rocksdb::IOOptions &options, rocksdb::IODebugContext *debug) override {
    return guarded_io([&] { return File::Close(options, debug); });
  }
};

// `File` is a reader, such as TableReader.
template <typename File>
class GuardedReader final : public File {
 public:
  using File::File;

  rocksdb::IOStatus Read(uint64_t offset, size_t length, const rocksdb::IOOptions &options,
                         rocksdb::Slice *result, char *scratch,
                         rocksdb::IODebugContext *debug) const override {
    return guarded_io([&] { return File::Read(offset, length, options, result, scratch, debug); });
  }
  rocksdb::IOStatus MultiRead(rocksdb::FSReadRequest *requests, size_t count,
                              const rocksdb::IOOptions &options, rocksdb::IODebugContext *debug) override {
    return guarded_io([&] { return File::MultiRead(requests, count, options, debug); });
  }
  rocksdb::IOStatus Prefetch(uint64_t offset, size_t length, const rocksdb::IOOptions &options,
                             rocksdb::IODebugContext *debug) override {
    return guarded_io([&] { return File::Prefetch(offset, length, options, debug); });
  }
};

// The file system that RocksDB gets. One for each database with a bucket; it must outlive the database.
// Threads: any.
class GuardedFileSystem final : public CloudFileSystem {
 public:
  using CloudFileSystem::CloudFileSystem;

  rocksdb::IOStatus NewSequentialFile(const std::string &path, const rocksdb::FileOptions &options,
                                      std::unique_ptr<rocksdb::FSSequentialFile> *result,
                                      rocksdb::IODebugContext *debug) override {
    return guarded_io([&] { return CloudFileSystem::NewSequentialFile(path, options, result, debug); });
  }
  rocksdb::IOStatus NewRandomAccessFile(const std::string &path, const rocksdb::FileOptions &options,
                                        std::unique_ptr<rocksdb::FSRandomAccessFile> *result,
                                        rocksdb::IODebugContext *debug) override {
    return guarded_io([&] { return CloudFileSystem::NewRandomAccessFile(path, options, result, debug); });
  }
  rocksdb::IOStatus NewWritableFile(const std::string &path, const rocksdb::FileOptions &options,
                                    std::unique_ptr<rocksdb::FSWritableFile> *result,
                                    rocksdb::IODebugContext *debug) override {
    return guarded_io([&] { return CloudFileSystem::NewWritableFile(path, options, result, debug); });
  }
  rocksdb::IOStatus FileExists(const std::string &path, const rocksdb::IOOptions &options,
                               rocksdb::IODebugContext *debug) override {
    return guarded_io([&] { return CloudFileSystem::FileExists(path, options, debug); });
  }
  rocksdb::IOStatus GetChildren(const std::string &directory, const rocksdb::IOOptions &options,
                                std::vector<std::string> *names, rocksdb::IODebugContext *debug) override {
    return guarded_io([&] { return CloudFileSystem::GetChildren(directory, options, names, debug); });
  }
  rocksdb::IOStatus GetChildrenFileAttributes(const std::string &directory, const rocksdb::IOOptions &options,
                                              std::vector<rocksdb::FileAttributes> *files,
                                              rocksdb::IODebugContext *debug) override {
    return guarded_io(
        [&] { return CloudFileSystem::GetChildrenFileAttributes(directory, options, files, debug); });
  }
  rocksdb::IOStatus DeleteFile(const std::string &path, const rocksdb::IOOptions &options,
                               rocksdb::IODebugContext *debug) override {
    return guarded_io([&] { return CloudFileSystem::DeleteFile(path, options, debug); });
  }
  rocksdb::IOStatus GetFileSize(const std::string &path, const rocksdb::IOOptions &options, uint64_t *bytes,
                                rocksdb::IODebugContext *debug) override {
    return guarded_io([&] { return CloudFileSystem::GetFileSize(path, options, bytes, debug); });
  }
  rocksdb::IOStatus GetFileModificationTime(const std::string &path, const rocksdb::IOOptions &options,
                                            uint64_t *unix_seconds, rocksdb::IODebugContext *debug) override {
    return guarded_io(
        [&] { return CloudFileSystem::GetFileModificationTime(path, options, unix_seconds, debug); });
  }
  rocksdb::IOStatus RenameFile(const std::string &from, const std::string &to,
                               const rocksdb::IOOptions &options, rocksdb::IODebugContext *debug) override {
    return guarded_io([&] { return CloudFileSystem::RenameFile(from, to, options, debug); });
  }
  rocksdb::IOStatus LinkFile(const std::string &from, const std::string &to,
                             const rocksdb::IOOptions &options, rocksdb::IODebugContext *debug) override {
    return guarded_io([&] { return CloudFileSystem::LinkFile(from, to, options, debug); });
  }
  rocksdb::IOStatus SyncFile(const std::string &path, const rocksdb::FileOptions &file_options,
                             const rocksdb::IOOptions &options, bool use_fsync,
                             rocksdb::IODebugContext *debug) override {
    return guarded_io(
        [&] { return CloudFileSystem::SyncFile(path, file_options, options, use_fsync, debug); });
  }
};

}  // namespace atoll::cloudfs

// The file system under a state of the past (lsm/past/): table files are read through its mount, all others
// lie in its directory. So do table files that RocksDB writes while it opens a state for a visitor.
#pragma once

#include <rocksdb/file_system.h>

#include <memory>
#include <set>
#include <string>

#include "base/mutex.h"
#include "bridge/objstore.h"
#include "cloudfs/file_name.h"
#include "cloudfs/io_status.h"

namespace atoll::cloudfs {

// RocksDB gets the GuardedPastFiles below. Threads: any.
class PastFiles : public rocksdb::FileSystemWrapper {
 public:
  // `mount` must live longer.
  PastFiles(const std::shared_ptr<rocksdb::FileSystem> &local, std::string directory,
            const atoll_mount *mount);

  static const char *kClassName() { return "AtollPastFiles"; }
  const char *Name() const noexcept override { return kClassName(); }

  rocksdb::IOStatus NewRandomAccessFile(const std::string &path, const rocksdb::FileOptions &options,
                                        std::unique_ptr<rocksdb::FSRandomAccessFile> *result,
                                        rocksdb::IODebugContext *debug) override;
  rocksdb::IOStatus NewWritableFile(const std::string &path, const rocksdb::FileOptions &options,
                                    std::unique_ptr<rocksdb::FSWritableFile> *result,
                                    rocksdb::IODebugContext *debug) override;
  rocksdb::IOStatus FileExists(const std::string &path, const rocksdb::IOOptions &options,
                               rocksdb::IODebugContext *debug) override;
  rocksdb::IOStatus GetFileSize(const std::string &path, const rocksdb::IOOptions &options, uint64_t *bytes,
                                rocksdb::IODebugContext *debug) override;

  // Whether RocksDB has written the table file `number` here. A mount may have another file of that number,
  // which its MANIFEST does not name: a root holds also files that were finished after its MANIFEST was read.
  bool is_written(uint64_t number) const;

 private:
  // Finds the table file that `path` names. False: it is no table file of the mount.
  bool find(const std::string &path, uint64_t *number, uint64_t *bytes) const;

  const std::string directory_;
  const atoll_mount *const mount_;
  mutable Mutex mutex_;
  std::set<uint64_t> written_ ATOLL_GUARDED_BY(mutex_);  // numbers of table files
};

// Rule BORDER-1.
class GuardedPastFiles final : public PastFiles {
 public:
  using PastFiles::PastFiles;

  rocksdb::IOStatus NewRandomAccessFile(const std::string &path, const rocksdb::FileOptions &options,
                                        std::unique_ptr<rocksdb::FSRandomAccessFile> *result,
                                        rocksdb::IODebugContext *debug) override {
    return guarded_io([&] { return PastFiles::NewRandomAccessFile(path, options, result, debug); });
  }
  rocksdb::IOStatus NewWritableFile(const std::string &path, const rocksdb::FileOptions &options,
                                    std::unique_ptr<rocksdb::FSWritableFile> *result,
                                    rocksdb::IODebugContext *debug) override {
    return guarded_io([&] { return PastFiles::NewWritableFile(path, options, result, debug); });
  }
  rocksdb::IOStatus FileExists(const std::string &path, const rocksdb::IOOptions &options,
                               rocksdb::IODebugContext *debug) override {
    return guarded_io([&] { return PastFiles::FileExists(path, options, debug); });
  }
  rocksdb::IOStatus GetFileSize(const std::string &path, const rocksdb::IOOptions &options, uint64_t *bytes,
                                rocksdb::IODebugContext *debug) override {
    return guarded_io([&] { return PastFiles::GetFileSize(path, options, bytes, debug); });
  }
};

}  // namespace atoll::cloudfs

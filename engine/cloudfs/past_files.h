// The file system under a past state of the database (lsm/past/). Table files are read from the bucket
// through `mount`. All other files lie in the state's local directory, and so do the table files that RocksDB
// writes while a visitor (a program that does not own the database) opens the state.
#pragma once

#include <rocksdb/file_system.h>

#include <memory>
#include <set>
#include <string>
#include <string_view>

#include "base/mutex.h"
#include "bridge/objstore.h"
#include "cloudfs/file_name.h"
#include "cloudfs/io_status.h"

namespace atoll::cloudfs {

// RocksDB gets the GuardedPastFiles below. Threads: any.
class PastFiles : public rocksdb::FileSystemWrapper {
 public:
  // `mount` must outlive this object.
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

  // Returns true if `path` is in this state's directory.
  bool has(std::string_view path) const;
  // Gives table file `number` of the live database the object of the table file at `path`. Sets *adopted to
  // false and does nothing if that file is not in the bucket, because RocksDB has written it into the local
  // directory. Errors: as atoll_store_adopt_file().
  rocksdb::IOStatus adopt(atoll_store *store, const std::string &path, uint64_t number, bool *adopted) const;

  // True if RocksDB has written table file `number` into the local directory. Then the local file is the
  // right one. The mount can have a different file of the same number, which the state's MANIFEST does not
  // name: a root also lists files that were finished after the root's MANIFEST was read.
  bool is_written(uint64_t number) const;

 private:
  // Sets the number and the size of the table file that `path` names, and returns true if it is to be read
  // from the mount. Returns false if the mount has no such table file, or if RocksDB has written it into the
  // local directory.
  bool find(const std::string &path, uint64_t *number, uint64_t *bytes) const;

  const std::string directory_;
  const atoll_mount *const mount_;
  mutable Mutex mutex_;
  std::set<uint64_t> written_ ATOLL_GUARDED_BY(mutex_);  // numbers of the table files that RocksDB wrote
};

// The class that RocksDB gets. It returns an IOStatus in place of an exception, because no exception may pass
// the border to RocksDB (rule BORDER-1).
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

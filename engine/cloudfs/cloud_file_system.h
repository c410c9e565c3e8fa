// The file system under RocksDB's main database. Table files live in the bucket. All other files are local,
// and this file system tells the store how many bytes of a WAL or MANIFEST have become durable.
//
// What happens to each kind of file. add_file, manifest_synced, current_set, wal_* and wal_deleted are the
// functions atoll_store_add_file() and so on of bridge/objstore.h, which this file system calls.
//
// | file            | written                      | read                        | deleted            |
// |-----------------|------------------------------|-----------------------------|--------------------|
// | *.sst, *.blob   | local; add_file at Close     | store (local, cache, bucket)| store              |
// | MANIFEST-*      | local; manifest_synced       | local                       | local              |
// | CURRENT         | local rename; current_set    | local                       | local              |
// | *.log (WAL)     | local; wal_* at each step    | local                       | local; wal_deleted |
// | OPTIONS-*       | at open only, see below      | -                           | local              |
// | shared/*.sst    | linking it shares the object | as table file of its number | -                  |
// | *.sst of a past | linking it shares the object, | as PastFiles reads it      | as PastFiles       |
// |   state         |   see SharedPast             |                             |                    |
// | all others      | local                        | local                       | local              |
//
// Invariants
//   FS-1  A table file is handed to the store (add_file, bind_file) before the MANIFEST bytes that name it
//         are reported as synced. Gate PUB-G1 needs this: a root is published only when all table files that
//         its MANIFEST names are uploaded.
//   FS-2  A MANIFEST is announced by current_set only after CURRENT names it durably.
//   FS-3  WAL and MANIFEST lengths reported as synced never exceed what the finished fsync covered.
//   FS-4  When the store may not write any more, IOFenced is the result of creating a WAL, MANIFEST or table
//         file, of appending to or syncing a WAL or MANIFEST, and of closing a table file. It stops RocksDB
//         for good.
//   FS-5  A fault of the network is never Corruption.
//
// OPTIONS files: at each DDL, RocksDB writes a new one with the options of all column families, which takes
// 3 s with 5,000 families. Atoll needs none, because it derives the options from the names of the families at
// open (lsm/options.h). So the creation of OPTIONS files fails on purpose after refuse_options_files().
// RocksDB then reports an error for a DDL that has succeeded; lsm/families.cc finds out that the DDL has
// succeeded. The refusal starts only after open, because RocksDB does not open a database when an OPTIONS
// file fails.
#pragma once

#include <rocksdb/file_system.h>

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "bridge/objstore.h"
#include "cloudfs/file_name.h"
#include "cloudfs/past_files.h"

namespace atoll::cloudfs {

// While an object of this class lives, the thread that made it may write OPTIONS files. RocksDB's import of a
// column family fails without them.
class OptionsFilesAllowed {
 public:
  OptionsFilesAllowed();
  ~OptionsFilesAllowed();
  OptionsFilesAllowed(const OptionsFilesAllowed &) = delete;
  OptionsFilesAllowed &operator=(const OptionsFilesAllowed &) = delete;
};

// RocksDB gets the GuardedFileSystem of guarded_files.h, which is derived from this one.
class CloudFileSystem : public rocksdb::FileSystemWrapper {
 public:
  // `store` nullptr: there is no bucket. Then only OPTIONS files are treated specially, and all other files
  // are plain local files.
  CloudFileSystem(const std::shared_ptr<rocksdb::FileSystem> &local, std::string directory,
                  atoll_store *store);

  // Hands to the store the table files in `directory` that the store does not know. Such files exist when the
  // process died after it wrote a table file and before it queued the upload. They must be uploaded, because
  // the local MANIFEST may name them. Call before RocksDB opens. Errors: as atoll_store_add_file.
  Status adopt_local_tables();

  // Threads: any. See SharedPast.
  void share(const std::shared_ptr<PastFiles> &past);
  void end_sharing(const std::shared_ptr<PastFiles> &past);

  void refuse_options_files() { refuse_options_files_.store(true, std::memory_order_relaxed); }

  static const char *kClassName() { return "AtollCloudFileSystem"; }
  const char *Name() const noexcept override { return kClassName(); }
  bool IsInstanceOf(const std::string &name) const noexcept override;
  void SupportedOps(int64_t &supported) noexcept override;

  rocksdb::IOStatus NewSequentialFile(const std::string &path, const rocksdb::FileOptions &options,
                                      std::unique_ptr<rocksdb::FSSequentialFile> *result,
                                      rocksdb::IODebugContext *debug) override;
  rocksdb::IOStatus NewRandomAccessFile(const std::string &path, const rocksdb::FileOptions &options,
                                        std::unique_ptr<rocksdb::FSRandomAccessFile> *result,
                                        rocksdb::IODebugContext *debug) override;
  rocksdb::IOStatus NewWritableFile(const std::string &path, const rocksdb::FileOptions &options,
                                    std::unique_ptr<rocksdb::FSWritableFile> *result,
                                    rocksdb::IODebugContext *debug) override;
  rocksdb::IOStatus FileExists(const std::string &path, const rocksdb::IOOptions &options,
                               rocksdb::IODebugContext *debug) override;
  rocksdb::IOStatus GetChildren(const std::string &directory, const rocksdb::IOOptions &options,
                                std::vector<std::string> *names, rocksdb::IODebugContext *debug) override;
  rocksdb::IOStatus GetChildrenFileAttributes(const std::string &directory, const rocksdb::IOOptions &options,
                                              std::vector<rocksdb::FileAttributes> *files,
                                              rocksdb::IODebugContext *debug) override;
  rocksdb::IOStatus DeleteFile(const std::string &path, const rocksdb::IOOptions &options,
                               rocksdb::IODebugContext *debug) override;
  rocksdb::IOStatus GetFileSize(const std::string &path, const rocksdb::IOOptions &options, uint64_t *bytes,
                                rocksdb::IODebugContext *debug) override;
  rocksdb::IOStatus GetFileModificationTime(const std::string &path, const rocksdb::IOOptions &options,
                                            uint64_t *unix_seconds, rocksdb::IODebugContext *debug) override;
  rocksdb::IOStatus RenameFile(const std::string &from, const std::string &to,
                               const rocksdb::IOOptions &options, rocksdb::IODebugContext *debug) override;
  rocksdb::IOStatus LinkFile(const std::string &from, const std::string &to,
                             const rocksdb::IOOptions &options, rocksdb::IODebugContext *debug) override;
  rocksdb::IOStatus SyncFile(const std::string &path, const rocksdb::FileOptions &file_options,
                             const rocksdb::IOOptions &options, bool use_fsync,
                             rocksdb::IODebugContext *debug) override;

 private:
  std::shared_ptr<PastFiles> past_of(const std::string &path) const;  // nullptr: `path` is of no past state
  FileName name_of(const std::string &path) const;
  bool store_has(const FileName &name, uint64_t *bytes) const;
  bool is_database_directory(const std::string &path) const;
  rocksdb::IOStatus current_renamed(const std::string &from, const std::string &to,
                                    const rocksdb::IOOptions &options, rocksdb::IODebugContext *debug);

  const std::string directory_;
  atoll_store *const store_;
  std::atomic<bool> refuse_options_files_{false};
  std::atomic<size_t> past_count_{0};  // the size of past_: almost always 0, and then no lock is taken
  mutable Mutex past_mutex_;
  std::vector<std::shared_ptr<PastFiles>> past_ ATOLL_GUARDED_BY(past_mutex_);
};

// While an object of this class lives, RocksDB can link table files of a past state into the database. A file
// that is in the bucket then shares its object (atoll_store_adopt_file). A file that RocksDB has written into
// the state's local directory becomes a new table file.
class SharedPast {
 public:
  SharedPast(CloudFileSystem *files, std::shared_ptr<PastFiles> past)
      : files_(files), past_(std::move(past)) {
    files_->share(past_);
  }
  ~SharedPast() { files_->end_sharing(past_); }
  SharedPast(const SharedPast &) = delete;
  SharedPast &operator=(const SharedPast &) = delete;

 private:
  CloudFileSystem *const files_;
  const std::shared_ptr<PastFiles> past_;
};

}  // namespace atoll::cloudfs

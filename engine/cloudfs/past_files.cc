// See past_files.h.

#include "cloudfs/past_files.h"

#include <utility>

#include "bridge/result.h"
#include "cloudfs/guarded_files.h"
#include "cloudfs/table_reader.h"

namespace atoll::cloudfs {

using rocksdb::FileOptions;
using rocksdb::FileSystemWrapper;
using rocksdb::FSRandomAccessFile;
using rocksdb::FSWritableFile;
using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;

PastFiles::PastFiles(const std::shared_ptr<rocksdb::FileSystem> &local, std::string directory,
                     const atoll_mount *mount)
    : FileSystemWrapper(local), directory_(std::move(directory)), mount_(mount) {}

bool PastFiles::find(const std::string &path, uint64_t *number, uint64_t *bytes) const {
  const FileName name = parse_file_name(directory_, path);
  *number = name.number;
  return name.kind == FileKind::kTable && !is_written(name.number) &&
         atoll_mount_file_size(mount_, name.number, bytes) != 0;
}

bool PastFiles::has(std::string_view path) const {
  return path.size() > directory_.size() && path.starts_with(directory_) && path[directory_.size()] == '/';
}

IOStatus PastFiles::adopt(atoll_store *store, const std::string &path, uint64_t number, bool *adopted) const {
  uint64_t from = 0, bytes = 0;
  *adopted = find(path, &from, &bytes);
  return *adopted ? to_io_status(atoll_store_adopt_file(store, mount_, from, number)) : IOStatus::OK();
}

bool PastFiles::is_written(uint64_t number) const {
  const MutexLock lock(mutex_);
  return written_.contains(number);
}

IOStatus PastFiles::NewWritableFile(const std::string &path, const FileOptions &options,
                                    std::unique_ptr<FSWritableFile> *result, IODebugContext *debug) {
  if (const FileName name = parse_file_name(directory_, path); name.kind == FileKind::kTable) {
    const MutexLock lock(mutex_);
    written_.insert(name.number);
  }
  return FileSystemWrapper::NewWritableFile(path, options, result, debug);
}

IOStatus PastFiles::NewRandomAccessFile(const std::string &path, const FileOptions &options,
                                        std::unique_ptr<FSRandomAccessFile> *result, IODebugContext *debug) {
  uint64_t number = 0;
  uint64_t bytes = 0;
  if (!find(path, &number, &bytes)) {
    return FileSystemWrapper::NewRandomAccessFile(path, options, result, debug);
  }
  atoll_file *file = nullptr;
  if (const atoll_result opened = atoll_mount_open_file(mount_, number, &file); !bridge::ok(opened)) {
    return to_io_status(opened);
  }
  *result = std::make_unique<GuardedReader<TableReader>>(file, number, bytes);
  return IOStatus::OK();
}

IOStatus PastFiles::FileExists(const std::string &path, const IOOptions &options, IODebugContext *debug) {
  uint64_t number = 0;
  uint64_t bytes = 0;
  if (find(path, &number, &bytes)) return IOStatus::OK();
  return FileSystemWrapper::FileExists(path, options, debug);
}

IOStatus PastFiles::GetFileSize(const std::string &path, const IOOptions &options, uint64_t *bytes,
                                IODebugContext *debug) {
  uint64_t number = 0;
  if (find(path, &number, bytes)) return IOStatus::OK();
  return FileSystemWrapper::GetFileSize(path, options, bytes, debug);
}

}  // namespace atoll::cloudfs

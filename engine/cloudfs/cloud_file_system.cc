#include "cloudfs/cloud_file_system.h"

#include <algorithm>
#include <unordered_set>

#include "bridge/callback.h"
#include "bridge/result.h"
#include "cloudfs/guarded_files.h"
#include "cloudfs/io_status.h"
#include "cloudfs/table_reader.h"
#include "cloudfs/written_file.h"

namespace atoll::cloudfs {

using rocksdb::FileAttributes;
using rocksdb::FileOptions;
using rocksdb::FileSystemWrapper;
using rocksdb::FSRandomAccessFile;
using rocksdb::FSSequentialFile;
using rocksdb::FSWritableFile;
using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;
using rocksdb::Slice;

namespace {

std::string without_trailing_slash(std::string path) {
  while (path.size() > 1 && path.back() == '/') path.pop_back();
  return path;
}

// Reads a table file from front to back, for copies and file checksums, even when the file is only in the
// bucket. `file` is a GuardedReader, so its functions throw no exception.
class SequentialOverRandom final : public FSSequentialFile {
 public:
  explicit SequentialOverRandom(std::unique_ptr<FSRandomAccessFile> file) : file_(std::move(file)) {}

  IOStatus Read(size_t length, const IOOptions &options, Slice *result, char *scratch,
                IODebugContext *debug) noexcept override {
    IOStatus status = file_->Read(offset_, length, options, result, scratch, debug);
    if (status.ok()) offset_ += result->size();
    return status;
  }
  IOStatus Skip(uint64_t bytes) noexcept override {
    offset_ += bytes;
    return IOStatus::OK();
  }

 private:
  std::unique_ptr<FSRandomAccessFile> file_;
  uint64_t offset_ = 0;
};

std::vector<uint64_t> numbers_in(const atoll_store *store, std::vector<uint64_t> *sizes) {
  std::vector<uint64_t> numbers;
  const auto add = [&](uint64_t number, uint64_t bytes) {
    numbers.push_back(number);
    if (sizes != nullptr) sizes->push_back(bytes);
  };
  bridge::Callback each(add);
  atoll_store_list_files(store, &each, each.function<uint64_t, uint64_t>());
  each.rethrow();
  return numbers;
}

thread_local bool may_write_options_files = false;

}  // namespace

OptionsFilesAllowed::OptionsFilesAllowed() { may_write_options_files = true; }

OptionsFilesAllowed::~OptionsFilesAllowed() { may_write_options_files = false; }

CloudFileSystem::CloudFileSystem(const std::shared_ptr<rocksdb::FileSystem> &local, std::string directory,
                                 atoll_store *store)
    : FileSystemWrapper(local), directory_(without_trailing_slash(std::move(directory))), store_(store) {}

FileName CloudFileSystem::name_of(const std::string &path) const {
  FileName name = parse_file_name(directory_, path);
  if (store_ == nullptr && name.kind != FileKind::kOptions) return FileName{};
  return name;
}

bool CloudFileSystem::store_has(const FileName &name, uint64_t *bytes) const {
  return name.is_of_table() && bridge::ok(atoll_store_file_size(store_, name.number, bytes));
}

bool CloudFileSystem::is_database_directory(const std::string &path) const {
  return store_ != nullptr && without_trailing_slash(path) == directory_;
}

Status CloudFileSystem::adopt_local_tables() {
  if (store_ == nullptr) return Status::Ok();
  std::vector<std::string> names;
  if (!target()->GetChildren(directory_, IOOptions(), &names, nullptr).ok()) return Status::Ok();
  for (const std::string &child : names) {
    const std::string path = directory_ + "/" + child;
    const FileName name = name_of(path);
    uint64_t bytes = 0;
    if (name.kind != FileKind::kTable || store_has(name, &bytes)) continue;
    ATOLL_RETURN_IF_ERROR(
        bridge::to_status(atoll_store_add_file(store_, name.number, path.c_str())).with(path));
  }
  return Status::Ok();
}

void CloudFileSystem::share(const std::shared_ptr<PastFiles> &past) {
  const MutexLock lock(past_mutex_);
  past_.push_back(past);
  past_count_ = past_.size();
}

void CloudFileSystem::end_sharing(const std::shared_ptr<PastFiles> &past) {
  const MutexLock lock(past_mutex_);
  std::erase(past_, past);
  past_count_ = past_.size();
}

std::shared_ptr<PastFiles> CloudFileSystem::past_of(const std::string &path) const {
  if (past_count_.load(std::memory_order_relaxed) == 0) return nullptr;
  const MutexLock lock(past_mutex_);
  for (const std::shared_ptr<PastFiles> &past : past_)
    if (past->has(path)) return past;
  return nullptr;
}

bool CloudFileSystem::IsInstanceOf(const std::string &name) const noexcept {
  return name == kClassName() || FileSystemWrapper::IsInstanceOf(name);
}

// Switches kAsyncIO, kFSPrefetch and kFSBuffer off (TableReader::Prefetch says why). Switches
// kVerifyAndReconstructRead on, so that RocksDB repeats a read whose checksum is wrong.
void CloudFileSystem::SupportedOps(int64_t &supported) noexcept {
  FileSystemWrapper::SupportedOps(supported);
  if (store_ == nullptr) return;
  supported &= ~((int64_t{1} << rocksdb::FSSupportedOps::kAsyncIO) |
                 (int64_t{1} << rocksdb::FSSupportedOps::kFSPrefetch) |
                 (int64_t{1} << rocksdb::FSSupportedOps::kFSBuffer));
  supported |= int64_t{1} << rocksdb::FSSupportedOps::kVerifyAndReconstructRead;
}

// ---- opening files -------------------------------------------------------------------------------

IOStatus CloudFileSystem::NewSequentialFile(const std::string &path, const FileOptions &options,
                                            std::unique_ptr<FSSequentialFile> *result,
                                            IODebugContext *debug) {
  uint64_t bytes = 0;
  if (!store_has(name_of(path), &bytes)) {
    return FileSystemWrapper::NewSequentialFile(path, options, result, debug);
  }
  std::unique_ptr<FSRandomAccessFile> file;
  IOStatus status = NewRandomAccessFile(path, options, &file, debug);
  if (status.ok()) *result = std::make_unique<SequentialOverRandom>(std::move(file));
  return status;
}

IOStatus CloudFileSystem::NewRandomAccessFile(const std::string &path, const FileOptions &options,
                                              std::unique_ptr<FSRandomAccessFile> *result,
                                              IODebugContext *debug) {
  const FileName name = name_of(path);
  if (!name.is_of_table()) {
    if (const auto past = past_of(path)) return past->NewRandomAccessFile(path, options, result, debug);
    return FileSystemWrapper::NewRandomAccessFile(path, options, result, debug);
  }
  uint64_t bytes = 0;
  atoll_file *file = nullptr;
  if (const atoll_result known = atoll_store_file_size(store_, name.number, &bytes); !bridge::ok(known)) {
    return to_io_status(known);
  }
  if (const atoll_result opened = atoll_file_open(store_, name.number, &file); !bridge::ok(opened)) {
    return to_io_status(opened);
  }
  *result = std::make_unique<GuardedReader<TableReader>>(file, name.number, bytes);
  return IOStatus::OK();
}

IOStatus CloudFileSystem::NewWritableFile(const std::string &path, const FileOptions &options,
                                          std::unique_ptr<FSWritableFile> *result, IODebugContext *debug) {
  const FileName name = name_of(path);
  if (name.kind == FileKind::kOptions && !may_write_options_files &&
      refuse_options_files_.load(std::memory_order_relaxed)) {
    return IOStatus::NotSupported("OPTIONS files are not kept");
  }
  const bool known =
      name.kind == FileKind::kTable || name.kind == FileKind::kManifest || name.kind == FileKind::kWal;
  if (known) {
    if (IOStatus status = check_may_write(store_); !status.ok()) return status;
  }
  std::unique_ptr<FSWritableFile> file;
  IOStatus status = FileSystemWrapper::NewWritableFile(path, options, &file, debug);
  if (!status.ok()) return status;
  switch (name.kind) {
    case FileKind::kTable:
      *result = std::make_unique<GuardedWriter<TableWriter>>(std::move(file), store_, name.number, path);
      break;
    case FileKind::kManifest:
      *result = std::make_unique<GuardedWriter<ManifestWriter>>(std::move(file), store_, name.number);
      break;
    case FileKind::kWal:
      *result = std::make_unique<GuardedWriter<WalWriter>>(std::move(file), store_, name.number, path);
      break;
    case FileKind::kShared:
      return IOStatus::NotSupported("a shared file is only linked and read");
    case FileKind::kCurrent:
    case FileKind::kOptions:
    case FileKind::kOther:
      *result = std::move(file);
      break;
  }
  return status;
}

// ---- looking files up ----------------------------------------------------------------------------

IOStatus CloudFileSystem::FileExists(const std::string &path, const IOOptions &options,
                                     IODebugContext *debug) {
  uint64_t bytes = 0;
  if (store_has(name_of(path), &bytes)) return IOStatus::OK();
  return FileSystemWrapper::FileExists(path, options, debug);
}

IOStatus CloudFileSystem::GetChildren(const std::string &directory, const IOOptions &options,
                                      std::vector<std::string> *names, IODebugContext *debug) {
  IOStatus status = FileSystemWrapper::GetChildren(directory, options, names, debug);
  if (!status.ok() || !is_database_directory(directory)) return status;
  const std::unordered_set<std::string> local(names->begin(), names->end());
  for (const uint64_t number : numbers_in(store_, nullptr)) {
    std::string name = table_file_name(number);
    if (!local.contains(name)) names->push_back(std::move(name));
  }
  return status;
}

IOStatus CloudFileSystem::GetChildrenFileAttributes(const std::string &directory, const IOOptions &options,
                                                    std::vector<FileAttributes> *files,
                                                    IODebugContext *debug) {
  IOStatus status = FileSystemWrapper::GetChildrenFileAttributes(directory, options, files, debug);
  if (!status.ok() || !is_database_directory(directory)) return status;
  std::unordered_set<std::string> local;
  for (const FileAttributes &file : *files) local.insert(file.name);
  std::vector<uint64_t> sizes;
  const std::vector<uint64_t> numbers = numbers_in(store_, &sizes);
  for (size_t i = 0; i < numbers.size(); ++i) {
    FileAttributes file;
    file.name = table_file_name(numbers[i]);
    file.size_bytes = sizes[i];
    if (!local.contains(file.name)) files->push_back(std::move(file));
  }
  return status;
}

IOStatus CloudFileSystem::GetFileSize(const std::string &path, const IOOptions &options, uint64_t *bytes,
                                      IODebugContext *debug) {
  if (store_has(name_of(path), bytes)) return IOStatus::OK();
  if (const auto past = past_of(path)) return past->GetFileSize(path, options, bytes, debug);
  return FileSystemWrapper::GetFileSize(path, options, bytes, debug);
}

IOStatus CloudFileSystem::GetFileModificationTime(const std::string &path, const IOOptions &options,
                                                  uint64_t *unix_seconds, IODebugContext *debug) {
  IOStatus status = FileSystemWrapper::GetFileModificationTime(path, options, unix_seconds, debug);
  uint64_t bytes = 0;
  if (status.ok() || !store_has(name_of(path), &bytes)) return status;
  *unix_seconds = 0;  // the file is only in the bucket: report it as old
  return IOStatus::OK();
}

// ---- deleting, renaming, linking -----------------------------------------------------------------

IOStatus CloudFileSystem::DeleteFile(const std::string &path, const IOOptions &options,
                                     IODebugContext *debug) {
  const FileName name = name_of(path);
  // A path in shared/ is only a second name. RocksDB deletes the file itself under its name NNNNNN.sst. Files
  // of a past state go with its directory.
  if (name.kind == FileKind::kShared || past_of(path)) return IOStatus::OK();
  if (name.kind == FileKind::kTable) {
    const atoll_result removed = atoll_store_remove_file(store_, name.number);
    if (bridge::to_code(removed) != Code::kNotFound) return to_io_status(removed);
  }
  IOStatus status = FileSystemWrapper::DeleteFile(path, options, debug);
  if (status.ok() && name.kind == FileKind::kWal) atoll_store_wal_deleted(store_, name.number);
  return status;
}

IOStatus CloudFileSystem::RenameFile(const std::string &from, const std::string &to, const IOOptions &options,
                                     IODebugContext *debug) {
  const FileName target = name_of(to);
  if (target.kind == FileKind::kCurrent) return current_renamed(from, to, options, debug);
  if (target.kind == FileKind::kTable) {
    if (IOStatus status = check_may_write(store_); !status.ok()) return status;
  }
  IOStatus status = FileSystemWrapper::RenameFile(from, to, options, debug);
  if (!status.ok() || target.kind != FileKind::kTable) return status;
  return to_io_status(atoll_store_bind_file(store_, from.c_str(), target.number, to.c_str()));
}

// Syncs the directory before it calls current_set. Otherwise a crash could undo the rename after the bucket
// has followed the new MANIFEST, and the local database would then be older than the database in the bucket
// (FS-2).
IOStatus CloudFileSystem::current_renamed(const std::string &from, const std::string &to,
                                          const IOOptions &options, IODebugContext *debug) {
  if (IOStatus status = check_may_write(store_); !status.ok()) return status;
  std::string content;
  uint64_t manifest_number = 0;
  if (rocksdb::IOStatus status = ReadFileToString(target(), from, &content); !status.ok()) return status;
  if (!parse_current(content, &manifest_number)) return IOStatus::Corruption("CURRENT names no MANIFEST");
  if (IOStatus status = FileSystemWrapper::RenameFile(from, to, options, debug); !status.ok()) return status;

  std::unique_ptr<rocksdb::FSDirectory> directory;
  IOStatus status = FileSystemWrapper::NewDirectory(directory_, options, &directory, debug);
  if (status.ok()) status = directory->Fsync(options, debug);
  if (status.ok()) atoll_store_current_set(store_, manifest_number);
  return status;
}

IOStatus CloudFileSystem::LinkFile(const std::string &from, const std::string &to, const IOOptions &options,
                                   IODebugContext *debug) {
  const FileName source = name_of(from), target = name_of(to);
  if (target.kind == FileKind::kTable) {
    if (IOStatus status = check_may_write(store_); !status.ok()) return status;
    if (source.kind == FileKind::kShared)
      return to_io_status(atoll_store_share_file(store_, source.number, target.number));
    if (const auto past = past_of(from)) {
      bool adopted = false;
      const IOStatus status = past->adopt(store_, from, target.number, &adopted);
      if (adopted) return status;
    }
  }
  IOStatus status = FileSystemWrapper::LinkFile(from, to, options, debug);
  if (!status.ok() || target.kind != FileKind::kTable) return status;
  return to_io_status(atoll_store_bind_file(store_, from.c_str(), target.number, to.c_str()));
}

// A table file that the store knows was synced before the store got it, so there is nothing to sync.
IOStatus CloudFileSystem::SyncFile(const std::string &path, const FileOptions &file_options,
                                   const IOOptions &options, bool use_fsync, IODebugContext *debug) {
  uint64_t bytes = 0;
  if (store_has(name_of(path), &bytes)) return IOStatus::OK();
  return FileSystemWrapper::SyncFile(path, file_options, options, use_fsync, debug);
}

}  // namespace atoll::cloudfs

// See past_database.h.

#include "lsm/past/past_database.h"

#include <rocksdb/db.h>
#include <rocksdb/env.h>
#include <rocksdb/write_buffer_manager.h>

#include <atomic>
#include <filesystem>
#include <utility>
#include <vector>

#include "base/file.h"
#include "bridge/callback.h"
#include "bridge/reader.h"
#include "bridge/result.h"
#include "cloudfs/past_files.h"
#include "lsm/database_impl.h"
#include "lsm/families.h"
#include "lsm/info_log.h"
#include "lsm/options.h"

namespace atoll::lsm {
namespace {

// With this limit of open tables, RocksDB opens up to 16 tables while it opens the database. With its
// smallest limit, 20, it would open two.
constexpr int kOpenFilesMax = 1000;

// Where open() puts the rows that are only in the log: into memtables (kReplayInMemory, for reads in the
// server) or into table files (kWriteTables, for a visitor, which compares table files, and for clones of
// tables, which share them).
enum class Opening : uint8_t { kReplayInMemory, kWriteTables };

using MountPtr = std::shared_ptr<atoll_mount>;

MountPtr own(atoll_mount *mount) { return MountPtr(mount, atoll_mount_close); }

Status cannot_copy(const std::string &to, const std::error_code &error) {
  return Status(Code::kNoSpace, "copying the log of that state to " + to + ": " + error.message());
}

// Copies the local files of a state that an opening needs: CURRENT, the MANIFEST and the log.
Status copy_state(const std::string &from, const std::string &to) {
  std::error_code error;
  std::filesystem::create_directory(to, error);
  if (error) return cannot_copy(to, error);
  for (const std::filesystem::path &file : entries_of(from, &error)) {
    switch (cloudfs::parse_file_name(from, file.string()).kind) {
      case cloudfs::FileKind::kCurrent:
      case cloudfs::FileKind::kManifest:
      case cloudfs::FileKind::kWal:
        std::filesystem::copy_file(file, to + "/" + file.filename().string(), error);
        break;
      default:
        break;
    }
    if (error) break;
  }
  return error ? cannot_copy(to, error) : Status::Ok();
}

class PastDatabaseImpl final : public PastDatabase {
 public:
  explicit PastDatabaseImpl(std::string directory, MountPtr mount = nullptr)
      : directory_(std::move(directory)), mount_(std::move(mount)) {}

  ~PastDatabaseImpl() override {
    for (const auto &family : families_) (void)db_->DestroyColumnFamilyHandle(family->handle());
    db_.reset();
    (void)remove_tree(directory_);
  }

  Status mount(const Database::MountState &mount) {
    atoll_mount *mounted = nullptr;
    const atoll_result result = mount(directory_.c_str(), &mounted);
    mount_ = own(mounted);
    return bridge::to_status(result);
  }

  Status open(const DatabaseOptions &options, const SharedParts &parts, Opening opening) {
    options_ = options;
    parts_ = parts;
    files_ =
        std::make_shared<cloudfs::GuardedPastFiles>(rocksdb::FileSystem::Default(), directory_, mount_.get());
    env_ = rocksdb::NewCompositeEnv(files_);
    rocksdb::DBOptions db_options = main_database_options(options, parts);
    db_options.env = env_.get();
    db_options.info_log = make_info_log(directory_);
    db_options.max_open_files = kOpenFilesMax;
    // A past state that is open for reading only never flushes the rows that it replays from its log. If
    // these rows counted towards the memtable budget of the live database, the live database would flush for
    // ever.
    db_options.write_buffer_manager = std::make_shared<rocksdb::WriteBufferManager>(0);
    std::vector<std::string> names;
    const rocksdb::Status listed = rocksdb::DB::ListColumnFamilies(db_options, directory_, &names);
    if (!listed.ok()) return from_rocksdb(listed);
    std::vector<rocksdb::ColumnFamilyDescriptor> descriptors =
        family_descriptors(names, options.default_compression, parts);
    for (rocksdb::ColumnFamilyDescriptor &descriptor : descriptors)
      descriptor.options.disable_auto_compactions = true;
    std::vector<rocksdb::ColumnFamilyHandle *> handles;
    const rocksdb::Status opened =
        opening == Opening::kReplayInMemory
            ? rocksdb::DB::OpenForReadOnly(db_options, directory_, descriptors, &handles, &db_)
            : rocksdb::DB::Open(db_options, directory_, descriptors, &handles, &db_);
    if (!opened.ok()) return from_rocksdb(opened);
    for (rocksdb::ColumnFamilyHandle *handle : handles) {
      families_.push_back(std::make_unique<FamilyImpl>(handle, Side::kPast, db_.get()));
      if (families_.back()->name() == kCatalogFamilyName) catalog_ = families_.back().get();
    }
    return catalog_ != nullptr ? Status::Ok() : Status(Code::kCorruption, "it has no catalog");
  }

  Family *catalog_family() override { return catalog_; }
  Family *find_family(uint32_t id) override {
    for (const auto &family : families_)
      if (family->id() == id) return family.get();
    return nullptr;
  }
  uint64_t commit_us() const override { return atoll_mount_commit_us(mount_.get()); }

  std::vector<Gtid> gtids() const override {
    std::vector<Gtid> gtids;
    const auto add = [&gtids](uint32_t domain, uint32_t server, uint64_t sequence) {
      gtids.push_back({domain, server, sequence});
    };
    bridge::Callback each(add);
    atoll_mount_gtids(mount_.get(), &each, each.function<uint32_t, uint32_t, uint64_t>());
    each.rethrow();
    return gtids;
  }

  std::vector<PastFile> files(Family *family, std::string_view begin, std::string_view end) override {
    std::vector<PastFile> found;
    for (const rocksdb::SstFileMetaData &file : files_in(db_.get(), family->handle(), begin, end))
      found.push_back(past_file(file));
    return found;
  }

  Status open_file(Family *family, const PastFile &file,
                   std::unique_ptr<rocksdb::SstFileReader> *out) override {
    if (file.in_bucket) fetch(file);
    *out = std::make_unique<rocksdb::SstFileReader>(db_->GetOptions(family->handle()));
    return from_rocksdb((*out)->Open(file.path)).with("table file " + file.path);
  }

  Status open_with_tables(std::unique_ptr<PastDatabase> *out) override {
    const std::string directory = directory_ + "-tables-" + std::to_string(++opened_again_);
    auto again = std::make_unique<PastDatabaseImpl>(directory, mount_);
    ATOLL_RETURN_IF_ERROR(copy_state(directory_, directory));
    ATOLL_RETURN_IF_ERROR(
        again->open(options_, parts_, Opening::kWriteTables).with("opening that state in " + directory));
    *out = std::move(again);
    return Status::Ok();
  }
  const std::string &directory() const override { return directory_; }
  std::shared_ptr<cloudfs::PastFiles> file_system() const override { return files_; }

 private:
  // Starts to fetch the file into the part cache. ChangedKeys reads a file block after block, and would
  // otherwise wait for the bucket at each part.
  void fetch(const PastFile &file) const {
    atoll_file *opened = nullptr;
    if (!bridge::ok(atoll_mount_open_file(mount_.get(), file.number, &opened))) return;
    atoll_file_prefetch(opened, 0, file.bytes);
    atoll_file_close(opened);
  }

  PastFile past_file(const rocksdb::SstFileMetaData &file) const {
    PastFile past;
    past.path = file.db_path + file.name;
    past.smallest_key = file.smallestkey;
    past.number = file.file_number;
    past.in_bucket = !files_->is_written(past.number) &&
                     atoll_mount_file_size(mount_.get(), past.number, &past.bytes) != 0 &&
                     atoll_mount_file_crc32c(mount_.get(), past.number, &past.crc32c) != 0;
    return past;
  }

  const std::string directory_;
  MountPtr mount_;
  DatabaseOptions options_;
  SharedParts parts_;
  std::atomic<uint64_t> opened_again_{0};
  std::shared_ptr<cloudfs::PastFiles> files_;
  std::unique_ptr<rocksdb::Env> env_;
  std::unique_ptr<rocksdb::DB> db_;
  std::vector<std::unique_ptr<FamilyImpl>> families_;
  FamilyImpl *catalog_ = nullptr;
};

}  // namespace

Status PastDatabase::visit(const atoll_visitor *visitor, const std::string &when,
                           const std::string &directory, const DatabaseOptions &options,
                           std::unique_ptr<PastDatabase> *out) {
  auto past = std::make_unique<PastDatabaseImpl>(directory);
  const auto mount = [&](const char *to, atoll_mount **mounted) {
    return atoll_visitor_mount(visitor, when.c_str(), to, mounted);
  };
  ATOLL_RETURN_IF_ERROR(past->mount(mount).with("the state '" + when + "'"));
  ATOLL_RETURN_IF_ERROR(past->open(options, make_shared_parts(options), Opening::kWriteTables)
                            .with("opening the state '" + when + "' in " + directory));
  *out = std::move(past);
  return Status::Ok();
}

Status DatabaseImpl::open_past(const MountState &mount, const std::string &directory,
                               std::unique_ptr<PastDatabase> *out) {
  auto past = std::make_unique<PastDatabaseImpl>(directory);
  ATOLL_RETURN_IF_ERROR(past->mount(mount));
  ATOLL_RETURN_IF_ERROR(
      past->open(options_, parts_, Opening::kReplayInMemory).with("opening that state in " + directory));
  *out = std::move(past);
  return Status::Ok();
}

}  // namespace atoll::lsm

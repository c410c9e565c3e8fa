// See mounts.h.
#include "engine/mounts.h"

#include <filesystem>
#include <utility>

#include "base/file.h"
#include "bridge/hand_over.h"

namespace atoll::engine {

namespace fs = std::filesystem;

namespace {

Status read_tables(std::unique_ptr<lsm::PastDatabase> past, const std::string &source,
                   const Mounts::Check &check, std::shared_ptr<const Mount> *out) {
  catalog::PastSchema schema;
  ATOLL_RETURN_IF_ERROR(catalog::Catalog::read(past->catalog_family(), source, &schema));
  ATOLL_RETURN_IF_ERROR(check(schema.masking));
  for (const catalog::TablePtr &table : schema.tables)
    if (!table->logical_only && past->find_family(table->family_id) == nullptr)
      return Status(Code::kCorruption, "its table " + table->name + " has no column family");
  *out = std::make_shared<const Mount>(std::move(past), std::move(schema));
  return Status::Ok();
}

}  // namespace

Mount::Mount(std::unique_ptr<lsm::PastDatabase> past, catalog::PastSchema schema)
    : past_(std::move(past)), schema_(std::move(schema)) {
  for (const catalog::TablePtr &table : schema_.tables) tables_.emplace(table->name, table);
}

catalog::TablePtr Mount::find(const std::shared_ptr<const Mount> &mount, std::string_view name) {
  const auto found = mount->tables_.find(name);
  return found == mount->tables_.end() ? nullptr : catalog::TablePtr(mount, found->second.get());
}

std::vector<catalog::TablePtr> Mount::list(const std::shared_ptr<const Mount> &mount) {
  std::vector<catalog::TablePtr> tables;
  for (const auto &[name, table] : mount->tables_) tables.emplace_back(mount, table.get());
  return tables;
}

std::vector<catalog::TablePtr> Mount::with_partitions(const std::shared_ptr<const Mount> &mount,
                                                      std::string_view whole) {
  std::vector<catalog::TablePtr> tables;
  for (const auto &[name, table] :
       mount->tables_)  // in the order of names: a table comes before its partitions
    if (catalog::whole_table(name) == whole) tables.emplace_back(mount, table.get());
  return tables;
}

Mounts::Mounts(atoll_store *store, lsm::Database *database, std::string directory)
    : store_(store), database_(database), directory_(std::move(directory)) {}

std::vector<std::string> Mounts::leftovers() const {
  std::vector<std::string> names;
  for (const fs::path &entry : entries_of(directory_)) names.push_back(entry.filename().string());
  return names;
}

void Mounts::forget_leftovers() { (void)remove_tree(directory_); }

// While a new mount is opened, statements may still read a removed mount of the same name. So each mount
// has a directory of its own, whose name is a number.
Status Mounts::open(const std::string &source, const std::string &schema, const std::string &when,
                    const Check &check, std::shared_ptr<const Mount> *out) {
  if (find(schema)) return Status(Code::kDuplicate, "there is such a mount");
  std::error_code error;
  const std::string parent = directory_ + "/" + schema;
  fs::create_directories(parent, error);
  if (error) return Status(Code::kNoSpace, "cannot create the directory " + parent + ": " + error.message());
  std::unique_ptr<lsm::PastDatabase> past;
  const std::string directory = parent + "/" + std::to_string(++opened_);
  const auto mount = [&](const char *to, atoll_mount **mounted) {
    return atoll_store_mount(store_, when.c_str(), schema.c_str(), to, mounted);
  };
  Status status = database_->open_past(mount, directory, &past);
  if (status.ok()) status = read_tables(std::move(past), source, check, out);
  if (!status.ok()) fs::remove(parent, error);
  return status;
}

Status Mounts::open_offer(const std::string &id, std::unique_ptr<lsm::PastDatabase> *out) {
  std::error_code error;
  fs::create_directories(directory_, error);
  if (error)
    return Status(Code::kNoSpace, "cannot create the directory " + directory_ + ": " + error.message());
  const auto mount = [&](const char *to, atoll_mount **mounted) {
    return atoll_store_mount_offer(store_, id.c_str(), to, mounted);
  };
  return database_->open_past(mount, directory_ + "/#offer-" + std::to_string(++opened_), out);
}

void Mounts::add(const std::string &schema, std::shared_ptr<const Mount> mount) {
  const MutexLock lock(mutex_);
  mounts_[schema] = std::move(mount);
  count_ = mounts_.size();
}

std::shared_ptr<const Mount> Mounts::find(std::string_view schema) const {
  if (count_.load(std::memory_order_relaxed) == 0) return nullptr;
  const MutexLock lock(mutex_);
  const auto found = mounts_.find(schema);
  return found == mounts_.end() ? nullptr : found->second;
}

bool Mounts::remove(std::string_view schema) {
  std::shared_ptr<const Mount> gone;  // destroyed after the lock is released
  {
    const MutexLock lock(mutex_);
    const auto found = mounts_.find(schema);
    if (found == mounts_.end()) return false;
    gone = std::move(found->second);
    mounts_.erase(found);
    count_ = mounts_.size();
  }
  std::error_code ignored;
  gone.reset();
  fs::remove(directory_ + "/" + std::string(schema), ignored);  // fails while a statement still reads it
  return true;
}

}  // namespace atoll::engine

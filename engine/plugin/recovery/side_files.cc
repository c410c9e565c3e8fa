// See side_files.h.
#include "plugin/recovery/side_files.h"

#include <dirent.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <memory>

#include "base/file.h"
#include "base/log.h"
#include "plugin/recovery/whole_file.h"

namespace atoll::plugin {
namespace {

constexpr char kOptionsFile[] = "db.opt";
// The modification time of a directory has the resolution of the kernel's tick, or of two seconds on some
// file systems. So a change within two seconds after another one may leave the time as it is.
constexpr time_t kTimeResolutionSeconds = 2;

bool same_time(const timespec &a, const timespec &b) {
  return a.tv_sec == b.tv_sec && a.tv_nsec == b.tv_nsec;
}

bool exists(const std::string &path) { return ::access(path.c_str(), F_OK) == 0; }

std::vector<std::string> trigger_files(const std::string &directory) {
  std::vector<std::string> names;
  const std::unique_ptr<DIR, int (*)(DIR *)> handle(::opendir(directory.c_str()), &::closedir);
  if (!handle) return names;
  while (const dirent *entry = ::readdir(handle.get())) {
    const std::string_view name(entry->d_name);
    if (name.ends_with(".TRG") || name.ends_with(".TRN")) names.emplace_back(name);
  }
  return names;
}

// Whether a .frm defines a sequence. Bits 4 and 5 of byte 39 of its header say so; 2 means yes (the server's
// enum ha_choice).
bool is_sequence(std::string_view frm) {
  constexpr size_t kChoicesByte = 39;
  constexpr unsigned kYes = 2;
  return frm.size() > kChoicesByte && (static_cast<uint8_t>(frm[kChoicesByte]) >> 4 & 3) == kYes;
}

// Returns the name of a table; for a partition ("t#P#p0"), the name of its whole table.
std::string_view table_of(std::string_view name) { return name.substr(0, name.find("#P#")); }

}  // namespace

std::string trigger_table(std::string_view trn) {
  constexpr std::string_view kKey = "trigger_table=";
  size_t start = 0;
  while (start < trn.size()) {
    const size_t end = std::min(trn.find('\n', start), trn.size());
    const std::string_view line = trn.substr(start, end - start);
    if (line.starts_with(kKey)) return std::string(line.substr(kKey.size()));
    start = end + 1;
  }
  return {};
}

SideFiles::SideFiles(catalog::Catalog *catalog, std::string data_dir, FileModes modes)
    : catalog_(catalog), data_dir_(std::move(data_dir)), modes_(modes) {}

// Returns the databases that have ATOLL tables, or whose files are in the catalog already.
std::set<std::string> SideFiles::databases() const {
  std::set<std::string> names;
  for (const catalog::DatabaseDef &database : catalog_->databases()) names.insert(database.name);
  for (const catalog::TablePtr &table : catalog_->list("")) names.insert(table->database);
  return names;
}

// ---- Copying files back into the data directory -------------------------------------------------

Status SideFiles::restore(bool all, std::vector<std::string> *restored) {
  const MutexLock lock(mutex_);
  std::map<std::string, std::string> options;
  for (const catalog::TablePtr &table : catalog_->list("")) options.emplace(table->database, "");
  for (const catalog::DatabaseDef &database : catalog_->databases())
    options[database.name] = database.options;
  Status first_failure;
  for (const auto &[name, content] : options) {
    bool made = false;
    const Status status = restore_database(name, content, all, &made);
    if (made) restored->push_back(name);
    if (status.ok()) continue;
    broken_.insert(name);
    if (first_failure.ok()) first_failure = status.with("making the database directory `" + name + "` again");
  }
  return first_failure;
}

Status SideFiles::restore_database(const std::string &name, const std::string &options, bool all,
                                   bool *made) {
  const std::string directory = data_dir_ + "/" + name;
  if (!exists(directory)) {
    if (::mkdir(directory.c_str(), modes_.directory) != 0) return from_errno(errno, directory);
    *made = true;
    if (!options.empty())
      ATOLL_RETURN_IF_ERROR(write_whole_file(directory + "/" + kOptionsFile, options, modes_.file));
  }
  if (!*made && !all) return Status::Ok();
  for (const catalog::SideFile &file : catalog_->side_files()) {
    if (file.database != name) continue;
    const std::string path = directory + "/" + file.file_name;
    if (!exists(path)) ATOLL_RETURN_IF_ERROR(write_whole_file(path, file.content, modes_.file));
  }
  return *made ? restore_sequences(name) : Status::Ok();
}

// Writes the .frm files of sequences. Other tables need none, because the server discovers a table when it
// opens it. But SHOW FULL TABLES, which mariadb-dump uses, recognizes a sequence that is not open only by its
// .frm.
Status SideFiles::restore_sequences(const std::string &database) const {
  for (const catalog::TablePtr &table : catalog_->list(database))
    if (is_sequence(table->frm))
      ATOLL_RETURN_IF_ERROR(
          write_whole_file(data_dir_ + "/" + database + "/" + table->name + ".frm", table->frm, modes_.file));
  return Status::Ok();
}

// ---- Copying files into the catalog -------------------------------------------------------------

Status SideFiles::sweep() {
  const MutexLock lock(mutex_);
  for (const std::string &name : databases()) {
    if (broken_.contains(name)) continue;
    ATOLL_RETURN_IF_ERROR(sweep_database(name).with("keeping the files of database `" + name + "`"));
  }
  return Status::Ok();
}

bool SideFiles::is_unchanged(const std::string &name, Seen *now, bool *exists) const {
  struct stat directory {
  }, options{};
  const std::string path = data_dir_ + "/" + name;
  *exists = ::stat(path.c_str(), &directory) == 0;
  if (!*exists) return false;
  now->directory_time = directory.st_mtim;
  if (::stat((path + "/" + kOptionsFile).c_str(), &options) == 0) {
    now->options_time = options.st_mtim;
    now->options_size = options.st_size;
  }
  const time_t newest = std::max(directory.st_mtim.tv_sec, options.st_mtim.tv_sec);
  now->settled = ::time(nullptr) - newest > kTimeResolutionSeconds;
  now->generation = catalog_->generation();
  const auto before = seen_.find(name);
  if (before == seen_.end() || !before->second.settled) return false;
  return same_time(before->second.directory_time, now->directory_time) &&
         same_time(before->second.options_time, now->options_time) &&
         before->second.options_size == now->options_size && before->second.generation == now->generation;
}

Status SideFiles::sweep_database(const std::string &name) {
  Seen now;
  bool exists = false;
  if (is_unchanged(name, &now, &exists)) return Status::Ok();
  if (!exists) {
    seen_.erase(name);
    // If the catalog still has tables of this database, DROP DATABASE was not run, but somebody removed the
    // directory. Then the catalog keeps the copies of the directory's files.
    return catalog_->list(name).empty() ? catalog_->drop_database(name) : Status::Ok();
  }
  const std::string options = content_of(data_dir_ + "/" + name + "/" + kOptionsFile);  // empty if missing
  ATOLL_RETURN_IF_ERROR(catalog_->put_database({name, options}));
  ATOLL_RETURN_IF_ERROR(sweep_triggers(name));
  seen_[name] = now;
  return Status::Ok();
}

Status SideFiles::sweep_triggers(const std::string &name) {
  std::set<std::string, std::less<>> tables;
  for (const catalog::TablePtr &table : catalog_->list(name)) tables.emplace(table_of(table->name));
  const std::string directory = data_dir_ + "/" + name;
  std::set<std::string> present;
  for (const std::string &file_name : trigger_files(directory)) {
    catalog::SideFile file{name, file_name, content_of(directory + "/" + file_name)};
    if (file.content.empty()) continue;
    const bool is_trn = file_name.ends_with(".TRN");
    const std::string table =
        is_trn ? trigger_table(file.content) : file_name.substr(0, file_name.size() - 4);
    // A .TRN file names its table as SQL does, but the catalog has the encoded name of the table's files. The
    // name of a .TRG file is encoded, too. So a name that needs encoding cannot be compared, and a .TRN file
    // of a table with such a name is always kept, whatever the engine of the table.
    const bool is_plain =
        table.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") ==
        std::string::npos;
    if (!tables.contains(table) && (is_plain || !is_trn)) continue;
    present.insert(file_name);
    ATOLL_RETURN_IF_ERROR(catalog_->put_side_file(file));
  }
  for (const catalog::SideFile &file : catalog_->side_files()) {
    if (file.database == name && !present.contains(file.file_name))
      ATOLL_RETURN_IF_ERROR(catalog_->put_side_file({name, file.file_name, {}}));
  }
  return Status::Ok();
}

void restore_side_files(SideFiles *side_files, bool was_restored) {
  std::vector<std::string> restored;
  const Status status = side_files->restore(was_restored, &restored);
  if (!status.ok()) log_error(status.message());
  if (restored.empty()) return;
  std::string names;
  for (const std::string &name : restored) names += (names.empty() ? "" : ", ") + name;
  log_warning(
      "database directories were missing and have been made again from the bucket: " + names +
      ". Their tables and triggers are there; views, stored routines, events, users and grants are kept by "
      "the server itself, not in the bucket: restore them from your own dump");
}

}  // namespace atoll::plugin

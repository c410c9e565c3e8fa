// See view_files.h.
#include "plugin/reading/view_files.h"

#include <sys/stat.h>

#include <cerrno>
#include <utility>
#include <vector>

#include "base/file.h"
#include "plugin/recovery/definition_files.h"
#include "plugin/recovery/whole_file.h"

namespace atoll::plugin {
namespace {

namespace fs = std::filesystem;

// Whether the reader's server keeps the file only for a database that the writer has.
bool is_side_file(const fs::path &file) {
  const std::string name = file.filename().string(), extension = file.extension().string();
  return name == kViewMarker || name == "db.opt" || extension == ".par" || extension == ".TRG" ||
         extension == ".TRN";
}

// Removes the directory if it has nothing but side files.
void remove_if_empty(const fs::path &directory) {
  const std::vector<fs::path> files = entries_of(directory);
  for (const fs::path &file : files)
    if (!is_side_file(file)) return;
  std::error_code ignored;
  for (const fs::path &file : files) fs::remove(file, ignored);
  fs::remove(directory, ignored);
}

}  // namespace

ViewFiles::ViewFiles(fs::path data_dir, FileModes modes, uint8_t own_type)
    : data_dir_(std::move(data_dir)), modes_(modes) {
  remove_all(data_dir_);
  std::vector<fs::path> definitions;
  each_own_definition(data_dir_, own_type,
                      [&](const OwnDefinition &found) { definitions.push_back(found.file); });
  std::error_code ignored;
  for (fs::path &file : definitions) {
    fs::remove(file, ignored);
    fs::remove(file.replace_extension(".par"), ignored);
  }
}

void ViewFiles::remove_all(const fs::path &data_dir) {
  for (const fs::path &directory : directories_in(data_dir)) {
    std::error_code ignored;
    if (!fs::remove(directory / kViewMarker, ignored)) continue;
    remove_if_empty(directory);
  }
}

ViewFiles::Contents ViewFiles::contents_of(const engine::View &view) const {
  Contents contents;
  const catalog::Catalog &all = view.catalog();
  for (const catalog::DatabaseDef &database : all.databases()) {
    contents[fs::path(database.name) / kViewMarker];
    if (!database.options.empty()) contents[fs::path(database.name) / "db.opt"] = database.options;
  }
  for (const catalog::TablePtr &table : all.list("")) {
    if (catalog::is_internal(table->name)) continue;
    contents[fs::path(table->database) / kViewMarker];
    if (!table->par.empty()) contents[fs::path(table->database) / (table->name + ".par")] = table->par;
  }
  for (const catalog::SideFile &file : all.side_files())
    contents[fs::path(file.database) / file.file_name] = file.content;
  return contents;
}

Status ViewFiles::make_directory(const fs::path &directory) const {
  if (::mkdir(directory.c_str(), modes_.directory) == 0 || errno == EEXIST) return Status::Ok();
  return from_errno(errno, directory);
}

Status ViewFiles::make(const engine::View &view) {
  Contents wanted = contents_of(view);
  for (const auto &[file, content] : wanted) {
    const auto known = present_.find(file);
    const fs::path path = data_dir_ / file;
    std::error_code unknown;
    // A DROP DATABASE that was refused may have removed files.
    if (known != present_.end() && known->second == content && fs::exists(path, unknown)) continue;
    ATOLL_RETURN_IF_ERROR(make_directory(path.parent_path()));
    ATOLL_RETURN_IF_ERROR(write_whole_file(path, content, modes_.file));
  }
  for (auto &[file, content] : present_)
    if (!wanted.contains(file)) outdated_.insert_or_assign(file, std::move(content));
  for (const auto &[file, content] : wanted) outdated_.erase(file);
  present_ = std::move(wanted);
  return Status::Ok();
}

void ViewFiles::remove_outdated() {
  std::error_code ignored;
  for (const auto &[file, content] : std::exchange(outdated_, {})) {
    fs::remove(data_dir_ / file, ignored);
    if (file.filename() == kViewMarker) remove_if_empty(data_dir_ / file.parent_path());
  }
}

}  // namespace atoll::plugin

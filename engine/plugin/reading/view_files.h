// The files that a reader's data directory needs beside the tables, which the server discovers: for each
// database a directory with db.opt, for each partitioned table its .par file, and the files of triggers.
//
// A directory that this class has made has a file kViewMarker. It is removed when the writer has dropped the
// database, unless the reader's users have put tables of other engines there.
//
// Threads: one at a time.
#pragma once

#include <filesystem>
#include <map>
#include <string>

#include "base/status.h"
#include "engine/views.h"
#include "plugin/recovery/side_files.h"

namespace atoll::plugin {

// The name of the file that marks a database directory of a reader.
constexpr char kViewMarker[] = "atoll.view";

class ViewFiles {
 public:
  // Requires: no statement runs yet. Removes what an earlier process has left in `data_dir`: the files of
  // former views, and the definitions of ATOLL tables (.frm and .par) if the server was a writer, which would
  // be out of date. The writer's next start discovers these tables. `own_type`: ATOLL's number in .par files.
  ViewFiles(std::filesystem::path data_dir, FileModes modes, uint8_t own_type);

  // Makes the files of `view`. Called before a statement can read the view. Errors: kNoSpace, kReadOnly,
  // kInvalid; then some files are missing, and the next call makes them.
  Status make(const engine::View &view);
  // Removes the files that the last view of make() does not have. Called when no new statement reads a former
  // view.
  void remove_outdated();

  // Removes the marked directories and files of a reader. For a writer, whose catalog makes them again.
  static void remove_all(const std::filesystem::path &data_dir);

 private:
  using Contents = std::map<std::filesystem::path, std::string>;  // by path in the data directory

  Contents contents_of(const engine::View &view) const;
  Status make_directory(const std::filesystem::path &directory) const;

  const std::filesystem::path data_dir_;
  const FileModes modes_;
  Contents present_;                                       // files that the view of the last make() has
  std::map<std::filesystem::path, std::string> outdated_;  // files of views before it
};

}  // namespace atoll::plugin

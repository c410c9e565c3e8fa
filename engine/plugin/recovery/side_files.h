// Keeps copies of what the server stores beside our tables - each database's db.opt, triggers' .TRG and .TRN
// files - in the catalog, and puts them back into an empty data directory.
//
// Views, routines, events and grants live in the server's own tables and are not kept.
//
// The server tells engines nothing about these files, so sweep() looks: one stat of each database directory
// (trigger files are replaced by rename, which changes the directory's time) and one of its db.opt.
//
// Threads: sweep() and restore() may be called from any thread; one mutex orders them.
#pragma once

#include <sys/types.h>

#include <ctime>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "catalog/catalog.h"

namespace atoll::plugin {

struct FileModes {
  mode_t directory = 0700;
  mode_t file = 0660;
};

class SideFiles {
 public:
  // `catalog` outlives this object.
  SideFiles(catalog::Catalog *catalog, std::string data_dir, FileModes modes);

  // Makes the directories of databases that have tables but no directory, with their db.opt and the
  // definitions of their sequences, and puts trigger files back: into those, and with `all` (the store was
  // restored) wherever they are missing. *restored: the databases whose directories were made. A database
  // that fails is left out of sweep(), so that its copies are not lost, and the first failure is returned
  // after all were tried. Errors: kNoSpace, kReadOnly, kInvalid.
  Status restore(bool all, std::vector<std::string> *restored);

  // Stores what changed since the last sweep. Errors: those of the catalog's writes.
  Status sweep();

 private:
  // What a sweep saw of a database; when the next sweep sees the same, it need not read the files.
  struct Seen {
    timespec directory_time{}, options_time{};
    off_t options_size = -1;
    uint64_t generation = 0;  // of the catalog: a new table may have had triggers before it was ours
    bool settled = false;     // false: the directory changed so recently that its time may not change again
  };

  std::set<std::string> databases() const;
  Status restore_database(const std::string &name, const std::string &options, bool all, bool *made);
  Status restore_sequences(const std::string &database) const;
  Status write_file(const std::string &path, const std::string &content) const;
  Status sweep_database(const std::string &name) ATOLL_REQUIRES(mutex_);
  Status sweep_triggers(const std::string &name);
  bool is_unchanged(const std::string &name, Seen *now, bool *exists) const ATOLL_REQUIRES(mutex_);

  catalog::Catalog *catalog_;
  const std::string data_dir_;
  const FileModes modes_;
  mutable Mutex mutex_;
  std::map<std::string, Seen> seen_ ATOLL_GUARDED_BY(mutex_);
  std::set<std::string> broken_ ATOLL_GUARDED_BY(mutex_);
};

// The table that the line "trigger_table=t" of a .TRN file names; empty if there is no such line.
std::string trigger_table(std::string_view trn);

}  // namespace atoll::plugin

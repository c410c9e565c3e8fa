// Keeps copies of files that the server stores beside ATOLL tables (db.opt of each database, .TRG and .TRN
// files of triggers) in the catalog, and puts the files back into an empty data directory.
//
// Views are not kept, nor are routines, events and grants, which are in the server's own tables.
//
// The server does not tell engines when these files change, so sweep() looks for changes: it calls stat() for
// each database directory and for its db.opt. The server replaces trigger files by rename, which changes the
// time of the directory.
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

// The modes of directories and files that SideFiles makes.
struct FileModes {
  mode_t directory = 0700;
  mode_t file = 0660;
};

// Made once the catalog is open, and destroyed before it.
class SideFiles {
 public:
  // `catalog` must live longer than this object.
  SideFiles(catalog::Catalog *catalog, std::string data_dir, FileModes modes);

  // Makes the directories of databases that have tables but no directory, with their db.opt, the definitions
  // of their sequences and their trigger files. With `all` (the store was restored), also puts back trigger
  // files that are missing in other directories. *restored: the databases whose directories were made.
  // sweep() leaves out a database that fails here, so that the catalog keeps the copies of its files. All
  // databases are tried, and the first failure is returned. Errors: kNoSpace, kReadOnly, kInvalid.
  Status restore(bool all, std::vector<std::string> *restored);

  // Copies files that changed since the last sweep into the catalog. Errors: as the catalog's writes.
  Status sweep();

 private:
  // What a sweep saw of a database. When the next sweep sees the same, it does not read the files.
  struct Seen {
    timespec directory_time{}, options_time{};
    off_t options_size = -1;
    // The generation of the catalog, which grows with each change of a definition. A table that has become an
    // ATOLL table may already have triggers, which must then be copied.
    uint64_t generation = 0;
    // False: the times are so recent that a later change could leave them as they are. So the next sweep
    // reads the files in any case.
    bool settled = false;
  };

  std::set<std::string> databases() const;
  Status restore_database(const std::string &name, const std::string &options, bool all, bool *made);
  Status restore_sequences(const std::string &database) const;
  Status sweep_database(const std::string &name) ATOLL_REQUIRES(mutex_);
  Status sweep_triggers(const std::string &name);
  bool is_unchanged(const std::string &name, Seen *now, bool *exists) const ATOLL_REQUIRES(mutex_);

  catalog::Catalog *catalog_;
  const std::string data_dir_;
  const FileModes modes_;
  mutable Mutex mutex_;
  std::map<std::string, Seen> seen_ ATOLL_GUARDED_BY(mutex_);
  std::set<std::string> broken_ ATOLL_GUARDED_BY(mutex_);  // databases that restore() could not make
};

// Returns the table that a .TRN file names in its line "trigger_table=t"; empty if there is no such line.
std::string trigger_table(std::string_view trn);

// Puts files back at the start of the server (SideFiles::restore()), and logs for which databases.
void restore_side_files(SideFiles *side_files, bool was_restored);

}  // namespace atoll::plugin

// atoll_mask_file: the SQL statements of this file run once in a clone, before any user can open its tables.
//
//     close the tables (engine::hold_back()), before the first connection is served
//     record in the catalog that the masking has begun       from now on only its end opens the tables, with
//     or
//                                                            without atoll_mask_file (MASK-3)
//     run the statements
//     write all table files anew, begin a new MANIFEST       no file of the clone has a former row any more
//     publish, wait until no pin of the history is left
//     record in the catalog that the masking has ended, publish, open the tables
//
// The last record contains the uuid of the masked database. A clone of a masked clone has another uuid, so it
// is masked again when its server has atoll_mask_file.
//
// Invariants
//   MASK-1  Rows that are not masked are never shown. A statement that fails, a file that cannot be read, a
//           database that is no clone, and a shutdown of the server leave the tables closed; the next start
//           runs all statements again. The history begins with a root that has masked rows only.
//   MASK-2  A masked database shows no state of its past from before the end of the masking.
//   MASK-3  When a masking has begun, or when the clone was made to be masked (atollctl clone --mask), the
//           tables stay closed until a masking has ended, whatever the settings are. This is true of all
//           clones of the database, too.
//   MASK-4  When the tables open, the newest root names no file, MANIFEST or log that has rows or keys from
//           before the end of the masking. Files of the parent databases are not needed any more.
// Tests: sql_file_test.cc, tests/history/test_masking.py, tests/history/test_masking_leaks.py.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "plugin/host/background.h"
#include "plugin/host/local_sql.h"

namespace atoll::plugin {

// Whether the running database may show a state of the past, whose catalog has this record (MASK-2, MASK-3).
// Errors: kInvalid.
Status check_masked(const engine::Engine &running, const catalog::MaskingRecord &then);

class Masking {
 public:
  // Closes the tables of `running` if they must be masked first. The statements of `file` run when the server
  // has started, and then the tables are opened. Returns nullptr when nothing is to be run: the tables need
  // not be masked or are masked, or there is no file. Without a file, tables that must be masked stay closed,
  // and an error in the log says so. Sends no request. Throws: std::system_error when the process gets no
  // thread; then the tables stay closed.
  static std::unique_ptr<Masking> begin(engine::Engine *running, const std::string &file);

 private:
  using Clock = std::chrono::steady_clock;
  Masking(engine::Engine *running, std::string file);
  void turn();
  Status mask();
  Status run_file();
  Status remove_former_rows();
  void warn_of_pins() const;
  Status run(const std::vector<std::string> &statements);
  Status run_one(LocalSql *sql, const std::string &statement, const std::string &name);

  engine::Engine *const running_;
  const std::string file_;
  // Only the thread of background_ uses the members from here on.
  bool have_run_ = false;         // the statements of the file have run
  bool is_rewritten_ = false;     // since then, all table files were written anew
  uint64_t last_former_ = 0;      // if is_rewritten_: the last table file from before, see Upkeep::rewrite()
  bool is_over_ = false;          // the masking has succeeded, or has failed so that only a restart helps
  Clock::time_point not_before_;  // after mask() has failed with kUnavailable: no attempt before this time
  Background background_;         // last, so that its thread ends before the other members are destroyed
};

}  // namespace atoll::plugin

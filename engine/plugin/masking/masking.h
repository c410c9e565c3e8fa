// atoll_mask_file: the SQL statements of this file run once in a clone, before any user can open its tables.
//
// The tables are closed (engine::hold_back()) from before the first connection is served until a record in
// the catalog says that all statements have run. The record contains the uuid of the masked database. A clone
// of a masked clone has another uuid, so it is masked again.
//
// Invariants
//   MASK-1  Rows that are not masked are never shown. A statement that fails, a file that cannot be read, a
//           database that is no clone, and a shutdown of the server leave the tables closed; the next start
//           runs all statements again. The history begins with a root that has masked rows only.
// Tests: sql_file_test.cc, tests/history/test_masking.py.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "plugin/host/background.h"
#include "plugin/host/local_sql.h"

namespace atoll::plugin {

class Masking {
 public:
  // Closes the tables of `running` if the statements of `file` have to run. The statements run when the
  // server has started, and then the tables are opened. Returns nullptr when the statements have run already,
  // or when there is no file. Sends no request. Throws: std::system_error when the process gets no thread;
  // then the tables stay closed.
  static std::unique_ptr<Masking> begin(engine::Engine *running, const std::string &file);

 private:
  using Clock = std::chrono::steady_clock;
  Masking(engine::Engine *running, std::string file);
  void turn();
  Status mask();
  Status run_file();
  Status run(const std::vector<std::string> &statements);
  Status run_one(LocalSql *sql, const std::string &statement, const std::string &name);

  engine::Engine *const running_;
  const std::string file_;
  // Only the thread of background_ uses the members from here on.
  bool have_run_ = false;         // the statements of the file have run
  bool is_over_ = false;          // the masking has succeeded, or has failed so that only a restart helps
  Clock::time_point not_before_;  // after mask() has failed with kUnavailable: no try before this time
  Background background_;         // last, so that its thread ends before the other members are destroyed
};

}  // namespace atoll::plugin

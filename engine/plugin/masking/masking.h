// atoll_mask_file: the statements of a file run once in a clone, before anybody else can open its tables.
//
// The tables are closed (engine::hold_back) from before the first connection until a note in the catalog says
// that all statements have run. The note names the database, so that a clone of a masked clone can be masked
// again.
//
// Invariants
//   MASK-1  What was not masked is never shown: a statement that fails, a file that cannot be read, a
//           database that is no clone, and the end of the server leave the tables closed. The next start
//           runs all statements again. The history begins with a root in which all is masked.
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
  // Closes the tables of `running` when the statements of `file` have to run; they run when the server has
  // started, and then the tables are opened. nullptr: they have run already, or there is no file. Sends no
  // request.
  // Throws: std::system_error when the process gets no thread; the tables stay closed then.
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
  bool have_run_ = false;  // the statements; the task's, as the two that follow
  bool is_over_ = false;
  Clock::time_point not_before_;  // the next try
  Background background_;         // last: uses all of the above
};

}  // namespace atoll::plugin

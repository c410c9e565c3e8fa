// Lets the binary log of a new server go on where the lost server's has ended.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "lsm/commit_mark.h"

namespace atoll::engine {
class Engine;
}

namespace atoll::plugin {

// If the database was restored from the bucket, and its commits have later GTIDs than this server's binary
// log, makes these the state of the binary log. Otherwise GTIDs would begin again, and two transactions would
// have the same one: a replica would leave out the second. The state can be set only while the binary log has
// no GTID. If it has some, new transactions get higher numbers than those in the bucket, and the error log
// says what to type so that replicas can connect.
//
// Must be called when the binary log is open, in a thread that has no connection.
void continue_gtids(const engine::Engine &engine);

// Puts the GTIDs of DDL statements into the engine's log. The server writes a DDL statement to the binary log
// when the engine has carried it out, so the engine does not learn its GTID; without it, the position of the
// database, which readers wait for, would end before the statement until the next commit.
//
// After a change of the catalog, look() reads the position of the binary log once a second. One second later,
// when no transaction is prepared, all transactions up to it are committed in the engine: the server prepares
// each of them in the engine before it writes it to the binary log. Then the position is written to the log
// with a change of nothing. Threads: one.
class DdlGtids {
 public:
  // Called once a second. Writes at most once for each second after a change of the catalog. Errors: as a
  // write.
  Status look(const engine::Engine &engine);

 private:
  // A DDL statement reaches the binary log within this many seconds after its last change of the catalog.
  static constexpr int kLooks = 10;

  uint64_t generation_ = 0;        // of the catalog, at the last call
  int looks_left_ = 0;             // how often look() still reads the position
  std::vector<lsm::Gtid> before_;  // the position of the binary log at the last call
};

}  // namespace atoll::plugin

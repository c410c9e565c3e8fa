// Lets the binary log of a new server go on where the lost server's has ended.
#pragma once

#include "base/namespace.h"

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

}  // namespace atoll::plugin

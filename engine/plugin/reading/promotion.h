// Ends everything that uses a reader's tables, so that the server can become the writer.
//
// A promotion takes these steps, on the background thread (start_stop.cc):
//   the engine is held back: new statements on ATOLL tables fail and can be repeated
//   leave(): connections that have used ATOLL tables are ended, the server closes its open tables
//   no engine runs; the engine opens as writer: it claims the bucket, which fences the former writer, and
//   replays the log
//   it runs, with the part cache of the reader; retire(): the reader's last view is closed
// If the engine cannot open as writer, the reader runs again.
#pragma once

#include "base/status.h"
#include "engine/engine.h"

namespace atoll::plugin {

// Requires: the engine is held back. Ends the connections that have used ATOLL tables, but not that of
// `except` (a THD; nullptr: none), waits for their transactions, and makes the server close its tables.
// Errors: kUnavailable if a transaction does not end within 30 s.
Status leave(engine::Engine *reader, const void *except);

// Closes the last view of `reader`, and frees most of its memory. `reader` must still exist until the server
// stops, because the server may free its objects later. Requires: leave() has succeeded, engine::running() is
// not `reader` any more, and no thread of the plugin uses it.
void retire(engine::Engine *reader);

}  // namespace atoll::plugin

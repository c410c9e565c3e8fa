// Tells which engine runs in this process, because the server calls the handler without naming one. The
// plugin sets the engine at start and stop. The code in handler/ gets the engine from here and nowhere else.
//
// Threads: any.
#pragma once

#include "base/status.h"
#include "engine/engine.h"

namespace atoll::engine {

// nullptr while no engine runs. Every entry point of the handler therefore checks ready(), and fails with an
// SQL error that says why no engine runs. Costs one atomic load.
Engine *running();
// The running engine if it owns its database; nullptr while no engine runs, and on a reader. For work that
// needs the store of the bucket. Costs an atomic load.
Engine *running_writer();
// Whether statements can use the engine. Errors: kUnavailable when no engine runs, whatever the reason is;
// the status that hold_back() got.
Status ready();
// From now until let_in(), ready() and may_write() fail with `why` on all threads that have no Preparation.
// Used for work at the start that must be finished before any other thread reads a row, for example masking
// rows of a clone.
void hold_back(const Status &why);
void let_in();

// While this object exists, hold_back() has no effect on the thread that made the object.
class Preparation {
 public:
  Preparation();
  ~Preparation();
  Preparation(const Preparation &) = delete;
  Preparation &operator=(const Preparation &) = delete;
};

// As ready(), and also checks that this server may write (Engine::may_write()). Costs a few atomic loads when
// it may.
Status may_write();

// From now on running() returns `engine`. The caller keeps it valid until it has called set_not_running().
void set_running(Engine *engine);
// From now on ready() fails, with the message of `why`.
void set_not_running(const Status &why);
// The last `why` that set_not_running() got; kOk while an engine runs.
Status why_not_running();

}  // namespace atoll::engine

// Which engine runs in this process, for code that the server calls without saying which. The plugin sets it
// at start and stop; handler/ asks here and nowhere else.
//
// Threads: any.
#pragma once

#include "base/status.h"
#include "engine/engine.h"

namespace atoll::engine {

// nullptr while no engine runs: every entry point of the handler checks ready() and returns an SQL error that
// repeats why. Costs one atomic load.
Engine *running();
// Errors: kUnavailable, whatever kept the engine from running, or what hold_back() was told.
Status ready();
// From now on until let_in(), ready() and may_write() fail with `why` on all threads that have no
// Preparation. For work that must end before any other thread sees a row.
void hold_back(const Status &why);
void let_in();

// While this object exists, hold_back() has no effect on the thread that made it.
class Preparation {
 public:
  Preparation();
  ~Preparation();
  Preparation(const Preparation &) = delete;
  Preparation &operator=(const Preparation &) = delete;
};

// ready(), and this server may write: see Engine::may_write(). Costs a few atomic loads when all is well.
Status may_write();

// `engine` stays valid until the next call of set_not_running().
void set_running(Engine *engine);
// `why` is what ready() tells from now on.
void set_not_running(const Status &why);
// What set_not_running() was told last; kOk while an engine runs.
Status why_not_running();

}  // namespace atoll::engine

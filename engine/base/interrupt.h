// Tells a thread that waits deep inside the engine (for the bucket, for example) whether to stop waiting,
// because its statement was killed. The waiting code need not know the statement.
//
// A connection's thread works for the connection's statement, which the server may have killed. A thread that
// helps a statement has an InterruptScope with a flag, and the statement's thread sets this flag. Other
// threads, such as those of RocksDB, are never interrupted. But any thread that holds a lock must make way
// for a killed statement that waits for the lock (must_make_way()).
#pragma once

#include <atomic>
#include <functional>

#include "base/namespace.h"

namespace atoll {

// True when this thread should stop waiting. Cheap enough for ten calls a second, but not for a call per row.
bool is_interrupted();

// Sets the functions that tell whether the statement of the calling thread was killed, and whether the server
// is shutting down. Called once, at start.
void set_statement_check(bool (*is_killed)(), bool (*is_shutting_down)());

// Called when a statement was killed. For the next ten seconds, must_make_way() is then true on threads that
// have a MakeWayScope. Any thread may call this.
void note_kill();

// True when this thread has a MakeWayScope, and the server is shutting down or has killed any statement
// within the last ten seconds: the killed statement may be waiting for this thread.
bool must_make_way();

// While this object exists, its thread holds a lock that other statements need. They cannot be killed while
// they wait for the lock, so must_make_way() tells the thread when to give up its own wait and release the
// lock. For example, RocksDB opens a table file under a mutex.
class MakeWayScope {
 public:
  MakeWayScope();
  ~MakeWayScope();
  MakeWayScope(const MakeWayScope &) = delete;
  MakeWayScope &operator=(const MakeWayScope &) = delete;

 private:
  const bool before_;
};

// While this object exists, waits of its thread end when `flag` becomes true. The flag must live longer than
// this object. nullptr: no flag ends the waits, but a PatienceScope and a KILL of the thread's own statement
// still do.
class InterruptScope {
 public:
  explicit InterruptScope(const std::atomic<bool> *flag);
  ~InterruptScope();
  InterruptScope(const InterruptScope &) = delete;
  InterruptScope &operator=(const InterruptScope &) = delete;

 private:
  const std::atomic<bool> *const before_;
};

// While this object exists, waits of its thread also end when `is_over` returns true. Each call of
// is_interrupted() calls `is_over`.
class PatienceScope {
 public:
  explicit PatienceScope(std::function<bool()> is_over);
  ~PatienceScope();
  PatienceScope(const PatienceScope &) = delete;
  PatienceScope &operator=(const PatienceScope &) = delete;

 private:
  const std::function<bool()> is_over_;
  const std::function<bool()> *const before_;
};

}  // namespace atoll

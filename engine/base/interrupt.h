// Tells whether anybody still wants what this thread waits for. For waits deep below the code that knows the
// statement.
//
// A connection's own thread works for its statement, which the server may have killed. A thread that helps a
// statement has an InterruptScope, with a flag; the thread that waits for it sets the flag. All others, such
// as RocksDB's threads, are never interrupted; any thread may have to make way for a killed statement.
#pragma once

#include <atomic>
#include <functional>

#include "base/namespace.h"

namespace atoll {

// True when this thread should stop waiting. Cheap enough to ask ten times a second, not for each row.
bool is_interrupted();

// How to learn whether the statement of the calling thread was killed, and whether the server is shutting
// down. Called once, at start.
void set_statement_check(bool (*is_killed)(), bool (*is_shutting_down)());

// Notes that some statement was killed, for must_make_way(). Any thread.
void note_kill();

// True when this thread has a MakeWayScope and the server shuts down or killed a statement within the last
// ten seconds, whichever statement that was: it may be waiting for this thread.
bool must_make_way();

// For the life of this object, this thread holds a lock for which other statements may wait without asking
// whether they were killed: RocksDB opens a table file under a mutex.
class MakeWayScope {
 public:
  MakeWayScope();
  ~MakeWayScope();
  MakeWayScope(const MakeWayScope &) = delete;
  MakeWayScope &operator=(const MakeWayScope &) = delete;

 private:
  const bool before_;
};

// For the life of this object, waits of this thread end when `flag` becomes true. The flag lives longer;
// nullptr: no flag ends them, while a PatienceScope or a killed statement still does.
class InterruptScope {
 public:
  explicit InterruptScope(const std::atomic<bool> *flag);
  ~InterruptScope();
  InterruptScope(const InterruptScope &) = delete;
  InterruptScope &operator=(const InterruptScope &) = delete;

 private:
  const std::atomic<bool> *const before_;
};

// For the life of this object, waits of this thread end also when `is_over` says so. It is asked as often as
// is_interrupted().
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

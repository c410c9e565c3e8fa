// Counts the statements that wait for the bucket, and tells the error log when commits begin to wait for long
// and when that is over. The time in between is called an outage here, although the bucket may only be slow.
//
// While there is an outage, commits wait before they write anything (commit_gate.cc).
//
// Threads: any. The numbers are those of the process, which has one engine.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "base/mutex.h"
#include "bridge/objstore.h"

namespace atoll::engine {

// What the server knows about the statement of the calling thread. Set once, at start, before any statement
// waits.
struct WaitHooks {
  // Whether the statement has run for max_statement_time. The server's own timer does not run during the
  // COMMIT of a statement with autocommit. nullptr: never.
  bool (*is_out_of_time)() = nullptr;
  // Shows in the process list that the statement waits for the bucket (true), and that it does not wait any
  // more (false). nullptr: nothing is shown.
  void (*show)(bool waits) = nullptr;
};

class BucketWaits {
 public:
  static BucketWaits &of_process();

  void set_hooks(const WaitHooks &hooks) { hooks_ = hooks; }
  bool is_out_of_time() const { return hooks_.is_out_of_time != nullptr && hooks_.is_out_of_time(); }

  // A statement that waits, as long as the object exists. Requires: no other Waiter of this thread exists.
  class Waiter {
   public:
    explicit Waiter(BucketWaits *waits);
    ~Waiter();
    Waiter(const Waiter &) = delete;
    Waiter &operator=(const Waiter &) = delete;

    // Called again and again during the wait. Counts the statement if there is an outage. When the statement
    // has waited for kLongWait, an outage begins: the text of `why` goes to the error log. `position`: what
    // the statement waits for, in bytes of log.
    void still_waits(uint64_t position, const std::function<std::string()> &why);

   private:
    BucketWaits *const waits_;
    const std::chrono::steady_clock::time_point since_;
    bool is_counted_ = false;
  };

  // Ends the outage, if there is one and the bucket has caught up: the error log gets its duration, and how
  // many statements have waited. Called about once a second, because it may be that no statement waits any
  // more. Costs an atomic load while there is no outage. No request.
  void look(atoll_store *store);
  // Forgets the outage of an engine that is closed.
  void forget();

  // The number of statements that wait now.
  uint64_t waiting() const { return waiting_.load(std::memory_order_relaxed); }
  // Whether there is an outage. One atomic load.
  bool is_outage() const { return is_outage_.load(std::memory_order_acquire); }
  // The outage ends when the bucket has the log up to here.
  uint64_t position() const { return position_.load(std::memory_order_relaxed); }

 private:
  // Commits of a busy server often wait some hundred milliseconds, and every commit does with
  // atoll_durability=sync. The error log does not mention these waits.
  static constexpr std::chrono::seconds kLongWait{2};

  void count(std::chrono::steady_clock::time_point since, const std::function<std::string()> &why);
  void end();

  WaitHooks hooks_;
  std::atomic<uint64_t> waiting_{0};
  std::atomic<uint64_t> position_{0};
  std::atomic<bool> is_outage_{false};
  Mutex mutex_;
  std::chrono::steady_clock::time_point since_ ATOLL_GUARDED_BY(mutex_);
  uint64_t waited_ ATOLL_GUARDED_BY(mutex_) = 0;
};

}  // namespace atoll::engine

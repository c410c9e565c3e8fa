// Mutexes that Clang's thread safety analysis can check (-Wthread-safety in `make check`). The analysis knows
// nothing about the mutexes of the C++ library. The mutexes here cost as much as those of the library.
//
//     Mutex mutex_;
//     int count_ ATOLL_GUARDED_BY(mutex_) = 0;           access requires that the thread holds the mutex
//     void count() ATOLL_REQUIRES(mutex_);               a call requires that the thread holds the mutex
//
// The analysis looks at one function at a time, so a lambda that needs a mutex names it in an ATOLL_REQUIRES
// after its parameters. Constructors and destructors are not checked. Source: the Clang manual, Thread Safety
// Analysis.
#pragma once

#include <condition_variable>
#include <mutex>
#include <shared_mutex>

#include "base/namespace.h"

#ifdef __clang__
#define ATOLL_THREAD_RULE(rule) __attribute__((rule))
#else
#define ATOLL_THREAD_RULE(rule)
#endif

#define ATOLL_GUARDED_BY(mutex) ATOLL_THREAD_RULE(guarded_by(mutex))
#define ATOLL_REQUIRES(...) ATOLL_THREAD_RULE(requires_capability(__VA_ARGS__))
// Turns the analysis off for a function that it cannot follow. A comment at that function says why it is
// correct all the same.
#define ATOLL_UNCHECKED_THREADS ATOLL_THREAD_RULE(no_thread_safety_analysis)

namespace atoll {

class ATOLL_THREAD_RULE(capability("mutex")) Mutex {
 public:
  void lock() ATOLL_THREAD_RULE(acquire_capability()) { mutex_.lock(); }
  void unlock() ATOLL_THREAD_RULE(release_capability()) { mutex_.unlock(); }
  bool try_lock() ATOLL_THREAD_RULE(try_acquire_capability(true)) { return mutex_.try_lock(); }

 private:
  friend class MutexLock;
  std::mutex mutex_;
};

// Holds a mutex for as long as this object exists. In between, unlock() releases the mutex and lock() takes
// it again.
class ATOLL_THREAD_RULE(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex &mutex) ATOLL_THREAD_RULE(acquire_capability(mutex)) : lock_(mutex.mutex_) {}
  ~MutexLock() ATOLL_THREAD_RULE(release_capability()) = default;
  void lock() ATOLL_THREAD_RULE(acquire_capability()) { lock_.lock(); }
  void unlock() ATOLL_THREAD_RULE(release_capability()) { lock_.unlock(); }

 private:
  friend class Condition;
  std::unique_lock<std::mutex> lock_;
};

// A lock that many readers or one writer can hold.
class ATOLL_THREAD_RULE(capability("shared mutex")) SharedMutex {
  friend class SharedLock;
  friend class ExclusiveLock;
  std::shared_mutex mutex_;
};

class ATOLL_THREAD_RULE(scoped_lockable) SharedLock {
 public:
  explicit SharedLock(SharedMutex &mutex) ATOLL_THREAD_RULE(acquire_shared_capability(mutex))
      : lock_(mutex.mutex_) {}
  ~SharedLock() ATOLL_THREAD_RULE(release_capability()) = default;

 private:
  std::shared_lock<std::shared_mutex> lock_;
};

class ATOLL_THREAD_RULE(scoped_lockable) ExclusiveLock {
 public:
  explicit ExclusiveLock(SharedMutex &mutex) ATOLL_THREAD_RULE(acquire_capability(mutex))
      : lock_(mutex.mutex_) {}
  ~ExclusiveLock() ATOLL_THREAD_RULE(release_capability()) = default;

 private:
  std::unique_lock<std::shared_mutex> lock_;
};

// A condition variable. Each wait releases the mutex of `lock` and holds it again when it returns. Predicates
// are called with the mutex held.
class Condition {
 public:
  void notify_one() noexcept { condition_.notify_one(); }
  void notify_all() noexcept { condition_.notify_all(); }

  void wait(MutexLock &lock) { condition_.wait(lock.lock_); }
  template <typename Predicate>
  void wait(MutexLock &lock, Predicate is_met) {
    condition_.wait(lock.lock_, is_met);
  }
  // Returns false when `time` has passed and the condition is still not met.
  template <typename Duration, typename Predicate>
  bool wait_for(MutexLock &lock, Duration time, Predicate is_met) {
    return condition_.wait_for(lock.lock_, time, is_met);
  }
  template <typename TimePoint, typename Predicate>
  bool wait_until(MutexLock &lock, TimePoint end, Predicate is_met) {
    return condition_.wait_until(lock.lock_, end, is_met);
  }
  // Returns false when `end` has passed, and true when the thread was woken before, with or without a reason.
  template <typename TimePoint>
  bool wait_until(MutexLock &lock, TimePoint end) {
    return condition_.wait_until(lock.lock_, end) == std::cv_status::no_timeout;
  }

 private:
  std::condition_variable condition_;
};

}  // namespace atoll

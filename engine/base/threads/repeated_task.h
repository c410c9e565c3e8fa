// A thread that does one task again and again: at regular times, when another thread asks for it, or both.
//
// A turn is one call of the task's function. An exception ends only the turn that throws it; the next turn
// follows at most five seconds later.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

#include "base/mutex.h"
#include "base/namespace.h"

namespace atoll {

class RepeatedTask {
 public:
  // A task with this rhythm has a turn only when a thread calls ask().
  static constexpr std::chrono::milliseconds kNoRhythm{0};

  // `thread_name`: at most 15 bytes. The first turn begins `rhythm` after the construction, each further one
  // `rhythm` after the end of the turn before. Throws: std::system_error when the process gets no thread.
  RepeatedTask(const char *thread_name, std::chrono::milliseconds rhythm, std::function<void()> turn);
  ~RepeatedTask() { stop(); }
  RepeatedTask(const RepeatedTask &) = delete;
  RepeatedTask &operator=(const RepeatedTask &) = delete;

  // Asks for a turn: the next one begins at most `delay` from now, or after the running turn. Any thread may
  // call this, also the task itself during a turn.
  void ask(std::chrono::milliseconds delay = std::chrono::milliseconds(0));
  // Ends the task. Waits for a running turn, whose waits for the bucket are interrupted (base/interrupt.h);
  // no other turn follows. Any thread but the task's own.
  void stop();

  // Waits for `time`; only a running turn may call this. Returns false when stop() was called: then the turn
  // must end.
  bool rest(std::chrono::milliseconds time);
  // A flag that is true as soon as stop() was called, for functions that take such a flag. It lives as long
  // as the task. Callers only read it.
  std::atomic<bool> *stopping() { return &stopping_; }

 private:
  using Clock = std::chrono::steady_clock;

  void run();

  const std::function<void()> turn_;
  const std::chrono::milliseconds rhythm_;
  Mutex mutex_;
  Condition changed_;
  Clock::time_point next_ ATOLL_GUARDED_BY(mutex_);  // when the next turn begins; max(): no turn is planned
  std::atomic<bool> stopping_{false};                // true: stop() was called; set with mutex_ held
  std::thread thread_;                               // last, because the thread uses all members above
};

}  // namespace atoll

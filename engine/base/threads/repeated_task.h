// A thread that does one task again and again: in a rhythm, when it is asked to, or both.
//
// What a turn throws ends that turn only: there is another one a few seconds later.
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
  // A task without rhythm has a turn only when it is asked to.
  static constexpr std::chrono::milliseconds kNoRhythm{0};

  // `thread_name`: of at most 15 bytes. The first turn comes after `rhythm`, each further one that long after
  // the end of the former. Throws: std::system_error when the process gets no thread.
  RepeatedTask(const char *thread_name, std::chrono::milliseconds rhythm, std::function<void()> turn);
  ~RepeatedTask() { stop(); }
  RepeatedTask(const RepeatedTask &) = delete;
  RepeatedTask &operator=(const RepeatedTask &) = delete;

  // The next turn begins after `delay` at the latest. Any thread, also from a turn.
  void ask(std::chrono::milliseconds delay = std::chrono::milliseconds(0));
  // Waits for a turn that is under way, whose waits for the bucket end soon (base/interrupt.h); no turn
  // follows. Any thread but the task's.
  void stop();

  // Called only in a turn: waits for `time`. False: the turn shall end.
  bool rest(std::chrono::milliseconds time);
  // A flag that is true from the begin of stop() on, for calls that look at a flag; lives as long as the
  // task. Only to be read.
  std::atomic<bool> *stopping() { return &stopping_; }

 private:
  using Clock = std::chrono::steady_clock;

  void run();

  const std::function<void()> turn_;
  const std::chrono::milliseconds rhythm_;
  Mutex mutex_;
  Condition changed_;
  Clock::time_point next_ ATOLL_GUARDED_BY(mutex_);  // turn
  std::atomic<bool> stopping_{false};                // set with mutex_ held
  std::thread thread_;                               // last: uses all of the above
};

}  // namespace atoll

// See running.h.
#include "engine/running.h"

#include <algorithm>
#include <atomic>
#include <string>

#include "base/clock.h"
#include "base/messages/reason_first.h"
#include "base/mutex.h"
#include "engine/waiting.h"

namespace atoll::engine {
namespace {

std::atomic<Engine *> running_engine{nullptr};
Mutex mutex;
Status why_not ATOLL_GUARDED_BY(mutex){Code::kUnavailable, "the engine has not been started"};
// When the wait for another server ends; the epoch of the clock: the engine does not wait.
std::chrono::steady_clock::time_point waits_until ATOLL_GUARDED_BY(mutex);
int64_t since_s ATOLL_GUARDED_BY(mutex) = 0;
std::atomic<bool> holds_back{false};
Status why_held_back ATOLL_GUARDED_BY(mutex);
thread_local bool prepares = false;

void set_reason(const Status &status, std::chrono::steady_clock::time_point until = {}) {
  const MutexLock lock(mutex);
  why_not = status;
  waits_until = until;
  since_s = static_cast<int64_t>(now_us() / 1000000);
}

// Returns the beginning of the message of ready().
std::string state_text() {
  const MutexLock lock(mutex);
  if (waits_until == std::chrono::steady_clock::time_point()) return "the ATOLL engine is not running: ";
  const auto left =
      std::chrono::duration_cast<std::chrono::seconds>(waits_until - std::chrono::steady_clock::now());
  return "the ATOLL engine waits, " + std::to_string(std::max<int64_t>(left.count(), 0)) + " s more: ";
}

Status held_back() {
  if (!holds_back.load(std::memory_order_acquire) || prepares) return Status::Ok();
  const MutexLock lock(mutex);
  return why_held_back;
}

}  // namespace

Preparation::Preparation() { prepares = true; }
Preparation::~Preparation() { prepares = false; }

void hold_back(const Status &why) {
  {
    const MutexLock lock(mutex);
    why_held_back = why;
  }
  holds_back.store(true, std::memory_order_release);
}

void let_in() { holds_back.store(false, std::memory_order_release); }

Engine *running() { return running_engine.load(std::memory_order_acquire); }

Engine *running_writer() {
  Engine *engine = running();
  return engine != nullptr && engine->views() == nullptr ? engine : nullptr;
}

Status why_not_running() {
  const MutexLock lock(mutex);
  return why_not;
}

Status ready() {
  if (running() != nullptr) return held_back();
  // The code is the same for every reason. With kNotFound, for example, the server would take a table for
  // dropped and delete its .frm.
  return Status(Code::kUnavailable, state_text() + reason_first(why_not_running().message()));
}

Status may_write() {
  ATOLL_RETURN_IF_ERROR(ready());
  const Engine *engine = running();
  return engine == nullptr ? ready() : engine->may_write();
}

void set_running(Engine *engine) {
  set_reason(Status::Ok());
  running_engine.store(engine, std::memory_order_release);
}

void set_not_running(const Status &why) {
  running_engine.store(nullptr, std::memory_order_release);
  set_reason(why);
}

void set_waiting(const Status &why, std::chrono::milliseconds left) {
  running_engine.store(nullptr, std::memory_order_release);
  set_reason(why, std::chrono::steady_clock::now() + left);
}

int64_t not_running_since_s() {
  const MutexLock lock(mutex);
  return since_s;
}

}  // namespace atoll::engine

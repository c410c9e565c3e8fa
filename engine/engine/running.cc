// See running.h.
#include "engine/running.h"

#include <atomic>
#include <string>

#include "base/mutex.h"

namespace atoll::engine {
namespace {

std::atomic<Engine *> running_engine{nullptr};
Mutex mutex;
Status why_not ATOLL_GUARDED_BY(mutex){Code::kUnavailable, "the engine has not been started"};
std::atomic<bool> holds_back{false};
Status why_held_back ATOLL_GUARDED_BY(mutex);
thread_local bool prepares = false;

void set_reason(const Status &status) {
  const MutexLock lock(mutex);
  why_not = status;
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

Status why_not_running() {
  const MutexLock lock(mutex);
  return why_not;
}

Status ready() {
  if (running() != nullptr) return held_back();
  // The code is the same for every reason. With kNotFound, for example, the server would take a table for
  // dropped and delete its .frm.
  return Status(Code::kUnavailable,
                std::string("the ATOLL engine is not running: ") + why_not_running().message());
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

}  // namespace atoll::engine

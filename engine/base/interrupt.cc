// See interrupt.h.
#include "base/interrupt.h"

#include <chrono>
#include <cstdint>
#include <utility>

namespace atoll {
namespace {

// A killed statement must end within ten seconds. So for that long after a KILL, threads make way for the
// killed statement, which may be waiting for them.
constexpr int64_t kMakeWayMs = 10'000;

thread_local const std::atomic<bool> *helper_flag = nullptr;
thread_local const std::function<bool()> *patience_check = nullptr;
thread_local bool is_in_the_way = false;
std::atomic<bool (*)()> statement_check{nullptr};
std::atomic<bool (*)()> shutdown_check{nullptr};
std::atomic<int64_t> make_way_until_ms{0};

int64_t now_ms() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

}  // namespace

bool is_interrupted() {
  if (patience_check != nullptr && (*patience_check)()) return true;
  if (helper_flag != nullptr) return helper_flag->load(std::memory_order_relaxed);
  bool (*is_killed)() = statement_check.load(std::memory_order_relaxed);
  return is_killed != nullptr && is_killed();
}

void set_statement_check(bool (*is_killed)(), bool (*is_shutting_down)()) {
  statement_check.store(is_killed, std::memory_order_relaxed);
  shutdown_check.store(is_shutting_down, std::memory_order_relaxed);
}

void note_kill() { make_way_until_ms.store(now_ms() + kMakeWayMs, std::memory_order_relaxed); }

bool must_make_way() {
  if (!is_in_the_way) return false;
  bool (*is_shutting_down)() = shutdown_check.load(std::memory_order_relaxed);
  if (is_shutting_down != nullptr && is_shutting_down()) return true;
  return now_ms() < make_way_until_ms.load(std::memory_order_relaxed);
}

MakeWayScope::MakeWayScope() : before_(is_in_the_way) { is_in_the_way = true; }

MakeWayScope::~MakeWayScope() { is_in_the_way = before_; }

InterruptScope::InterruptScope(const std::atomic<bool> *flag) : before_(helper_flag) { helper_flag = flag; }

InterruptScope::~InterruptScope() { helper_flag = before_; }

PatienceScope::PatienceScope(std::function<bool()> is_over)
    : is_over_(std::move(is_over)), before_(patience_check) {
  patience_check = &is_over_;
}

PatienceScope::~PatienceScope() { patience_check = before_; }

}  // namespace atoll

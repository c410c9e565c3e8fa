// See interrupt.h.
#include "base/interrupt.h"

namespace atoll {
namespace {

thread_local const std::atomic<bool> *helper_flag = nullptr;
std::atomic<bool (*)()> statement_check{nullptr};

}  // namespace

bool is_interrupted() {
  if (helper_flag != nullptr) return helper_flag->load(std::memory_order_relaxed);
  bool (*is_killed)() = statement_check.load(std::memory_order_relaxed);
  return is_killed != nullptr && is_killed();
}

void set_statement_check(bool (*is_killed)()) { statement_check.store(is_killed, std::memory_order_relaxed); }

InterruptScope::InterruptScope(const std::atomic<bool> *flag) : before_(helper_flag) { helper_flag = flag; }

InterruptScope::~InterruptScope() { helper_flag = before_; }

}  // namespace atoll

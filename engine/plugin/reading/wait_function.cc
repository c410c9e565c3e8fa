// See wait_function.h.
#include "handler/server.h"

#include "plugin/reading/wait_function.h"

#include <item_create.h>
#include <item_func.h>
#include <mysql/service_kill_statement.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>

#include "base/border/border.h"
#include "engine/running.h"
#include "handler/server/callback.h"
#include "plugin/reading/follower.h"
#include "plugin/reading/gtid_list.h"

namespace atoll::plugin {
namespace {

using Clock = std::chrono::steady_clock;

constexpr char kName[] = "atoll_wait";
constexpr longlong kReached = 0, kTimeout = -1;
constexpr std::chrono::milliseconds kSlice{100};  // the time between two checks for KILL
constexpr double kTimeoutMaxS = 365.0 * 86400;    // a longer timeout counts as this one

class WaitFunction final : public Item_longlong_func {
 public:
  WaitFunction(THD *thd, List<Item> &arguments) : Item_longlong_func(thd, arguments) {}

  LEX_CSTRING func_name_cstring() const override { return {kName, sizeof(kName) - 1}; }
  bool fix_length_and_dec(THD *) override {
    set_maybe_null();
    max_length = 2;
    return false;
  }
  bool const_item() const override { return false; }
  table_map used_tables() const override { return used_tables_cache | RAND_TABLE_BIT; }
  bool is_expensive() override { return true; }
  bool check_vcol_func_processor(void *argument) override {
    return mark_unsupported_function(kName, "()", argument, VCOL_IMPOSSIBLE);
  }
  longlong val_int() override {
    return guarded([this] { return value(); },
                   [this](const Status &status) {
                     null_value = true;
                     return handler::fails_by<longlong{0}>(status);
                   });
  }

 protected:
  Item *shallow_copy(THD *thd) const override { return get_item_copy<WaitFunction>(thd, this); }

 private:
  longlong value();
  bool read_end(Clock::time_point *end);
};

// Sets *end to when the wait ends. Returns false when the timeout is NULL or negative; then an error was
// reported.
bool WaitFunction::read_end(Clock::time_point *end) {
  double seconds = kTimeoutMaxS;
  if (arg_count == 2) {
    seconds = args[1]->val_real();
    if (args[1]->null_value || std::isnan(seconds) || seconds < 0) {
      if (!current_thd->is_error())
        my_printf_error(ER_WRONG_ARGUMENTS, "ATOLL: the timeout of ATOLL_WAIT() is a number of seconds",
                        MYF(0));
      return false;
    }
  }
  *end = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                            std::chrono::duration<double>(std::min(seconds, kTimeoutMaxS)));
  return true;
}

// Waits until the database has `wanted`. Returns false at `end`, and when the statement was killed.
bool wait_for(const std::vector<lsm::Gtid> &wanted, Clock::time_point end) {
  while (!is_statement_killed(current_thd)) {
    const engine::Engine *running = engine::running();
    if (running == nullptr) return false;
    const engine::Views *views = running->views();
    const engine::ViewPtr shown = views == nullptr ? nullptr : views->settled();
    if (covers(shown ? shown->gtids() : running->newest_gtids(), wanted)) return true;
    const Clock::time_point now = Clock::now();
    if (now >= end) return false;
    const Clock::time_point until = std::min(end, now + kSlice);
    if (views == nullptr) {
      std::this_thread::sleep_until(until);
    } else {
      Follower::hurry();
      (void)views->wait_for_other(shown, until);
    }
  }
  return false;
}

longlong WaitFunction::value() {
  null_value = true;
  String buffer;
  const String *text = args[0]->val_str(&buffer);
  if (text == nullptr) return 0;
  const auto wanted = parse_gtids({text->ptr(), text->length()});
  if (!wanted) {
    my_error(ER_INCORRECT_GTID_STATE, MYF(0));
    return 0;
  }
  Clock::time_point end;
  if (!read_end(&end)) return 0;
  if (const Status ready = engine::ready(); !ready.ok()) {
    my_printf_error(ER_GET_ERRMSG, "ATOLL: %s", MYF(0), ready.message());
    return 0;
  }
  null_value = false;
  return wait_for(*wanted, end) ? kReached : kTimeout;
}

class CreateWaitFunction final : public Create_native_func {
 public:
  Item *create_native(THD *thd, const LEX_CSTRING *name, List<Item> *arguments) override {
    const uint count = arguments == nullptr ? 0 : arguments->elements;
    if (count < 1 || count > 2) {
      my_error(ER_WRONG_PARAMCOUNT_TO_NATIVE_FCT, MYF(0), name->str);
      return nullptr;
    }
    thd->lex->set_stmt_unsafe(LEX::BINLOG_STMT_UNSAFE_SYSTEM_FUNCTION);
    thd->lex->uncacheable(UNCACHEABLE_SIDEEFFECT);
    thd->lex->safe_to_cache_query = false;
    return new (thd->mem_root) WaitFunction(thd, *arguments);
  }
};

}  // namespace

Create_func *wait_function() { return new CreateWaitFunction(); }

}  // namespace atoll::plugin

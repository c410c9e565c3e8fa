// See role_variable.h.
#include "handler/server.h"

#include "plugin/reading/role_variable.h"

#include <string>

#include "base/messages/reason_first.h"
#include "engine/running.h"
#include "plugin/start_stop.h"

namespace atoll::plugin {
namespace {

constexpr long long kWriter = 0, kReader = 1;

// Returns the position of the value in `roles`; -1: it is none of them.
long long role_of(const TYPELIB &roles, st_mysql_value *value) {
  if (value->value_type(value) != MYSQL_VALUE_TYPE_STRING) {
    long long number = -1;
    value->val_int(value, &number);
    return number >= 0 && number < static_cast<long long>(roles.count) ? number : -1;
  }
  char buffer[16];
  int length = sizeof(buffer);
  const char *text = value->val_str(value, buffer, &length);
  if (text == nullptr) return -1;
  return find_type(std::string(text, static_cast<size_t>(length)).c_str(), &roles, FIND_TYPE_NO_PREFIX) - 1;
}

int refuse(const std::string &why) {
  my_printf_error(ER_OPTION_PREVENTS_STATEMENT, "ATOLL: the role was not changed: %s", MYF(0), why.c_str());
  return 1;
}

}  // namespace

int check_role_change(MYSQL_THD thd, const TYPELIB &roles, st_mysql_value *value, unsigned long *role) {
  const long long wanted = role_of(roles, value);
  if (wanted < 0) return refuse("it is 'writer' or 'reader'");
  *role = static_cast<unsigned long>(wanted);
  const engine::Engine *running = engine::running();
  if (running == nullptr) return refuse(reason_first(engine::ready().message()));
  const bool is_reader = running->views() != nullptr;
  if (is_reader == (wanted == kReader)) return 0;
  if (wanted != kWriter)
    return refuse(
        "restart this server with atoll_role=reader; a stop in order gives the "
        "bucket free for the next writer at once");
  const Status status = become_writer(thd);
  return status.ok() ? 0 : refuse(reason_first(status.message()));
}

}  // namespace atoll::plugin

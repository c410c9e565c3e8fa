// See s3_keys.h. For a SET statement with several variables, the server first calls the `check` functions of
// all of them, and then their update functions.
#include "plugin/s3_keys.h"

#include <algorithm>
#include <string>

#include "base/messages/reason_first.h"
#include "base/mutex.h"
#include "bridge/result.h"
#include "engine/running.h"
#include "plugin/start_stop.h"

namespace atoll::plugin {
namespace {

struct Keys {
  std::string access_key, secret_key, session_token;
  // True when a test has shown that the bucket accepts the keys (rule KEYS-2).
  bool is_tried = false;

  void forget() {
    for (std::string *text : {&access_key, &secret_key, &session_token}) {
      std::fill(text->begin(), text->end(), '\0');
      text->clear();
    }
    is_tried = false;
  }
};

Mutex mutex;
// Keys that SET statements have given and that are not in use yet.
Keys waiting ATOLL_GUARDED_BY(mutex);

int refuse(const char *why) {
  my_printf_error(ER_WRONG_VALUE_FOR_VAR, "ATOLL: the keys were not changed: %s", MYF(0), why);
  return 1;
}

// Returns the text that the SET statement gives; empty when it gives none.
std::string text_of(st_mysql_value *value) {
  char buffer[512];
  int length = sizeof(buffer);
  const char *text = value->val_str(value, buffer, &length);
  return text == nullptr ? std::string() : std::string(text, static_cast<size_t>(length));
}

// Accepts the SET statement. The value that the server keeps and shows is the mask.
int accept(void *save) {
  *static_cast<const char **>(save) = kKeyMask;
  return 0;
}

Status try_waiting() ATOLL_REQUIRES(mutex) {
  engine::Engine *running = engine::running();
  if (running == nullptr)
    return open_with_keys({waiting.access_key, waiting.secret_key, waiting.session_token});
  if (running->store() == nullptr)
    return Status(Code::kInvalid, "a reader takes new keys from its configuration: restart it");
  return bridge::to_status(atoll_store_try_keys(running->store(), waiting.access_key.c_str(),
                                                waiting.secret_key.c_str(), waiting.session_token.c_str()));
}

}  // namespace

void show_as(char **variable, const char *value) {
  my_free(*variable);
  *variable = my_strdup(PSI_INSTRUMENT_ME, value, MYF(MY_WME));
}

int check_access_key(MYSQL_THD, st_mysql_sys_var *, void *save, st_mysql_value *value) {
  const MutexLock lock(mutex);
  waiting.forget();
  waiting.access_key = text_of(value);
  return waiting.access_key.empty() ? refuse("the access key is empty") : accept(save);
}

int check_session_token(MYSQL_THD, st_mysql_sys_var *, void *save, st_mysql_value *value) {
  const MutexLock lock(mutex);
  if (waiting.access_key.empty())
    return refuse("set atoll_s3_access_key before the token that belongs to it");
  waiting.session_token = text_of(value);
  return accept(save);
}

int check_secret_key(MYSQL_THD, st_mysql_sys_var *, void *save, st_mysql_value *value) {
  const MutexLock lock(mutex);
  waiting.secret_key = text_of(value);
  const Status status =
      waiting.secret_key.empty() ? Status(Code::kInvalid, "the secret key is empty") : try_waiting();
  waiting.is_tried = status.ok();
  if (status.ok()) return accept(save);
  waiting.forget();
  return refuse(reason_first(status.message()).c_str());
}

void update_waiting_key(MYSQL_THD thd, st_mysql_sys_var *, void *to, const void *) {
  show_as(static_cast<char **>(to), kKeyMask);
  const MutexLock lock(mutex);
  if (waiting.is_tried) return;
  push_warning(thd, Sql_condition::WARN_LEVEL_NOTE, ER_YES,
               "ATOLL: this waits for SET GLOBAL atoll_s3_secret_key; until then the former keys are used");
}

void update_secret_key(MYSQL_THD thd, st_mysql_sys_var *, void *to, const void *) {
  const MutexLock lock(mutex);
  engine::Engine *running = engine::running();
  Status status(Code::kInvalid, "DEFAULT is no key");
  if (waiting.is_tried && running == nullptr)
    status = Status::Ok();  // the engine waits for another owner, and goes on with these keys
  else if (waiting.is_tried)
    status =
        bridge::to_status(atoll_store_set_keys(running->store(), waiting.access_key.c_str(),
                                               waiting.secret_key.c_str(), waiting.session_token.c_str()));
  waiting.forget();
  if (status.ok()) return show_as(static_cast<char **>(to), kKeyMask);
  push_warning_printf(thd, Sql_condition::WARN_LEVEL_WARN, ER_WRONG_VALUE_FOR_VAR,
                      "ATOLL: the keys were not changed: %s", status.message());
}

}  // namespace atoll::plugin

// Other keys for the bucket while the server runs: SET GLOBAL of atoll_s3_access_key, atoll_s3_session_token
// and atoll_s3_secret_key.
//
// KEYS-1: keys change as a pair. A new access key, and a token that belongs to it, wait until the secret key
//         is set, in the same statement or in a later one. A secret key alone replaces that of the access key
//         in use.
// KEYS-2: a pair is used only after a test that reads and writes the bucket with it. A pair that fails the
//         test changes nothing, and nothing of it is kept.
// KEYS-3: the variables show a mask, never a key; an error shows no key either.
#pragma once

#include "handler/server.h"

#include <mysql/plugin.h>

namespace atoll::plugin {

// What the server calls before and after a SET GLOBAL. `check` functions may ask the bucket: they run without
// a lock.
int check_access_key(MYSQL_THD thd, st_mysql_sys_var *variable, void *save, st_mysql_value *value);
int check_session_token(MYSQL_THD thd, st_mysql_sys_var *variable, void *save, st_mysql_value *value);
int check_secret_key(MYSQL_THD thd, st_mysql_sys_var *variable, void *save, st_mysql_value *value);
// For the access key and for the token: both wait for the secret key.
void update_waiting_key(MYSQL_THD thd, st_mysql_sys_var *variable, void *to, const void *save);
void update_secret_key(MYSQL_THD thd, st_mysql_sys_var *variable, void *to, const void *save);

// Shows `value` in a string variable. Requires: nobody else reads the variable meanwhile.
void show_as(char **variable, const char *value);
// What stands for a key in SHOW VARIABLES.
constexpr char kKeyMask[] = "*****";

}  // namespace atoll::plugin

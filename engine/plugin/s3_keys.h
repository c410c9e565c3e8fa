// Changes the keys for the bucket while the server runs: SET GLOBAL of atoll_s3_access_key,
// atoll_s3_session_token and atoll_s3_secret_key.
//
// KEYS-1: keys change as a pair. A new access key, and a token that belongs to it, wait until the secret key
//         is set, in the same statement or in a later one. A secret key alone replaces the secret key of the
//         access key in use.
// KEYS-2: a pair is used only after a test that reads and writes the bucket with it. A pair that fails the
//         test is forgotten, and the former keys stay in use. While the engine waits for the bucket, the test
//         is an attempt to open the engine.
// KEYS-3: the variables and error messages never show a key. The variables show a mask.
#pragma once

#include "handler/server.h"

#include <mysql/plugin.h>

namespace atoll::plugin {

// The functions that the server calls before (check) and after (update) a SET GLOBAL. The server holds no
// lock during check functions, so these may send requests to the bucket.
int check_access_key(MYSQL_THD thd, st_mysql_sys_var *variable, void *save, st_mysql_value *value);
int check_session_token(MYSQL_THD thd, st_mysql_sys_var *variable, void *save, st_mysql_value *value);
int check_secret_key(MYSQL_THD thd, st_mysql_sys_var *variable, void *save, st_mysql_value *value);
// For the access key and the token, which both wait for the secret key.
void update_waiting_key(MYSQL_THD thd, st_mysql_sys_var *variable, void *to, const void *save);
void update_secret_key(MYSQL_THD thd, st_mysql_sys_var *variable, void *to, const void *save);

// Sets the value that a string variable shows. Requires: no other thread reads the variable meanwhile.
void show_as(char **variable, const char *value);
// SHOW VARIABLES shows this instead of a key.
constexpr char kKeyMask[] = "*****";

}  // namespace atoll::plugin

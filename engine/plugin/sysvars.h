// System variables (atoll_...): their values at start, and those that may change while the server runs.
// Documentation for users: docs/configuration.md, one row per variable.
#pragma once

#include <string>

#include "engine/settings.h"

struct st_mysql_sys_var;

namespace atoll::plugin {

st_mysql_sys_var **system_variables();

// Returns the settings at start. Fills in defaults that depend on the data directory, and replaces the
// secrets in the variables by a mask. Called once, from plugin init.
engine::StartSettings take_settings();

// Overwrites the keys in `settings` with zeros and removes them, when nothing needs them any more.
void forget_secrets(engine::StartSettings *settings);

// Returns the global variables. SET GLOBAL changes them while other threads read.
const engine::Settings &settings();
// Returns the session variables of the connection `user`, a THD; nullptr: the global values.
engine::StatementSettings statement_settings(void *user);

// After a call with true, the server keeps no history and drops the one that it has, until a call with false.
void suspend_history(bool suspended);

// Called when the engine has opened a database. Sets the variables of the history and of the schedule to what
// the database has in the bucket, unless the configuration asks for more (merged_settings.h). Logs what is
// used and why. Requests: none.
void use_kept_settings();
// Stores what these variables show in the bucket if it is not there (store_what_is_shown()), and ends a
// former history when its grace time is over. Called each second, by one thread.
void tend_kept_settings();

std::string url_in_use();       // atoll_url, with its default
const char *durability_name();  // the present value of atoll_durability
bool wants_bounded_heap();      // whether atoll_bound_heap is ON

std::string snapshot_schedule();  // the present text of atoll_snapshot_schedule

}  // namespace atoll::plugin

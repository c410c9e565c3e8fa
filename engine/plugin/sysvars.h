// System variables (atoll_...): what they are at start, and what may change while running.
// Documentation for users: docs/configuration.md, one row per variable.
#pragma once

#include <string>

#include "engine/settings.h"

struct st_mysql_sys_var;

namespace atoll::plugin {

st_mysql_sys_var **system_variables();

// Takes the start values: completes defaults that depend on the data directory and replaces the secrets in
// what SHOW VARIABLES shows. Called once, from plugin init.
engine::StartSettings take_settings();

void forget_secrets(engine::StartSettings *settings);

// The global variables. SET GLOBAL writes here while others read.
const engine::Settings &settings();
// The session variables of the connection `user`, a THD; nullptr: the global values.
engine::StatementSettings statement_settings(void *user);

// With true: from now on, until it is called with false, the server keeps no history and drops what there
// was.
void suspend_history(bool suspended);

bool wants_bounded_heap();  // atoll_bound_heap

std::string snapshot_schedule();  // atoll_snapshot_schedule

}  // namespace atoll::plugin

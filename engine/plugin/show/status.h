// Status variables (Atoll_...) and the text of SHOW ENGINE ATOLL STATUS.
// Documentation for users: docs/configuration.md.
#pragma once

#include <string>

#include "base/namespace.h"

struct st_mysql_show_var;

namespace atoll::plugin {

// Returns one line about the open database: address, durability, epoch, newest commit. "" if none is open.
std::string database_text();

// Returns the text of SHOW ENGINE ATOLL STATUS.
std::string engine_status_text();

// Returns the status variables. The list ends with an empty entry, as the server requires.
st_mysql_show_var *status_variables();

}  // namespace atoll::plugin

// Status variables (Atoll_...) and the text of SHOW ENGINE ATOLL STATUS.
// Documentation for users: docs/configuration.md.
#pragma once

#include <string>

#include "base/namespace.h"

struct st_mysql_show_var;

namespace atoll::plugin {

// The text of SHOW ENGINE ATOLL STATUS.
std::string engine_status_text();

// Ends with an empty entry, as the server wants it.
st_mysql_show_var *status_variables();

}  // namespace atoll::plugin

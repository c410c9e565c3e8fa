// Names of schemas and tables in the arguments of functions: as the server would take them from a statement.
#pragma once

#include <string>

#include "base/status.h"

namespace atoll::plugin {

// Brings the name to the form that the server keeps (lower_case_table_names). Errors: kInvalid for what
// CREATE DATABASE refuses, and for information_schema, which has no directory.
Status read_schema_name(std::string *name);

// Does the same with the name of a table. Errors: kInvalid for what CREATE TABLE refuses, for the server's
// own names (#sql..., #mysql50#..., those of partitions), and for names whose files would have too long a
// name.
Status read_table_name(std::string *name);

}  // namespace atoll::plugin

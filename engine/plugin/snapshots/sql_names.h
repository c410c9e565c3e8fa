// Checks names of schemas and tables in the arguments of SQL functions, as the server checks them in a
// statement.
#pragma once

#include <string>

#include "base/status.h"

namespace atoll::plugin {

// Converts the name to the form that the server stores (lower_case_table_names). Errors: kInvalid for a name
// that CREATE DATABASE refuses, and for information_schema, which has no directory.
Status read_schema_name(std::string *name);

// As read_schema_name(), for the name of a table. Errors: kInvalid for a name that CREATE TABLE refuses, for
// the server's internal names (#sql..., #mysql50#..., those of partitions), and for a name that would make a
// file name too long.
Status read_table_name(std::string *name);

}  // namespace atoll::plugin

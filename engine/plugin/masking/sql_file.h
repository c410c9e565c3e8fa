// A file of SQL statements, by the rules of the server's init_file: a statement ends with a semicolon at the
// end of a line; between statements, lines that begin with # or -- and empty ones are left out.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace atoll::plugin {

// Splits the text into statements, without their semicolons.
// Errors: kInvalid, when there is no statement, or something stands behind the last semicolon: the file may
// be cut off.
Status split_sql(std::string_view text, std::vector<std::string> *statements);
// Does the same with the content of a file. Errors: also kInvalid, when the file cannot be read.
Status read_sql_file(const std::string &path, std::vector<std::string> *statements);

}  // namespace atoll::plugin

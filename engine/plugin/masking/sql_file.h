// A file of SQL statements, by the rules of the server's init_file: a statement ends with a semicolon at the
// end of a line; between statements, lines that begin with # or -- and empty ones are left out.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace atoll::plugin {

// The statements without their semicolons.
// Errors: kInvalid, when there is none, or something stands behind the last semicolon: the file may be cut
// off.
Status split_sql(std::string_view text, std::vector<std::string> *statements);
// The same of the file's content. Errors: also kInvalid, when the file cannot be read.
Status read_sql_file(const std::string &path, std::vector<std::string> *statements);

}  // namespace atoll::plugin

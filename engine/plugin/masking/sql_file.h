// Reads a file of SQL statements by the rules of the server's init_file. A statement ends with a semicolon at
// the end of a line. Between statements, empty lines and lines that begin with # or -- are skipped.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace atoll::plugin {

// Splits the text into statements, without their semicolons. Errors: kInvalid when there is no statement, or
// when text follows the last semicolon: then the file may be cut off.
Status split_sql(std::string_view text, std::vector<std::string> *statements);
// As split_sql(), for the content of a file. Errors: also kInvalid when the file cannot be read.
Status read_sql_file(const std::string &path, std::vector<std::string> *statements);

}  // namespace atoll::plugin

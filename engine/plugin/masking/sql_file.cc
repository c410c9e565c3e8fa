#include "plugin/masking/sql_file.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "base/file.h"

namespace atoll::plugin {
namespace {

constexpr std::string_view kBlanks = " \t\r";

std::string_view without_blanks(std::string_view line) {
  const size_t begin = line.find_first_not_of(kBlanks);
  if (begin == std::string_view::npos) return {};
  return line.substr(begin, line.find_last_not_of(kBlanks) + 1 - begin);
}

bool is_comment(std::string_view line) { return line.starts_with('#') || line.starts_with("--"); }

}  // namespace

Status split_sql(std::string_view text, std::vector<std::string> *statements) {
  std::string statement;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    const std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    const std::string_view content = without_blanks(line);
    if (statement.empty() && (content.empty() || is_comment(content))) continue;
    statement.append(line).push_back('\n');
    if (!content.ends_with(';')) continue;
    statement.resize(statement.find_last_of(';'));
    if (!without_blanks(statement).empty()) statements->push_back(std::move(statement));
    statement.clear();
  }
  if (!statement.empty())
    return Status(Code::kInvalid, "the last statement does not end with a semicolon at the end of a line");
  if (statements->empty()) return Status(Code::kInvalid, "there is no statement in it");
  return Status::Ok();
}

Status read_sql_file(const std::string &path, std::vector<std::string> *statements) {
  if (::access(path.c_str(), R_OK) != 0)
    return Status(Code::kInvalid, path + " cannot be read: " + std::strerror(errno));
  return split_sql(content_of(path), statements).with(path);
}

}  // namespace atoll::plugin

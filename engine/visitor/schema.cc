// See schema.h.

#include "visitor/schema.h"

#include <cstdio>
#include <set>
#include <string_view>
#include <utility>

namespace atoll::visitor {
namespace {

std::string line(std::string_view kind, std::string_view name, std::string_view definition) {
  return std::string(kind) + "\t" + escaped(name) + "\t" + escaped(definition);
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string result;
  for (const char character : text) {
    const auto code = static_cast<unsigned char>(character);
    if (code >= ' ' && code != '@' && code != 0x7F) {
      result += character;
      continue;
    }
    char written[8];
    std::snprintf(written, sizeof written, "@%04x", code);
    result += written;
  }
  return result;
}

std::vector<std::string> schema_lines(const catalog::TableDef &table) {
  const catalog::TableDescription &description = table.description;
  std::vector<std::string> lines = {line("table", catalog::version_text(description.server_version), "")};
  for (const catalog::ColumnDescription &column : description.columns)
    lines.push_back(line("column", column.name, text_of(column)));
  for (const catalog::KeyDescription &key : description.keys)
    lines.push_back(line("key", key.name, text_of(key, description)));
  return lines;
}

std::vector<catalog::TablePtr> without_further_partitions(const std::vector<catalog::TablePtr> &tables) {
  std::set<std::pair<std::string, std::string>> seen;
  std::vector<catalog::TablePtr> first_ones;
  for (const catalog::TablePtr &table : tables)
    if (seen.emplace(table->database, catalog::whole_table(table->name)).second) first_ones.push_back(table);
  return first_ones;
}

}  // namespace atoll::visitor

// See table_text.h.
#include "plugin/snapshots/table_text.h"

#include <algorithm>

namespace atoll::plugin {
namespace {

// Removes a name from the front of `rest` and returns it in *name. Returns false when there is no name.
bool take_name(std::string_view *rest, std::string *name) {
  if (!rest->starts_with('`')) {
    const size_t length = std::min(rest->find('.'), rest->size());
    name->assign(rest->substr(0, length));
    rest->remove_prefix(length);
    return !name->empty() && name->find('`') == std::string::npos;
  }
  for (size_t i = 1; i < rest->size(); ++i) {
    if ((*rest)[i] != '`') {
      name->push_back((*rest)[i]);
    } else if (rest->substr(i).starts_with("``")) {
      name->push_back((*rest)[i++]);
    } else {
      rest->remove_prefix(i + 1);
      return !name->empty();
    }
  }
  return false;  // the closing backtick is missing
}

}  // namespace

Status parse_table_text(std::string_view text, TableText *out) {
  const Status wrong(Code::kInvalid,
                     "'" + std::string(text) + "' is not a valid table name: write 'schema.table'");
  std::string_view rest = text;
  std::string first, second;
  if (!take_name(&rest, &first)) return wrong;
  if (rest.empty()) {
    *out = {"", std::move(first)};
    return Status::Ok();
  }
  if (!rest.starts_with('.')) return wrong;
  rest.remove_prefix(1);
  if (!take_name(&rest, &second) || !rest.empty()) return wrong;
  *out = {std::move(first), std::move(second)};
  return Status::Ok();
}

}  // namespace atoll::plugin

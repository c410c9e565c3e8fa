// The server's search keys, ranges and row references, as keys of the table's indexes.
#pragma once

#include "handler/server.h"

#include <memory>
#include <string>
#include <vector>

#include "handler/layout.h"
#include "table/search_bounds.h"

namespace atoll::handler {

class SearchKeys {
 public:
  // Both outlive this object. `layout` may be exchanged between two statements.
  SearchKeys(::handler *file, const std::shared_ptr<const Layout> &layout) : file_(*file), layout_(layout) {}

  // Called when the table has been opened.
  void open() { record_.resize(file_.get_table()->s->reclength); }

  // The start of all keys of `index` that have the columns of a search key; *parts: how many these are.
  void start(uint index, const uchar *key, key_part_map key_parts, std::string *out, size_t *parts) const;
  // The keys of a range of `index`. Where the range is open at an end, that end of the index stands.
  // *begin_parts: how many columns the range gives at its start.
  table::Bounds bounds(uint index, const key_range *from, const key_range *to, size_t *begin_parts) const;
  // The key of the row that a reference (handler::position()) stands for.
  std::string primary_key(const uchar *reference) const;

 private:
  size_t primary_parts_given(const KEY &key, size_t count) const;

  ::handler &file_;
  const std::shared_ptr<const Layout> &layout_;
  mutable std::vector<uchar> record_;  // that keys are made from
};

}  // namespace atoll::handler

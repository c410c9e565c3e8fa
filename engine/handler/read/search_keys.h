// Converts the server's search keys, ranges and row references to keys of the table's indexes.
#pragma once

#include "handler/server.h"

#include <memory>
#include <string>
#include <vector>

#include "handler/layout.h"
#include "table/open_table.h"
#include "table/search_bounds.h"

namespace atoll::handler {

class SearchKeys {
 public:
  // Both must outlive this object.
  SearchKeys(::handler *file, const table::OpenTable *table) : file_(*file), table_(*table) {}

  // Called when the table has been opened.
  void open() { record_.resize(file_.get_table()->s->reclength); }

  // Puts into *out the bytes with which all keys of `index` begin that match the search key. *parts: how many
  // parts of the index the search key gives.
  void start(uint index, const uchar *key, key_part_map key_parts, std::string *out, size_t *parts) const;
  // Returns the bounds of a range of `index`. Where the range is open, the bound is the start or the end of
  // the index. *begin_parts: how many parts of the index the start of the range gives.
  table::Bounds bounds(uint index, const key_range *from, const key_range *to, size_t *begin_parts) const;
  // Returns the primary key of the row whose reference (handler::position()) is `reference`.
  std::string primary_key(const uchar *reference) const;

 private:
  size_t primary_parts_given(const KEY &key, size_t count) const;

  ::handler &file_;
  const table::OpenTable &table_;
  mutable std::vector<uchar> record_;  // a buffer for the record from which a key is made
};

}  // namespace atoll::handler

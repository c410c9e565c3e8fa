// What the entries of indexes are made from, for an ALTER that builds them: stored columns of the row, and
// virtual ones, which the server's TABLE computes in its record[0]. The ALTER's thread has the TABLE to
// itself.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "handler/layout.h"
#include "handler/server.h"
#include "table/build/index_build.h"

namespace atoll::handler {

class KeySources {
 public:
  // `layout`: that of `altered`. Both outlive this object's use. `indexes`: numbers of indexes in them.
  KeySources(const Layout &layout, TABLE *altered, const std::vector<size_t> &indexes);

  // What the entries are made from: parts of an index or of the primary key, and what the expression of a
  // part names.
  const table::ColumnBytes &bytes() const { return bytes_; }
  bool has_virtual() const { return !virtual_parts_.empty(); }

  // Computes the virtual parts of the row in record[0]. Errors: kInvalid; the server has been told the
  // reason.
  Status compute() const;

  // For a message about a duplicate: puts into record[0] the row that has `primary_key` as of `snapshot`
  // (nullptr: now), or the columns' defaults if it cannot be read. Its text stands in *buffer.
  void show_row(const std::string &primary_key, const rocksdb::Snapshot *snapshot, std::string *buffer) const;

 private:
  void add(const Field *field, uint32_t bytes);
  void add_index(const KEY &key);
  void add_what_expressions_name();

  const Layout &layout_;
  TABLE *const altered_;
  table::ColumnBytes bytes_;
  std::vector<Field *> virtual_parts_;
};

}  // namespace atoll::handler

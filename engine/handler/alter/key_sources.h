// Finds the columns from which an ALTER makes the entries of new indexes: stored columns of the row, and
// virtual columns. The server computes the virtual columns in record[0] of its TABLE, which only the ALTER's
// thread uses.
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
  // `layout`: the layout of `altered`. Both must outlive this object. `indexes`: the numbers of the indexes
  // to build.
  KeySources(const Layout &layout, TABLE *altered, const std::vector<size_t> &indexes);

  // How many bytes of each stored column the entries need. The columns are those of the indexes, of the
  // primary key, and those that the expression of an indexed virtual column uses.
  const table::ColumnBytes &bytes() const { return bytes_; }
  bool has_virtual() const { return !virtual_parts_.empty(); }

  // Computes the indexed virtual columns of the row in record[0]. Errors: kInvalid; the expression has
  // already reported the reason to the server.
  Status compute() const;

  // For a message about a duplicate: reads the row with `primary_key` as of `snapshot` (nullptr: now) into
  // record[0]. If the row cannot be read, record[0] gets the defaults of the columns. BLOB columns of the
  // record point into *buffer.
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

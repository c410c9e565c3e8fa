// Encodes the key of an index of one table from a row of another table, for references between tables: the
// parent's key from a child's row, and the child's key from a parent's row. Neither index's table need be
// open.
//
//   child row ─▶ ReferenceKey(parent, its index, child, child's columns) ─▶ start of the parent's keys
//
// Two columns fit if equal values have equal keys: integers of one size and sign; CHAR and VARCHAR of one
// collation and of any lengths, except that a CHAR of a NO PAD collation fits only a CHAR of its length; all
// other types only if all that describes their values is the same. Who checks a reference needs keys in both
// directions, and thus makes two ReferenceKeys.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "table/layout.h"

namespace atoll::table {

// Why values of the two columns cannot be compared by their keys; "" if they can. It is a part of a sentence:
// "their collations are ...".
std::string why_not_comparable(const catalog::ColumnDescription &a, const catalog::ColumnDescription &b);

// Threads: any; a ReferenceKey does not change.
class ReferenceKey {
 public:
  // `index`: the number of the index of `target`; its first parts get the values of `columns` of `source`,
  // which are positions in the description of `source`. Records are those for which `source` was built.
  // `target` and `source` may be the same. Errors: kInvalid: a column does not fit, a part holds only a
  // prefix, or the index has fewer parts; the message names the columns. Also if one of the tables has no
  // description yet, or a virtual column of `source` is in no index.
  static Status make(const Layout &target, size_t index, const Layout &source,
                     const std::vector<uint16_t> &columns, std::unique_ptr<const ReferenceKey> *out);

  // Whether a value of the record is NULL. SQL then checks no reference.
  bool has_null(const uint8_t *record) const;
  // Appends the bytes with which the keys of all matching rows or entries begin. If the index has further
  // parts, or is a secondary index, keys go on behind these bytes: codec::key_after_prefix() gives the end of
  // the range. Requires: !has_null(record).
  void append(const uint8_t *record, std::string *key) const;

 private:
  ReferenceKey(std::string start, codec::KeyCodec codec, std::vector<codec::Column> sources)
      : start_(std::move(start)), codec_(std::move(codec)), sources_(std::move(sources)) {}

  std::string start_;
  codec::KeyCodec codec_;
  std::vector<codec::Column> sources_;
};

}  // namespace atoll::table

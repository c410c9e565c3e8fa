// Builds the whole table anew while other sessions write to it: its rows, and the entries of all indexes.
// This is the common base of two kinds of builds: rows under other keys (online_rekey.h), and rows under the
// same keys in another column family (online_move.h).
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "table/online/online_build.h"

namespace atoll::table {

class OnlineRebuild : public OnlineBuild {
 public:
  // During the build, writers store a large row as one value and not in pieces, because the log must hold
  // whole rows.
  bool needs_whole_rows() const override { return true; }

 protected:
  // Takes the parameters of OnlineBuild's constructor. The altered table has the same columns as the former
  // table, in records of the same form.
  using OnlineBuild::OnlineBuild;

  // Makes `wanted` the row under `key`: adds the changes of the row and of its index entries to `batch`,
  // which write_entries() writes. `wanted` is empty if no row shall have this key.
  Status settle(const std::string &key, std::string_view wanted, rocksdb::WriteBatch *batch);
  Status get(const std::string &key, std::string *value) const;  // *value is empty if there is no such key

 private:
  Status remove_former(const std::string &key, std::string_view stored, rocksdb::WriteBatch *batch);
};

}  // namespace atoll::table

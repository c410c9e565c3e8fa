// The whole table written anew while others write it: its rows, and the entries of all indexes. Here is what
// the kinds share: rows under other keys (online_rekey.h), and rows under the same keys in another column
// family (online_move.h).
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "table/online/online_build.h"

namespace atoll::table {

class OnlineRebuild : public OnlineBuild {
 public:
  // Writers store large rows whole meanwhile, as one value: the log has whole rows.
  bool needs_whole_rows() const override { return true; }

 protected:
  // The altered table has the columns of the former one, in the same records. For the rest see OnlineBuild.
  using OnlineBuild::OnlineBuild;

  // Adds to `batch` what makes `wanted` the row under `key`, with its entries. `wanted` is empty if there
  // shall be no row. write_entries() writes the batch.
  Status settle(const std::string &key, std::string_view wanted, rocksdb::WriteBatch *batch);
  Status get(const std::string &key, std::string *value) const;  // empty: there is none

 private:
  Status remove_former(const std::string &key, std::string_view stored, rocksdb::WriteBatch *batch);
};

}  // namespace atoll::table

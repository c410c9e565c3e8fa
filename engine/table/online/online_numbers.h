// Builds the whole table under hidden ids (numbers) instead of a primary key, while other sessions write
// (online_rekey.h).
//
// The scan numbers the rows in the order of their old keys. Writers know only the old keys, so a claim says
// which number the row with an old key has. The log holds rows under their old keys. A replayed row takes the
// number of its claim, or the next number if it has none. After the ALTER the claims are gone, and new rows
// get the numbers after the highest one in the table (Share::take_hidden_id).
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "table/online/online_rekey.h"

namespace atoll::table {

class OnlineNumbers final : public OnlineRekey {
 public:
  using OnlineRekey::OnlineRekey;

 private:
  // In a logged change, `key` is the old key of a row and `value` the row (empty: the row was removed).
  Status log_change(txn::Transaction *transaction, const RowImage &before, const RowImage &after) override;
  Status apply(const std::vector<Change> &changes) override;
  Status apply_last(const Change &change, rocksdb::WriteBatch *batch);

  bool knows_last_number_ = false;
  uint64_t last_number_ = 0;  // the highest number given to a row, even if that row was removed since
};

}  // namespace atoll::table

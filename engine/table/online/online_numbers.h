// The whole table under numbers instead of a primary key, built while others write (online_rekey.h).
//
// The scan numbers the rows in the order of their old keys. Writers know only the old keys, so the claims say
// which number the row of an old key has. The log holds rows under their old keys; a replayed row takes the
// number that is claimed for it, or the next one. After the ALTER, the server goes on from the last number in
// the table (Share::take_hidden_id), so numbers that were claimed and not used are lost with it.
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
  // In a logged change, `key` is the old key of a row and `value` the row (empty: removed).
  Status log_change(txn::Transaction *transaction, const RowImage &before, const RowImage &after) override;
  Status apply(const std::vector<Change> &changes) override;
  Status apply_last(const Change &change, rocksdb::WriteBatch *batch);

  bool knows_last_number_ = false;
  uint64_t last_number_ = 0;  // given to a row, whether that is still there or not
};

}  // namespace atoll::table

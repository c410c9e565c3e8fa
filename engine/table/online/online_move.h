// The whole table under the same keys in another column family, built while others write (online_rebuild.h):
// ALTER TABLE ... FORCE, another compression, and a table that leaves the shared family.
//
// A key keeps all its bytes but the prefix of its table. The log holds rows under their new keys.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "table/online/online_rebuild.h"

namespace atoll::table {

class OnlineMove final : public OnlineRebuild {
 public:
  // Takes the parameters of OnlineBuild's constructor.
  OnlineMove(Plan plan, Resources resources, BuildView *view)
      : OnlineRebuild(std::move(plan), std::move(resources), view) {}

 private:
  // In a logged change, `key` is the new key of a row and `value` the row (empty: removed).
  Status log_change(txn::Transaction *transaction, const RowImage &before, const RowImage &after) override;
  Status apply(const std::vector<Change> &changes) override;
};

}  // namespace atoll::table

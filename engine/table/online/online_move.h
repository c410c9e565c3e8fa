// Builds the whole table in another column family under the same keys, while other sessions write
// (online_rebuild.h): for ALTER TABLE ... FORCE, for another compression, and for a table that leaves the
// shared family.
//
// In the new family a key has another table prefix, and all its other bytes stay. The log holds rows under
// their new keys.
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
  // In a logged change, `key` is the new key of a row and `value` the row (empty: the row was removed).
  Status log_change(txn::Transaction *transaction, const RowImage &before, const RowImage &after) override;
  Status apply(const std::vector<Change> &changes) override;
};

}  // namespace atoll::table

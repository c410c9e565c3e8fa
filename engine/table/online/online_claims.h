// Builds the whole table in the order of another primary key, while other sessions write (online_rekey.h).
//
// Writers check only the old keys, so two rows can have the same new key for a while, until one of them
// changes. Therefore each row has a claim, which is an entry with the key "new key | old key". The log holds
// the claims that writers add and remove, with their rows. A replay first applies those claims. Then it
// writes the row of each new key that they concern: the row with the first claim, or no row if there is no
// claim. A key with two claims at the end of the build is a duplicate.
//
// A claim made by the scan holds no row: as long as the claim exists, the row is still stored under its old
// key as the scan saw it. A claim from the log holds its row, because the log records of a transaction can
// become visible shortly before its rows.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "table/online/online_rekey.h"

namespace atoll::table {

class OnlineClaims final : public OnlineRekey {
 public:
  using OnlineRekey::OnlineRekey;

  void show_duplicate() override;

 private:
  // In a logged change, `key` is the new key of a row; `value` is the length of its old key, that key, and
  // the row.
  Status log_change(txn::Transaction *transaction, const RowImage &before, const RowImage &after) override;
  Status apply(const std::vector<Change> &changes) override;
  Status find_claimed_row(const std::string &key, std::string *row);
  Status read_scanned_row(const std::string &key, const std::string &old_key, std::string *row);
};

}  // namespace atoll::table

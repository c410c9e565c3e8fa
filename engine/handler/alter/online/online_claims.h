// The whole table in the order of another primary key, built while others write (online_rekey.h).
//
// Two rows may want the same new key for a while, if one is about to change: writers keep to the old keys
// only. So there is a claim for each row, new key | old key. The log has the claims that come and go, with
// the rows. A replay first puts them into effect and then settles each new key that was touched: it gets the
// row of its first claim, or nothing. A key with two claims at the end is a duplicate.
//
// A claim of the scan has no row: as long as it stands, the row is stored as it was then. A logged claim has
// one, because a transaction's log records can be seen shortly before its rows.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "handler/alter/online/online_rekey.h"

namespace atoll::handler {

class OnlineClaims final : public OnlineRekey {
 public:
  using OnlineRekey::OnlineRekey;

  void show_duplicate() override;

 private:
  // Of a logged change, `key` is the new key of a row and `value` its old one, with its length, and the row.
  Status log_change(txn::Transaction *transaction, const RowImage &before, const RowImage &after) override;
  Status apply(const std::vector<Change> &changes) override;
  Status find_claimed_row(const std::string &key, std::string *row);
  Status read_scanned_row(const std::string &key, const std::string &old_key, std::string *row);
};

}  // namespace atoll::handler

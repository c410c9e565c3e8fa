// The whole table in the order of another primary key, built while others write: rows and the entries of all
// indexes, whose keys end with the primary key's.
//
// Two rows may want the same new key for a while, if one is about to change: writers keep to the old keys
// only. So beside the new rows there is an index of *claims*, new key | old key, one for each row; it is
// thrown away at the end. The log has the claims that come and go, with the rows. A replay first puts them
// into effect and then settles each new key that was touched: it gets the row of its first claim, or
// nothing. A key with two claims at the end is a duplicate.
//
// A claim of the scan has no row: as long as it stands, the row is stored as it was then. A logged claim has
// one, because a transaction's log records can be seen shortly before its rows.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <rocksdb/write_batch.h>

#include "handler/online_build.h"

namespace atoll::handler {

// Where an ALTER of the primary key takes the rows from, and where it keeps their claims.
struct RekeySource {
  std::string rows_start, rows_end;  // keys of the rows in the old order
  std::string claims_start;          // every claim begins so

  // `new_key`: of the row in its new order. `old_key`: in the old one.
  std::string claim(std::string_view new_key, std::string_view old_key) const;
};

class OnlineRekey final : public OnlineBuild {
 public:
  // `record_bytes`: length of a record of the table. From now on log() must be called for every change.
  OnlineRekey(std::shared_ptr<const Layout> layout, RekeySource source, size_t record_bytes);

  void show_duplicate(uint8_t *record) override;
  // A row in pieces would have to be logged and moved with them.
  bool needs_whole_rows() const override { return true; }

 private:
  // Of a logged change, `key` is the new key of a row and `value` its old one, with its length, and the row.
  Status log_change(txn::Transaction *transaction, const RowImage &before, const RowImage &after) override;
  Status apply(const std::vector<Change> &changes) override;
  Status settle(const std::string &key, rocksdb::WriteBatch *batch);
  Status find_claimed_row(const std::string &key, std::string *row);
  Status read_scanned_row(const std::string &key, const std::string &old_key, std::string *row);
  Status change_entries(const std::string &key, std::string_view row, bool put, rocksdb::WriteBatch *batch);
  Status get(const std::string &key, std::string *value) const;  // empty: there is none

  const RekeySource source_;
  std::vector<uint8_t> record_;
  std::vector<std::pair<size_t, std::string>> unique_starts_;  // of entries put by this apply(): index, start
  std::string shown_row_;
};

}  // namespace atoll::handler

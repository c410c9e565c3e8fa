// Fills what an in-place ALTER builds, from a scan of all rows: new indexes, or the table under other row
// keys. External sort, sorted files, one ingestion.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "handler/layout.h"
#include "handler/online_rekey.h"
#include "handler/server.h"

namespace atoll::handler {

class IndexBuild {
 public:
  // `layout`: of the altered table. `indexes`: those to fill, by number in the layout. `snapshot`: the rows
  // to fill them from; the caller releases it. `rekey`: set if the primary key changes; the new one, if any,
  // is then among the indexes.
  IndexBuild(THD *thd, std::shared_ptr<const Layout> layout, std::vector<size_t> indexes, TABLE *altered,
             const rocksdb::Snapshot *snapshot, const RekeySource *rekey);

  // Errors: kDuplicate (duplicate_index() says of which index; the record of `altered` holds the values that
  // clash), kInterrupted, and those of BulkLoad. After an error nothing is in the indexes.
  Status run();
  size_t duplicate_index() const { return duplicate_index_; }

 private:
  void open_streams();
  void open_row_streams();
  Status scan();
  Status add_row(std::string_view key, std::string_view row);
  Status add_rekeyed(const uint8_t *record, std::string_view old_key);
  bool is_primary(size_t index) const { return static_cast<int>(index) == layout_.primary(); }
  std::vector<Field *> virtual_parts() const;
  void show_duplicate();

  THD *thd_;
  const std::shared_ptr<const Layout> layout_ptr_;
  const Layout &layout_;
  TABLE *altered_;
  const rocksdb::Snapshot *snapshot_;
  const RekeySource *rekey_;
  lsm::Database *database_;
  std::vector<size_t> indexes_;
  std::unique_ptr<lsm::BulkLoad> load_;
  std::vector<size_t> streams_;               // of the load, by position in indexes_
  size_t rows_stream_ = 0;                    // of the load, if the primary key changes
  size_t claims_stream_ = 0;                  // likewise
  uint64_t numbered_rows_ = 0;                // if it goes
  const std::vector<Field *> virtual_parts_;  // of the indexes; their values are computed in `altered`
  std::vector<uint8_t> record_;
  std::string entry_key_, entry_value_, primary_key_, large_row_;
  size_t duplicate_index_ = MAX_KEY;
};

}  // namespace atoll::handler

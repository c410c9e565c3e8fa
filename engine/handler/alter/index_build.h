// Fills what an in-place ALTER builds, from a scan of all rows: new indexes, the table under other row keys,
// or the table in another column family. External sort, sorted files, one ingestion.
//
// The threads of the scan make the entries of their rows, and sort them. They leave it to the caller's thread
// where that needs the server's TABLE, for virtual columns, and where the rows themselves are written anew.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "handler/alter/key_sources.h"
#include "handler/layout.h"
#include "lsm/database.h"
#include "handler/alter/online/online_rekey.h"
#include "handler/read/parallel_scan.h"
#include "handler/server.h"

namespace atoll::handler {

// Whether an ALTER shall end: its statement was killed, or the thread that runs it for the engine is to stop.
bool is_build_unwanted(const THD *thd);

class IndexBuild {
 public:
  // `source`: of the table as it is. `layout`: of the altered table; the rows move if it is in another
  // family. `indexes`: those to fill, by number in the layout. `snapshot`: the rows to fill them from; the
  // caller releases it. `rekey`: set if the primary key changes. Where rows are written anew, the primary
  // key, if there is one, is among the indexes.
  IndexBuild(THD *thd, std::shared_ptr<const Layout> source, std::shared_ptr<const Layout> layout,
             std::vector<size_t> indexes, TABLE *altered, const rocksdb::Snapshot *snapshot,
             const RekeySource *rekey);

  // Errors: kDuplicate (duplicate_index() says of which index; the record of `altered` holds the values that
  // clash), kInterrupted, and those of BulkLoad. After an error nothing is in the indexes.
  Status run();
  size_t duplicate_index() const { return duplicate_index_; }

 private:
  // What a thread that makes entries has for itself; it writes to it with every row.
  struct alignas(64) Encoder {
    size_t adder = 0;  // of the load's streams
    std::vector<uint8_t> record;
    std::string entry_key, entry_value, primary_key;
  };

  ParallelScan::Request all_rows() const;
  void open_streams();
  void open_row_streams();
  Status scan();
  Status scan_here(ParallelScan *rows);
  Status scan_by_threads(ParallelScan *rows);
  Status add_stored(Encoder *encoder, std::string_view key, std::string_view stored);
  Status add_row(Encoder *encoder, std::string_view key, std::string_view row);
  Status add_rekeyed(Encoder *encoder, const uint8_t *record, std::string_view old_key);
  Status add_moved(Encoder *encoder, const uint8_t *record, std::string_view old_key);
  bool is_primary(size_t index) const { return static_cast<int>(index) == layout_.primary(); }
  bool moves() const { return source_->family() != layout_.family(); }
  bool writes_rows() const { return rekey_ != nullptr || moves(); }
  void show_duplicate();

  THD *thd_;
  const std::shared_ptr<const Layout> source_;
  const std::shared_ptr<const Layout> layout_ptr_;
  const Layout &layout_;
  TABLE *altered_;
  const rocksdb::Snapshot *snapshot_;
  const RekeySource *rekey_;
  lsm::Database *database_;
  std::vector<size_t> indexes_;
  std::unique_ptr<lsm::BulkLoad> load_;
  std::vector<size_t> streams_;  // of the load, by position in indexes_
  size_t rows_stream_ = 0;       // of the load, if rows are written
  size_t claims_stream_ = 0;     // likewise, if the primary key changes
  size_t pieces_stream_ = 0;     // likewise, if the rows move
  uint64_t numbered_rows_ = 0;   // if it goes
  const KeySources sources_;
  std::vector<Encoder> encoders_;
  Mutex large_row_mutex_;
  std::string large_row_ ATOLL_GUARDED_BY(large_row_mutex_);  // one at a time, however many threads there are
  size_t duplicate_index_ = MAX_KEY;
};

}  // namespace atoll::handler

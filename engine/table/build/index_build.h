// Fills what an in-place ALTER builds, from a scan of all rows: new indexes, the table under other row keys,
// or the table in another column family. External sort, sorted files, one ingestion.
//
// The threads of the scan make the entries of their rows, and sort them. They leave it to the caller's thread
// where that needs the server, for virtual columns, and where the rows themselves are written anew.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "lsm/figures/figures.h"
#include "lsm/load/loads.h"
#include "table/build/rekey_source.h"
#include "table/layout.h"
#include "table/scan/parallel_scan.h"

namespace atoll::table {

// By id of a stored column: how many bytes of it the entries of indexes are made from. Columns that are not
// there have no part in them.
using ColumnBytes = std::map<uint32_t, uint32_t>;
inline constexpr uint32_t kWholeColumn = UINT32_MAX;

// What a build asks of the server. The handler implements it over the TABLE of the altered table. Threads:
// the one that calls IndexBuild::run(), which is the ALTER's.
class BuildView {
 public:
  virtual ~BuildView() = default;

  // A record of the altered table, and its length.
  virtual uint8_t *record() = 0;
  virtual size_t record_bytes() const = 0;
  // What new entries are made from: parts of the indexes and of the primary key, and what the expressions of
  // virtual columns name.
  virtual const ColumnBytes &sources() const = 0;
  // Are new entries made from virtual columns?
  virtual bool has_virtual() const = 0;
  // Computes these in record(). Errors: kInvalid; the server has been told the reason.
  virtual Status compute() = 0;
  // For a message about a duplicate: puts the columns' defaults into record().
  virtual void clear_record() = 0;
  // Likewise puts the row there that has `primary_key` as of `snapshot`, or the defaults if it cannot be
  // read. The packed row stands in *buffer.
  virtual void show_row(const std::string &primary_key, const rocksdb::Snapshot *snapshot,
                        std::string *buffer) = 0;
  // Is the build to end?
  virtual bool is_unwanted() const = 0;
};

class IndexBuild {
 public:
  static constexpr size_t kNoIndex = SIZE_MAX;

  // `source`: the layout of the table as it is. `layout`: that of the altered table; the rows move if it is
  // in another family. `indexes`: those to fill, by number in the layout. `snapshot`: the rows to fill them
  // from; the caller releases it. `rekey`: set if the primary key changes. Where rows are written anew, the
  // primary key, if there is one, is among the indexes.
  struct Plan {
    std::shared_ptr<const Layout> source, layout;
    std::vector<size_t> indexes;
    const rocksdb::Snapshot *snapshot = nullptr;
    const RekeySource *rekey = nullptr;
  };
  struct Resources {
    lsm::Figures *figures = nullptr;
    lsm::Loads *loads = nullptr;
    uint64_t sort_memory_bytes = 0;
    size_t scan_threads = 1;
  };

  // What the arguments point to must outlive this object.
  IndexBuild(Plan plan, Resources resources, BuildView *view);

  // Errors: kDuplicate (duplicate_index() says of which index; the view's record holds the values that
  // clash), kInterrupted, and those of BulkLoad. After an error nothing is in the indexes.
  Status run();
  // The index of the duplicate, by number in the layout; kNoIndex: it is not known.
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
  bool moves() const { return plan_.source->family() != layout_.family(); }
  bool writes_rows() const { return plan_.rekey != nullptr || moves(); }
  void show_duplicate();

  const Plan plan_;
  const Resources resources_;
  BuildView &view_;
  const Layout &layout_;  // of the altered table
  const bool has_virtual_;
  std::unique_ptr<lsm::BulkLoad> load_;
  std::vector<size_t> streams_;  // of the load, by position in Plan::indexes
  size_t rows_stream_ = 0;       // of the load, if rows are written
  size_t claims_stream_ = 0;     // likewise, if the primary key changes
  size_t pieces_stream_ = 0;     // likewise, if the rows move
  uint64_t numbered_rows_ = 0;   // if it goes
  std::vector<Encoder> encoders_;
  Mutex large_row_mutex_;
  std::string large_row_ ATOLL_GUARDED_BY(large_row_mutex_);  // one at a time, however many threads there are
  size_t duplicate_index_ = kNoIndex;
};

}  // namespace atoll::table

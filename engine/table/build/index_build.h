// Builds for an in-place ALTER, from a scan of all rows: new indexes, the table under other row keys, or the
// table in another column family. The entries are sorted externally, written to sorted files and ingested in
// one step.
//
// The threads of the scan make and sort the entries of the rows that they read. The caller's thread does so
// instead if virtual columns must be computed, which needs the server, or if the rows themselves are written
// anew.
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

// By id of a stored column: how many bytes of its value are needed to make index entries. Columns that are
// not in the map are not needed.
using ColumnBytes = std::map<uint32_t, uint32_t>;
inline constexpr uint32_t kWholeColumn = UINT32_MAX;

// The functions of the server that a build needs. The handler implements them over the TABLE of the altered
// table. Threads: only the thread of the ALTER, which calls IndexBuild::run().
class BuildView {
 public:
  virtual ~BuildView() = default;

  // A record of the altered table, in which the build makes entries, and the record's length.
  virtual uint8_t *record() = 0;
  virtual size_t record_bytes() const = 0;
  // The columns from which new entries are made: those of the built indexes and of the primary key, and those
  // that the expressions of indexed virtual columns use.
  virtual const ColumnBytes &sources() const = 0;
  // Whether new entries are made from virtual columns. Then only the thread of the ALTER can make entries.
  virtual bool has_virtual() const = 0;
  // Computes the virtual columns in record(). Errors: kInvalid; the server has been told the reason.
  virtual Status compute() = 0;
  // For a message about a duplicate: puts the columns' defaults into record().
  virtual void clear_record() = 0;
  // For such a message, too: puts the row that has `primary_key` in `snapshot` into record(), or the columns'
  // defaults if the row cannot be read. *buffer gets the packed row, because BLOBs of the record point into
  // it.
  virtual void show_row(const std::string &primary_key, const rocksdb::Snapshot *snapshot,
                        std::string *buffer) = 0;
  // Whether the build must end early, for example because its statement was killed.
  virtual bool is_unwanted() const = 0;
};

// One build of an ALTER, whose thread makes it, calls run() once, and destroys it. The threads of the
// scan end within run().
class IndexBuild {
 public:
  static constexpr size_t kNoIndex = SIZE_MAX;

  // `source`: the layout of the table before the ALTER. `layout`: the altered table's; the rows move if
  // it is in another family. `indexes`: the indexes to fill, by number in `layout`; they include the primary
  // key, if there is one, when the rows are written anew. `snapshot`: shows the rows from which the indexes
  // are filled; the caller releases it. `rekey`: set if the primary key changes.
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
    // Called before entries are ingested as table files, which are not in the log: syncs the log. Entries of
    // a few rows go through the log, and need no sync of their own.
    std::function<Status()> before_files = [] { return Status::Ok(); };
  };

  // The objects to which the arguments point must outlive this object.
  IndexBuild(Plan plan, Resources resources, BuildView *view);

  // Errors: kDuplicate (duplicate_index() says in which index; the view's record holds the values that
  // clash), kInterrupted, and as BulkLoad. After an error the indexes are empty.
  Status run();
  // Whether run() has made table files of entries.
  bool has_entries() const { return load_ != nullptr && load_->has_ingested(); }
  // Waits until the bucket has the entries, and those of all builds that have run before. Requires:
  // has_entries(). Errors: as BulkLoad::wait_for_bucket().
  Status wait_for_bucket();
  // The index of the duplicate, by number in the layout; kNoIndex: it is not known.
  size_t duplicate_index() const { return duplicate_index_; }

 private:
  // The buffers of one thread that makes entries. They are aligned to cache lines, because every thread
  // writes to its buffers with every row.
  struct alignas(64) Encoder {
    size_t adder = 0;  // the thread's number among those that add to the load (BulkLoad::add())
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
  std::vector<size_t> streams_;  // the load's streams, by position in Plan::indexes
  size_t rows_stream_ = 0;       // the load's stream of rows, if rows are written anew
  size_t claims_stream_ = 0;     // the load's stream of claims, if the primary key changes
  size_t pieces_stream_ = 0;     // the load's stream of pieces of large rows, if the rows move
  uint64_t numbered_rows_ = 0;   // rows that have got a hidden id, if the primary key is dropped
  std::vector<Encoder> encoders_;
  Mutex large_row_mutex_;
  std::string large_row_ ATOLL_GUARDED_BY(large_row_mutex_);  // one buffer for all threads, to limit memory
  size_t duplicate_index_ = kNoIndex;
};

}  // namespace atoll::table

// What a reader shows: a server that reads the database of another server, the writer, without owning it
// (atoll_role=reader). The reader takes one view after the other. A view is everything that was in the bucket
// at a moment: rows and definitions belong together, and it never changes.
//
// A transaction reads one view from its first statement to its end, under READ COMMITTED each statement one
// (handler/session/session.h). Whoever uses a table of a view holds the view; the last holder closes it. The
// writer hears nothing of it.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "bridge/reader.h"
#include "catalog/catalog.h"
#include "engine/settings.h"
#include "lsm/past/past_database.h"

namespace atoll::engine {

class View;
using ViewPtr = std::shared_ptr<const View>;

// Threads: any.
class View {
 public:
  View(std::shared_ptr<atoll_reader> reader, std::unique_ptr<lsm::PastDatabase> past,
       std::unique_ptr<catalog::Catalog> catalog);

  // As Catalog::find() and Catalog::list(). Each returned pointer holds the view.
  static catalog::TablePtr find(const ViewPtr &view, std::string_view database, std::string_view name);
  static std::vector<catalog::TablePtr> list(const ViewPtr &view, std::string_view database);
  // Only functions that change nothing may be called. A TablePtr from it does not hold the view.
  const catalog::Catalog &catalog() const { return *catalog_; }
  // Whether both views have a table of that name, with the same definition (.frm and .par). For a partition,
  // the definition is that of its table.
  static bool agree(const View &a, const View &b, std::string_view database, std::string_view name);
  // nullptr: there is no such family.
  lsm::Family *find_family(uint32_t id) const { return past_->find_family(id); }
  // The last GTID of each replication domain among the commits.
  const std::vector<lsm::Gtid> &gtids() const { return gtids_; }
  // When the newest commit was made, in microseconds since 1970; 0: there is no commit.
  uint64_t commit_us() const { return past_->commit_us(); }

 private:
  const std::shared_ptr<atoll_reader> reader_;  // closed after the state
  const std::unique_ptr<lsm::PastDatabase> past_;
  const std::unique_ptr<catalog::Catalog> catalog_;
  const std::vector<lsm::Gtid> gtids_;
};

// The views of one reader, which its engine owns. Threads: any; take(), show() and settle() on one at a time.
class Views {
 public:
  // Opens the bucket of `config` for reading. `database` must live longer than this object and all views; it
  // lends them its caches. `directory`: the local directory for the files of the views, which is emptied.
  // Errors, requests: as atoll_reader_open(); a missing database is kUnavailable, because the writer may
  // still create it.
  static Status open(const atoll_store_config &config, lsm::Database *database, std::string directory,
                     std::unique_ptr<Views> *out);

  // nullptr: before the first show(), and of a reader that has become the writer.
  ViewPtr newest() const;
  // The last view of which settle() was called: a statement that begins now reads it or a newer one. nullptr:
  // as newest().
  ViewPtr settled() const;

  // Takes a view of what the bucket has now, if that is more than the newest view has. *taken: the view,
  // which newest() returns only after show(); nullptr: there is nothing new. Errors, requests: as
  // atoll_reader_look() and lsm::Database::open_past(); kUnavailable when the rows must be masked first.
  Status take(ViewPtr *taken);
  // From now on newest() returns `view`. A statement that has opened a table with a former definition may
  // still choose the view in which the table has it (handler/session/bound_view.h).
  void show(ViewPtr view);
  // Called when the server has closed all tables that have another definition in the newest view than before.
  void settle();

  // Waits until settled() is another view than `known`, at most until `end`. Returns it.
  ViewPtr wait_for_other(const ViewPtr &known, std::chrono::steady_clock::time_point end) const;

  // kReadOnly: the error for each change of a table. It names the writer. No request.
  Status why_read_only() const;
  // The server that wrote last, as take() has found it; "" when it is not known.
  std::string writer() const;
  // How many milliseconds ago it was known that the newest view had everything in the bucket.
  uint64_t lag_ms() const;
  uint64_t count() const { return count_; }  // how many views were shown
  void read_stats(atoll_store_stats *out) const { atoll_reader_get_stats(reader_.get(), out); }

 private:
  Views(std::shared_ptr<atoll_reader> reader, lsm::Database *database, std::string url,
        std::string directory);
  Status open_view(const std::string &directory, ViewPtr *out) const;
  void note_writer();

  const std::shared_ptr<atoll_reader> reader_;
  lsm::Database *const database_;
  const std::string url_, directory_;
  uint64_t opened_ = 0;
  std::atomic<uint64_t> count_{0};
  // When the bucket was asked last for what it has, with an answer that the newest view has.
  std::atomic<int64_t> current_at_ms_;
  int64_t taken_at_ms_ = 0;  // when take() asked the bucket for the view that show() has not got yet
  mutable Mutex mutex_;
  mutable Condition changed_;
  ViewPtr newest_ ATOLL_GUARDED_BY(mutex_), settled_ ATOLL_GUARDED_BY(mutex_);
  std::string writer_ ATOLL_GUARDED_BY(mutex_);
};

}  // namespace atoll::engine

// The engine without a MariaDB server: bucket, database, transactions and catalog, which are opened and
// closed together. The plugin opens one engine for the server; a test opens one on a temporary directory.
//
// The engine has one of two roles. The *writer* owns the database in the bucket, through a store. A *reader*
// (views.h) shows what another server writes there: it has no store; its own database and catalog, which only
// serve TEMPORARY tables, are local and emptied at each start; and its tables are those of the views.
//
// Life: open() opens store, database, transactions and catalog in this order; the destructor closes them in
// reverse order. Threads: any, between open() and the destructor.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "bridge/objstore.h"
#include "catalog/catalog.h"
#include "engine/commit_gate.h"
#include "engine/mounts.h"
#include "engine/settings.h"
#include "engine/views.h"
#include "lsm/database.h"
#include "txn/transaction.h"

namespace atoll::engine {

// What the caller of open() must provide. All pointers must stay valid for as long as the engine exists,
// except `start` and `opener`, which only open() reads.
struct Options {
  const StartSettings *start = nullptr;
  const Settings *settings = nullptr;
  const atoll_opener *opener = nullptr;  // what earlier attempts to open found out; null: nothing is kept
  std::string server_id;                 // shows other servers which process owns the bucket
  // Reads the settings of the connection `user`. nullptr: every connection has the default settings.
  StatementSettings (*statement_settings)(void *user) = nullptr;
  CommitGate::Warn warn = [](const std::string &) {};
};

// One open database with all its parts. Its opener destroys it, after all others have stopped
// using it; running.h tells the handler which engine runs in this process.
class Engine {
 public:
  // Opens the bucket, the database, the transactions and the catalog; for a reader, also its first view.
  // *has_claimed: true when the bucket was claimed with a new epoch, even if a later step failed. Errors: as
  // atoll_store_open() or Views::open() and Views::take(), lsm::Database::open() and
  // catalog::Catalog::open(), with the name of the step. Requests: those of atoll_store_open(); of a reader,
  // those of its first view.
  static Status open(const Options &options, std::unique_ptr<Engine> *out, bool *has_claimed);
  // Flushes the memtables to local disk, and publishes for a limited time. What could not be published stays
  // on local disk, and a warning in the log says so. Requires: no thread uses the database, the transactions
  // or the catalog any more.
  ~Engine();
  Engine(const Engine &) = delete;
  Engine &operator=(const Engine &) = delete;

  lsm::Database *database() const { return database_.get(); }
  txn::Manager *transactions() const { return transactions_.get(); }
  catalog::Catalog *catalog() const { return catalog_.get(); }
  Mounts *mounts() const { return mounts_.get(); }
  // nullptr: this server is no reader.
  Views *views() const { return views_.get(); }
  // The code in plugin/ needs the store, to show its statistics and to change its settings. nullptr: this
  // server is a reader.
  atoll_store *store() const { return store_; }
  const CommitGate &gate() const { return *gate_; }

  const Settings &settings() const { return *settings_; }
  const std::string &url() const { return url_; }  // that of the bucket, as atoll_url has it
  // Returns the settings of the connection `user`. Reading them once per statement is enough
  // (handler::Session::settings()).
  StatementSettings statement_settings(void *user) const;

  // kOk: this server is allowed to change tables. This costs two atomic loads. Errors: kReadOnly
  // (atoll_read_only is set, or the server is a reader), kFenced (another server owns the bucket now).
  Status may_write() const;
  // Whether open() rebuilt the local files from the bucket.
  bool was_restored() const { return store_ != nullptr && atoll_store_was_restored(store_) != 0; }
  // Fills the numbers that SHOW STATUS shows. A reader has those of its requests and its part cache; the
  // others are 0.
  void read_stats(atoll_store_stats *out) const;
  // Returns the newest GTID of each replication domain among the commits that the database has.
  std::vector<lsm::Gtid> newest_gtids() const;
  // Called when the server's recovery has committed a prepared transaction. With atoll_durability=async, new
  // commits then wait until the bucket has the log up to here (atoll_store_note_recovered()).
  void note_recovered() const {
    if (store_ != nullptr) atoll_store_note_recovered(store_);
  }
  // Called before the engine is closed. From now on no thread waits for room in the upload backlog, because
  // such a wait would delay the close.
  void stop_waiting() const {
    if (store_ != nullptr) atoll_store_stop_waiting(store_);
  }

  // The size of the part cache in bytes: Settings::cache_bytes, or half of the disk if that is less. In the
  // second case a warning is logged.
  uint64_t fitting_cache_bytes() const;

  // How many bytes of table files may wait for their upload: Settings::backlog_bytes_max, or an eighth of the
  // disk if that is less.
  uint64_t fitting_backlog_bytes() const;

 private:
  explicit Engine(const Options &options);
  Status with_config(const Options &options, const std::string &local_dir,
                     const std::function<Status(const atoll_store_config &)> &open) const;
  Status open_store(const Options &options);
  Status open_database(const std::string &base_dir);
  Status open_views(const Options &options);
  void close();

  const Settings *settings_;
  StatementSettings (*statement_settings_)(void *user);
  const std::string url_;
  const std::string base_dir_;
  const bool is_local_bucket_;
  atoll_store *store_ = nullptr;
  std::unique_ptr<lsm::Database> database_;
  std::unique_ptr<txn::Manager> transactions_;
  std::unique_ptr<catalog::Catalog> catalog_;
  std::unique_ptr<Mounts> mounts_;
  std::unique_ptr<Views> views_;
  std::unique_ptr<CommitGate> gate_;
};

}  // namespace atoll::engine

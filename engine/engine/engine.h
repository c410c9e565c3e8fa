// The engine without a server: the bucket, the database, the transactions and the catalog, opened and closed
// together. The plugin opens one for the server; a test opens one on a temporary directory.
//
// Life: open() opens the parts in the order store, database, transactions, catalog; the destructor closes
// them in reverse order. Threads: any, between open() and the destructor.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/status.h"
#include "bridge/objstore.h"
#include "catalog/catalog.h"
#include "engine/commit_gate.h"
#include "engine/mounts.h"
#include "engine/settings.h"
#include "lsm/database.h"
#include "txn/transaction.h"

namespace atoll::engine {

// What an engine needs from those who run it. Pointers must stay valid as long as the engine lives, except
// `start` and `opener`, which open() alone reads.
struct Options {
  const StartSettings *start = nullptr;
  const Settings *settings = nullptr;
  const atoll_opener *opener = nullptr;  // what former tries to open have learnt; may be null
  std::string server_id;                 // names this process to others that want the bucket
  // Reads the settings of the connection `user`; null: the defaults hold.
  StatementSettings (*statement_settings)(void *user) = nullptr;
  CommitGate::Warn warn = [](const std::string &) {};
};

class Engine {
 public:
  // Opens everything. *has_claimed: an epoch of the bucket was claimed, also when a later step failed.
  // Errors: those of atoll_store_open(), lsm::Database::open() and catalog::Catalog::open(), with the step.
  // Requests: those of atoll_store_open().
  static Status open(const Options &options, std::unique_ptr<Engine> *out, bool *has_claimed);
  // Flushes and publishes, each for a bounded time. What could not be published stays on local disk and is
  // logged. Requires: nobody uses the parts any more.
  ~Engine();
  Engine(const Engine &) = delete;
  Engine &operator=(const Engine &) = delete;

  lsm::Database *database() const { return database_.get(); }
  txn::Manager *transactions() const { return transactions_.get(); }
  catalog::Catalog *catalog() const { return catalog_.get(); }
  Mounts *mounts() const { return mounts_.get(); }
  // For plugin/, which shows and sets what concerns the bucket.
  atoll_store *store() const { return store_; }
  const CommitGate &gate() const { return *gate_; }

  const Settings &settings() const { return *settings_; }
  // Reads the settings of the connection `user`: once per statement is enough (handler::Session::settings()).
  StatementSettings statement_settings(void *user) const;

  // Whether this server may change tables. Costs two atomic loads when all is well. Errors: kReadOnly (it was
  // told not to, atoll_read_only), kFenced (another server owns the bucket now).
  Status may_write() const;
  // Whether open() rebuilt the local files from the bucket.
  bool was_restored() const { return atoll_store_was_restored(store_) != 0; }
  // The server's recovery has committed a prepared transaction: see atoll_store_note_recovered().
  void note_recovered() const { atoll_store_note_recovered(store_); }
  // From now on nobody waits for room in the upload backlog: the engine is about to be closed.
  void stop_waiting() const { atoll_store_stop_waiting(store_); }

  // The size of the part cache: Settings::cache_bytes, or half of the disk if that is less; then the log says
  // so.
  uint64_t fitting_cache_bytes() const;

 private:
  explicit Engine(const Options &options);
  Status open_store(const Options &options);
  Status open_database(const std::string &base_dir);
  void close();

  const Settings *settings_;
  StatementSettings (*statement_settings_)(void *user);
  const std::string base_dir_;
  const bool is_local_bucket_;
  atoll_store *store_ = nullptr;
  std::unique_ptr<lsm::Database> database_;
  std::unique_ptr<txn::Manager> transactions_;
  std::unique_ptr<catalog::Catalog> catalog_;
  std::unique_ptr<Mounts> mounts_;
  std::unique_ptr<CommitGate> gate_;
};

}  // namespace atoll::engine

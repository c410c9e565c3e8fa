// Moves tables and partitions that have outgrown the shared column family into a column family of their own,
// while statements use them. The size and the statistics of a table are exact only when its files have no
// rows of other tables, and only such a table can be moved or cloned by its files.
//
// A thread checks ten times a second whether the shared family has grown, and only if it has, reads the sizes
// of its tables. A move is an ALTER TABLE ... FORCE (table/online/online_move.h), which needs the table for
// itself for a moment at its beginning and at its end. When a transaction holds the table for longer than a
// second, the mover gives the move up and tries it again later. It also gives up when the bucket cannot be
// reached, because other statements may wait for the move, and the bucket may be unreachable for hours.
#pragma once

#include <chrono>
#include <map>
#include <string>
#include <vector>

#include "plugin/host/background.h"

namespace atoll::engine {
class Engine;
}

namespace atoll::plugin {

class TableMover {
 public:
  TableMover();
  // Interrupts a running move; its table stays in the shared family.
  ~TableMover() = default;

  // The number of tables and partitions that were moved since the start of the server.
  static uint64_t moved();

 private:
  using Clock = std::chrono::steady_clock;
  struct Table {
    std::string database, name;  // as SQL writes them, not as in file names
    auto operator<=>(const Table &) const = default;
  };
  struct Retry {
    Clock::time_point due;
    std::chrono::seconds wait{0};  // how long the mover waits before this attempt; 0: none has failed yet
  };

  // Watches whether table files that wait for their upload get into the bucket.
  class Bucket {
   public:
    // True when table files wait for their upload, but nothing was uploaded for kBucketPatience. Must be
    // called often, because each call compares the uploaded bytes with those at the last call.
    bool is_away(const engine::Engine *running);

   private:
    uint64_t bytes_uploaded_ = 0;                // the store's uploaded bytes at the last call of is_away()
    Clock::time_point moved_on_ = Clock::now();  // when is_away() last saw an upload, or no waiting file
  };

  void look();
  bool is_worth_looking(engine::Engine *running, uint64_t bytes_max);
  // Returns the tables that have outgrown the shared family, sorted, without those that still wait for their
  // next attempt.
  std::vector<Table> outgrown(engine::Engine *running, uint64_t bytes_max) const;
  void forget_due_retries_but(const std::vector<Table> &outgrown);
  void move(const engine::Engine *running, const Table &table, uint64_t bytes_max);
  void put_off(const Table &table, unsigned error, const std::string &message);

  // Only the thread of background_ uses the members from here on.
  // The size of the shared family when the sizes of its tables were last read; less if it has shrunk since.
  uint64_t looked_at_bytes_ = 0;
  uint64_t looked_with_limit_ = 0;  // bytes_max when the sizes of the tables were last read
  Clock::time_point not_before_;    // the sizes of the tables are not read before this time
  std::map<Table, Retry> retries_;
  Bucket bucket_;
  Background background_;  // last, so that its thread ends before the other members are destroyed
};

}  // namespace atoll::plugin

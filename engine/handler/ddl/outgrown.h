// Finds tables that have outgrown the shared column family, and limits the ALTER TABLE ... FORCE that moves
// them (plugin/host/table_mover.h) to such tables.
#pragma once

#include <cstdint>

#include "catalog/catalog.h"

struct TABLE;

namespace atoll::handler {

// While this object exists, an ALTER TABLE ... FORCE of the calling thread moves only a table or partition
// that takes more than `bytes_max` in the shared family, and leaves the other partitions of the table as they
// are. Snapshots that are older than the move can still read the table, because no user has asked for the
// move.
class MoveOfOutgrown {
 public:
  explicit MoveOfOutgrown(uint64_t bytes_max);
  ~MoveOfOutgrown();
  MoveOfOutgrown(const MoveOfOutgrown &) = delete;
  MoveOfOutgrown &operator=(const MoveOfOutgrown &) = delete;

  // Whether the calling thread has a MoveOfOutgrown.
  static bool is_running();
  // Counts a table or partition that the calling thread's ALTER has moved.
  static void note_moved();
  uint32_t moved() const;
  // Whether the calling thread has a MoveOfOutgrown and this table or partition takes more than its
  // `bytes_max` in the shared family. The thread's ALTER must then move it to a family of its own.
  static bool concerns(const catalog::TableDef &def);
};

// Whether a new table gets a family of its own at once, because it has a MEDIUMBLOB or LONGBLOB column. Such
// a table would outgrow the shared family within seconds of an import, and to move it then would cost more
// than a third of the import's CPU time and of the bytes that it writes (bench/blob.py). False when there are
// already so many families that each further one is expensive.
bool will_outgrow(const TABLE &table);

// Whether the table or partition takes more than `bytes_max` in the shared family, with its indexes. Reads at
// most that many bytes, and none when the table is far smaller.
bool has_outgrown(const catalog::TableDef &def, uint64_t bytes_max);

}  // namespace atoll::handler

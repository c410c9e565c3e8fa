// Makes the mark of a commit (lsm/commit_mark.h): the GTID and the binary log position, which the server
// knows and which the commit's record in RocksDB's log shall contain.
#pragma once

#include "lsm/commit_mark.h"

class THD;

namespace atoll::handler {

// What a connection wrote to the binary log last.
struct BinlogWrite {
  lsm::Gtid gtid;
  lsm::BinlogPosition end;  // zeros: unknown; the server forgets it when the transaction is over
  bool operator==(const BinlogWrite &) const = default;
  // Requires: called on the thread of `thd`, or on the one that calls commit_ordered() for it.
  static BinlogWrite of(THD *thd);
};

// The mark of a commit whose events the server has written as `write`: its GTID, and the position if the
// server still knows it.
lsm::CommitMark mark_of_binlogged(const BinlogWrite &write);

// The mark of a commit that `thd` does not write to the binary log. On a replica it has the GTID from the
// relay log.
lsm::CommitMark mark_of_unlogged(THD *thd);

// The mark of a two-phase commit. `before`: BinlogWrite::of(thd) at the prepare, before the server wrote the
// events of this transaction.
lsm::CommitMark mark_of_prepared(THD *thd, const BinlogWrite &before);

// The mark of a transaction that another connection, or a former process, has prepared: of XA COMMIT, or of a
// commit that the server's recovery decides (thd is nullptr, or its statement is not XA COMMIT).
lsm::CommitMark mark_by_xid(THD *thd);

}  // namespace atoll::handler

// What the server knows of a commit that its record in the log shall say (lsm/commit_mark.h).
#pragma once

#include "lsm/commit_mark.h"

class THD;

namespace atoll::handler {

// What a connection wrote to the binary log last.
struct BinlogWrite {
  lsm::Gtid gtid;
  lsm::BinlogPosition end;  // zeros: the server forgot it, which it does once the transaction is over
  bool operator==(const BinlogWrite &) const = default;
  // Requires: the thread of `thd`, or the one that calls commit_ordered() for it.
  static BinlogWrite of(THD *thd);
};

// The mark of a commit whose events are `write`: its GTID, and the position if the server still knows it.
lsm::CommitMark mark_of_binlogged(const BinlogWrite &write);

// The mark of a commit that `thd` does not write to the binary log. On a replica, the GTID is that from the
// relay log.
lsm::CommitMark mark_of_unlogged(THD *thd);

// The mark of a two-phase commit. `before`: BinlogWrite::of(thd) at the prepare, before the server wrote the
// events of this transaction.
lsm::CommitMark mark_of_prepared(THD *thd, const BinlogWrite &before);

// The mark of a transaction that another connection, or a former process, has prepared: of XA COMMIT, or of a
// commit that the server's recovery decides (thd is nullptr, or its statement is not XA COMMIT).
lsm::CommitMark mark_by_xid(THD *thd);

}  // namespace atoll::handler

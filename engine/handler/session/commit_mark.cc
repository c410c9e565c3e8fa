// See commit_mark.h.
#include "handler/server.h"

#include "handler/session/commit_mark.h"

#include <log.h>
#include <rpl_rli.h>

#include <cstdlib>
#include <cstring>

// Exported by the server for storage engines, declared by none of its public headers. Source: sql/log.cc.
extern void mysql_bin_log_commit_pos(THD *thd, ulonglong *out_pos, const char **out_file);

namespace atoll::handler {
namespace {

lsm::Gtid from_server(const rpl_gtid &gtid) { return {gtid.domain_id, gtid.server_id, gtid.seq_no}; }

// The number that ends the name of a binary log: 7 of "mysql-bin.000007".
uint64_t file_number(const char *name) {
  const char *dot = name == nullptr ? nullptr : std::strrchr(name, '.');
  return dot == nullptr ? 0 : std::strtoull(dot + 1, nullptr, 10);
}

}  // namespace

BinlogWrite BinlogWrite::of(THD *thd) {
  const char *file = nullptr;
  ulonglong offset = 0;
  mysql_bin_log_commit_pos(thd, &offset, &file);
  return {from_server(thd->get_last_commit_gtid()), {offset == 0 ? 0 : file_number(file), offset}};
}

lsm::CommitMark mark_of_binlogged(const BinlogWrite &write) {
  lsm::CommitMark mark;
  if (write.gtid.sequence != 0) mark.gtid = write.gtid;
  if (write.end.offset != 0) mark.binlog = write.end;
  return mark;
}

// The sub_id is not 0 while the thread applies an event group that has a GTID. Source: sql/rpl_rli.h.
lsm::CommitMark mark_of_unlogged(THD *thd) {
  lsm::CommitMark mark;
  const rpl_group_info *group = thd->rgi_slave;
  if (group != nullptr && group->gtid_sub_id != 0) mark.gtid = from_server(group->current_gtid);
  return mark;
}

// Only a position that differs from `before` belongs to this commit. The server forgets the position of an XA
// transaction before its engines commit. For a transaction WITH CONSISTENT SNAPSHOT, the server holds the
// position of the snapshot until the commit.
lsm::CommitMark mark_of_prepared(THD *thd, const BinlogWrite &before) {
  BinlogWrite now = BinlogWrite::of(thd);
  if (now.end == before.end) now.end = {};
  const bool is_logged = now.gtid != before.gtid || now.end.offset != 0;
  return is_logged ? mark_of_binlogged(now) : mark_of_unlogged(thd);
}

// The server writes XA COMMIT to the binary log before it asks the engines to commit, so the connection's
// last GTID is that of XA COMMIT.
lsm::CommitMark mark_by_xid(THD *thd) {
  if (thd == nullptr || thd_sql_command(thd) != SQLCOM_XA_COMMIT) {
    lsm::CommitMark mark;
    mark.is_recovered = true;
    return mark;
  }
  if (thd->is_current_stmt_binlog_disabled()) return mark_of_unlogged(thd);
  return mark_of_binlogged({from_server(thd->get_last_commit_gtid()), {}});
}

}  // namespace atoll::handler

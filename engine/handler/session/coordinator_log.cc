#include "handler/server.h"

#include <sys/stat.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <string>
#include <unordered_set>
#include <vector>

#include <log.h>
#include <mysqld.h>
#include <sql_plugin.h>

#include "base/log.h"
#include "handler/session/coordinator_log.h"
#include "handler/handlerton.h"
#include "handler/server/compat/participant.h"

namespace atoll::handler {
namespace {

using DecidedXids = std::unordered_set<my_xid>;

// The format of tc.log: four bytes of magic, the number of engines, then the XIDs of decided transactions, 8
// bytes each, at multiples of 8. An XID of 0 marks a free slot. Source: sql/log.cc.
constexpr unsigned char kMagic[] = {254, 0x23, 0x05, 0x74};

DecidedXids read_coordinator_log() {
  char path[FN_REFLEN];
  fn_format(path, opt_tc_log_file, mysql_data_home, "", MY_UNPACK_FILENAME);
  std::ifstream file(path, std::ios::binary);
  const std::string bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  DecidedXids decided;
  if (bytes.size() < sizeof(my_xid) || std::memcmp(bytes.data(), kMagic, sizeof(kMagic)) != 0) return decided;
  for (size_t at = sizeof(my_xid); at + sizeof(my_xid) <= bytes.size(); at += sizeof(my_xid)) {
    my_xid xid;
    std::memcpy(&xid, bytes.data() + at, sizeof(xid));
    if (xid != 0) decided.insert(xid);
  }
  return decided;
}

// Whether the newest file that `index` names was not closed in order. False: there is no such file.
//
// A file of the binary log begins with four bytes of magic and a format description event. The two bytes of
// flags in this event's header, at offset 17, have bit 0 as long as a process has the file open. Source:
// sql/log_event.h (FLAGS_OFFSET, LOG_EVENT_BINLOG_IN_USE_F).
bool binary_log_is_open(const char *index) {
  constexpr size_t kFlagsAt = 4 + 17;
  std::ifstream names(index == nullptr ? "" : index);
  std::string line, newest;
  while (std::getline(names, line))
    if (!line.empty()) newest = line;
  if (newest.empty()) return false;
  char start[kFlagsAt + 1] = {};
  std::ifstream file(newest, std::ios::binary);
  return !file.read(start, sizeof(start)) || (start[kFlagsAt] & 1) != 0;
}

struct Recovery {
  DecidedXids decided;
  size_t committed = 0;
};

void commit_decided_in(handlerton *engine, Recovery *recovery) {
  if (engine->recover == nullptr || engine->commit_by_xid == nullptr) return;
  std::vector<XID> prepared(1024);
  const auto length = static_cast<uint>(prepared.size());
  for (int found = static_cast<int>(length); found == static_cast<int>(length);) {
    found = recover_of(engine, prepared.data(), length);
    for (int i = 0; i < found; i++) {
      if (!recovery->decided.contains(prepared[i].get_my_xid())) continue;
      if (commit_by_xid_of(engine, &prepared[i]) == 0) {
        recovery->committed++;
      } else {
        log_error("tc.log says that transaction " + std::to_string(prepared[i].get_my_xid()) +
                  " was committed, but an engine could not do so; the server rolls it back there");
      }
    }
  }
}

my_bool commit_decided_in_plugin(THD *, plugin_ref engine, void *recovery) {
  commit_decided_in(plugin_hton(engine), static_cast<Recovery *>(recovery));
  return FALSE;
}

}  // namespace

void commit_decided_transactions() {
  if (opt_bin_log || tc_heuristic_recover != 0) return;
  Recovery recovery{read_coordinator_log()};
  if (recovery.decided.empty()) return;
  plugin_foreach(nullptr, commit_decided_in_plugin, MYSQL_STORAGE_ENGINE_PLUGIN, &recovery);
  if (recovery.committed > 0) {
    log_info("committed " + std::to_string(recovery.committed) +
             " prepared transactions that tc.log says were decided before the crash");
  }
}

bool has_undecided_log() {
  if (opt_bin_log) return binary_log_is_open(mysql_bin_log.get_index_fname());
  struct stat about;
  return opt_tc_log_file != nullptr && *opt_tc_log_file != '\0' && stat(opt_tc_log_file, &about) == 0 &&
         about.st_size > 0;
}

bool recovery_may_commit() { return opt_bin_log || !read_coordinator_log().empty(); }

}  // namespace atoll::handler

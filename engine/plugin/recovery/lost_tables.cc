// See lost_tables.h.
#include "plugin/recovery/lost_tables.h"

#include <string_view>

#include "base/file.h"
#include "plugin/recovery/definition_files.h"

namespace atoll::plugin {
namespace {

namespace fs = std::filesystem;

// The file in which mariadb-backup stores the position of a backup: the first name in 10.11, the second in
// 11.1 and later.
constexpr const char *kBackupNotes[] = {"xtrabackup_info", "mariadb_backup_info"};

std::string restore_command(const std::string &backup_gtid) {
  const std::string moment = backup_gtid.empty() ? "--at MOMENT" : "--gtid " + backup_gtid;
  return "`atollctl restore URL " + moment + " --to NEWURL`";
}

}  // namespace

LostTables find_lost_tables(const catalog::Catalog &catalog, const fs::path &data_dir, uint8_t own_type) {
  LostTables lost;
  each_own_definition(data_dir, own_type, [&](const OwnDefinition &found) {
    if (catalog::is_internal(found.name) || catalog.find(found.database, found.name)) return;
    lost.count++;
    if (lost.example.empty()) lost.example = found.database + "/" + found.name;
  });
  return lost;
}

// The file of mariadb-backup has a line like this: binlog_pos = filename 'bin.000001', position '1118', GTID
// of the last change '0-1-5'
std::string gtid_of_backup(const fs::path &data_dir) {
  constexpr std::string_view kBefore = "GTID of the last change '";
  for (const char *name : kBackupNotes) {
    const std::string note = content_of(data_dir / name);
    const size_t found = note.find(kBefore);
    if (found == std::string::npos) continue;
    const size_t begin = found + kBefore.size();
    const size_t end = note.find_first_of("'\n", begin);
    return note.substr(begin, end == std::string::npos ? end : end - begin);
  }
  return {};
}

std::string lost_tables_message(const LostTables &lost, const std::string &backup_gtid,
                                const std::string &url, bool came_from_bucket) {
  const std::string backup = backup_gtid.empty()
                                 ? std::string()
                                 : "This data directory is a backup with GTID position " + backup_gtid + ". ";
  if (came_from_bucket) {
    if (backup.empty()) return {};
    return backup + "Its ATOLL tables are not: they are as " + url +
           " has them, which may be later. For the tables of the backup stop the server, run " +
           restore_command(backup_gtid) +
           ", remove #atoll from the directory, and start with atoll_url=NEWURL";
  }
  if (lost.count == 0) return {};
  return backup + std::to_string(lost.count) + " ATOLL tables, " + lost.example +
         " among them, are defined in this data directory and have no rows here: the directory was copied "
         "without #atoll, and " +
         url +
         " was empty. The rows are in the bucket of the server that was copied, URL. Stop this one, run " +
         restore_command(backup_gtid) + ", remove #atoll from the directory, and start with atoll_url=NEWURL";
}

}  // namespace atoll::plugin

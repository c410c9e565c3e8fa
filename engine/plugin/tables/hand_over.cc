// See hand_over.h.
#include "plugin/tables/table_steps.h"

#include "plugin/tables/hand_over.h"

#include <sql_base.h>
#include <sql_handler.h>
#include <table_cache.h>

#include <filesystem>

#include "base/interrupt.h"
#include "bridge/hand_over.h"
#include "bridge/result.h"
#include "catalog/description/frm_version.h"
#include "engine/running.h"
#include "handler/ddl/definition.h"
#include "handler/ddl/prepared_writers.h"
#include "handler/ddl/table_name.h"
#include "plugin/tables/settling.h"
#include "plugin/snapshots/action_function.h"
#include "table/clone/table_clone.h"

namespace atoll::plugin {
namespace {

namespace fs = std::filesystem;
using catalog::TablePtr;

engine::Engine *running() { return engine::running(); }

std::string new_id() {
  uchar bytes[MY_UUID_SIZE];
  char text[MY_UUID_STRING_LENGTH + 1] = "";
  my_uuid(bytes);
  my_uuid2str(bytes, text, 1);
  return std::string(text, MY_UUID_STRING_LENGTH);
}

// The binary log cannot carry a hand-over: a replica has no database to give to or to take from. So the user
// says that the statement is meant for this server alone.
Status refuse_binary_log(THD *thd) {
  if (!opt_bin_log || (thd->variables.option_bits & OPTION_BIN_LOG) == 0) return Status::Ok();
  return Status(
      Code::kInvalid,
      "the binary log cannot carry this statement, so replicas would not follow it: SET sql_log_bin = 0 "
      "first");
}

fs::path file_of(const TableNames &names, const char *extension) {
  return fs::path(mysql_real_data_home) / names.directory / (names.file + extension);
}

// ---- Giving ---------------------------------------------------------------------------------------

// Closes the table in all connections. Requires: this connection has its name locked exclusively.
void close_everywhere(THD *thd, const TableNames &names) {
  const LEX_CSTRING database{names.database.data(), names.database.size()};
  const LEX_CSTRING table{names.table.data(), names.table.size()};
  TABLE_LIST one;
  one.init_one_table(&database, &table, nullptr, TL_READ);
  mysql_ha_rm_tables(thd, &one);
  tdc_remove_table(thd, names.database.c_str(), names.table.c_str());
}

// Refuses what a hand-over would leave behind or tear apart. Errors: kInvalid, or reported_error().
Status refuse_bound(const TableNames &names, const std::vector<TablePtr> &tables) {
  if (tables.empty()) return Status(Code::kInvalid, "there is no ATOLL table " + names.shown());
  const catalog::Catalog &catalog = *running()->catalog();
  if (!tables.front()->foreign_keys.empty() || !catalog.children_of(names.directory, names.file).empty())
    return Status(Code::kInvalid, "the table " + names.shown() +
                                      " has a FOREIGN KEY, or another table has one to it: drop that first");
  std::error_code error;
  if (fs::exists(file_of(names, ".TRG"), error))
    return Status(Code::kInvalid,
                  "the table " + names.shown() + " has triggers, which would stay behind: drop them first");
  for (const TablePtr &table : tables)
    if (handler::refuse_for_prepared_writers(*table)) return reported_error();
  return Status::Ok();
}

// Brings everything into table files in the bucket. The taker reads the log behind the pinned root, and this
// leaves nearly none. Errors: those of lsm::Upkeep::flush() and CommitGate::publish_all().
Status publish_flushed() {
  ATOLL_RETURN_IF_ERROR(running()->database()->flush(nullptr));
  return running()->gate().publish_all();
}

// Gives the table an internal name, and removes its files. The files go first: a table without them is
// discovered again, but files without a table would be a table that nobody can open.
Status hide(const TableNames &names, const std::string &id) {
  std::error_code ignored;
  for (const char *extension : {".frm", ".par"}) fs::remove(file_of(names, extension), ignored);
  const Status status = running()->catalog()->rename_partitioned(names.directory, names.file, names.directory,
                                                                 std::string(catalog::kGivenPrefix) + id);
  return status.ok() ? publish_flushed() : status;
}

// Takes the table back after a failure. Returns the failure, with the id if that fails, too: then the user
// must decide, because the state may be pinned.
Status undo(const std::string &id, Status why) {
  Holder holder = Holder::kUndecided;
  std::string who;
  const TablePtr moving = find_moving(catalog::kGivenPrefix, id);
  if (!moving) return why;
  if (decide(id, false, Wish::kTakeBack, &holder, &who).ok() && holder == Holder::kGiver)
    (void)withdraw_and_show(*moving);
  if (!find_moving(catalog::kGivenPrefix, id)) return why;
  return why.with("the table is still hidden, and SELECT ATOLL_TAKE_BACK('" + id + "') brings it back");
}

Status hand_over(const std::vector<std::string> &arguments, std::string *what) {
  THD *thd = current_thd;
  TableNames names;
  ATOLL_RETURN_IF_ERROR(may_change_tables(thd));
  ATOLL_RETURN_IF_ERROR(parse_table_names(thd, arguments[0], &names));
  ATOLL_RETURN_IF_ERROR(check_privileges(thd, names, SELECT_ACL | DROP_ACL));
  ATOLL_RETURN_IF_ERROR(refuse_binary_log(thd));
  ATOLL_RETURN_IF_ERROR(check_is_there(names.database));
  ATOLL_RETURN_IF_ERROR(handler::refuse_mounted(names.directory));
  const catalog::Catalog *catalog = running()->catalog();
  ATOLL_RETURN_IF_ERROR(refuse_bound(names, catalog->with_partitions(names.directory, names.file)));
  ATOLL_RETURN_IF_ERROR(publish_flushed());  // before the locks, under which statements wait
  ATOLL_RETURN_IF_ERROR(lock_name(thd, MDL_key::BACKUP, "", "", MDL_BACKUP_DDL));
  ATOLL_RETURN_IF_ERROR(lock_name_of_new(thd, names));
  ATOLL_RETURN_IF_ERROR(refuse_bound(names, catalog->with_partitions(names.directory, names.file)));
  close_everywhere(thd, names);
  const std::string id = new_id(), place = "hand-over of " + names.shown() + ", id " + id;
  const AtWork at_work(id);
  if (Status status = hide(names, id); !status.ok()) return undo(id, status);
  const Status offered =
      bridge::to_status(atoll_store_offer_table(running()->store(), id.c_str(), place.c_str()));
  if (!offered.ok()) return undo(id, offered);
  *what = id + " is the hand-over of " + names.shown() +
          ": another server takes the table by ATOLL_TAKE(), and this one has it back by ATOLL_TAKE_BACK()";
  return Status::Ok();
}

// The table of an open hand-over was dropped with its schema. Nobody can take it any more.
Status cancel_without_table(const std::string &id, std::string *what) {
  uint8_t is_offered = 0;
  ATOLL_RETURN_IF_ERROR(
      bridge::to_status(atoll_store_is_offered(running()->store(), id.c_str(), &is_offered)));
  Holder holder = Holder::kUndecided;
  std::string who;
  if (is_offered != 0) ATOLL_RETURN_IF_ERROR(decide(id, false, Wish::kTakeBack, &holder, &who));
  if (holder != Holder::kGiver)
    return Status(Code::kNotFound, "this server has no table of a hand-over with the id '" + id + "'");
  *what = "the hand-over " + id + " is cancelled; its table was dropped before";
  return bridge::to_status(atoll_store_withdraw_offer(running()->store(), id.c_str()));
}

Status take_back(const std::vector<std::string> &arguments, std::string *what) {
  THD *thd = current_thd;
  const std::string &id = arguments[0];
  ATOLL_RETURN_IF_ERROR(may_change_tables(thd));
  ATOLL_RETURN_IF_ERROR(refuse_binary_log(thd));
  const AtWork at_work(id);
  const TablePtr moving = find_moving(catalog::kGivenPrefix, id);
  if (!moving) return cancel_without_table(id, what);
  const TableNames names =
      table_names(handler::sql_name(moving->database), handler::sql_name(moving->former_name));
  ATOLL_RETURN_IF_ERROR(check_privileges(thd, names, CREATE_ACL | INSERT_ACL));
  ATOLL_RETURN_IF_ERROR(lock_name(thd, MDL_key::BACKUP, "", "", MDL_BACKUP_DDL));
  ATOLL_RETURN_IF_ERROR(lock_name_of_new(thd, names));
  ATOLL_RETURN_IF_ERROR(refuse_taken(thd, names));
  Holder holder = Holder::kUndecided;
  std::string who;
  ATOLL_RETURN_IF_ERROR(decide(id, false, Wish::kTakeBack, &holder, &who));
  if (holder != Holder::kGiver) {
    ATOLL_RETURN_IF_ERROR(drop_moved(*moving));
    return Status(Code::kInvalid, "the table belongs to the database " + who + " now");
  }
  ATOLL_RETURN_IF_ERROR(withdraw_and_show(*moving));
  write_definition_files(names);
  *what = "table " + names.shown() + " is back";
  return Status::Ok();
}

// ---- Taking ---------------------------------------------------------------------------------------

// Imports the tables of the state that the giver has pinned, under an internal name, and publishes them.
Status import(const std::string &id, const TableNames &names) {
  std::unique_ptr<lsm::PastDatabase> offer, past;
  ATOLL_RETURN_IF_ERROR(running()->mounts()->open_offer(id, &offer));
  ATOLL_RETURN_IF_ERROR(offer->open_with_tables(&past));
  std::unique_ptr<catalog::Catalog> theirs;
  ATOLL_RETURN_IF_ERROR(catalog::Catalog::open_past(past->catalog_family(), &theirs));
  const std::string given = std::string(catalog::kGivenPrefix) + id;
  std::vector<table::CloneOrder> orders;
  for (const TablePtr &table : theirs->list("")) {
    if (catalog::whole_table(table->name) != given) continue;
    const std::string partition = table->name.substr(given.size());
    ATOLL_RETURN_IF_ERROR(
        handler::refuse_newer_series(catalog::server_version_in(table->frm), {names.directory, names.file}));
    orders.push_back({table, names.directory, std::string(catalog::kTakenPrefix) + id + partition,
                      theirs->belongings(*table), false, names.file + partition});
  }
  if (orders.empty())
    return Status(Code::kCorruption, "the giver's state has no table of the hand-over " + id);
  ATOLL_RETURN_IF_ERROR(running()->catalog()->keep_database(names.directory));
  const table::ClonePlace place{running()->database(), running()->database(), running()->catalog(),
                                past.get()};
  ATOLL_RETURN_IF_ERROR(table::clone_tables(place, orders, [] { return is_interrupted(); }));
  return running()->gate().publish_all();
}

// The error of a taker that has not got the table.
Status not_taken(Holder holder, const std::string &who) {
  return Status(Code::kInvalid, holder == Holder::kGiver
                                    ? std::string("the table was taken back")
                                    : "the table belongs to the database " + who + " now");
}

Status refuse_decided(const std::string &id) {
  Holder holder = Holder::kUndecided;
  std::string who;
  ATOLL_RETURN_IF_ERROR(decide(id, true, Wish::kLook, &holder, &who));
  if (holder == Holder::kTaker) return Status(Code::kInvalid, "this database has taken that table already");
  return holder == Holder::kUndecided ? Status::Ok() : not_taken(holder, who);
}

// Imports the table, which is not decided yet. After an error nothing of it is left, or settle_hand_overs()
// drops it or goes on.
Status prepare(const std::string &id, const TableNames &names, bool is_new) {
  Status status = refuse_decided(id);
  if (status.ok()) status = import(id, names);
  if (status.ok()) return status;
  if (const TablePtr moving = find_moving(catalog::kTakenPrefix, id))
    (void)drop_and_forget(*moving);
  else if (is_new)
    (void)bridge::ok(atoll_store_forget_taking(running()->store(), id.c_str()));
  return status;
}

// Imports the table and takes it. If it is not known whether it was taken, settle_hand_overs() finds that
// out.
Status take_as(const std::string &id, const TableNames &names, bool is_new) {
  ATOLL_RETURN_IF_ERROR(prepare(id, names, is_new));
  const TablePtr moving = find_moving(catalog::kTakenPrefix, id);
  Holder holder = Holder::kUndecided;
  std::string who;
  const Status status = decide(id, true, Wish::kTake, &holder, &who);
  if (!status.ok())
    return status.with("whether the table was taken is not known yet; this server finds it out by itself");
  if (holder == Holder::kTaker) return show_moved(*moving);
  (void)drop_and_forget(*moving);
  return not_taken(holder, who);
}

Status take(const std::vector<std::string> &arguments, std::string *what) {
  THD *thd = current_thd;
  const std::string &url = arguments[0], &id = arguments[1];
  TableNames names;
  ATOLL_RETURN_IF_ERROR(may_change_tables(thd));
  ATOLL_RETURN_IF_ERROR(parse_table_names(thd, arguments[2], &names));
  ATOLL_RETURN_IF_ERROR(check_privileges(thd, names, CREATE_ACL | INSERT_ACL));
  ATOLL_RETURN_IF_ERROR(refuse_binary_log(thd));
  ATOLL_RETURN_IF_ERROR(check_is_there(names.database));
  ATOLL_RETURN_IF_ERROR(handler::refuse_mounted(names.directory));
  const AtWork at_work(id);
  if (find_moving(catalog::kTakenPrefix, id))
    return Status(Code::kInvalid, "this server is taking that table already");
  ATOLL_RETURN_IF_ERROR(lock_name(thd, MDL_key::BACKUP, "", "", MDL_BACKUP_DDL));
  ATOLL_RETURN_IF_ERROR(lock_name_of_new(thd, names));
  ATOLL_RETURN_IF_ERROR(refuse_taken(thd, names));
  ATOLL_RETURN_IF_ERROR(check_is_there(names.database));  // DROP DATABASE may have run before the lock
  uint8_t is_new = 0;
  ATOLL_RETURN_IF_ERROR(bridge::to_status(atoll_store_note_taking(
      running()->store(), id.c_str(), running()->url().c_str(), url.c_str(), &is_new)));
  ATOLL_RETURN_IF_ERROR(take_as(id, names, is_new != 0));
  write_definition_files(names);
  *what = "table " + names.shown() + " is here now; its files stay where they are";
  return Status::Ok();
}

}  // namespace

Create_func *hand_over_function() {
  static const SqlAction action{
      "atoll_hand_over", 1, 1, ActionPrivilege::kReload, "ATOLL_HAND_OVER('table'): it is not NULL",
      hand_over};
  return action_function(&action);
}

Create_func *take_function() {
  static const SqlAction action{
      "atoll_take", 3, 2, ActionPrivilege::kReload, "ATOLL_TAKE('URL', 'id', 'table'): none of them is NULL",
      take};
  return action_function(&action);
}

Create_func *take_back_function() {
  static const SqlAction action{
      "atoll_take_back", 1, 0, ActionPrivilege::kReload, "ATOLL_TAKE_BACK('id'): it is not NULL", take_back};
  return action_function(&action);
}

}  // namespace atoll::plugin

// See settling.h.
#include "plugin/tables/settling.h"

#include <set>

#include "base/log.h"
#include "base/mutex.h"
#include "bridge/callback.h"
#include "bridge/hand_over.h"
#include "bridge/result.h"
#include "engine/running.h"
#include "plugin/tables/hand_over.h"

namespace atoll::plugin {
namespace {

using catalog::TablePtr;

constexpr uint64_t kLookSeconds = 5;

Mutex at_work_mutex;
std::set<std::string> at_work ATOLL_GUARDED_BY(at_work_mutex);

catalog::Catalog *tables() { return engine::running()->catalog(); }

std::string id_of(const catalog::TableDef &moving) {
  return moving.name.substr(catalog::kGivenPrefix.size());
}

// The server shut down or died between hiding the table and pinning its state. Nobody can have taken it, and
// the slot makes sure that nobody does.
Status cancel_unless_offered(const std::string &id, Holder *holder, std::string *who) {
  uint8_t is_offered = 0;
  ATOLL_RETURN_IF_ERROR(
      bridge::to_status(atoll_store_is_offered(engine::running()->store(), id.c_str(), &is_offered)));
  return is_offered != 0 ? Status::Ok() : decide(id, false, Wish::kTakeBack, holder, who);
}

Status settle_given(const catalog::TableDef &moving) {
  const std::string id = id_of(moving);
  Holder holder = Holder::kUndecided;
  std::string who;
  ATOLL_RETURN_IF_ERROR(decide(id, false, Wish::kLook, &holder, &who));
  if (holder == Holder::kUndecided) ATOLL_RETURN_IF_ERROR(cancel_unless_offered(id, &holder, &who));
  if (holder == Holder::kUndecided) return Status::Ok();
  const std::string name = moving.database + "/" + moving.former_name;
  if (holder == Holder::kGiver) {
    ATOLL_RETURN_IF_ERROR(withdraw_and_show(moving));
    log_info("the table " + name + " is back, because its hand-over was cancelled");
    return Status::Ok();
  }
  ATOLL_RETURN_IF_ERROR(drop_moved(moving));
  log_info("the table " + name + " belongs to the database " + who + " now");
  return Status::Ok();
}

// A taker that died goes on (HANDOVER-3). Looks first, because the right to create the slot may be gone.
Status decide_for_taker(const std::string &id, Holder *holder) {
  std::string who;
  const Status status = decide(id, true, Wish::kLook, holder, &who);
  if (status.code() == Code::kNotFound) {  // no note: it was released, and only those of taken tables are
    *holder = Holder::kTaker;
    return Status::Ok();
  }
  return status.ok() && *holder == Holder::kUndecided ? decide(id, true, Wish::kTake, holder, &who) : status;
}

Status settle_taken(const catalog::TableDef &moving) {
  const std::string id = id_of(moving);
  Holder holder = Holder::kUndecided;
  ATOLL_RETURN_IF_ERROR(decide_for_taker(id, &holder));
  const std::string name = moving.database + "/" + moving.former_name;
  if (holder == Holder::kTaker) {
    ATOLL_RETURN_IF_ERROR(show_moved(moving));
    log_info("the table " + name + " is here, as an interrupted ATOLL_TAKE() wanted");
    return Status::Ok();
  }
  ATOLL_RETURN_IF_ERROR(drop_and_forget(moving));
  log_info("the table " + name + " was not taken: its hand-over is over");
  return Status::Ok();
}

}  // namespace

Status decide(const std::string &id, bool is_taker, Wish wish, Holder *holder, std::string *who) {
  bridge::Callback found([&](int outcome, const char *name) {
    *holder = static_cast<Holder>(outcome);
    *who = name;
  });
  const atoll_result result =
      atoll_store_decide(engine::running()->store(), id.c_str(), is_taker ? 1 : 0, static_cast<int>(wish),
                         &found, found.function<int, const char *>());
  found.rethrow();
  return bridge::to_status(result);
}

TablePtr find_moving(std::string_view prefix, const std::string &id) {
  const std::string name = std::string(prefix) + id;
  for (const TablePtr &table : tables()->list(""))
    if (table->name == name) return table;
  return nullptr;
}

Status show_moved(const catalog::TableDef &moving) {
  ATOLL_RETURN_IF_ERROR(tables()->rename_partitioned(moving.database, moving.name, moving.database,
                                                     std::string(moving.former_name)));
  return engine::running()->gate().after_ddl();
}

Status drop_moved(const catalog::TableDef &moving) {
  ATOLL_RETURN_IF_ERROR(tables()->drop_partitioned(moving.database, moving.name));
  return engine::running()->gate().after_ddl();
}

Status withdraw_and_show(const catalog::TableDef &given) {
  ATOLL_RETURN_IF_ERROR(
      bridge::to_status(atoll_store_withdraw_offer(engine::running()->store(), id_of(given).c_str())));
  return show_moved(given);
}

Status drop_and_forget(const catalog::TableDef &taken) {
  ATOLL_RETURN_IF_ERROR(drop_moved(taken));
  ATOLL_RETURN_IF_ERROR(engine::running()->gate().publish_all());
  return bridge::to_status(atoll_store_forget_taking(engine::running()->store(), id_of(taken).c_str()));
}

Status settle_hand_overs(uint64_t second) {
  Status first_failure;
  if (second % kLookSeconds != 0 || !engine::ready().ok()) return first_failure;
  for (const TablePtr &table : tables()->list("")) {
    if (!catalog::is_changing_databases(table->name) || catalog::is_partition(table->name)) continue;
    if (AtWork::is(id_of(*table))) continue;
    const bool is_given = table->name.starts_with(catalog::kGivenPrefix);
    const Status status = is_given ? settle_given(*table) : settle_taken(*table);
    if (!status.ok() && first_failure.ok())
      first_failure = status.with("the hand-over of " + table->database + "/" + table->former_name);
  }
  return first_failure;
}

AtWork::AtWork(std::string id) : id_(std::move(id)) {
  const MutexLock lock(at_work_mutex);
  at_work.insert(id_);
}

AtWork::~AtWork() {
  const MutexLock lock(at_work_mutex);
  at_work.erase(id_);
}

bool AtWork::is(const std::string &id) {
  const MutexLock lock(at_work_mutex);
  return at_work.contains(id);
}

}  // namespace atoll::plugin

// See follower.h.
#include "handler/server.h"

#include "plugin/reading/follower.h"

#include <mysqld.h>
#include <sql_base.h>

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "base/messages/reason_first.h"
#include "engine/running.h"
#include "handler/ddl/table_name.h"
#include "plugin/host/local_sql.h"

namespace atoll::plugin {
namespace {

constexpr std::chrono::milliseconds kLookEach{100};  // the rhythm of the thread
constexpr std::chrono::milliseconds kPoll{500}, kIdleMax{10000};
// After a new view the follower rests this many times as long as it took to open it.
constexpr int kRestParts = 3;
constexpr std::chrono::seconds kHurry{5};
// Idle tables are closed this long after a view was followed by the next one, and again while it exists.
constexpr std::chrono::seconds kFirstRelease{10}, kNextRelease{60};
// FLUSH TABLES waits one second for the transactions that have read the table. Statements that begin to use
// the table meanwhile wait with it.
constexpr char kSession[] = "SET SESSION lock_wait_timeout = 1, max_statement_time = 0";

std::atomic<int64_t> hurries_until_ms{0};

int64_t ms_of(std::chrono::steady_clock::time_point time) {
  return std::chrono::duration_cast<std::chrono::milliseconds>(time.time_since_epoch()).count();
}

}  // namespace

Follower::Follower(engine::Views *views, std::unique_ptr<ViewFiles> files)
    : views_(views),
      files_(std::move(files)),
      idle_(kPoll),
      next_(Clock::now()),
      ended_(next_),
      background_(std::make_unique<Background>([this](uint64_t) { turn(); }, kLookEach)) {}

std::unique_ptr<ViewFiles> Follower::stop() {
  background_.reset();
  return std::move(files_);
}

void Follower::hurry() { hurries_until_ms = ms_of(Clock::now() + kHurry); }

void Follower::turn() {
  if (!mysqld_server_started || abort_loop) return;
  const Clock::time_point begin = Clock::now();
  const bool hurries = ms_of(begin) < hurries_until_ms;
  if (begin < (hurries ? std::min(next_, ended_ + kPoll) : next_)) return;
  bool is_new = false;
  const Status status = follow(&is_new);
  complain(status);
  release_former();
  const Clock::time_point end = ended_ = Clock::now();
  idle_ = is_new || hurries ? kPoll : std::min(idle_ * 3 / 2, kIdleMax);
  const auto rest = std::chrono::duration_cast<std::chrono::milliseconds>((end - begin) * kRestParts);
  next_ = end + (is_new || !to_close_.empty() ? std::max(kPoll, rest) : idle_);
}

Status Follower::follow(bool *is_new) {
  engine::ViewPtr taken;
  if (!to_close_.empty()) close_changed();
  ATOLL_RETURN_IF_ERROR(views_->take(&taken));
  if (!taken) return Status::Ok();
  ATOLL_RETURN_IF_ERROR(files_->make(*taken));
  const engine::ViewPtr before = views_->newest();
  views_->show(taken);
  if (before) {
    note_changed(*before, *taken);
    former_.push_back({.view = before, .due = Clock::now() + kFirstRelease});
  }
  close_changed();
  *is_new = true;
  return Status::Ok();
}

// Logs an error once, until another one comes or the reader follows again.
void Follower::complain(const Status &status) {
  const std::string now = status.ok() ? std::string() : status.message();
  if (status.code() == Code::kInterrupted || now == complained_) return;
  const bool was_behind = !std::exchange(complained_, now).empty();
  if (!now.empty() && !was_behind)
    log_warning("the reader does not follow the writer, and shows what it had " +
                std::to_string(views_->lag_ms() / 1000) + " s ago; it tries again: " + reason_first(now));
  else if (now.empty())
    log_info("the reader follows the writer again");
}

void Follower::note_changed(const engine::View &before, const engine::View &now) {
  for (const catalog::TablePtr &table : before.catalog().list("")) {
    if (table->frm.empty() || handler::is_partition(table->name) || handler::is_internal(table->name))
      continue;
    if (engine::View::agree(before, now, table->database, table->name)) continue;
    to_close_.insert(quoted(handler::sql_name(table->database)) + "." +
                     quoted(handler::sql_name(table->name)));
  }
}

// Makes the server close the changed tables, one after the other, and settles the newest view when all are
// closed. A transaction that has read such a table goes on with the former definition and the former view;
// until it ends, the server has the table open, and new statements that use it read the view from before the
// change.
void Follower::close_changed() {
  if (!to_close_.empty()) {
    LocalSql sql;
    (void)sql.run(kSession);
    std::erase_if(to_close_,
                  [&](const std::string &name) { return sql.run("FLUSH LOCAL TABLES " + name).error == 0; });
  }
  if (!to_close_.empty()) return;
  views_->settle();
  files_->remove_outdated();
}

// A table that the server keeps open between two statements holds the view in which it was read last, and so
// does what the server remembers of its definition; the view holds memory and its pin in the bucket. Closes
// all tables that no statement uses, and makes the server forget their definitions, if a former view still
// exists.
void Follower::release_former() {
  std::erase_if(former_, [](const Former &each) { return each.view.expired(); });
  const Clock::time_point now = Clock::now();
  bool is_due = false;
  for (Former &each : former_) {
    if (each.due > now) continue;
    is_due = true;
    each.due = now + kNextRelease;  // a transaction may hold it for long
  }
  if (is_due) purge_tables();
}

}  // namespace atoll::plugin

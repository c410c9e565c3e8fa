// See snapshot_keeper.h.
#include "handler/server.h"

#include "plugin/snapshots/snapshot_keeper.h"

#include <mysqld.h>

#include "base/interrupt.h"
#include "base/log.h"
#include "bridge/snapshots.h"
#include "engine/running.h"
#include "plugin/snapshots/snapshot_functions.h"
#include "plugin/snapshots/snapshot_schedule.h"
#include "plugin/sysvars.h"

namespace atoll::plugin {
namespace {

constexpr time_t kRetrySeconds = 60;

Status names_of_snapshots(std::vector<std::string> *names) {
  const auto add_name = [names](const atoll_snapshot *snapshot) {
    if (std::string_view(snapshot->kind) == "snapshot") names->emplace_back(snapshot->name);
  };
  return bridge::for_each_pin(engine::running()->store(), add_name);
}

}  // namespace

SnapshotKeeper::SnapshotKeeper() : background_([this](uint64_t) { look(); }) {}

void SnapshotKeeper::look() {
  if (engine::running() == nullptr || !mysqld_server_started || abort_loop || !engine::may_write().ok())
    return;
  tend_kept_settings();
  const std::string text = snapshot_schedule();
  const time_t now = time(nullptr);
  if (text.empty() || now < next_try_) return;
  const Status status = keep(text, now);
  next_try_ = status.ok() ? 0 : now + kRetrySeconds;
  if (status.ok() || is_interrupted()) return;
  const std::string complaint = "atoll_snapshot_schedule = '" + text + "': " + status.message();
  if (complaint != complained_) log_warning(complaint);
  complained_ = complaint;
}

Status SnapshotKeeper::keep(const std::string &text, time_t now) {
  const std::optional<SnapshotSchedule> schedule = parse_snapshot_schedule(text);
  if (!schedule) return Status(Code::kInvalid, "this is no schedule; write for example 'hourly 24, daily 7'");
  std::string periods = text;
  for (const SnapshotRule &rule : *schedule) periods += "; " + scheduled_name(rule.period, now);
  if (periods == done_for_) return Status::Ok();
  std::vector<std::string> names;
  ATOLL_RETURN_IF_ERROR(names_of_snapshots(&names).with("reading the snapshots"));
  const SnapshotWork work = scheduled_work(*schedule, now, names);
  std::string what;
  for (const std::string &name : work.make)
    ATOLL_RETURN_IF_ERROR(make_snapshot(name, &what).with("making '" + name + "'"));
  for (const std::string &name : work.drop) {
    const Status dropped = drop_snapshot(name, &what);
    // A user may have protected a snapshot until a date. Such a snapshot stays, and a later round drops it
    // after that date.
    if (dropped.code() == Code::kInvalid) continue;
    ATOLL_RETURN_IF_ERROR(dropped.with("dropping '" + name + "'"));
  }
  done_for_ = periods;
  complained_.clear();
  return Status::Ok();
}

}  // namespace atoll::plugin

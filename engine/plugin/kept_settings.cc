// See kept_settings.h.
#include "plugin/kept_settings.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/interrupt.h"
#include "bridge/kept_settings.h"
#include "bridge/result.h"
#include "engine/running.h"

namespace atoll::plugin {
namespace {

constexpr uint64_t kRetryMs = 60'000;

atoll_kept_settings read_kept(const atoll_store *store) {
  atoll_kept_settings kept{};
  atoll_store_kept_settings(store, &kept);
  return kept;
}

// `undecided`: has the values of settings that the bucket does not have.
KeptValues values_of(const atoll_kept_settings &kept, const KeptValues &undecided) {
  const unsigned long long bytes_max =
      kept.history_bytes_max == 0 ? undecided.bytes_max : kept.history_bytes_max;
  return {kept.history_retention_s, bytes_max, kept.schedule};
}

uint64_t now_ms() {
  const auto since = std::chrono::system_clock::now().time_since_epoch();
  return static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(since).count());
}

Status change(atoll_store *store, const uint32_t *retention_s, const uint64_t *bytes_max,
              const char *schedule, uint32_t grace_s) {
  return bridge::to_status(atoll_store_change_settings(store, retention_s, bytes_max, schedule, grace_s));
}

// The settings of the database are the writer's. Returns 0 when no engine runs, else raises an error.
int refuse_on_reader() {
  if (engine::running() == nullptr) return 0;
  my_printf_error(ER_OPTION_PREVENTS_STATEMENT, "ATOLL: nothing was changed: %s", MYF(0),
                  engine::may_write().message());
  return 1;
}

}  // namespace

unsigned long long number_in(MYSQL_THD thd, const char *name, st_mysql_value *value, unsigned long long min,
                             unsigned long long max) {
  long long number = 0;
  value->val_int(value, &number);
  const bool is_negative = number < 0 && value->is_unsigned(value) == 0;
  const unsigned long long given = is_negative ? 0 : static_cast<unsigned long long>(number);
  const unsigned long long fitting = std::clamp(given, min, max);
  if (is_negative || fitting != given)
    push_warning_printf(thd, Sql_condition::WARN_LEVEL_WARN, ER_TRUNCATED_WRONG_VALUE,
                        ER_THD(thd, ER_TRUNCATED_WRONG_VALUE), name,
                        (is_negative ? std::to_string(number) : std::to_string(given)).c_str());
  return fitting;
}

int keep_in_bucket(const uint32_t *retention_s, const uint64_t *bytes_max, const char *schedule,
                   uint32_t grace_s) {
  const engine::Engine *running = engine::running_writer();
  if (running == nullptr) return refuse_on_reader();
  const Status status = change(running->store(), retention_s, bytes_max, schedule, grace_s);
  if (status.ok()) return 0;
  my_printf_error(ER_WRONG_VALUE_FOR_VAR, "ATOLL: nothing was changed, as the bucket could not store it: %s",
                  MYF(0), status.message());
  return 1;
}

unsigned kept_retention(const atoll_store *store, unsigned shown_s) {
  const atoll_kept_settings kept = read_kept(store);
  const unsigned former_s = kept.former_until_ms > now_ms() ? kept.former_retention_s : 0;
  return std::max({shown_s, kept.history_retention_s, former_s});
}

void tell_of_grace(MYSQL_THD thd) {
  const engine::Engine *running = engine::running_writer();
  if (running == nullptr) return;
  const atoll_kept_settings kept = read_kept(running->store());
  const uint64_t now = now_ms();
  if (kept.former_until_ms <= now || kept.former_retention_s <= kept.history_retention_s) return;
  push_warning_printf(
      thd, Sql_condition::WARN_LEVEL_NOTE, ER_YES,
      "ATOLL: the history of %u s stays for another %llu s (atoll_history_grace). Until then, SET GLOBAL "
      "atoll_history_retention = %u keeps it",
      kept.former_retention_s, static_cast<unsigned long long>((kept.former_until_ms - now + 999) / 1000),
      kept.former_retention_s);
}

KeptValues merge_with_bucket(const atoll_store *store, const KeptValues &configured,
                             const KeptValues &defaults) {
  const atoll_kept_settings found = read_kept(store);
  const KeptValues kept = values_of(found, configured);
  const MergedSettings merged = merge_settings(configured, defaults, found.number > 0 ? &kept : nullptr);
  for (const auto &[level, note] : merged.notes) log_at_level(static_cast<int>(level), note.c_str());
  return merged.used;
}

void store_what_is_shown(atoll_store *store, const KeptValues &shown, const KeptValues &defaults,
                         uint32_t grace_s) {
  static bool differed = false;
  static uint64_t next_try_ms = 0;
  const atoll_kept_settings found = read_kept(store);
  const KeptValues kept = found.number > 0 ? values_of(found, shown) : defaults;
  if (!std::exchange(differed, shown != kept) || shown == kept || now_ms() < next_try_ms) return;
  const uint32_t retention_s = shown.retention_s;
  const uint64_t bytes_max = shown.bytes_max;
  const Status status = change(store, retention_s != kept.retention_s ? &retention_s : nullptr,
                               bytes_max != kept.bytes_max ? &bytes_max : nullptr,
                               shown.schedule != kept.schedule ? shown.schedule.c_str() : nullptr, grace_s);
  next_try_ms = status.ok() ? 0 : now_ms() + kRetryMs;
  if (!status.ok() && !is_interrupted())
    log_warning("storing the settings of the history and of the snapshots in the bucket: " +
                std::string(status.message()));
}

}  // namespace atoll::plugin

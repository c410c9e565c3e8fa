// See name_hint.h.
#include "handler/server.h"

#include "plugin/show/name_hint.h"

#include <algorithm>
#include <cstdio>

#include "bridge/name_hint.h"
#include "bridge/result.h"
#include "engine/running.h"
#include "handler/ddl/table_name.h"

namespace atoll::plugin {
namespace {

// A change of definitions is often followed by others, so the hint is written 10 seconds after the first of
// them.
constexpr auto kQuiet = std::chrono::seconds(10);
// Two PUTs are at least 60 seconds apart while definitions change all the time. But the first tables of a new
// database get their names soon: after a minute without changes, only 10 seconds, then 20, 40 and 60.
constexpr auto kBetweenWritesMax = std::chrono::seconds(60);

// Returns `text` as a JSON string.
std::string json(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    char escaped[8];
    if (c == '"' || c == '\\')
      out.append(1, '\\').append(1, c);
    else if (static_cast<unsigned char>(c) < 0x20)
      out.append(escaped, std::snprintf(escaped, sizeof(escaped), "\\u%04x", c));
    else
      out.append(1, c);
  }
  return out.append(1, '"');
}

// Returns the name of a table as SQL writes it. For a partition, the part after the table's name stays as it
// is in the file name.
std::string shown_name(const std::string &name) {
  const std::string whole(catalog::whole_table(name));
  return handler::sql_name(whole) + name.substr(whole.size());
}

std::string json_of(const catalog::TableDef &table) {
  std::string out = "{\"database\":" + json(handler::sql_name(table.database)) +
                    ",\"name\":" + json(shown_name(table.name)) +
                    ",\"family\":" + std::to_string(table.family_id) +
                    ",\"prefix\":" + std::to_string(table.prefix) + ",\"indexes\":[";
  for (const catalog::IndexDef &index : table.indexes) {
    if (&index != &table.indexes.front()) out.append(1, ',');
    out += "{\"ordinal\":" + std::to_string(index.ordinal) + ",\"name\":" + json(index.name) + "}";
  }
  return out + "]}";
}

}  // namespace

std::string name_hint(const std::vector<catalog::TablePtr> &tables) {
  std::string out = "{\"tables\":[";
  bool is_first = true;
  for (const catalog::TablePtr &table : tables) {
    if (table->logical_only || catalog::is_internal(table->name)) continue;
    if (!is_first) out.append(1, ',');
    out += "\n" + json_of(*table);
    is_first = false;
  }
  return out + "\n]}\n";
}

NameHint::NameHint() : background_([this](uint64_t) { look(); }) {}

void NameHint::look() {
  engine::Engine *running = engine::running_writer();
  if (running == nullptr || !engine::may_write().ok()) return;
  const Clock::time_point now = Clock::now();
  const uint64_t generation = running->catalog()->generation();
  if (generation != seen_generation_) {
    seen_generation_ = generation;
    if (now > due_ + kBetweenWritesMax) between_writes_ = kQuiet;
    if (!is_due_) due_ = std::max(due_, now + kQuiet);
    is_due_ = true;
  }
  if (!is_due_ || now < due_) return;
  is_due_ = false;
  due_ = now + between_writes_;
  between_writes_ = std::min<Clock::duration>(2 * between_writes_, kBetweenWritesMax);
  std::string hint = name_hint(running->catalog()->list(""));
  if (hint == written_) return;
  const Status status =
      bridge::to_status(atoll_store_put_table_names(running->store(), hint.data(), hint.size()));
  if (status.ok())
    written_ = std::move(hint);
  else
    is_due_ = true;  // not logged: other tasks report a bucket that does not answer
}

}  // namespace atoll::plugin

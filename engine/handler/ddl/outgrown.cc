// See outgrown.h.
#include "handler/ddl/outgrown.h"

#include <optional>

#include "catalog/record.h"
#include "engine/running.h"

namespace atoll::handler {
namespace {

thread_local std::optional<uint64_t> running_bytes_max;
thread_local uint32_t moved_count = 0;

}  // namespace

MoveOfOutgrown::MoveOfOutgrown(uint64_t bytes_max) {
  running_bytes_max = bytes_max;
  moved_count = 0;
}

MoveOfOutgrown::~MoveOfOutgrown() { running_bytes_max.reset(); }

bool MoveOfOutgrown::is_running() { return running_bytes_max.has_value(); }

void MoveOfOutgrown::note_moved() { moved_count++; }

uint32_t MoveOfOutgrown::moved() const { return moved_count; }

bool MoveOfOutgrown::concerns(const catalog::TableDef &def) {
  return running_bytes_max && has_outgrown(def, *running_bytes_max);
}

bool has_outgrown(const catalog::TableDef &def, uint64_t bytes_max) {
  if (def.own_family || def.logical_only) return false;
  lsm::Database *database = engine::running()->database();
  const catalog::Doomed::Range range = catalog::table_range(def);
  return database->takes_more_than(database->shared_family(), range.begin, range.end, bytes_max);
}

}  // namespace atoll::handler

// See outgrown.h.
#include "handler/ddl/outgrown.h"

#include <algorithm>
#include <optional>

#include "catalog/record.h"
#include "engine/running.h"
#include "handler/server.h"

namespace atoll::handler {
namespace {

// Bytes that the length of a value takes in a MEDIUMBLOB; a LONGBLOB takes more.
constexpr unsigned kLengthBytesOfMediumBlob = 3;

bool is_for_objects(const Field &field) {
  if ((field.flags & BLOB_FLAG) == 0 || field.type() == MYSQL_TYPE_GEOMETRY) return false;
  const unsigned length_bytes = static_cast<const Field_blob &>(field).pack_length_no_ptr();
  return field.charset() == &my_charset_bin && length_bytes >= kLengthBytesOfMediumBlob;
}

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

bool will_outgrow(const TABLE &table) {
  const bool has_objects = std::any_of(table.field, table.field + table.s->fields,
                                       [](const Field *field) { return is_for_objects(*field); });
  return has_objects && engine::running()->database()->has_room_for_family();
}

bool has_outgrown(const catalog::TableDef &def, uint64_t bytes_max) {
  if (def.own_family || def.logical_only) return false;
  lsm::Database *database = engine::running()->database();
  const catalog::Doomed::Range range = catalog::table_range(def);
  return database->takes_more_than(database->shared_family(), range.begin, range.end, bytes_max);
}

}  // namespace atoll::handler

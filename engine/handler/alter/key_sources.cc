// See key_sources.h.
#include "handler/alter/key_sources.h"

#include <algorithm>

#include "engine/running.h"
#include "table/write/large_rows.h"

namespace atoll::handler {

// Adds the columns of the primary key too, because every index entry ends with it.
KeySources::KeySources(const Layout &layout, TABLE *altered, const std::vector<size_t> &indexes)
    : layout_(layout), altered_(altered) {
  for (const size_t i : indexes) add_index(altered->key_info[i]);
  if (altered->s->primary_key != MAX_KEY) add_index(altered->key_info[altered->s->primary_key]);
  add_what_expressions_name();
}

void KeySources::add(const Field *field, uint32_t bytes) {
  const int stored = layout_.stored_column(field->field_index);
  if (stored < 0) return;
  uint32_t &most = bytes_[layout_.row().column(static_cast<size_t>(stored)).id];
  most = std::max(most, bytes);
}

void KeySources::add_index(const KEY &key) {
  for (uint part = 0; part < key.user_defined_key_parts; part++) {
    const KEY_PART_INFO &key_part = key.key_part[part];
    Field *field = altered_->field[key_part.fieldnr - 1];
    add(field, (field->flags & BLOB_FLAG) != 0 ? key_part.length : table::kWholeColumn);
    const bool is_new =
        std::find(virtual_parts_.begin(), virtual_parts_.end(), field) == virtual_parts_.end();
    if (!field->stored_in_db() && is_new) virtual_parts_.push_back(field);
  }
}

// Adds the columns that the expressions of virtual columns use. The server marks these columns in the read
// set of the TABLE, so the function gives the TABLE an empty read set for this.
void KeySources::add_what_expressions_name() {
  MY_BITMAP *const read_set = altered_->read_set;
  altered_->read_set = &altered_->tmp_set;
  bitmap_clear_all(altered_->read_set);
  for (Field *field : virtual_parts_) altered_->mark_column_with_deps(field);
  for (uint i = 0; i < altered_->s->fields; i++)
    if (bitmap_is_set(altered_->read_set, i)) add(altered_->field[i], table::kWholeColumn);
  altered_->read_set = read_set;
}

Status KeySources::compute() const {
  for (Field *field : virtual_parts_)
    if (altered_->update_virtual_field(field, false) != 0)
      return Status(Code::kInvalid, "an expression of a virtual column failed");
  return Status::Ok();
}

void KeySources::show_row(const std::string &primary_key, const rocksdb::Snapshot *snapshot,
                          std::string *buffer) const {
  restore_record(altered_, s->default_values);
  rocksdb::ReadOptions options;
  options.snapshot = snapshot;
  std::string joined;
  std::string_view row;
  if (!layout_.family()->get(options, primary_key, buffer).ok() ||
      !table::whole_row_at(layout_, snapshot, primary_key, *buffer, &joined, &row).ok())
    return;
  if (!joined.empty()) row = *buffer = std::move(joined);
  if (layout_.row().unpack(row, nullptr, altered_->record[0]).ok()) (void)compute();
}

}  // namespace atoll::handler

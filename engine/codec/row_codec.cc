// See row_codec.h; table FMT-R1 of docs/internals/formats-rows.md.
//
// Invariants:
//   ROW-1  pack() writes the same bytes for equal rows. A NULL column leaves no bytes of its old value.
//   ROW-5  open() checks that the row contains all offsets and that the last one is the row's end. Each
//          access to the variable section checks its own two offsets. No code may read a packed row in
//          another way.
#include "codec/row_codec.h"

#include <algorithm>

#include "base/border/assert.h"
#include "codec/column_access.h"

namespace atoll::codec {

namespace {

constexpr uint8_t kWideOffsets = 1;

bool is_variable(ColumnKind kind) { return kind != ColumnKind::kFixed; }

SlotAction action_of(ColumnKind kind) {
  switch (kind) {
    case ColumnKind::kFixed:
      return SlotAction::kCopy;
    case ColumnKind::kVarchar:
      return SlotAction::kVarchar;
    case ColumnKind::kBlob:
      return SlotAction::kBlob;
    case ColumnKind::kChar:
      return SlotAction::kChar;
  }
  return SlotAction::kMismatch;
}

Status bad_row(Code code) {
  if (code == Code::kBug)
    return Status(code, "the catalog lacks the value that old rows have for a column added or changed since");
  return Status(code, "a stored row cannot be decoded by its schema version");
}

RowSlot record_side(const Column &column) {
  RowSlot slot;
  slot.length = column.length;
  slot.record_offset = column.record_offset;
  slot.length_bytes = column.length_bytes;
  slot.pad_byte = column.pad_byte;
  slot.action = SlotAction::kDefault;
  if (column.null_offset >= 0) {
    slot.record_null_offset = static_cast<uint32_t>(column.null_offset);
    slot.record_null_mask = column.null_mask;
  }
  return slot;
}

// Writes the value of a variable-length column into the record. Returns false if the value does not fit into
// the column.
bool store_variable(const RowSlot &slot, std::string_view bytes, uint8_t *record) {
  uint8_t *field = record + slot.record_offset;
  if (slot.action == SlotAction::kBlob) {
    if (!length_fits(bytes.size(), slot.length_bytes)) return false;
    store_blob(field, slot.length_bytes, bytes);
    return true;
  }
  if (bytes.size() > slot.length) return false;
  if (slot.action == SlotAction::kVarchar) {
    if (!length_fits(bytes.size(), slot.length_bytes)) return false;
    field[0] = static_cast<uint8_t>(bytes.size());
    if (slot.length_bytes == 2) field[1] = static_cast<uint8_t>(bytes.size() >> 8);
    copy_bytes(field + slot.length_bytes, as_bytes(bytes), bytes.size());
    return true;
  }
  copy_bytes(field, as_bytes(bytes), bytes.size());
  std::memset(field + bytes.size(), slot.pad_byte, slot.length - bytes.size());
  return true;
}

}  // namespace

struct RowCodec::OpenRow {
  const RowLayout *layout;
  const uint8_t *start;
  const uint8_t *offsets;
  const uint8_t *variable;
  uint32_t variable_length;
  bool wide;

  uint32_t end_of(uint32_t ordinal) const {
    return wide ? load_le<uint32_t>(offsets + size_t{ordinal} * 4)
                : load_le<uint16_t>(offsets + size_t{ordinal} * 2);
  }
  bool bytes_of(uint32_t ordinal, std::string_view *out) const {
    const uint32_t begin = ordinal == 0 ? 0 : end_of(ordinal - 1);
    const uint32_t end = end_of(ordinal);
    if (begin > end || end > variable_length) return false;
    *out = as_view(variable + begin, end - begin);
    return true;
  }
  bool null(const RowSlot &slot) const {
    return (start[slot.packed_null_offset] & slot.packed_null_mask) != 0;
  }
};

RowCodec::RowCodec(uint32_t schema_version, std::vector<Column> columns,
                   const std::vector<ColumnDefault> &defaults)
    : columns_(std::move(columns)), defaults_(columns_.size()) {
  for (size_t i = 0; i < columns_.size(); ++i)
    for (const ColumnDefault &value : defaults)
      if (value.id == columns_[i].id) defaults_[i] = value;
  std::vector<PastColumn> stored;
  for (const Column &c : columns_) stored.push_back({c.id, c.kind, c.length, c.null_offset >= 0});
  current_ = layout_of(schema_version, stored);
  plan_packing();
}

void RowCodec::add_past_version(uint32_t version, std::vector<PastColumn> columns) {
  auto at = std::lower_bound(past_.begin(), past_.end(), version,
                             [](const RowLayout &layout, uint32_t v) { return layout.version < v; });
  if (at == past_.end() || at->version != version) at = past_.insert(at, RowLayout());
  *at = layout_of(version, columns);
}

RowLayout RowCodec::layout_of(uint32_t version, const std::vector<PastColumn> &stored) const {
  RowLayout layout;
  layout.version = version;
  layout.start_length = static_cast<uint32_t>(1 + store_varint(layout.start + 1, version));
  for (const Column &column : columns_) layout.slots.push_back(record_side(column));
  const auto nullable_count = std::count_if(stored.begin(), stored.end(), [](auto &c) { return c.nullable; });
  uint32_t fixed_at = layout.start_length + static_cast<uint32_t>((nullable_count + 7) / 8);
  uint32_t null_bit = 0;
  for (const PastColumn &past : stored) {
    uint64_t bytes_max = past.length;
    const uint32_t position = is_variable(past.kind) ? layout.variable_count++ : fixed_at;
    if (!is_variable(past.kind)) fixed_at += past.length;
    const uint32_t bit = past.nullable ? null_bit++ : 0;
    for (size_t i = 0; i < columns_.size(); ++i) {
      if (columns_[i].id != past.id) continue;
      if (columns_[i].kind == ColumnKind::kBlob && past.kind == ColumnKind::kBlob)
        bytes_max = (uint64_t{1} << (8 * columns_[i].length_bytes)) - 1;  // columns never shrink
      RowSlot &slot = layout.slots[i];
      const bool fits = is_variable(past.kind) == is_variable(columns_[i].kind) &&
                        (is_variable(past.kind) || past.length == columns_[i].length);
      slot.action = fits ? action_of(columns_[i].kind) : SlotAction::kMismatch;
      slot.position = position;
      if (past.nullable) {
        slot.packed_null_offset = layout.start_length + bit / 8;
        slot.packed_null_mask = static_cast<uint8_t>(1 << bit % 8);
      }
    }
    layout.bytes_max += bytes_max;
  }
  layout.offsets_at = fixed_at;
  return layout;
}

void RowCodec::plan_packing() {
  for (uint32_t i = 0; i < current_.slots.size(); ++i) {
    const RowSlot &slot = current_.slots[i];
    const bool nullable = slot.packed_null_mask != 0;
    if (nullable) current_.nullable.push_back(i);
    if (slot.action != SlotAction::kCopy) current_.variable.push_back(i);
    if (nullable || slot.action != SlotAction::kCopy) continue;
    if (auto &runs = current_.runs; !runs.empty() &&
                                    runs.back().position + runs.back().length == slot.position &&
                                    runs.back().record_offset + runs.back().length == slot.record_offset)
      runs.back().length += slot.length;
    else
      runs.push_back({slot.position, slot.record_offset, slot.length});
  }
}

size_t RowCodec::variable_bytes_max(const uint8_t *record) const noexcept {
  size_t bytes = 0;
  for (uint32_t i : current_.variable) {
    const RowSlot &slot = current_.slots[i];
    if (record[slot.record_null_offset] & slot.record_null_mask) continue;
    bytes += slot.action == SlotAction::kChar ? slot.length
                                              : load_le_bytes(record + slot.record_offset, slot.length_bytes);
  }
  return bytes;
}

// Writes the header, the null bits and the fixed columns of a packed row. Requires: the bytes at `start` are
// 0.
void RowCodec::pack_fixed(const uint8_t *record, bool wide, uint8_t *start) const {
  const RowLayout &layout = current_;
  std::memcpy(start, layout.start, layout.start_length);
  if (wide) start[0] = kWideOffsets;
  for (const RowRun &run : layout.runs)
    copy_bytes(start + run.position, record + run.record_offset, run.length);
  for (uint32_t i : layout.nullable) {
    const RowSlot &slot = layout.slots[i];
    if (record[slot.record_null_offset] & slot.record_null_mask)
      start[slot.packed_null_offset] |= slot.packed_null_mask;
    else if (slot.action == SlotAction::kCopy)
      copy_bytes(start + slot.position, record + slot.record_offset, slot.length);
  }
}

// Writes the offsets of the variable columns. Calls take(bytes, position) for each variable column that is
// not NULL. Returns the length of all their bytes.
template <typename Take>
inline uint32_t RowCodec::pack_variable(const uint8_t *record, bool wide, uint8_t *start,
                                        const Take &take) const {
  uint8_t *offset = start + current_.offsets_at;
  uint32_t length = 0;
  for (uint32_t i : current_.variable) {
    const Column &column = columns_[i];
    if (!is_null(column, record)) {
      const std::string_view bytes = column_bytes(column, record);
      take(bytes, length);
      length += static_cast<uint32_t>(bytes.size());
    }
    if (wide)
      store_le<uint32_t>(offset, length);
    else
      store_le<uint16_t>(offset, static_cast<uint16_t>(length));
    offset += wide ? 4 : 2;
  }
  return length;
}

void RowCodec::pack(const uint8_t *record, std::string *out) const {
  const size_t variable_max = variable_bytes_max(record);
  const bool wide = variable_max > UINT16_MAX;
  const size_t old_length = out->size();
  const size_t head_length = current_.offsets_end(wide);
  out->resize(old_length + head_length + variable_max);  // fills with zeros, as pack_fixed() requires

  uint8_t *start = reinterpret_cast<uint8_t *>(out->data()) + old_length;
  pack_fixed(record, wide, start);
  uint8_t *const variable = start + head_length;
  const uint32_t length =
      pack_variable(record, wide, start, [variable](std::string_view bytes, uint32_t position) {
        copy_bytes(variable + position, as_bytes(bytes), bytes.size());
      });
  out->resize(old_length + head_length + length);
  ATOLL_ASSERT(length <= variable_max);
  ATOLL_ASSERT_DEAR([&] {
    OpenRow row;
    return open(std::string_view(*out).substr(old_length), &row) == Code::kOk;
  }());
}

void RowCodec::pack_in_parts(const uint8_t *record, std::string *head,
                             std::vector<std::string_view> *variable) const {
  const size_t variable_max = variable_bytes_max(record);
  const bool wide = variable_max > UINT16_MAX;
  head->assign(current_.offsets_end(wide), '\0');
  variable->clear();
  uint8_t *start = reinterpret_cast<uint8_t *>(head->data());
  pack_fixed(record, wide, start);
  const uint32_t length = pack_variable(
      record, wide, start, [variable](std::string_view bytes, uint32_t) { variable->push_back(bytes); });
  ATOLL_ASSERT(length <= variable_max);
}

bool RowCodec::may_exceed(size_t bytes) const {
  const auto exceeds = [bytes](const RowLayout &layout) { return layout.bytes_max > bytes; };
  return exceeds(current_) || std::any_of(past_.begin(), past_.end(), exceeds);
}

bool RowCodec::exceeds(const uint8_t *record, size_t bytes) const {
  return variable_bytes_max(record) > bytes;
}

const RowLayout *RowCodec::layout_for(uint32_t version) const noexcept {
  if (version == current_.version) return &current_;
  auto at = std::lower_bound(past_.begin(), past_.end(), version,
                             [](const RowLayout &layout, uint32_t v) { return layout.version < v; });
  return at != past_.end() && at->version == version ? &*at : nullptr;
}

// Returns the layout of the version that is named in the header of `packed`, nullptr if the version is
// unknown.
const RowLayout *RowCodec::layout_named_in(std::string_view packed) const noexcept {
  const uint8_t *start = as_bytes(packed);
  uint64_t version = 0;
  if (packed.empty()) return nullptr;
  if (load_varint(start + 1, start + packed.size(), &version) == 0 || version > UINT32_MAX) return nullptr;
  return layout_for(static_cast<uint32_t>(version));
}

inline Code RowCodec::open(std::string_view packed, OpenRow *row) const noexcept {
  const uint8_t *start = as_bytes(packed);
  const RowLayout *layout = &current_;
  // For the first 127 schema versions of a table, one byte tells whether the row has the current version.
  const bool is_current = layout->start_length == 2 && packed.size() >= 2 && start[1] == layout->start[1];
  if (!is_current && (layout = layout_named_in(packed)) == nullptr) return Code::kCorruption;
  if (start[0] > kWideOffsets) return Code::kCorruption;
  const bool wide = start[0] == kWideOffsets;
  const size_t offsets_end = layout->offsets_end(wide);
  if (packed.size() < offsets_end || packed.size() - offsets_end > UINT32_MAX) return Code::kCorruption;
  *row = {.layout = layout,
          .start = start,
          .offsets = start + layout->offsets_at,
          .variable = start + offsets_end,
          .variable_length = static_cast<uint32_t>(packed.size() - offsets_end),
          .wide = wide};
  const uint32_t count = layout->variable_count;
  const uint32_t last = count == 0 ? 0 : row->end_of(count - 1);
  return last == row->variable_length ? Code::kOk : Code::kCorruption;
}

Code RowCodec::unpack_default(size_t index, uint8_t *record) const noexcept {
  const Column &column = columns_[index];
  const std::optional<ColumnDefault> &value = defaults_[index];
  if (!value || (value->null && column.null_offset < 0)) return Code::kBug;
  set_null(column, value->null, record);
  if (value->null) {
    clear_column(column, record);
    return Code::kOk;
  }
  const RowSlot &slot = current_.slots[index];
  if (slot.action != SlotAction::kCopy)
    return store_variable(slot, value->value, record) ? Code::kOk : Code::kBug;
  if (value->value.size() != slot.length) return Code::kBug;
  copy_bytes(record + slot.record_offset, as_bytes(value->value), slot.length);
  return Code::kOk;
}

inline Code RowCodec::unpack_column(const OpenRow &row, size_t index, uint8_t *record) const noexcept {
  const RowSlot &slot = row.layout->slots[index];
  if (slot.action == SlotAction::kMismatch) return Code::kBug;
  if (slot.action == SlotAction::kDefault) return unpack_default(index, record);
  const bool null = row.null(slot);
  if (null && slot.record_null_mask == 0) return Code::kCorruption;
  uint8_t &null_byte = record[slot.record_null_offset];
  null_byte = static_cast<uint8_t>((null_byte & ~slot.record_null_mask) | (null ? slot.record_null_mask : 0));
  if (null && !columns_[index].null_bytes.empty()) {
    clear_column(columns_[index], record);
    return Code::kOk;
  }
  if (slot.action == SlotAction::kCopy) {
    copy_bytes(record + slot.record_offset, row.start + slot.position, slot.length);
    return Code::kOk;
  }
  std::string_view bytes;
  if (!row.bytes_of(slot.position, &bytes)) return Code::kCorruption;
  return store_variable(slot, bytes, record) ? Code::kOk : Code::kCorruption;
}

Status RowCodec::unpack(std::string_view packed, const std::vector<uint32_t> *wanted, uint8_t *record) const {
  OpenRow row;
  Code code = open(packed, &row);
  const size_t count = wanted == nullptr ? columns_.size() : wanted->size();
  for (size_t i = 0; code == Code::kOk && i < count; ++i)
    code = unpack_column(row, wanted == nullptr ? i : (*wanted)[i], record);
  return code == Code::kOk ? Status::Ok() : bad_row(code);
}

Code RowCodec::find_default(size_t index, PackedValue *out) const noexcept {
  const std::optional<ColumnDefault> &value = defaults_[index];
  if (!value) return Code::kBug;
  out->present = !value->null;
  out->bytes = value->value;
  return Code::kOk;
}

Code RowCodec::try_find(std::string_view packed, size_t column_index, PackedValue *out) const noexcept {
  OpenRow row;
  const Code code = open(packed, &row);
  if (code != Code::kOk) return code;
  const RowSlot &slot = row.layout->slots[column_index];
  if (slot.action == SlotAction::kMismatch) return Code::kBug;
  if (slot.action == SlotAction::kDefault) return find_default(column_index, out);
  out->present = !row.null(slot);
  if (slot.action == SlotAction::kCopy) {
    out->bytes = as_view(row.start + slot.position, slot.length);
    return Code::kOk;
  }
  if (!row.bytes_of(slot.position, &out->bytes)) return Code::kCorruption;
  const bool fits = slot.action == SlotAction::kBlob || out->bytes.size() <= slot.length;
  return fits ? Code::kOk : Code::kCorruption;
}

Status RowCodec::find(std::string_view packed, size_t column_index, PackedValue *out) const {
  const Code code = try_find(packed, column_index, out);
  return code == Code::kOk ? Status::Ok() : bad_row(code);
}

}  // namespace atoll::codec

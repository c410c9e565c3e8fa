// Functions that read and write one column of a record (see row_codec.h). The row codec and the key codec
// share them; do not use them outside this folder.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

#include "base/bytes.h"
#include "codec/row_codec.h"

namespace atoll::codec {

inline std::string_view as_view(const uint8_t *bytes, size_t length) {
  return {reinterpret_cast<const char *>(bytes), length};
}

inline const uint8_t *as_bytes(std::string_view view) {
  return reinterpret_cast<const uint8_t *>(view.data());
}

inline bool is_null(const Column &column, const uint8_t *record) {
  return column.null_offset >= 0 && (record[column.null_offset] & column.null_mask) != 0;
}

inline void set_null(const Column &column, bool null, uint8_t *record) {
  if (column.null_offset < 0) return;
  uint8_t &byte = record[column.null_offset];
  byte = static_cast<uint8_t>(null ? byte | column.null_mask : byte & ~column.null_mask);
}

// How many of the `length` bytes remain without the `pad` bytes at their end.
inline size_t length_without_pad(const uint8_t *bytes, size_t length, uint8_t pad) {
  const uint64_t eight = 0x0101010101010101ULL * pad;
  while (length >= 8 && load_le<uint64_t>(bytes + length - 8) == eight) length -= 8;
  while (length > 0 && bytes[length - 1] == pad) --length;
  return length;
}

inline const uint8_t *blob_pointer(const uint8_t *field, uint8_t length_bytes) {
  const uint8_t *pointer;
  std::memcpy(&pointer, field + length_bytes, sizeof pointer);
  return pointer;
}

inline void store_blob(uint8_t *field, uint8_t length_bytes, std::string_view bytes) {
  store_le_bytes(field, bytes.size(), length_bytes);
  const char *pointer = bytes.data();
  std::memcpy(field + length_bytes, &pointer, sizeof pointer);
}

// True if a value of `length` bytes can be described by a length prefix of `length_bytes` bytes.
inline bool length_fits(uint64_t length, uint8_t length_bytes) { return length >> (8 * length_bytes) == 0; }

// The value's bytes as a packed row holds them: a kChar without its padding. Requires: not NULL.
inline std::string_view column_bytes(const Column &column, const uint8_t *record) {
  const uint8_t *field = record + column.record_offset;
  switch (column.kind) {
    case ColumnKind::kFixed:
      return as_view(field, column.length);
    case ColumnKind::kVarchar:
      return as_view(field + column.length_bytes, load_le_bytes(field, column.length_bytes));
    case ColumnKind::kBlob:
      return as_view(blob_pointer(field, column.length_bytes), load_le_bytes(field, column.length_bytes));
    case ColumnKind::kChar:
      return as_view(field, length_without_pad(field, column.length, column.pad_byte));
  }
  return {};
}

// Fills the field of a NULL column: with `null_bytes`, which the server expects, or else with an empty value.
// So two equal rows give equal records, whatever the field held before. For a VARCHAR, the empty value is
// length 0; the field's bytes after the length do not count.
inline void clear_column(const Column &column, uint8_t *record) {
  uint8_t *field = record + column.record_offset;
  if (!column.null_bytes.empty()) {
    std::memcpy(field, column.null_bytes.data(), column.null_bytes.size());
    return;
  }
  switch (column.kind) {
    case ColumnKind::kFixed:
      std::memset(field, 0, column.length);
      return;
    case ColumnKind::kVarchar:
      std::memset(field, 0, column.length_bytes);
      return;
    case ColumnKind::kBlob:
      store_blob(field, column.length_bytes, {});
      return;
    case ColumnKind::kChar:
      std::memset(field, column.pad_byte, column.length);
      return;
  }
}

}  // namespace atoll::codec

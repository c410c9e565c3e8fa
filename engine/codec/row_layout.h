// Where each current column stands in the packed rows of one schema version: the compiled form of table
// FMT-R1, so that packing and unpacking only follow offsets. Private to RowCodec.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/namespace.h"

namespace atoll::codec {

// What to do with one column, decided once per schema version.
enum class SlotAction : uint8_t {
  kCopy,  // fixed bytes
  kVarchar,
  kBlob,
  kChar,
  kDefault,   // rows of this version do not have the column
  kMismatch,  // rows of this version hold it in a form that cannot become the current one: a caller's bug
};

struct RowSlot {
  uint32_t position = 0;  // kCopy: bytes from the row's start; variable: ordinal
  uint32_t length = 0;    // as Column::length
  uint32_t record_offset = 0;
  uint32_t record_null_offset = 0;  // with mask 0 for NOT NULL, so that no branch is needed
  uint32_t packed_null_offset = 0;  // from the row's start; with mask 0 if not nullable in this version
  uint8_t record_null_mask = 0;
  uint8_t packed_null_mask = 0;
  SlotAction action = SlotAction::kMismatch;
  uint8_t length_bytes = 0;
  uint8_t pad_byte = 0;
};

// Fixed columns that are neighbours in both the record and the packed row and are never NULL: they are copied
// at once.
struct RowRun {
  uint32_t position;
  uint32_t record_offset;
  uint32_t length;
};

struct RowLayout {
  uint32_t version = 0;
  uint8_t start[6] = {};  // header byte 0 and the version as varint
  uint32_t start_length = 0;
  uint32_t offsets_at = 0;  // bytes from the row's start to the offsets
  uint32_t variable_count = 0;
  uint64_t bytes_max = 0;      // of all columns
  std::vector<RowSlot> slots;  // one for each current column, in its order

  // Current version only.
  std::vector<RowRun> runs;              // fixed columns that are NOT NULL
  std::vector<uint32_t> nullable_fixed;  // slots
  std::vector<uint32_t> variable;        // slots, by ordinal
  std::vector<uint32_t> nullable;        // slots

  size_t offsets_end(bool wide) const { return offsets_at + (size_t{variable_count} << (wide ? 2 : 1)); }
};

}  // namespace atoll::codec

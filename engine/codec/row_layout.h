// Where the packed rows of one schema version hold each current column: table FMT-R1 turned into offsets, so
// that packing and unpacking only follow offsets. Private to RowCodec.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/namespace.h"

namespace atoll::codec {

// How RowCodec copies one column between a record and a packed row, decided once per schema version.
enum class SlotAction : uint8_t {
  kCopy,  // copy fixed bytes
  kVarchar,
  kBlob,
  kChar,
  kDefault,   // rows of this version lack the column: use its default
  kMismatch,  // the column's old form does not convert to the current one, which is a bug of the caller
};

struct RowSlot {
  uint32_t position = 0;  // kCopy: byte offset in the packed row; variable: the variable column's number
  uint32_t length = 0;    // as Column::length
  uint32_t record_offset = 0;
  uint32_t record_null_offset = 0;  // if NOT NULL: an offset with mask 0, so that no branch is needed
  uint32_t packed_null_offset = 0;  // offset in the packed row; mask 0 if the column is not nullable in this
                                    // version
  uint8_t record_null_mask = 0;
  uint8_t packed_null_mask = 0;
  SlotAction action = SlotAction::kMismatch;
  uint8_t length_bytes = 0;
  uint8_t pad_byte = 0;
};

// Fixed columns that are NOT NULL, and neighbours in the record and in the packed row. They are copied in one
// step.
struct RowRun {
  uint32_t position;
  uint32_t record_offset;
  uint32_t length;
};

struct RowLayout {
  uint32_t version = 0;
  uint8_t start[6] = {};  // header byte 0 and the version as varint
  uint32_t start_length = 0;
  uint32_t offsets_at = 0;  // offset of the offsets section in the packed row
  uint32_t variable_count = 0;
  uint64_t bytes_max = 0;      // most bytes that all columns can have together
  std::vector<RowSlot> slots;  // one for each current column, in its order

  // Current version only.
  std::vector<RowRun> runs;        // fixed columns that are NOT NULL
  std::vector<uint32_t> variable;  // indexes of slots, by ordinal
  std::vector<uint32_t> nullable;  // indexes of slots

  size_t offsets_end(bool wide) const { return offsets_at + (size_t{variable_count} << (wide ? 2 : 1)); }
};

}  // namespace atoll::codec

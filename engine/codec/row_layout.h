// Where packed rows of one schema version contain each column of the current version. The offsets that follow
// from the row format (table FMT-R1) are computed once per schema version. Packing and unpacking a row then
// only use these offsets. Private to RowCodec.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/namespace.h"

namespace atoll::codec {

// How RowCodec copies one column between a record and a packed row, decided once per schema version.
enum class SlotAction : uint8_t {
  kCopy,     // copy the bytes of a kFixed column
  kVarchar,  // copy the value of a variable column that is kVarchar in the record; likewise kBlob and kChar
  kBlob,
  kChar,
  kDefault,   // rows of this version lack the column: use its default
  kMismatch,  // the column's old form does not convert to the current one, which is a bug of the caller
};

// Where one column of the current version is, in the record and in the packed rows of one schema version.
// Fields without a comment are as in Column.
struct RowSlot {
  uint32_t position = 0;  // kCopy: byte offset in the packed row; variable: the variable column's number
  uint32_t length = 0;    // as Column::length
  uint32_t record_offset = 0;
  uint32_t record_null_offset = 0;  // of the byte with the null bit; 0 if NOT NULL. The mask is then 0, too,
                                    // so that reading the null bit needs no branch
  uint32_t packed_null_offset = 0;  // offset in the packed row; mask 0 if the column is not nullable in this
                                    // version
  uint8_t record_null_mask = 0;
  uint8_t packed_null_mask = 0;
  SlotAction action = SlotAction::kMismatch;
  uint8_t length_bytes = 0;
  uint8_t pad_byte = 0;
};

// Consecutive fixed columns that are NOT NULL and adjacent both in the record and in the packed row. One copy
// moves all of them.
struct RowRun {
  uint32_t position;       // byte offset in the packed row
  uint32_t record_offset;  // byte offset in the record
  uint32_t length;         // bytes of all these columns
};

// Where the rows of one schema version have each column. RowCodec computes one for each version.
struct RowLayout {
  uint32_t version = 0;
  uint8_t start[6] = {};        // header byte 0 and the version as varint
  uint32_t start_length = 0;    // bytes of `start` that are used
  uint32_t offsets_at = 0;      // offset of the offsets section in the packed row
  uint32_t variable_count = 0;  // number of variable columns in rows of this version
  uint64_t bytes_max = 0;       // most bytes that all columns can have together
  std::vector<RowSlot> slots;   // one for each current column, in its order

  // Set only for the current version, because only rows of this version are written.
  std::vector<RowRun> runs;        // fixed columns that are NOT NULL
  std::vector<uint32_t> variable;  // the variable columns, as indexes into `slots`, in column order
  std::vector<uint32_t> nullable;  // the nullable columns, as indexes into `slots`

  size_t offsets_end(bool wide) const { return offsets_at + (size_t{variable_count} << (wide ? 2 : 1)); }
};

}  // namespace atoll::codec

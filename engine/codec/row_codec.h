// Converts rows to bytes and back. Pure: no THD, no RocksDB, no clock.
//
// A record is MariaDB's row in memory (TABLE::record). A packed row is the value stored under a row's key.
// The layout of a packed row is table FMT-R1 of docs/internals/formats-rows.md:
//
//   header   1 byte   bit 0: each offset has 4 bytes instead of 2; other bits 0
//   version  varint   schema version the row was written with
//   nulls    ceil(nullable columns / 8) bytes
//   fixed    every fixed column at a fixed offset (a NULL one is zero-filled)
//   offsets  end of each variable column within the variable section, 2 or 4 bytes each
//   variable the bytes of the variable columns
//
// With this layout a predicate can be evaluated without unpacking the row.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "codec/row_layout.h"

namespace atoll::codec {

// How a record holds a column's bytes. The handler derives it from the column's SQL type. It decides in which
// section of a packed row the column is stored: kFixed in `fixed`, all others in `variable`.
enum class ColumnKind : uint8_t {
  kFixed = 0,    // `length` bytes, copied as they are
  kVarchar = 1,  // length prefix of `length_bytes`, then data
  kBlob = 2,     // length prefix of `length_bytes`, then a pointer to the data
  kChar = 3,     // `length` bytes padded with `pad_byte`; trailing padding is not stored
};

// A stored column of the current schema version, and where a record holds it. The handler makes it from
// the server's Field.
struct Column {
  uint32_t id = 0;  // stable within the table, never reused
  ColumnKind kind = ColumnKind::kFixed;
  uint32_t record_offset = 0;  // bytes from the start of the record
  uint32_t length = 0;         // kFixed, kChar: bytes in the record; others: largest data length
  uint8_t length_bytes = 0;    // kVarchar: 1 or 2; kBlob: 1 to 4
  uint8_t pad_byte = ' ';      // kChar: the byte that fills a value up to `length`
  int32_t null_offset = -1;    // byte of the record that holds the null bit; -1: NOT NULL
  uint8_t null_mask = 0;       // the null bit within that byte
  // The bytes that the record's field holds while the column is NULL. Empty: the field then holds an empty
  // value, which is zeros or padding. The server compares these bytes when it decides whether an UPDATE
  // changes a row.
  std::string null_bytes = {};
};

// A column as it was in an earlier schema version: what is needed to find the column's bytes in an old row.
// The fields are as in Column.
struct PastColumn {
  uint32_t id = 0;
  ColumnKind kind = ColumnKind::kFixed;
  uint32_t length = 0;
  bool nullable = false;  // true: rows of that version have a null bit for the column
};

// A column's value in rows that are older than the column: the column's default at the moment when the column
// was added. A later change of the default does not change this value.
struct ColumnDefault {
  uint32_t id = 0;         // of the column
  bool null = true;        // true: the default is NULL
  std::string value = {};  // the bytes a packed row would hold; empty if null
  bool operator==(const ColumnDefault &) const = default;
};

// The value of one column of a packed row, found without unpacking the row.
struct PackedValue {
  bool present = false;  // false: NULL. For a column that an old row lacks, see RowCodec::find()
  std::string_view bytes;
};

// Packs the rows of one table, and unpacks rows of all its schema versions. A Layout owns it. After the
// last add_past_version() it does not change, and any thread may use it.
class RowCodec {
 public:
  // `defaults`: the defaults of columns that were added when the table already had rows. Defaults of columns
  // that are not in `columns` are ignored.
  RowCodec(uint32_t schema_version, std::vector<Column> columns,
           const std::vector<ColumnDefault> &defaults = {});

  // Tells the codec which columns rows of an earlier schema version have, in which order, so that it can read
  // such rows.
  void add_past_version(uint32_t version, std::vector<PastColumn> columns);

  size_t column_count() const { return columns_.size(); }
  const Column &column(size_t index) const { return columns_[index]; }

  // Appends the packed row to `out`.
  void pack(const uint8_t *record, std::string *out) const;

  // Gives the bytes of pack() in several parts: first `head`, then each element of `variable`. The elements
  // point into the record and into the blobs that the record points to.
  void pack_in_parts(const uint8_t *record, std::string *head, std::vector<std::string_view> *variable) const;
  // True if a row of this table, of any schema version, can have more than `bytes` bytes in its columns.
  bool may_exceed(size_t bytes) const;
  // True if this row's variable columns have more than `bytes` bytes. A kChar counts with its full length.
  bool exceeds(const uint8_t *record, size_t bytes) const;

  // Writes the wanted columns (their indexes; nullptr = all) and their null bits into `record`. Blob columns
  // point into `packed`, which the caller keeps alive, or into this codec if the value is a default. Errors:
  // kCorruption, kBug (the catalog lacks a default or the past form of a column).
  Status unpack(std::string_view packed, const std::vector<uint32_t> *wanted, uint8_t *record) const;

  // Finds one column in a packed row. This costs a few loads if the row has the current version. A column
  // that an old row lacks yields its default. Errors: as unpack().
  Status find(std::string_view packed, size_t column_index, PackedValue *out) const;

  // As find(), without building a Status: kOk, kCorruption or kBug. For code that runs once per row.
  Code try_find(std::string_view packed, size_t column_index, PackedValue *out) const noexcept;

 private:
  struct OpenRow;  // a packed row whose sizes have been checked

  RowLayout layout_of(uint32_t version, const std::vector<PastColumn> &stored) const;
  void plan_packing();
  const RowLayout *layout_for(uint32_t version) const noexcept;
  const RowLayout *layout_named_in(std::string_view packed) const noexcept;
  Code open(std::string_view packed, OpenRow *row) const noexcept;
  Code unpack_column(const OpenRow &row, size_t index, uint8_t *record) const noexcept;
  Code unpack_default(size_t index, uint8_t *record) const noexcept;
  Code find_default(size_t index, PackedValue *out) const noexcept;
  size_t variable_bytes_max(const uint8_t *record) const noexcept;
  void pack_fixed(const uint8_t *record, bool wide, uint8_t *start) const;
  template <typename Take>
  uint32_t pack_variable(const uint8_t *record, bool wide, uint8_t *start, const Take &take) const;

  std::vector<Column> columns_;
  std::vector<std::optional<ColumnDefault>> defaults_;  // one per column; no value: the column has no default
  RowLayout current_;                                   // of the current schema version
  std::vector<RowLayout> past_;                         // of earlier schema versions, by ascending version
};

}  // namespace atoll::codec

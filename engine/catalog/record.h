// Encodes and decodes the keys and values of the catalog's rows. Pure functions, without RocksDB.
//
// Formats: docs/internals/formats-catalog.md. Every value is
//   version (1 byte) | crc32c of the payload (4 bytes LE) | payload
// and every payload is a fixed sequence of little-endian integers and strings (u32 length, bytes).
//
// Invariants
//   CAT-7  decode(encode(x)) == x for every x.
//   CAT-4  decode accepts a value only if it understands all its bytes: no trailing bytes, no unknown enum
//          values, and no flags but 0 and 1. Anything else is kCorruption. decode never reads outside its
//          input.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "catalog/catalog.h"
#include "catalog/record_bytes.h"

namespace atoll::catalog {

// The first byte of every key of the catalog family. Each comment names the rest of the key, if there is a
// rest, and after a colon the value.
enum class RecordKind : char {
  kAutoIncrement = 'A',  // | table id: next value to give out
  kMaskingBegun =
      'B',  // : uuid of the database in which the statements of atoll_mask_file have begun and not ended
  kDatabase = 'D',    // | name: db.opt
  kSideFile = 'F',    // | database '/' file name: content
  kMasked = 'K',      // : uuid of the database in which the statements of atoll_mask_file have run
  kMeta = 'M',        // : counters (Meta)
  kStatistics = 'S',  // | table id: statistics (table/statistics/sampling.h)
  kTable = 'T',       // | table id: TableDef
  kDoomed = 'X',      // | number: key ranges to delete (Doomed)
};

// The numbers that the catalog gives out next.
struct Meta {
  uint32_t next_id = 1;  // the next table id or prefix to give out; both come from one sequence
  uint64_t next_doomed = 1;
  bool operator==(const Meta &) const = default;
};

// Key ranges that must be deleted, because their table or index is gone from the catalog. The record is
// written in the batch that removes the table or index, so that a crash cannot leak the space.
struct Doomed {
  struct Range {
    uint32_t family_id = 0;
    std::string begin, end;  // end exclusive
    bool operator==(const Range &) const = default;
  };
  uint64_t number = 0;
  std::vector<Range> ranges;
  // Not stored: while a snapshot older than this sequence number is held, the ranges must stay, because the
  // snapshot may read them.
  uint64_t read_before = 0;
  bool operator==(const Doomed &) const = default;
};

std::string meta_key();
std::string masked_key();
std::string masking_begun_key();
std::string table_key(RecordKind kind, uint32_t table_id);  // `kind`: kTable, kAutoIncrement or kStatistics
std::string doomed_key(uint64_t number);
std::string database_key(std::string_view name);
std::string side_file_key(std::string_view database, std::string_view file_name);
// The table id in a key made by table_key(). Errors: kCorruption.
Status parse_table_key(std::string_view key, uint32_t *table_id);
Status parse_doomed_key(std::string_view key, uint64_t *number);
// Errors: kCorruption.
Status parse_side_file_key(std::string_view key, std::string *database, std::string *file_name);

std::string encode(const Meta &meta);
std::string encode(const TableDef &table);
std::string encode(const Doomed &doomed);
std::string encode_blob(
    std::string_view blob);  // value of kDatabase, kSideFile, kMasked, kMaskingBegun, kStatistics
std::string encode_number(uint64_t number);  // value of kAutoIncrement

// Errors: kCorruption, with a text that says what is wrong; the caller adds which record it was.
Status decode(std::string_view value, Meta *out);
Status decode(std::string_view value, TableDef *out);
Status decode(std::string_view value, Doomed *out);
Status decode_blob(std::string_view value, std::string *out);
Status decode_number(std::string_view value, uint64_t *out);

// The range of all keys of the table, or of one of its indexes, as [begin, end). Requires: the table is not
// logical_only.
Doomed::Range table_range(const TableDef &table);
Doomed::Range index_range(const TableDef &table, uint16_t ordinal);

}  // namespace atoll::catalog

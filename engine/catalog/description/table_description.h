// What the catalog knows of a table's columns and keys: SQL types, collations, NULL, generated columns, and
// the parts of each key. With it, code can encode rows and keys of a table that no statement has open
// (table/description/layout_builder.h), and atollctl can show the columns without a server.
//
// The server's .frm says the same, but only the server can read it. The handler makes the description from an
// open TABLE (handler/server/description.h). Each later open compares its TABLE with the stored description.
// Format of the stored description: docs/internals/formats-catalog.md, table FMT-C6.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "codec/row_codec.h"

namespace atoll::catalog {

// The type of a column. The numbers are stored; a new type gets the next number. The types kOld… are stored
// in the forms that servers wrote before MySQL 5.6, or with mysql56_temporal_format=0.
enum class SqlType : uint8_t {
  kTinyInt = 0,
  kSmallInt = 1,
  kMediumInt = 2,
  kInt = 3,
  kBigInt = 4,
  kFloat = 5,
  kDouble = 6,
  kDecimal = 7,
  kBit = 8,
  kYear = 9,
  kDate = 10,
  kTime = 11,
  kDateTime = 12,
  kTimestamp = 13,
  kOldDate = 14,
  kOldTime = 15,
  kOldDateTime = 16,
  kOldTimestamp = 17,
  kChar = 18,      // CHAR and BINARY
  kVarchar = 19,   // VARCHAR and VARBINARY
  kTinyBlob = 20,  // the BLOB types are also the TEXT types: Charset::collation tells them apart
  kBlob = 21,
  kMediumBlob = 22,
  kLongBlob = 23,
  kEnum = 24,
  kSet = 25,
  kGeometry = 26,
  kOther = 27,  // a type of a plugin, such as UUID: `record_bytes` bytes that compare as bytes
};

bool is_integer(SqlType type);  // TINYINT to BIGINT
bool is_blob(SqlType type);     // all BLOB and TEXT types, and GEOMETRY
bool is_text(SqlType type);     // CHAR, VARCHAR and all for which is_blob() is true: the value is a string

enum class Generated : uint8_t { kNo = 0, kVirtual = 1, kStored = 2 };

// Who sees the column. The values are those of the server's field_visibility_t.
enum class Visibility : uint8_t { kVisible = 0, kInvisible = 1, kSystem = 2, kHidden = 3 };

// The character set and collation of a column. Numbers and dates have none: all fields are empty then.
struct Charset {
  std::string name;       // of the character set, for example utf8mb4
  std::string collation;  // for example utf8mb4_general_ci; "binary" for bytes
  uint32_t id = 0;        // the server's number of the collation
  uint8_t bytes_min = 0;  // the fewest and the most bytes of a character
  uint8_t bytes_max = 0;
  bool operator==(const Charset &) const = default;
};

struct ColumnDescription {
  std::string name;
  SqlType type = SqlType::kInt;
  std::string type_name;  // kGeometry, kOther: the server's name of the type, for example uuid; else empty
  // Strings: the most bytes of a value. DECIMAL, FLOAT, DOUBLE, YEAR and integers: the width in characters.
  // BIT: the number of bits.
  uint32_t length = 0;
  uint8_t decimals = 0;       // numbers and times: digits behind the point. 31 or more: not limited
  uint32_t record_bytes = 0;  // the bytes that the column takes in the server's record
  uint8_t length_bytes = 0;   // VARCHAR, BLOB: how many of them are the length; else 0
  bool nullable = false;
  bool is_unsigned = false;
  bool zerofill = false;
  bool compressed = false;
  Generated generated = Generated::kNo;
  Visibility visibility = Visibility::kVisible;
  Charset charset;
  bool operator==(const ColumnDescription &) const = default;

  // Whether rows contain the column. They contain all but the virtual ones.
  bool is_stored() const { return generated != Generated::kVirtual; }
};

struct KeyPartDescription {
  uint16_t column = 0;        // its position in TableDescription::columns
  uint32_t prefix_bytes = 0;  // how many bytes of a string are indexed; 0: the whole column
  bool descending = false;
  bool operator==(const KeyPartDescription &) const = default;
};

struct KeyDescription {
  std::string name;  // the name of the catalog's IndexDef, which has the ordinal
  bool unique = false;
  // UNIQUE of unlimited length: the part is a hidden virtual column that holds a hash of the user's columns.
  bool is_long_hash = false;
  std::vector<KeyPartDescription> parts;  // without those of the primary key, with which each entry ends
  bool operator==(const KeyDescription &) const = default;
};

inline constexpr uint16_t kNoPrimaryKey = UINT16_MAX;

struct TableDescription {
  uint32_t server_version = 0;             // of the server that wrote the description, as 101118 for 10.11.18
  std::vector<ColumnDescription> columns;  // all columns, in the order of the server's fields
  std::vector<KeyDescription> keys;        // in the order of the server's keys
  uint16_t primary = kNoPrimaryKey;  // which of `keys` orders the rows; kNoPrimaryKey: a hidden key does
  bool operator==(const TableDescription &) const = default;

  // Whether there is a description. Entries that earlier versions of Atoll have written have none until a
  // server that may write opens the table.
  bool is_known() const { return !columns.empty(); }
  // Returns the position of the column or key of that name; -1: there is none. Upper and lower case of
  // letters of ASCII are the same.
  int find_column(std::string_view name) const;
  int find_key(std::string_view name) const;
};

// How a record holds the column's bytes (codec/row_codec.h).
codec::ColumnKind kind_of(const ColumnDescription &column);

// Whether the description makes sense: its parts name columns, and its lengths are possible for their types.
// All that builds a layout from the description depends on it. Errors: kCorruption, naming the column or key.
Status check(const TableDescription &description);

// The type and all attributes of a column in SQL's words, for example
// "varchar(20) COLLATE utf8mb4_general_ci NOT NULL". Labels of ENUM and SET are not known here.
std::string text_of(const ColumnDescription &column);
// The parts of a key, for example "UNIQUE (a, b(10) DESC)".
std::string text_of(const KeyDescription &key, const TableDescription &table);
std::string version_text(uint32_t server_version);  // 10.11.18 for 101118; "" for 0

// What differs between the stored description and an open table, as a sentence that names the first column or
// key that differs and shows both sides. Empty: nothing differs. Another server version is no difference.
std::string difference(const TableDescription &stored, const TableDescription &opened);

// What changed from one description to another, for people: "a: int(11) -> bigint(20); + b text; - c".
// Columns are matched by name. Empty: nothing changed, or one of the two is not known.
std::string changes(const TableDescription &before, const TableDescription &after);

}  // namespace atoll::catalog

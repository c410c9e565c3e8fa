// Converts the key values of records to bytes whose memcmp order is SQL order, and back. Pure: no THD, no
// RocksDB.
//
// A data key is   prefix (4 bytes BE, 0 if the family has one table) | index ordinal (2 bytes BE) | parts...
// The parts of a secondary index entry are the index columns followed by the primary key's parts.
//
// Invariant KEY-1: for one index, compare(a, b) by SQL rules <=> memcmp(key(a), key(b)).
// Each part: [null marker if nullable: 0x00 NULL, 0x01 value] then the encoded value. In a descending part
// every byte (marker included) is inverted. Encodings: docs/internals/formats-rows.md, tables FMT-K*.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "codec/row_codec.h"

namespace atoll::codec {

// What the codec needs to know about a collation. The handler implements this class with the server's
// CHARSET_INFO (handler/server/collation.h), so that this folder does not depend on the server.
class Collation {
 public:
  virtual ~Collation() = default;
  virtual bool pad_space() const = 0;   // PAD SPACE: 'a' = 'a '
  virtual bool byte_order() const = 0;  // the weights are the bytes of the text (binary, *_bin of 8-bit sets
                                        // and utf8), so a key gives the text back
  // True when the weights of two joined texts are the two texts' weights, joined. Under PAD SPACE, the length
  // of each text's weights must then be a multiple of the length of a space's weights.
  virtual bool single_level() const = 0;
  // True when every character has one weight. Texts with equally many characters then have equally many
  // weights.
  virtual bool weight_per_character() const = 0;
  // The most bytes that the weights of a text of `text_bytes` bytes can have.
  virtual size_t weights_length_max(size_t text_bytes) const = 0;
  // Writes the weights of `text` (no padding) and returns their length.
  virtual size_t weights(std::string_view text, uint8_t *out, size_t out_size) const = 0;
  // As weights(), for collations of several levels. Pads the text to `characters` characters first, so that
  // memcmp of the weights gives the order.
  virtual size_t weights_padded(std::string_view text, uint32_t characters, uint8_t *out,
                                size_t out_size) const = 0;
  // The weight bytes of one space (non-empty; 1 to 8 bytes).
  virtual std::string_view space_weights() const = 0;
  // The number of levels (2 or more) of a collation that compares level by level, and each level as if the
  // level were a collation of its own. A key part then consists of the levels' keys one after the other, so
  // the codec need not know how many weights a text can have. 0: the codec uses weights() and
  // weights_padded() instead.
  virtual size_t level_count() const { return 0; }
  // True when the level compares texts as if endless spaces followed them.
  virtual bool level_pads(size_t /*level*/) const { return false; }
  // The weight bytes that a space has on this level.
  virtual std::string_view level_space(size_t /*level*/) const { return {}; }
  // As weights(), but gives only the weights of one level.
  virtual size_t level_weights(std::string_view /*text*/, size_t /*level*/, uint8_t * /*out*/,
                               size_t /*out_size*/) const {
    return 0;
  }
  // Bytes taken by the first `characters` characters of `text`.
  virtual size_t prefix_bytes(std::string_view text, uint32_t characters) const = 0;
  virtual int compare(std::string_view a, std::string_view b) const = 0;
};

// The type of a key part's value. The handler derives it from the column's SQL type. It decides how the codec
// encodes the value.
enum class KeyKind : uint8_t {
  kUnsigned,  // little-endian unsigned of `length` bytes (1..8): also ENUM, SET, YEAR, old temporal types
  kSigned,    // little-endian two's complement of 1, 2, 3, 4 or 8 bytes
  kFloat,     // 4 bytes; -0.0 and 0.0 are one key
  kDouble,    // 8 bytes
  kBytes,     // `length` bytes that are memcomparable already (DECIMAL, DATETIME(n), BIT, UUID, ...)
  kBinary,    // variable bytes compared by memcmp, no padding (VARBINARY, BLOB)
  kText,      // by a Collation
};

// One part of an index: the column from which its value comes, and how the value becomes bytes. The
// handler makes it from the server's definition of the index.
struct KeyPart {
  KeyKind kind = KeyKind::kBytes;
  Column source = {};              // the column whose value the part holds (any ColumnKind)
  uint32_t prefix_length = 0;      // kBytes, kBinary: how many bytes are indexed; 0: all
  uint32_t prefix_characters = 0;  // kText: how many characters are indexed; 0: all
  bool descending = false;         // true: the index sorts this part by DESC
  bool never_null = false;         // true: no value is NULL, so the part has no marker byte
  // True: the part has a marker byte although `source` is NOT NULL, because the column of the index is
  // nullable and the values come from a row of another table (table/description/reference_key.h).
  bool always_marked = false;
  bool is_integer = false;               // kUnsigned, kSigned: SQL shows this number (not ENUM, SET, ...)
  const Collation *collation = nullptr;  // kText; outlives the codec
  // kText: a CHAR column. Its values compare as if spaces filled them up to `characters_max` characters,
  // which makes a difference under NO PAD.
  bool filled_with_spaces = false;
  uint32_t characters_max = 0;  // kText: how many characters the key part can hold
};

// True when the key of a text depends on the length (characters_max) of its column.
bool keys_depend_on_length(const Collation &collation);

// True when the part's texts compare as if endless spaces followed them. So do the texts of a CHAR column if
// every character has one weight: the spaces that fill them give all of them the same number of weights.
inline bool pads(const KeyPart &part) {
  return part.collation->pad_space() || (part.filled_with_spaces && part.collation->weight_per_character());
}

// Encodes and decodes the keys of one index. An IndexLayout owns it. Immutable, so any thread may use
// it.
class KeyCodec {
 public:
  // `parts` in key order. For a secondary index the caller appends the primary key's parts and gives the
  // number of parts the user declared as `user_parts`.
  KeyCodec(uint16_t ordinal, std::vector<KeyPart> parts, size_t user_parts);

  size_t part_count() const { return parts_.size(); }
  size_t user_parts() const { return user_parts_; }

  // Appends prefix | ordinal: the common start of every key of this index.
  void append_start(uint32_t prefix, std::string *out) const;

  // Appends the first `part_count` parts taken from `record`. Sets *has_null (may be nullptr) to true when
  // one of the first user_parts() parts is NULL, because such a key is exempt from uniqueness. Never sets
  // *has_null to false, so several calls can share it; the caller starts with false.
  void append_parts(const uint8_t *record, size_t part_count, std::string *out, bool *has_null) const;
  // Appends one part, for a caller that builds a key from more than one record.
  void append_part(const uint8_t *record, size_t part, std::string *out, bool *has_null) const;

  // Sets *bytes to the length of the first `part_count` parts of `key`, which is a key without prefix and
  // ordinal. Errors: kCorruption.
  Status skip_parts(std::string_view key, size_t part_count, size_t *bytes) const;

  // The values in `key` (a key without prefix and ordinal) as text for people, for example (7, 'a b', NULL).
  // Shows integers as numbers, and printable text of collations in byte order as text. Shows everything else
  // as bytes, X'0A', also a part that is cut off and the bytes after the last part.
  std::string text_of(std::string_view key) const;

  // True when the part's column value can be rebuilt from the key, or from the key and the unpack section.
  bool decodable(size_t part) const;

  // Appends the unpack section, the value of a secondary index entry. It holds the original bytes of parts
  // that the key alone does not give, such as collated text. It contains neither the sign of a float zero nor
  // the bits of a NaN, so decode() gives 0.0 for -0.0 and one fixed NaN for every NaN.
  void append_unpack(const uint8_t *record, std::string *out) const;

  // Writes the columns of all parts except prefix parts into `record`. `key`: a key without prefix and
  // ordinal. `unpack`: the entry's value. Columns of kind kBlob point into `unpack`, which the caller keeps
  // alive. Ignores bytes after the last part and after the unpack section, where the caller is allowed to
  // keep a hidden id. The field of a NULL column gets the bytes that the server expects, or an empty value.
  // Errors: kCorruption.
  Status decode(std::string_view key, std::string_view unpack, uint8_t *record) const;

 private:
  // Shape: in which of the encodings (tables FMT-K*) the key contains a part's value. Unpack: what the unpack
  // section contains of the part, so that a read of the index alone can rebuild the column's value: nothing,
  // the number of its trailing spaces, or its original bytes. plan_of() chooses both from the KeyPart.
  enum class Shape : uint8_t { kFixedWidth, kBinaryGroups, kPaddedGroups, kLevels };
  enum class Unpack : uint8_t { kNothing, kTrailingSpaces, kOriginal };
  // How one level of a collation is encoded.
  struct Level {
    bool padded = false;  // true: in padded groups; false: in binary groups
    uint8_t group = 0;    // weight bytes in a padded group
    std::string space;    // weights of a space
  };
  // How one part is encoded. Computed once per part, because each key needs it.
  struct Plan {
    Shape shape = Shape::kFixedWidth;
    Unpack unpack = Unpack::kNothing;
    bool marker = false;        // true: the part begins with a null marker
    bool decodable = true;      // true: decode() can rebuild the column's value; false for prefix parts
    bool filled = false;        // kText: the key includes the weights of the spaces that fill the column
    bool number = false;        // true: the kind is kUnsigned, kSigned, kFloat or kDouble
    uint8_t invert = 0;         // XOR mask of the part's bytes: 0xFF for a descending part, otherwise 0x00
    uint8_t group = 0;          // kPaddedGroups: weight bytes in a group
    uint32_t width = 0;         // kFixedWidth: bytes of the value in the key
    std::string space;          // kText: weights of a space
    std::vector<Level> levels;  // kLevels: all levels of the collation, in order
  };
  class UnpackReader;

  static Plan plan_of(const KeyPart &part);
  static void plan_text(const KeyPart &part, Plan *plan);
  // Bytes of the levels, or of the whole part, at the start of `key`. 0: the key is corrupt.
  static size_t levels_length(const Plan &plan, std::string_view key) noexcept;
  size_t part_length(const Plan &plan, std::string_view key) const noexcept;
  void append_number(const uint8_t *record, size_t part, std::string *out) const;
  void append_value(const uint8_t *record, size_t part, std::string *out) const;
  void append_text(std::string_view text, size_t part, std::string *out) const;
  void append_levels(std::string_view text, size_t part, std::string *out) const;
  std::string_view indexed_bytes(const uint8_t *record, size_t part) const;
  void append_unpack_part(const uint8_t *record, size_t part, std::string *out) const;
  bool decode_part(std::string_view encoded, size_t part, UnpackReader *unpack, uint8_t *record) const;
  bool decode_fixed(const uint8_t *value, size_t part, uint8_t *record) const;
  bool decode_groups(std::string_view groups, size_t part, uint64_t spaces, uint8_t *record) const;
  std::string text_of_part(std::string_view encoded, size_t part) const;
  bool printable_part(std::string_view groups, size_t part, std::string *out) const;

  uint16_t ordinal_;
  std::vector<KeyPart> parts_;
  size_t user_parts_;
  std::vector<Plan> plans_;  // one for each part
};

inline constexpr size_t kKeyPrefixLength = 4;                    // bytes of the table's prefix
inline constexpr size_t kKeyStartLength = kKeyPrefixLength + 2;  // bytes of prefix and index ordinal

// The smallest key greater than every key that starts with `key`. Empty: there is no such key, because all
// bytes of `key` are 0xFF.
std::string key_after_prefix(std::string_view key);

}  // namespace atoll::codec

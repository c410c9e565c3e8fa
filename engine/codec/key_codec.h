// Keys <-> bytes whose memcmp order is SQL order. Pure: no THD, no RocksDB.
//
// A data key is   prefix (4 bytes BE, 0 in a family of its own) | index ordinal (2 bytes BE) | parts...
// A secondary entry's parts are the index columns followed by the primary key's parts.
//
// Invariant KEY-1: for one index, compare(a, b) by SQL rules <=> memcmp(key(a), key(b)).
// Each part: [null marker if nullable: 0x00 NULL, 0x01 value] then the encoded value; for a descending
// part every byte (marker included) is inverted. Encodings: docs/internals/formats.md, tables K-*.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "codec/row_codec.h"

namespace atoll::codec {

// What the codec needs to know of a character set collation. Implemented by the handler over the
// server's CHARSET_INFO (handler/server/collation.h), so that this folder stays pure.
class Collation {
 public:
  virtual ~Collation() = default;
  virtual bool pad_space() const = 0;   // 'a' = 'a '
  virtual bool byte_order() const = 0;  // weights are the bytes themselves (binary, *_bin of 8-bit
                                        // sets and utf8): text can be decoded from the key
  // The weights of two joined texts are their weights joined, and under PAD SPACE the length of every text's
  // weights is a multiple of the length of a space's.
  virtual bool single_level() const = 0;
  // Every character has one weight, so that texts with equally many characters have equally many weights.
  virtual bool weight_per_character() const = 0;
  virtual size_t weights_length_max(size_t text_bytes) const = 0;
  // Writes the weights of `text` (no padding) and returns their length.
  virtual size_t weights(std::string_view text, uint8_t *out, size_t out_size) const = 0;
  // As weights(), for multi-level collations: pads the text to `characters` characters, so that memcmp alone
  // gives the order.
  virtual size_t weights_padded(std::string_view text, uint32_t characters, uint8_t *out,
                                size_t out_size) const = 0;
  // The weight bytes of one space (non-empty; 1 to 8 bytes).
  virtual std::string_view space_weights() const = 0;
  // Collations that compare level by level, each level as if it were a collation of its own, give their
  // number of levels (2 or more); a key part is then the levels' keys one after the other, without any
  // need to know how many weights a text can have. With 0, weights() and weights_padded() serve.
  virtual size_t level_count() const { return 0; }
  virtual bool level_pads(size_t /*level*/) const { return false; }  // spaces follow for ever on this level
  virtual std::string_view level_space(size_t /*level*/) const { return {}; }  // as space_weights()
  virtual size_t level_weights(std::string_view /*text*/, size_t /*level*/, uint8_t * /*out*/,
                               size_t /*out_size*/) const {
    return 0;
  }
  // Bytes taken by the first `characters` characters of `text`.
  virtual size_t prefix_bytes(std::string_view text, uint32_t characters) const = 0;
  virtual int compare(std::string_view a, std::string_view b) const = 0;
};

enum class KeyKind : uint8_t {
  kUnsigned,  // little-endian unsigned of `length` bytes (1..8): also ENUM, SET, YEAR, old temporal types
  kSigned,    // little-endian two's complement of 1, 2, 3, 4 or 8 bytes
  kFloat,     // 4 bytes; -0.0 and 0.0 are one key
  kDouble,    // 8 bytes
  kBytes,     // `length` bytes that are memcomparable already (DECIMAL, DATETIME(n), BIT, UUID, ...)
  kBinary,    // variable bytes compared by memcmp, no padding (VARBINARY, BLOB)
  kText,      // by a Collation
};

struct KeyPart {
  KeyKind kind = KeyKind::kBytes;
  Column source = {};              // where the value stands in a record (any ColumnKind)
  uint32_t prefix_length = 0;      // 0: the whole column; else bytes (kBytes/kBinary) ...
  uint32_t prefix_characters = 0;  // ... or characters (kText) that are indexed
  bool descending = false;
  bool never_null = false;               // NOT NULL: no marker byte
  bool is_integer = false;               // kUnsigned, kSigned: SQL shows this very number
  const Collation *collation = nullptr;  // kText; outlives the codec
  // kText: values compare with the spaces that fill them up to `characters_max` characters (CHAR), which
  // makes a difference under NO PAD.
  bool filled_with_spaces = false;
  uint32_t characters_max = 0;  // kText: characters the key part can hold
};

// True when the keys of one text differ between columns of different lengths (characters_max).
bool keys_depend_on_length(const Collation &collation);

// True when texts of the part compare as if spaces followed them for ever. Those of a CHAR do where every
// character has one weight: filled with spaces, all have the same number of weights.
inline bool pads(const KeyPart &part) {
  return part.collation->pad_space() || (part.filled_with_spaces && part.collation->weight_per_character());
}

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
  // one of the first user_parts() parts is NULL: such a key is exempt from uniqueness. Never sets it to
  // false, so that it adds up over calls: start with false.
  void append_parts(const uint8_t *record, size_t part_count, std::string *out, bool *has_null) const;
  // Appends one part, for keys that are assembled from two places.
  void append_part(const uint8_t *record, size_t part, std::string *out, bool *has_null) const;

  // The bytes at `key` (after prefix|ordinal) that the first `part_count` parts take.
  // Errors: kCorruption.
  Status skip_parts(std::string_view key, size_t part_count, size_t *bytes) const;

  // The values at `key` (after prefix|ordinal), for people: (7, 'a b', NULL). Integers are shown as such, and
  // so is printable text of collations in byte order; all else, also trailing bytes and the rest of a key
  // that ends early, as its bytes: X'0A'.
  std::string text_of(std::string_view key) const;

  // True when the part's column value can be rebuilt from key bytes alone (or from the unpack section).
  bool decodable(size_t part) const;

  // Value of a secondary index entry: the original bytes of parts that the key alone does not give
  // (collated text; floats whose sign of zero or NaN bits are lost are normalised, not stored).
  void append_unpack(const uint8_t *record, std::string *out) const;

  // Writes the columns of all parts (prefix parts excepted) into `record` from a key (after
  // prefix|ordinal) and the entry's value. Text columns of kind kBlob point into `key`/`unpack`/`scratch`,
  // which the caller keeps alive. Bytes after the last part and after the last section entry are the
  // caller's (a hidden row id). A NULL column's bytes become those of an empty value. Errors: kCorruption.
  Status decode(std::string_view key, std::string_view unpack, uint8_t *record, std::string *scratch) const;

 private:
  // How a part's value is laid out (tables K-*), and what a covering read needs beside the key.
  enum class Shape : uint8_t { kFixedWidth, kBinaryGroups, kPaddedGroups, kLevels };
  enum class Unpack : uint8_t { kNothing, kTrailingSpaces, kOriginal };
  struct Level {
    bool padded = false;
    uint8_t group = 0;  // weight bytes in a padded group
    std::string space;  // weights of a space
  };
  struct Plan {
    Shape shape = Shape::kFixedWidth;
    Unpack unpack = Unpack::kNothing;
    bool marker = false;
    bool decodable = true;
    bool filled = false;        // kText: the key has the weights of the spaces that fill the column
    bool number = false;        // kUnsigned, kSigned, kFloat, kDouble
    uint8_t invert = 0;         // 0xFF: descending
    uint8_t group = 0;          // kPaddedGroups: weight bytes in a group
    uint32_t width = 0;         // kFixedWidth: bytes of the value in the key
    std::string space;          // kText: weights of a space
    std::vector<Level> levels;  // kLevels
  };
  class UnpackReader;

  static Plan plan_of(const KeyPart &part);
  static void plan_text(const KeyPart &part, Plan *plan);
  static size_t levels_length(const Plan &plan, std::string_view key) noexcept;  // 0: corrupt
  size_t part_length(const Plan &plan, std::string_view key) const noexcept;     // 0: corrupt
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

inline constexpr size_t kKeyPrefixLength = 4;                    // of the table
inline constexpr size_t kKeyStartLength = kKeyPrefixLength + 2;  // and the ordinal

// The smallest key greater than every key that starts with `key`; empty = no such key (all 0xFF).
std::string key_after_prefix(std::string_view key);

}  // namespace atoll::codec

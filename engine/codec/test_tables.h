// Random tables, records and toy collations for the tests of this folder. Not part of the engine.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "codec/column_access.h"
#include "codec/key_codec.h"
#include "codec/row_codec.h"

namespace atoll::codec::testing {

class Random {
 public:
  explicit Random(uint64_t seed) : engine_(seed) {}
  uint64_t below(uint64_t end) { return engine_() % end; }
  bool one_in(uint64_t n) { return below(n) == 0; }
  uint64_t bits() { return engine_(); }
  // Returns random bytes of a small alphabet, so that equal prefixes and trailing spaces are common.
  std::string text(size_t length_max, std::string_view alphabet) {
    std::string text;
    for (size_t left = below(length_max + 1); left > 0; --left) text += alphabet[below(alphabet.size())];
    if (one_in(4)) text.resize(std::min(length_max, text.size() + below(12)), ' ');
    return text;
  }

 private:
  std::mt19937_64 engine_;
};

inline uint64_t seed_of_this_run() {
  const char *given = std::getenv("ATOLL_TEST_SEED");
  const uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device()();
  std::printf("ATOLL_TEST_SEED=%llu\n", static_cast<unsigned long long>(seed));
  return seed;
}

// The properties of a ToyCollation.
struct ToyOptions {
  size_t width = 1;  // bytes of one weight
  bool pad_space = true;
  bool byte_order = false;  // weights are the bytes; otherwise letters compare without case
  int levels = 1;           // 2: the second level compares the case of letters
  bool by_level = false;    // with 2 levels: the codec gets the weights of each level; the second always pads
};

// A collation for tests. \x01 has no weight (except in byte order), every other byte has one weight.
// compare() compares weights as numbers, independently of the byte strings that the codec gets.
class ToyCollation final : public Collation {
 public:
  explicit ToyCollation(ToyOptions options) : options_(options) { space_ = bytes_of({weight_of(' ')}); }
  bool pad_space() const override { return options_.pad_space; }
  bool byte_order() const override { return options_.byte_order; }
  bool single_level() const override { return options_.levels == 1; }
  size_t weights_length_max(size_t text_bytes) const override { return 2 * text_bytes * options_.width + 2; }
  size_t weights(std::string_view text, uint8_t *out, size_t out_size) const override {
    std::string all = bytes_of(primary(text));
    if (options_.levels == 2) all += std::string(options_.width, '\0') + secondary(text);  // no weight is 0
    return put(all, out, out_size);
  }
  size_t weights_padded(std::string_view text, uint32_t characters, uint8_t *out,
                        size_t out_size) const override {
    std::vector<uint32_t> first = primary(text);
    first.resize(characters, weight_of(' '));
    std::string second = secondary(text);
    second.resize(characters, case_of(' '));
    return put(bytes_of(first) + second, out, out_size);
  }
  std::string_view space_weights() const override { return space_; }
  size_t level_count() const override { return options_.by_level ? 2 : 0; }
  bool level_pads(size_t level) const override { return level == 1 || options_.pad_space; }
  std::string_view level_space(size_t level) const override {
    return level == 0 ? std::string_view(space_) : "\x02";  // case_of(' ')
  }
  size_t level_weights(std::string_view text, size_t level, uint8_t *out, size_t out_size) const override {
    return put(level == 0 ? bytes_of(primary(text)) : secondary(text), out, out_size);
  }
  size_t prefix_bytes(std::string_view text, uint32_t characters) const override {
    return std::min<size_t>(text.size(), characters);
  }
  bool weight_per_character() const override { return options_.byte_order; }
  int compare(std::string_view a, std::string_view b) const override {
    const int first = compare_weights(primary(a), primary(b), weight_of(' '), options_.pad_space);
    if (first != 0 || options_.levels == 1) return first;
    const std::string x = secondary(a), y = secondary(b);
    return compare_weights({x.begin(), x.end()}, {y.begin(), y.end()}, static_cast<uint32_t>(case_of(' ')),
                           options_.pad_space || options_.by_level);
  }

 private:
  uint32_t weight_of(char c) const {
    const uint32_t byte = static_cast<uint8_t>(c);
    if (options_.byte_order) return byte;
    const uint32_t upper = c >= 'a' && c <= 'z' ? byte - 32 : byte;
    return options_.width == 1 ? upper : upper * 7 + 3;  // weights then differ in their high and low bytes
  }
  static char case_of(char c) { return c >= 'a' && c <= 'z' ? 3 : 2; }
  bool ignorable(char c) const { return c == '\x01' && !options_.byte_order; }
  std::vector<uint32_t> primary(std::string_view text) const {
    std::vector<uint32_t> weights;
    for (char c : text)
      if (!ignorable(c)) weights.push_back(weight_of(c));
    return weights;
  }
  std::string secondary(std::string_view text) const {
    std::string weights;
    for (char c : text)
      if (!ignorable(c)) weights += case_of(c);
    return weights;
  }
  std::string bytes_of(const std::vector<uint32_t> &weights) const {
    std::string bytes(weights.size() * options_.width, '\0');
    for (size_t i = 0; i < weights.size(); ++i)
      store_be_bytes(reinterpret_cast<uint8_t *>(bytes.data()) + i * options_.width, weights[i],
                     options_.width);
    return bytes;
  }
  static size_t put(const std::string &bytes, uint8_t *out, size_t out_size) {
    if (bytes.size() > out_size) std::abort();
    std::memcpy(out, bytes.data(), bytes.size());
    return bytes.size();
  }
  static int compare_weights(const std::vector<uint32_t> &a, const std::vector<uint32_t> &b, uint32_t space,
                             bool pads) {
    for (size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
      if (!pads && (i >= a.size() || i >= b.size())) return i < b.size() ? -1 : 1;
      const uint32_t x = i < a.size() ? a[i] : space, y = i < b.size() ? b[i] : space;
      if (x != y) return x < y ? -1 : 1;
    }
    return 0;
  }

  ToyOptions options_;
  std::string space_;
};

inline const std::vector<std::unique_ptr<ToyCollation>> &toy_collations() {
  static const auto *all = [] {
    auto *made = new std::vector<std::unique_ptr<ToyCollation>>;
    for (const ToyOptions options :
         {ToyOptions{}, ToyOptions{.width = 2}, ToyOptions{.width = 3}, ToyOptions{.width = 4},
          ToyOptions{.pad_space = false}, ToyOptions{.width = 2, .pad_space = false},
          ToyOptions{.width = 2, .levels = 2}, ToyOptions{.width = 2, .pad_space = false, .levels = 2},
          ToyOptions{.width = 2, .levels = 2, .by_level = true},
          ToyOptions{.width = 2, .pad_space = false, .levels = 2, .by_level = true},
          ToyOptions{.byte_order = true}, ToyOptions{.pad_space = false, .byte_order = true}})
      made->push_back(std::make_unique<ToyCollation>(options));
    return made;
  }();
  return *all;
}

// Lays columns out in a record the way the server does: null bits first, then one field after another.
class Table {
 public:
  const Column &add(Column column, bool nullable) {
    column.id = static_cast<uint32_t>(columns_.size() + 1);
    if (nullable) {
      column.null_offset = static_cast<int32_t>(null_bits_ / 8);
      column.null_mask = static_cast<uint8_t>(1 << null_bits_ % 8);
      ++null_bits_;
    }
    column.record_offset = static_cast<uint32_t>(kNullBytes + fields_length_);
    switch (column.kind) {
      case ColumnKind::kFixed:
      case ColumnKind::kChar:
        fields_length_ += column.length;
        break;
      case ColumnKind::kVarchar:
        fields_length_ += column.length_bytes + column.length;
        break;
      case ColumnKind::kBlob:
        fields_length_ += column.length_bytes + sizeof(void *);
        break;
    }
    columns_.push_back(column);
    return columns_.back();
  }
  const std::vector<Column> &columns() const { return columns_; }
  size_t record_length() const { return kNullBytes + fields_length_; }

 private:
  static constexpr size_t kNullBytes = 16;
  std::vector<Column> columns_;
  size_t null_bits_ = 1;  // the server uses bit 0
  size_t fields_length_ = 0;
};

inline Column fixed(uint32_t length) { return {.kind = ColumnKind::kFixed, .length = length}; }
inline Column varchar(uint32_t length) {
  return {.kind = ColumnKind::kVarchar,
          .length = length,
          .length_bytes = static_cast<uint8_t>(length < 256 ? 1 : 2)};
}
inline Column blob(uint8_t length_bytes) {
  return {.kind = ColumnKind::kBlob, .length = 0xFFFFFFFF, .length_bytes = length_bytes};
}
inline Column padded_char(uint32_t length) { return {.kind = ColumnKind::kChar, .length = length}; }

// A record that owns the memory its blob columns point to.
class Record {
 public:
  explicit Record(const Table &table, uint8_t filler = 0xA5) : bytes_(table.record_length(), filler) {
    std::memset(bytes_.data(), 0, 16);
  }
  uint8_t *data() { return bytes_.data(); }
  const uint8_t *data() const { return bytes_.data(); }

  void set_null_value(const Column &column) { set_null(column, true, data()); }
  void set(const Column &column, std::string_view value) {
    set_null(column, false, data());
    uint8_t *field = data() + column.record_offset;
    switch (column.kind) {
      case ColumnKind::kFixed:
        std::memcpy(field, value.data(), column.length);
        return;
      case ColumnKind::kVarchar:
        store_le_bytes(field, value.size(), column.length_bytes);
        std::memcpy(field + column.length_bytes, value.data(), value.size());
        return;
      case ColumnKind::kBlob:
        blobs_.push_back(std::make_shared<const std::string>(value));
        store_blob(field, column.length_bytes, *blobs_.back());
        return;
      case ColumnKind::kChar:
        std::memset(field, column.pad_byte, column.length);
        std::memcpy(field, value.data(), value.size());
        return;
    }
  }

 private:
  std::vector<uint8_t> bytes_;
  std::vector<std::shared_ptr<const std::string>> blobs_;  // shared by copies of the record
};

// "NULL", or the value's bytes in quotes, for comparing columns of two records.
inline std::string shown(const Column &column, const uint8_t *record) {
  if (is_null(column, record)) return "NULL";
  return "'" + std::string(column_bytes(column, record)) + "'";
}

// A copy of some bytes in memory of exactly their size, so that a sanitizer reports any read beyond them.
class ExactCopy {
 public:
  explicit ExactCopy(std::string_view bytes) : size_(bytes.size()), bytes_(new char[bytes.size()]) {
    std::memcpy(bytes_.get(), bytes.data(), bytes.size());
  }
  std::string_view view() const { return {bytes_.get(), size_}; }

 private:
  size_t size_;
  std::unique_ptr<char[]> bytes_;
};

}  // namespace atoll::codec::testing

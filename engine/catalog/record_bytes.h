// Writes and reads the fields of the catalog's values (docs/internals/formats-catalog.md, table FMT-C2).
// Pure: no RocksDB. Only record.cc and description/description_record.cc use it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/status.h"

namespace atoll::catalog {

// crc32c (Castagnoli), the polynomial RocksDB uses as well.
uint32_t crc32c(std::string_view bytes);

inline constexpr char kRecordVersion = 1;         // of every value that names no other version
inline constexpr size_t kRecordHeaderLength = 5;  // 1 byte version, 4 bytes crc32c

// Appends the fields of a value. At the end seal() fills in the header, for which the first bytes are
// reserved, and returns the value.
class RecordWriter {
 public:
  RecordWriter() : bytes_(kRecordHeaderLength, '\0') {}

  void integer(uint64_t value, int bytes) {
    for (int i = 0; i < bytes; ++i) bytes_.push_back(static_cast<char>(value >> (8 * i)));
  }
  void u8(uint8_t value) { integer(value, 1); }
  void u16(uint16_t value) { integer(value, 2); }
  void u32(uint32_t value) { integer(value, 4); }
  void u64(uint64_t value) { integer(value, 8); }
  void flag(bool value) { integer(value ? 1 : 0, 1); }
  void text(std::string_view value) {
    u32(static_cast<uint32_t>(value.size()));
    bytes_.append(value);
  }

  std::string seal(char version = kRecordVersion) {
    const uint32_t crc = crc32c(std::string_view(bytes_).substr(kRecordHeaderLength));
    bytes_[0] = version;
    for (int i = 0; i < 4; ++i) bytes_[1 + i] = static_cast<char>(crc >> (8 * i));
    return std::move(bytes_);
  }
  // The fields without a header, for a value that is a string within another one. It ends the writer.
  std::string take_fields() { return bytes_.substr(kRecordHeaderLength); }

 private:
  std::string bytes_;
};

// Reads the fields of a value. After the first failure every field reads as zero or empty, and finish()
// returns the error.
class RecordReader {
 public:
  // Reads what RecordWriter::take_fields() has returned.
  static RecordReader of_fields(std::string_view fields) {
    RecordReader reader;
    reader.rest_ = fields;
    return reader;
  }
  explicit RecordReader(std::string_view value, char newest_version = kRecordVersion) {
    if (value.size() < kRecordHeaderLength) {
      fail("the record is shorter than its header");
      return;
    }
    version_ = value[0];
    if (version_ < 1 || version_ > newest_version) {
      fail("the record has an unknown version (written by a newer release?)");
      return;
    }
    uint32_t crc = 0;
    for (int i = 0; i < 4; ++i) crc |= static_cast<uint32_t>(static_cast<uint8_t>(value[1 + i])) << (8 * i);
    rest_ = value.substr(kRecordHeaderLength);
    if (crc32c(rest_) != crc) fail("the record's checksum does not match");
  }

  char version() const { return version_; }

  uint64_t integer(size_t bytes) {
    if (rest_.size() < bytes) {
      fail("the record ends too early");
      return 0;
    }
    uint64_t value = 0;
    for (size_t i = 0; i < bytes; ++i)
      value |= static_cast<uint64_t>(static_cast<uint8_t>(rest_[i])) << (8 * i);
    rest_.remove_prefix(bytes);
    return value;
  }
  uint8_t u8() { return static_cast<uint8_t>(integer(1)); }
  uint16_t u16() { return static_cast<uint16_t>(integer(2)); }
  uint32_t u32() { return static_cast<uint32_t>(integer(4)); }
  uint64_t u64() { return integer(8); }
  bool flag() {
    const uint64_t value = integer(1);
    if (value > 1) fail("a flag is neither 0 nor 1");
    return value == 1;
  }
  template <typename Enum>
  Enum enumeration(Enum last) {
    const uint8_t value = u8();
    if (value > static_cast<uint8_t>(last)) fail("an enumeration has an unknown value");
    return static_cast<Enum>(value);
  }
  std::string text() {
    const uint32_t length = u32();
    if (rest_.size() < length) {
      fail("a string is longer than its record");
      return {};
    }
    std::string value(rest_.substr(0, length));
    rest_.remove_prefix(length);
    return value;
  }
  // Reads the number of elements of a list. Each element takes at least `bytes_min` bytes, so a number that
  // does not fit into the unread bytes is an error. A broken number thus cannot cause a huge allocation.
  uint32_t count(size_t bytes_min) {
    const uint32_t value = u32();
    if (value > rest_.size() / bytes_min) {
      fail("a list is longer than its record");
      return 0;
    }
    return value;
  }

  // Refuses the value, also when all its bytes can be read. The first error counts. `what`: a literal.
  void fail(const char *what) {
    if (error_ == nullptr) error_ = what;
    rest_ = {};
  }
  bool has_failed() const { return error_ != nullptr; }

  // Errors: kCorruption.
  Status finish() {
    if (error_ == nullptr && !rest_.empty()) error_ = "the record has bytes behind its end";
    return error_ == nullptr ? Status::Ok() : Status(Code::kCorruption, error_);
  }

 private:
  RecordReader() = default;

  std::string_view rest_;
  char version_ = 0;
  const char *error_ = nullptr;
};

}  // namespace atoll::catalog

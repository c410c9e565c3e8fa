// Conditions evaluated on packed rows, without unpacking them. Pure: no THD, no RocksDB. A Predicate is
// immutable, so many threads can use it at once.
//
// A condition is true, false or unknown (when NULL is compared). A row passes only if it is true.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "codec/key_codec.h"
#include "codec/row_codec.h"

namespace atoll::codec {

enum class Truth : uint8_t { kFalse, kTrue, kUnknown };
// How a column is compared with a constant. kNullSafeEqual is SQL's <=>.
enum class CompareOp : uint8_t {
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kNullSafeEqual
};

// How a column's packed bytes are compared with a constant. The handler chooses it by the column's type.
enum class CompareAs : uint8_t { kSignedInteger, kUnsignedInteger, kFloat, kDouble, kMemcmp, kText };

struct Operand {  // the constant that a column is compared with; `as` tells which of the values is set
  CompareAs as = CompareAs::kMemcmp;
  bool is_null = false;                  // true: the constant is NULL, and no value is set
  int64_t signed_value = 0;              // kSignedInteger
  uint64_t unsigned_value = 0;           // kUnsignedInteger
  double double_value = 0;               // kFloat, kDouble
  std::string bytes = {};                // kMemcmp (already in the column's packed form), kText
  const Collation *collation = nullptr;  // kText; outlives the predicate
};

// A condition on one packed row. The handler makes a tree of them from a condition that the server has
// pushed down, and keeps it until the statement ends.
class Predicate {
 public:
  virtual ~Predicate() = default;
  // Sets *out to the condition's value for the row. Errors: kCorruption; kBug if the catalog lacks a default
  // or the past form of the column, or if the constant does not fit the column's type.
  virtual Status evaluate(const RowCodec &codec, std::string_view packed_row, Truth *out) const = 0;
  // As evaluate(), without building a Status: kOk, kCorruption or kBug. For scans.
  virtual Code try_evaluate(const RowCodec &codec, std::string_view packed_row, Truth *out) const noexcept {
    return evaluate(codec, packed_row, out).code();
  }

  // Make a condition. `column`: the column's index in the RowCodec. `negated`: NOT IN, IS NOT NULL.
  static std::unique_ptr<Predicate> compare(size_t column, CompareOp op, Operand constant);
  static std::unique_ptr<Predicate> in_list(size_t column, std::vector<Operand> constants, bool negated);
  static std::unique_ptr<Predicate> is_null(size_t column, bool negated);
  static std::unique_ptr<Predicate> all_of(std::vector<std::unique_ptr<Predicate>> children);
  static std::unique_ptr<Predicate> any_of(std::vector<std::unique_ptr<Predicate>> children);
  static std::unique_ptr<Predicate> negate(std::unique_ptr<Predicate> child);
};

}  // namespace atoll::codec

// See predicate.h. Evaluation allocates no heap memory, because it runs once per row.
#include "codec/predicate.h"

#include <algorithm>
#include <limits>
#include <type_traits>

#include "base/bytes.h"
#include "codec/column_access.h"

namespace atoll::codec {

namespace {

constexpr Truth truth_of(bool value) { return value ? Truth::kTrue : Truth::kFalse; }

constexpr Truth opposite(Truth truth) {
  if (truth == Truth::kUnknown) return truth;
  return truth_of(truth == Truth::kFalse);
}

// Base class of all conditions in this file. They implement try_evaluate(), which builds no Status;
// evaluate() makes a Status of its result.
class RowTest : public Predicate {
 public:
  Status evaluate(const RowCodec &codec, std::string_view packed_row, Truth *out) const final {
    const Code code = try_evaluate(codec, packed_row, out);
    if (code == Code::kOk) return Status::Ok();
    return Status(code, "a condition met a stored row that it cannot read");
  }
};

// The result of a comparison. kNone: one of the values is NaN, so none of less, equal and greater holds.
enum class Order : int8_t { kLess = -1, kEqual = 0, kGreater = 1, kNone = 2 };

template <typename T>
Order order_of(T a, T b) {
  if (a == b) return Order::kEqual;
  if (a < b) return Order::kLess;
  return a > b ? Order::kGreater : Order::kNone;
}

Order order_of_sign(int sign) { return sign < 0 ? Order::kLess : sign > 0 ? Order::kGreater : Order::kEqual; }

bool holds(CompareOp op, Order order) {
  switch (op) {
    case CompareOp::kEqual:
    case CompareOp::kNullSafeEqual:
      return order == Order::kEqual;
    case CompareOp::kNotEqual:
      return order != Order::kEqual;
    case CompareOp::kLess:
      return order == Order::kLess;
    case CompareOp::kLessEqual:
      return order == Order::kLess || order == Order::kEqual;
    case CompareOp::kGreater:
      return order == Order::kGreater;
    case CompareOp::kGreaterEqual:
      return order == Order::kGreater || order == Order::kEqual;
  }
  return false;
}

// unsigned_from() and signed_from() turn a stored integer of 1 to 8 bytes into the number that is compared.
uint64_t unsigned_from(std::string_view bytes) { return load_le_bytes(as_bytes(bytes), bytes.size()); }

int64_t signed_from(std::string_view bytes) {
  const unsigned shift = 64 - 8 * static_cast<unsigned>(bytes.size());
  return static_cast<int64_t>(unsigned_from(bytes) << shift) >> shift;
}

bool integer_width(std::string_view bytes) { return bytes.size() - 1 < 8; }

// Compares stored bytes with a constant. False: the bytes have a wrong length for the constant's type, and
// *order is not set.
bool order_against(std::string_view bytes, const Operand &constant, Order *order) {
  switch (constant.as) {
    case CompareAs::kSignedInteger:
      if (!integer_width(bytes)) return false;
      *order = order_of(signed_from(bytes), constant.signed_value);
      return true;
    case CompareAs::kUnsignedInteger:
      if (!integer_width(bytes)) return false;
      *order = order_of(unsigned_from(bytes), constant.unsigned_value);
      return true;
    case CompareAs::kFloat:
      if (bytes.size() != 4) return false;
      *order = order_of(static_cast<double>(load_le<float>(bytes.data())), constant.double_value);
      return true;
    case CompareAs::kDouble:
      if (bytes.size() != 8) return false;
      *order = order_of(load_le<double>(bytes.data()), constant.double_value);
      return true;
    case CompareAs::kMemcmp:
      *order = order_of_sign(bytes.compare(constant.bytes));
      return true;
    case CompareAs::kText:
      *order = order_of_sign(constant.collation->compare(bytes, constant.bytes));
      return true;
  }
  return false;
}

// The order of two constants that are compared in the same way.
Order order_of_constants(const Operand &a, const Operand &b) {
  switch (a.as) {
    case CompareAs::kSignedInteger:
      return order_of(a.signed_value, b.signed_value);
    case CompareAs::kUnsignedInteger:
      return order_of(a.unsigned_value, b.unsigned_value);
    case CompareAs::kFloat:
    case CompareAs::kDouble:
      return order_of(a.double_value, b.double_value);
    case CompareAs::kMemcmp:
      return order_of_sign(a.bytes.compare(b.bytes));
    case CompareAs::kText:
      return order_of_sign(a.collation->compare(a.bytes, b.bytes));
  }
  return Order::kNone;
}

// The condition `column OP integer` as one test of a range: begin <= value <= end, or its opposite.
template <typename Integer>
class IntegerRange final : public RowTest {
 public:
  IntegerRange(size_t column, CompareOp op, Integer constant) : column_(column), null_is_(Truth::kUnknown) {
    begin_ = std::numeric_limits<Integer>::min();
    end_ = std::numeric_limits<Integer>::max();
    switch (op) {
      case CompareOp::kNullSafeEqual:
        null_is_ = Truth::kFalse;
        [[fallthrough]];
      case CompareOp::kEqual:
        begin_ = end_ = constant;
        return;
      case CompareOp::kNotEqual:
        begin_ = end_ = constant;
        outside_ = true;
        return;
      case CompareOp::kLess:
        begin_ = constant;
        outside_ = true;
        return;
      case CompareOp::kLessEqual:
        end_ = constant;
        return;
      case CompareOp::kGreater:
        end_ = constant;
        outside_ = true;
        return;
      case CompareOp::kGreaterEqual:
        begin_ = constant;
        return;
    }
  }

  Code try_evaluate(const RowCodec &codec, std::string_view packed_row, Truth *out) const noexcept override {
    PackedValue value;
    if (const Code code = codec.try_find(packed_row, column_, &value); code != Code::kOk) return code;
    if (!value.present) {
      *out = null_is_;
      return Code::kOk;
    }
    if (!integer_width(value.bytes)) return Code::kBug;
    Integer number;
    if constexpr (std::is_signed_v<Integer>)
      number = signed_from(value.bytes);
    else
      number = unsigned_from(value.bytes);
    *out = truth_of(((begin_ <= number) & (number <= end_)) != outside_);
    return Code::kOk;
  }

 private:
  size_t column_;
  Integer begin_, end_;   // the range, both ends included
  bool outside_ = false;  // true: the condition holds for the values outside of the range
  Truth null_is_;         // the condition's value when the column is NULL
};

// The condition `column OP constant`, for a constant that is NULL or not an integer.
class Compare final : public RowTest {
 public:
  Compare(size_t column, CompareOp op, Operand constant)
      : column_(column), op_(op), constant_(std::move(constant)) {}

  Code try_evaluate(const RowCodec &codec, std::string_view packed_row, Truth *out) const noexcept override {
    PackedValue value;
    if (const Code code = codec.try_find(packed_row, column_, &value); code != Code::kOk) return code;
    if (!value.present || constant_.is_null) {
      *out =
          op_ == CompareOp::kNullSafeEqual ? truth_of(!value.present && constant_.is_null) : Truth::kUnknown;
      return Code::kOk;
    }
    Order order = Order::kNone;
    if (!order_against(value.bytes, constant_, &order)) return Code::kBug;
    *out = truth_of(holds(op_, order));
    return Code::kOk;
  }

 private:
  size_t column_;
  CompareOp op_;
  Operand constant_;
};

// The condition `column IN (constants)`. All constants are compared in the same way, and are sorted for a
// binary search.
class InList final : public RowTest {
 public:
  InList(size_t column, std::vector<Operand> constants, bool negated) : column_(column), negated_(negated) {
    for (Operand &constant : constants) {
      if (constant.is_null)
        has_null_ = true;
      else
        sorted_.push_back(std::move(constant));
    }
    std::sort(sorted_.begin(), sorted_.end(),
              [](const Operand &a, const Operand &b) { return order_of_constants(a, b) == Order::kLess; });
    if (sorted_.empty()) return;
    as_ = sorted_.front().as;
    for (const Operand &c : sorted_) {
      if (as_ == CompareAs::kSignedInteger) signed_.push_back(c.signed_value);
      if (as_ == CompareAs::kUnsignedInteger) unsigned_.push_back(c.unsigned_value);
    }
  }

  Code try_evaluate(const RowCodec &codec, std::string_view packed_row, Truth *out) const noexcept override {
    PackedValue value;
    if (const Code code = codec.try_find(packed_row, column_, &value); code != Code::kOk) return code;
    bool found = false;
    if (value.present && !contains(value.bytes, &found)) return Code::kBug;
    Truth truth = truth_of(found);
    if (!found && (has_null_ || !value.present)) truth = Truth::kUnknown;
    *out = negated_ ? opposite(truth) : truth;
    return Code::kOk;
  }

 private:
  // Sets *found to true if one of the constants equals the column's value `bytes`. Returns false if `bytes`
  // have a wrong length for the constants' type.
  bool contains(std::string_view bytes, bool *found) const {
    if (sorted_.empty()) return true;
    if (as_ == CompareAs::kSignedInteger || as_ == CompareAs::kUnsignedInteger) {
      if (!integer_width(bytes)) return false;
      *found = as_ == CompareAs::kSignedInteger
                   ? std::binary_search(signed_.begin(), signed_.end(), signed_from(bytes))
                   : std::binary_search(unsigned_.begin(), unsigned_.end(), unsigned_from(bytes));
      return true;
    }
    size_t begin = 0, end = sorted_.size();
    while (begin < end && !*found) {
      const size_t middle = begin + (end - begin) / 2;
      Order order = Order::kNone;
      if (!order_against(bytes, sorted_[middle], &order)) return false;
      *found = order == Order::kEqual;
      if (order == Order::kGreater)
        begin = middle + 1;
      else
        end = middle;
    }
    return true;
  }

  size_t column_;
  bool negated_;
  bool has_null_ = false;              // true: one of the constants is NULL
  CompareAs as_ = CompareAs::kMemcmp;  // of all constants
  std::vector<Operand> sorted_;        // the constants that are not NULL, ascending
  std::vector<int64_t> signed_;        // their numbers, if as_ is kSignedInteger
  std::vector<uint64_t> unsigned_;     // their numbers, if as_ is kUnsignedInteger
};

class IsNull final : public RowTest {
 public:
  IsNull(size_t column, bool negated) : column_(column), negated_(negated) {}

  Code try_evaluate(const RowCodec &codec, std::string_view packed_row, Truth *out) const noexcept override {
    PackedValue value;
    if (const Code code = codec.try_find(packed_row, column_, &value); code != Code::kOk) return code;
    *out = truth_of(value.present == negated_);
    return Code::kOk;
  }

 private:
  size_t column_;
  bool negated_;
};

// AND or OR of several conditions. `decisive`: the value of one condition that decides the whole, kFalse for
// AND and kTrue for OR.
class Junction final : public RowTest {
 public:
  Junction(std::vector<std::unique_ptr<Predicate>> children, Truth decisive)
      : children_(std::move(children)), decisive_(decisive) {}

  Code try_evaluate(const RowCodec &codec, std::string_view packed_row, Truth *out) const noexcept override {
    Truth result = opposite(decisive_);
    for (const auto &child : children_) {
      Truth truth = Truth::kUnknown;
      const Code code = child->try_evaluate(codec, packed_row, &truth);
      if (code != Code::kOk) return code;
      if (truth == decisive_) {
        *out = truth;
        return Code::kOk;
      }
      if (truth == Truth::kUnknown) result = truth;
    }
    *out = result;
    return Code::kOk;
  }

 private:
  std::vector<std::unique_ptr<Predicate>> children_;
  Truth decisive_;
};

class Negation final : public RowTest {
 public:
  explicit Negation(std::unique_ptr<Predicate> child) : child_(std::move(child)) {}

  Code try_evaluate(const RowCodec &codec, std::string_view packed_row, Truth *out) const noexcept override {
    Truth truth = Truth::kUnknown;
    const Code code = child_->try_evaluate(codec, packed_row, &truth);
    if (code != Code::kOk) return code;
    *out = opposite(truth);
    return Code::kOk;
  }

 private:
  std::unique_ptr<Predicate> child_;
};

// True when a binary search among the constants is possible: all are compared in the same way, and none is
// NaN. A NaN is not less than, equal to or greater than any number, so it has no place in a sorted list.
bool searchable(const std::vector<Operand> &constants) {
  const Operand *first = nullptr;
  for (const Operand &c : constants) {
    if (c.is_null) continue;
    if (first == nullptr) first = &c;
    if (c.as != first->as || c.collation != first->collation || c.double_value != c.double_value)
      return false;
  }
  return true;
}

}  // namespace

std::unique_ptr<Predicate> Predicate::compare(size_t column, CompareOp op, Operand constant) {
  if (!constant.is_null && constant.as == CompareAs::kSignedInteger)
    return std::make_unique<IntegerRange<int64_t>>(column, op, constant.signed_value);
  if (!constant.is_null && constant.as == CompareAs::kUnsignedInteger)
    return std::make_unique<IntegerRange<uint64_t>>(column, op, constant.unsigned_value);
  return std::make_unique<Compare>(column, op, std::move(constant));
}

std::unique_ptr<Predicate> Predicate::in_list(size_t column, std::vector<Operand> constants, bool negated) {
  if (searchable(constants)) return std::make_unique<InList>(column, std::move(constants), negated);
  std::vector<std::unique_ptr<Predicate>> equalities;
  for (Operand &constant : constants)
    equalities.push_back(compare(column, CompareOp::kEqual, std::move(constant)));
  auto any = any_of(std::move(equalities));
  return negated ? negate(std::move(any)) : std::move(any);
}

std::unique_ptr<Predicate> Predicate::is_null(size_t column, bool negated) {
  return std::make_unique<IsNull>(column, negated);
}

std::unique_ptr<Predicate> Predicate::all_of(std::vector<std::unique_ptr<Predicate>> children) {
  return std::make_unique<Junction>(std::move(children), Truth::kFalse);
}

std::unique_ptr<Predicate> Predicate::any_of(std::vector<std::unique_ptr<Predicate>> children) {
  return std::make_unique<Junction>(std::move(children), Truth::kTrue);
}

std::unique_ptr<Predicate> Predicate::negate(std::unique_ptr<Predicate> child) {
  return std::make_unique<Negation>(std::move(child));
}

}  // namespace atoll::codec

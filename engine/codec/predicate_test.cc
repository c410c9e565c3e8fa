// Goal:   a condition on a packed row has the truth value that SQL gives to it on the row's values.
// Method: random conditions and rows from a printed seed. The test computes the expected truth from the
//         values, with its own three-valued AND, OR and NOT. On damaged rows, a condition can end with
//         kCorruption, but it must not read outside of the row.
#include "codec/predicate.h"

#include <gtest/gtest.h>

#include "codec/test_indexes.h"

namespace atoll::codec::testing {
namespace {

constexpr Truth F = Truth::kFalse, T = Truth::kTrue, U = Truth::kUnknown;

struct Condition {
  std::unique_ptr<Predicate> predicate;
  Truth expected;
};

CompareAs compare_as(KeyKind kind) {
  switch (kind) {
    case KeyKind::kUnsigned:
      return CompareAs::kUnsignedInteger;
    case KeyKind::kSigned:
      return CompareAs::kSignedInteger;
    case KeyKind::kFloat:
      return CompareAs::kFloat;
    case KeyKind::kDouble:
      return CompareAs::kDouble;
    case KeyKind::kText:
      return CompareAs::kText;
    default:
      return CompareAs::kMemcmp;
  }
}

Operand operand_of(const KeyPart &part, const Column &column, const Record &record) {
  Operand operand{
      .as = compare_as(part.kind), .is_null = is_null(column, record.data()), .collation = part.collation};
  if (operand.is_null) return operand;
  const std::string_view bytes = column_bytes(column, record.data());
  switch (operand.as) {
    case CompareAs::kUnsignedInteger:
      operand.unsigned_value = load_le_bytes(as_bytes(bytes), bytes.size());
      break;
    case CompareAs::kSignedInteger:
      operand.signed_value = signed_number(bytes);
      break;
    case CompareAs::kFloat:
      operand.double_value = static_cast<double>(load_le<float>(bytes.data()));
      break;
    case CompareAs::kDouble:
      operand.double_value = load_le<double>(bytes.data());
      break;
    default:
      operand.bytes = bytes;
      break;
  }
  return operand;
}

Truth expected_compare(CompareOp op, const KeyPart &part, const Record &row, const Record &constant) {
  const bool null_row = is_null(part.source, row.data()),
             null_constant = is_null(part.source, constant.data());
  if (op == CompareOp::kNullSafeEqual && (null_row || null_constant))
    return null_row && null_constant ? T : F;
  if (null_row || null_constant) return U;
  const int order = order_of_values(part, column_bytes(part.source, row.data()),
                                    column_bytes(part.source, constant.data()));
  switch (op) {
    case CompareOp::kEqual:
    case CompareOp::kNullSafeEqual:
      return order == 0 ? T : F;
    case CompareOp::kNotEqual:
      return order != 0 ? T : F;
    case CompareOp::kLess:
      return order < 0 ? T : F;
    case CompareOp::kLessEqual:
      return order <= 0 ? T : F;
    case CompareOp::kGreater:
      return order > 0 ? T : F;
    case CompareOp::kGreaterEqual:
      return order >= 0 ? T : F;
  }
  return U;
}

Truth not_of(Truth t) { return t == T ? F : t == F ? T : U; }
Truth and_of(Truth a, Truth b) { return a == F || b == F ? F : a == T && b == T ? T : U; }
Truth or_of(Truth a, Truth b) { return not_of(and_of(not_of(a), not_of(b))); }

class Conditions {
 public:
  Conditions(Random &random, const Index &index, const Record &row)
      : random_(random), index_(index), row_(row) {}

  Condition make(int depth) {
    switch (random_.below(depth > 0 ? 7 : 3)) {
      case 0:
        return compare();
      case 1:
        return in_list();
      case 2:
        return null_test();
      case 3:
        return negation(depth);
      default:
        return junction(depth, random_.one_in(2));
    }
  }

 private:
  // A constant is often the value of the row itself, so that equality happens.
  Record constant() { return random_.one_in(3) ? row_ : random_record(random_, index_); }

  Condition compare() {
    const size_t column = random_.below(index_.parts.size());
    const KeyPart &part = index_.parts[column];
    const auto op = static_cast<CompareOp>(random_.below(7));
    const Record other = constant();
    return {Predicate::compare(column, op, operand_of(part, part.source, other)),
            expected_compare(op, part, row_, other)};
  }

  Condition in_list() {
    const size_t column = random_.below(index_.parts.size());
    const KeyPart &part = index_.parts[column];
    const bool negated = random_.one_in(2);
    std::vector<Operand> operands;
    Truth expected = F;
    for (size_t left = 1 + random_.below(9); left > 0; --left) {
      const Record other = constant();
      operands.push_back(operand_of(part, part.source, other));
      expected = or_of(expected, expected_compare(CompareOp::kEqual, part, row_, other));
    }
    return {Predicate::in_list(column, std::move(operands), negated), negated ? not_of(expected) : expected};
  }

  Condition null_test() {
    const size_t column = random_.below(index_.parts.size());
    const bool negated = random_.one_in(2), null = is_null(index_.parts[column].source, row_.data());
    return {Predicate::is_null(column, negated), null != negated ? T : F};
  }

  Condition negation(int depth) {
    Condition child = make(depth - 1);
    return {Predicate::negate(std::move(child.predicate)), not_of(child.expected)};
  }

  Condition junction(int depth, bool all) {
    std::vector<std::unique_ptr<Predicate>> children;
    Truth expected = all ? T : F;
    for (size_t left = random_.below(4); left > 0; --left) {
      Condition child = make(depth - 1);
      expected = all ? and_of(expected, child.expected) : or_of(expected, child.expected);
      children.push_back(std::move(child.predicate));
    }
    return {all ? Predicate::all_of(std::move(children)) : Predicate::any_of(std::move(children)), expected};
  }

  Random &random_;
  const Index &index_;
  const Record &row_;
};

Index random_columns(Random &random) {
  Index index = random_index(random);
  for (KeyPart &part : index.parts) {
    part.prefix_length = part.prefix_characters = 0;
    part.filled_with_spaces = false;  // conditions compare the texts without these spaces
  }
  return index;
}

RowCodec codec_for(const Index &index) { return RowCodec(1, index.table.columns()); }

TEST(Predicate, truth_on_packed_rows_is_truth_on_values) {
  Random random(seed_of_this_run());
  size_t seen[3] = {};
  for (int round = 0; round < 20000; ++round) {
    const Index index = random_columns(random);
    const RowCodec codec = codec_for(index);
    const Record row = random_record(random, index);
    std::string packed;
    codec.pack(row.data(), &packed);
    const Condition condition = Conditions(random, index, row).make(3);
    Truth truth = U;
    ASSERT_TRUE(condition.predicate->evaluate(codec, packed, &truth).ok());
    ASSERT_EQ(condition.expected, truth) << "round " << round;
    ++seen[static_cast<int>(truth)];
  }
  for (size_t count : seen) EXPECT_GT(count, 1000u);
}

TEST(Predicate, damaged_rows_give_an_error_or_a_truth) {
  Random random(seed_of_this_run());
  size_t refused = 0;
  for (int round = 0; round < 5000; ++round) {
    const Index index = random_columns(random);
    const RowCodec codec = codec_for(index);
    const Record row = random_record(random, index);
    std::string packed;
    codec.pack(row.data(), &packed);
    if (random.one_in(2))
      packed.resize(random.below(packed.size()));
    else
      packed[random.below(packed.size())] ^= static_cast<char>(1 << random.below(8));
    const ExactCopy copy(packed);
    Truth truth = U;
    const Status status =
        Conditions(random, index, row).make(2).predicate->evaluate(codec, copy.view(), &truth);
    if (status.ok()) continue;
    EXPECT_EQ(Code::kCorruption, status.code());
    ++refused;
  }
  EXPECT_GT(refused, 1000u);
}

TEST(Predicate, nan_equals_nothing_even_in_a_list) {
  Index index;
  index.parts.push_back({.kind = KeyKind::kDouble, .source = index.table.add(fixed(8), false)});
  Record row(index.table);
  const double one = 1.0, nan = std::numeric_limits<double>::quiet_NaN();
  row.set(index.parts[0].source, {reinterpret_cast<const char *>(&one), 8});
  const RowCodec codec = codec_for(index);
  std::string packed;
  codec.pack(row.data(), &packed);
  std::vector<Operand> constants(3, {.as = CompareAs::kDouble});
  constants[0].double_value = nan;
  constants[1].double_value = 1.0;
  constants[2].double_value = nan;
  Truth truth = U;
  ASSERT_TRUE(Predicate::in_list(0, constants, false)->evaluate(codec, packed, &truth).ok());
  EXPECT_EQ(T, truth);
  ASSERT_TRUE(Predicate::compare(0, CompareOp::kEqual, constants[0])->evaluate(codec, packed, &truth).ok());
  EXPECT_EQ(F, truth);
}

}  // namespace
}  // namespace atoll::codec::testing

// ha_atoll: conditions that the engine evaluates.
//
// cond_push() takes a WHERE condition. The parts of the condition that this file understands are evaluated on
// packed rows, by all threads of a full scan. The server still checks the whole condition on the rows that
// pass, so a predicate only has to let every matching row through.
#include "handler/ha_atoll.h"

#include <optional>

#include "base/mutant.h"
#include "handler/server/collation.h"
#include "handler/server/description.h"

using atoll::codec::CompareAs;
using atoll::codec::CompareOp;
using atoll::codec::Operand;
using atoll::codec::Predicate;
namespace ah = atoll::handler;

namespace {

using PredicatePtr = std::unique_ptr<Predicate>;

class Compiler {
 public:
  Compiler(const TABLE *table, const ah::Layout &layout) : table_(table), layout_(layout) {}

  // Returns nullptr for a condition that is not understood. With `exact` the predicate must be equivalent to
  // the condition; otherwise it may also let rows through that the condition refuses.
  PredicatePtr compile(Item *item, bool exact) {
    if (item->type() == Item::COND_ITEM) return compile_list(static_cast<Item_cond *>(item), exact);
    if (item->type() != Item::FUNC_ITEM) return nullptr;
    auto *function = static_cast<Item_func *>(item);
    switch (function->functype()) {
      case Item_func::EQ_FUNC:
        return comparison(function, CompareOp::kEqual, CompareOp::kEqual);
      case Item_func::EQUAL_FUNC:
        return comparison(function, CompareOp::kNullSafeEqual, CompareOp::kNullSafeEqual);
      case Item_func::NE_FUNC:
        return comparison(function, CompareOp::kNotEqual, CompareOp::kNotEqual);
      case Item_func::LT_FUNC:
        return comparison(function, CompareOp::kLess, CompareOp::kGreater);
      case Item_func::LE_FUNC:
        return comparison(function, CompareOp::kLessEqual, CompareOp::kGreaterEqual);
      case Item_func::GT_FUNC:
        return comparison(function, CompareOp::kGreater, CompareOp::kLess);
      case Item_func::GE_FUNC:
        return comparison(function, CompareOp::kGreaterEqual, CompareOp::kLessEqual);
      case Item_func::BETWEEN:
        return between(static_cast<Item_func_between *>(function));
      case Item_func::IN_FUNC:
        return in_list(static_cast<Item_func_in *>(function));
      case Item_func::ISNULL_FUNC:
        return null_test(function, false);
      case Item_func::ISNOTNULL_FUNC:
        return null_test(function, true);
      default:
        return nullptr;
    }
  }

 private:
  PredicatePtr compile_list(Item_cond *list, bool exact) {
    const bool is_and = list->functype() == Item_func::COND_AND_FUNC;
    if (!is_and && list->functype() != Item_func::COND_OR_FUNC) return nullptr;
    std::vector<PredicatePtr> children;
    List_iterator<Item> items(*list->argument_list());
    while (Item *item = items++) {
      PredicatePtr child = compile(item, exact);
      if (child)
        children.push_back(std::move(child));
      else if (!is_and || exact)
        return nullptr;  // an OR, or an exact predicate, needs all of its branches
    }
    if (children.empty()) return nullptr;
    return is_and ? Predicate::all_of(std::move(children)) : Predicate::any_of(std::move(children));
  }

  // The number of the stored column that `item` names; -1 if it names no stored column of this table.
  int column(Item *item, Field **field) const {
    Item *real = item->real_item();
    if (real->type() != Item::FIELD_ITEM) return -1;
    *field = static_cast<Item_field *>(real)->field;
    if ((*field)->table != table_) return -1;
    return layout_.stored_column((*field)->field_index);
  }

  // Whether the column's bytes in the row can be compared as text. For a COMPRESSED column they cannot,
  // because the row holds compressed bytes.
  static bool is_text(const Field *field) {
    if (field->compression_method() != nullptr) return false;
    return (field->real_type() == MYSQL_TYPE_VARCHAR || field->type_handler() == &type_handler_string ||
            (field->flags & BLOB_FLAG)) &&
           field->charset() != &my_charset_bin && field->type() != MYSQL_TYPE_GEOMETRY;
  }

  // Returns the constant in the representation of the column; nullopt if `item` is no constant, is expensive
  // to compute, or if SQL compares the two by other rules than those of the column.
  std::optional<Operand> constant(Field *field, Item *item, CHARSET_INFO *collation) const {
    if (!item->const_item() || item->is_expensive()) return std::nullopt;
    Operand operand;
    if (ah::is_integer(field) && item->cmp_type() == INT_RESULT) {
      const longlong value = item->val_int();
      operand.is_null = item->null_value;
      const bool is_unsigned = (field->flags & UNSIGNED_FLAG) != 0;
      // SQL compares a value outside the range of the column by rules that a predicate does not have.
      if (!operand.is_null && is_unsigned != static_cast<bool>(item->unsigned_flag) && value < 0)
        return std::nullopt;
      operand.as = is_unsigned ? CompareAs::kUnsignedInteger : CompareAs::kSignedInteger;
      operand.signed_value = value;
      operand.unsigned_value = static_cast<uint64_t>(value);
      return operand;
    }
    if (is_text(field) && item->cmp_type() == STRING_RESULT && collation == field->charset() &&
        field->charset()->mbminlen == 1) {
      StringBuffer<256> buffer;
      String *value = item->val_str(&buffer);
      operand.is_null = value == nullptr;
      operand.as = CompareAs::kText;
      operand.collation = ah::collation_for(field->charset());
      if (value == nullptr) return operand;
      if (value->charset() != field->charset() && !my_charset_same(value->charset(), field->charset()) &&
          !value->is_ascii())
        return std::nullopt;
      operand.bytes.assign(value->ptr(), value->length());
      return operand;
    }
    return std::nullopt;
  }

  PredicatePtr comparison(Item_func *function, CompareOp straight, CompareOp swapped) const {
    if (function->argument_count() != 2) return nullptr;
    Item **arguments = function->arguments();
    CHARSET_INFO *collation = static_cast<Item_bool_func2 *>(function)->compare_collation();
    for (int side = 0; side < 2; side++) {
      Field *field = nullptr;
      const int stored = column(arguments[side], &field);
      if (stored < 0) continue;
      std::optional<Operand> value = constant(field, arguments[1 - side], collation);
      if (value) return Predicate::compare(stored, side == 0 ? straight : swapped, std::move(*value));
    }
    return nullptr;
  }

  PredicatePtr between(Item_func_between *function) const {
    Field *field = nullptr;
    const int stored = column(function->arguments()[0], &field);
    if (stored < 0 || function->negated) return nullptr;
    CHARSET_INFO *collation = function->compare_collation();
    std::optional<Operand> low = constant(field, function->arguments()[1], collation);
    std::optional<Operand> high = constant(field, function->arguments()[2], collation);
    if (!low || !high) return nullptr;
    std::vector<PredicatePtr> both;
    both.push_back(Predicate::compare(stored, CompareOp::kGreaterEqual, std::move(*low)));
    both.push_back(Predicate::compare(stored, CompareOp::kLessEqual, std::move(*high)));
    return Predicate::all_of(std::move(both));
  }

  PredicatePtr in_list(Item_func_in *function) const {
    Field *field = nullptr;
    const int stored = column(function->arguments()[0], &field);
    if (stored < 0) return nullptr;
    std::vector<Operand> values;
    for (uint i = 1; i < function->argument_count(); i++) {
      std::optional<Operand> value = constant(field, function->arguments()[i], function->compare_collation());
      if (!value) return nullptr;
      values.push_back(std::move(*value));
    }
    return Predicate::in_list(stored, std::move(values), function->negated);
  }

  PredicatePtr null_test(Item_func *function, bool negated) const {
    Field *field = nullptr;
    const int stored = column(function->arguments()[0], &field);
    if (stored < 0 || field->null_ptr == nullptr) return nullptr;
    return Predicate::is_null(stored, negated);
  }

  const TABLE *table_;
  const ah::Layout &layout_;
};

}  // namespace

namespace atoll::handler {

std::unique_ptr<Predicate> compile_condition(const TABLE *table, const table::Layout &layout,
                                             const COND *condition) {
  return Compiler(table, layout).compile(const_cast<COND *>(condition), false);
}

}  // namespace atoll::handler

// Whether the statement ends after a number of rows (LIMIT ROWS EXAMINED). The server counts the rows that it
// reads, so it must get every row: a row that a pushed condition refuses would be examined and not counted.
// Nor is a condition on an index pushed. Its evaluations count as rows, and a batch of entries
// (table/row_batch.h) is evaluated before the server gets the first row of it.
bool ha_atoll::counts_rows() const noexcept { return ha_thd()->lex->limit_rows_examined != nullptr; }

const COND *ha_atoll::cond_push(const COND *condition) noexcept {
  const COND *evaluated = counts_rows() ? nullptr : condition;
  view_.set_condition(evaluated);
  reader_.filter().set_condition(evaluated != nullptr);
  return condition;
}

void ha_atoll::cond_pop() noexcept { cond_push(nullptr); }

// Takes a condition on columns of an index, which is checked on the entry before its row is looked up. The
// server compares these columns with the end of the range, too, so the entry must hold all of them in full.
Item *ha_atoll::idx_cond_push(uint index, Item *condition) noexcept {
  if (counts_rows() || atoll::is_mutant(atoll::Mutant::index_condition)) return condition;
  if (index == table_share->primary_key || !layout()->index(index).cut_fields.empty()) return condition;
  pushed_idx_cond = condition;
  pushed_idx_cond_keyno = index;
  in_range_check_pushed_down = true;
  return nullptr;
}

// Takes a filter ("rowid filter" in EXPLAIN), which lets only rows pass that are in a range of another index.
bool ha_atoll::rowid_filter_push(Rowid_filter *filter) noexcept {
  pushed_rowid_filter = filter;
  return false;
}

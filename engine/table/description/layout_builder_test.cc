// Goal:   a layout that is built from a description alone encodes rows and keys to the same bytes as one for
// the
//         records of an open table, for all types; and a description that does not fit its table is refused.
// Method: random tables of all types and random rows, each in records of two forms.
#include "table/description/layout_builder.h"

#include <gmock/gmock.h>

#include "table/description/test_rows.h"

namespace atoll::table {
namespace {

using ::testing::HasSubstr;

const ToyCollations kCollations;

std::shared_ptr<const Layout> built(const catalog::TablePtr &def, const catalog::RecordForm &form) {
  std::shared_ptr<const Layout> layout;
  const Status status = build_layout(def, def->description, form, kCollations, nullptr, &layout);
  EXPECT_TRUE(status.ok()) << status.message();
  return layout;
}

std::string packed(const Layout &layout, const DescribedRow &row) {
  std::string bytes;
  layout.row().pack(row.data(), &bytes);
  return bytes;
}

// The whole keys of a row in all indexes, each with the value of its entry.
std::vector<std::string> keys(const Layout &layout, const DescribedRow &row) {
  std::vector<std::string> all(1);
  layout.primary_key(row.data(), 77, &all[0]);
  for (size_t i = 0; i < layout.index_count(); i++) {
    if (layout.is_primary(i)) continue;
    std::string key, value;
    bool has_null = false;
    layout.secondary_entry(i, row.data(), all[0], &key, &value, &has_null);
    all.push_back(key + (has_null ? "|" : "/") + value);
  }
  return all;
}

TEST(LayoutBuilder, rows_and_keys_are_the_same_bytes_whatever_the_form_of_the_record) {
  RandomDescription random(codec::testing::seed_of_this_run());
  for (int round = 0; round < 500; round++) {
    const catalog::TablePtr def = definition_of(random.table());
    const catalog::TableDescription &description = def->description;
    const catalog::RecordForm own = own_record(description), odd = odd_record(description);
    const auto layout = built(def, own), of_open = built(def, odd);
    ASSERT_EQ(layout->index_count(), description.keys.size());
    for (int i = 0; i < 10; i++) {
      std::vector<FieldValue> values;
      for (const catalog::ColumnDescription &column : description.columns)
        values.push_back(random_value(&random, column));
      const DescribedRow one(description, own, values), other(description, odd, values);
      const std::string bytes = packed(*layout, one);
      ASSERT_EQ(bytes, packed(*of_open, other));
      ASSERT_EQ(keys(*layout, one), keys(*of_open, other));
      DescribedRow back(description, own, {});
      ASSERT_TRUE(layout->row().unpack(bytes, nullptr, back.data()).ok());
      ASSERT_EQ(packed(*layout, back), bytes);
    }
  }
}

TEST(LayoutBuilder, what_does_not_fit_the_definition_is_refused) {
  RandomDescription random(7);
  catalog::TableDescription description;
  description.columns = {random.column(catalog::SqlType::kInt), random.column(catalog::SqlType::kInt)};
  description.columns[0].generated = description.columns[1].generated = catalog::Generated::kNo;
  description.keys = {{"k", false, false, {{0, 0, false}}}};
  const auto refused = [&description](auto &&change) {
    auto def = std::make_shared<catalog::TableDef>(*definition_of(description));
    change(def.get());
    std::shared_ptr<const Layout> layout;
    const Status status =
        build_layout(def, def->description, own_record(def->description), kCollations, nullptr, &layout);
    EXPECT_EQ(status.code(), Code::kInvalid);
    return std::string(status.message());
  };
  EXPECT_THAT(refused([](auto *def) { def->column_ids.pop_back(); }), HasSubstr("more columns"));
  EXPECT_THAT(refused([](auto *def) { def->column_ids.push_back(9); }), HasSubstr("fewer columns"));
  EXPECT_THAT(refused([](auto *def) { def->indexes.back().building = true; }), HasSubstr("index k"));
  EXPECT_THAT(refused([](auto *def) { def->hidden_primary_key = false; }), HasSubstr("primary key"));
  EXPECT_THAT(refused([](auto *def) {
                catalog::ColumnDescription &column = def->description.columns[0];
                column.type = catalog::SqlType::kChar;
                column.record_bytes = column.length;
                column.charset = {"utf8mb4", "utf8mb4_uca9900_ai_ci", 9999, 1, 4};
              }),
              HasSubstr("utf8mb4_uca9900_ai_ci"));
}

}  // namespace
}  // namespace atoll::table

// Tests only: a small table without a server, sessions that read and write it, and the rows that each session
// must see.
//
//   t (id PRIMARY KEY, a NULL, KEY a (a), u NULL, UNIQUE u (u))
#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "codec/test_tables.h"
#include "table/row_cursor.h"
#include "table/write/row_writer.h"
#include "txn/test_database.h"

namespace atoll::table {

struct Row {
  uint32_t id = 0;
  std::optional<uint32_t> a = {}, u = {};
  bool operator==(const Row &) const = default;
};

inline void PrintTo(const Row &row, std::ostream *out) {
  const auto shown = [](std::optional<uint32_t> value) { return value ? std::to_string(*value) : "NULL"; };
  *out << "(" << row.id << ", " << shown(row.a) << ", " << shown(row.u) << ")";
}

using Rows = std::map<uint32_t, Row>;        // by id
using Entries = std::map<std::string, Row>;  // the entries of one index, by key
// Returns another row with the same value of `u`; nullptr: there is none.
inline const Row *twin_of(const Row &row, const Rows &rows) {
  for (const auto &[id, other] : rows)
    if (row.u && id != row.id && other.u == row.u) return &other;
  return nullptr;
}

constexpr size_t kPrimary = 0, kSecondary = 1, kUnique = 2, kIndexes = 3;

class TestTable {
 public:
  TestTable() {
    id_ = table_.add(codec::testing::fixed(4), false);
    a_ = table_.add(codec::testing::fixed(4), true);
    u_ = table_.add(codec::testing::fixed(4), true);
  }

  enum Source : size_t { kId, kA, kU };
  struct Key {
    const char *name;
    uint16_t ordinal;
    Source source;
    bool unique;
  };
  std::shared_ptr<const Layout> layout(lsm::Family *family) const { return layout(family, usual_keys()); }
  // The layout of the table with other keys. The primary key is called PRIMARY and comes first in `keys`. If
  // it is missing, the rows have hidden ids in an index with the ordinal `rows_ordinal`.
  std::shared_ptr<const Layout> layout(lsm::Family *family, const std::vector<Key> &keys,
                                       uint16_t rows_ordinal = 1) const {
    return layout(family, keys, {rows_ordinal, std::make_shared<codec::RowCodec>(1, table_.columns())});
  }
  // The layouts of the table before and after the column `u` was added. Rows from before have `value` in `u`.
  std::shared_ptr<const Layout> layout_without_u(lsm::Family *family, const std::vector<Key> &keys) const {
    return layout(family, keys, {1, row_without_u()});
  }
  std::shared_ptr<const Layout> layout_with_added_u(lsm::Family *family, uint32_t value) const {
    std::string bytes(4, '\0');
    store_le_bytes(reinterpret_cast<uint8_t *>(bytes.data()), value, 4);
    const std::vector<codec::ColumnDefault> defaults = {{u_.id, false, bytes}};
    const auto row = std::make_shared<codec::RowCodec>(2, table_.columns(), defaults);
    row->add_past_version(1, Layout::past_columns(*row_without_u()));
    return layout(family, usual_keys(), {1, row, defaults});
  }
  // The layout of a table with the same columns but no primary key. Its indexes are a (number 0) and u (1).
  std::shared_ptr<const Layout> layout_without_primary(lsm::Family *family) const {
    return layout(family, {{"a", 2, kA, false}, {"u", 3, kU, true}});
  }

  codec::testing::Record record(const Row &row) const {
    codec::testing::Record record(table_);
    set(id_, row.id, &record);
    set(a_, row.a, &record);
    set(u_, row.u, &record);
    return record;
  }
  Row row(const uint8_t *record) const { return {*get(id_, record), get(a_, record), get(u_, record)}; }
  // Returns the row in `record` with only those columns that the entries of `index` hold.
  Row entry_row(const uint8_t *record, size_t index) const {
    Row row{.id = *get(id_, record)};
    if (index == kSecondary) row.a = get(a_, record);
    if (index == kUnique) row.u = get(u_, record);
    return row;
  }
  size_t record_length() const { return table_.record_length(); }

  // Returns the key of a row in an index. `parts`: 1 for only the index's own part, 2 for it and the primary
  // key.
  std::string key(const Layout &layout, size_t number, const Row &row, size_t parts) const {
    std::string key = layout.index(number).start;
    const codec::testing::Record record = this->record(row);
    layout.index(number).codec->append_parts(record.data(), number == kPrimary ? 1 : parts, &key, nullptr);
    return key;
  }
  Entries entries(const Layout &layout, size_t number, const Rows &rows) const {
    Entries entries;
    for (const auto &[id, row] : rows) entries[key(layout, number, row, 2)] = row;
    return entries;
  }

 private:
  struct Shape {
    uint16_t rows_ordinal;
    std::shared_ptr<const codec::RowCodec> row;
    std::vector<codec::ColumnDefault> defaults = {};
  };
  std::shared_ptr<const Layout> layout(lsm::Family *family, const std::vector<Key> &keys, Shape shape) const {
    const bool hidden = keys.empty() || keys[0].name != std::string_view("PRIMARY");
    Layout::Columns columns;
    columns.row = std::move(shape.row);
    columns.stored = {0, 1, 2};
    columns.primary = hidden ? -1 : static_cast<int>(kPrimary);
    for (const Key &key : keys) columns.indexes.push_back(index(key, hidden ? key.source : keys[0].source));
    auto def = std::make_shared<catalog::TableDef>();
    def->prefix = 7;
    def->indexes.push_back({"", shape.rows_ordinal});
    def->defaults = std::move(shape.defaults);
    return std::make_shared<const Layout>(std::move(def), family, std::move(columns));
  }
  static std::vector<Key> usual_keys() {
    return {{"PRIMARY", 1, kId, true}, {"a", 2, kA, false}, {"u", 3, kU, true}};
  }
  std::shared_ptr<codec::RowCodec> row_without_u() const {
    return std::make_shared<codec::RowCodec>(1, std::vector<codec::Column>{id_, a_});
  }

  static codec::KeyPart part(const codec::Column &column) {
    codec::KeyPart part{.kind = codec::KeyKind::kUnsigned, .source = column};
    part.never_null = column.null_offset < 0;
    return part;
  }
  // Every entry ends with the primary key.
  IndexLayout index(const Key &key, Source primary) const {
    IndexLayout index;
    index.name = key.name;
    index.ordinal = key.ordinal;
    index.unique = key.unique;
    index.user_parts = 1;
    index.parts = {part(table_.columns()[key.source])};
    std::vector<codec::KeyPart> parts = index.parts;
    if (key.source != primary) parts.push_back(part(table_.columns()[primary]));
    index.codec = std::make_shared<const codec::KeyCodec>(key.ordinal, std::move(parts), 1);
    return index;
  }
  static void set(const codec::Column &column, std::optional<uint32_t> value,
                  codec::testing::Record *record) {
    std::string bytes(4, '\0');
    if (!value) return record->set_null_value(column);
    store_le_bytes(reinterpret_cast<uint8_t *>(bytes.data()), *value, 4);
    record->set(column, bytes);
  }
  static std::optional<uint32_t> get(const codec::Column &column, const uint8_t *record) {
    if (codec::is_null(column, record)) return std::nullopt;
    return static_cast<uint32_t>(load_le_bytes(record + column.record_offset, 4));
  }

  codec::testing::Table table_;
  codec::Column id_, a_, u_;
};

// A session with one transaction, a cursor and a writer. It has no pushed conditions and no virtual columns.
class PlainSession : public Statement, public RowView, public WriteView {
 public:
  PlainSession(const std::shared_ptr<const Layout> &layout, size_t record_bytes, txn::Manager *manager)
      : open_table(this),
        row_locks(open_table),
        cursor(&open_table, &row_locks, this),
        writer(&open_table, &row_locks, this),
        transaction_(manager->begin(nullptr)),
        record_(record_bytes) {
    open_table.set_layout(layout);
    open_table.connect(manager->locks(), false);
    cursor.wanted().all = true;
  }

  OpenTable open_table;
  RowLocks row_locks;
  RowCursor cursor;
  RowWriter writer;
  RowWriter::Updated updated = RowWriter::Updated::kChanged;  // of the last update

  txn::Transaction *transaction() override { return transaction_.get(); }
  bool keeps_snapshot() const override { return true; }
  uint64_t lock_wait_ms() const override { return 0; }  // the test has one thread, so a wait would never end
  bool refuses_changed_rows() const override { return false; }
  bool is_killed() const override { return false; }
  uint8_t *record() override { return record_.data(); }
  bool has_entry_condition() const override { return false; }
  Verdict check_entry() override { return Verdict::kPasses; }
  bool has_row_filter() const override { return false; }
  Verdict check_row_filter() override { return Verdict::kPasses; }
  const codec::Predicate *predicate() override { return nullptr; }
  void note_refused_row() override {}
  void complete(uint8_t *) override {}
  bool compute_virtual_columns(size_t, uint8_t *) override { return true; }
  Status each_index_of(std::string_view, const Use &) override { return Status::Ok(); }

 protected:
  std::unique_ptr<txn::Transaction> transaction_;
  std::vector<uint8_t> record_;
};

// A session on a TestTable. It also keeps the rows that the session must see.
class Session final : public PlainSession {
 public:
  Session(const TestTable &table, const std::shared_ptr<const Layout> &layout, txn::Manager *manager,
          bool keeps_snapshot)
      : PlainSession(layout, table.record_length(), manager),
        layout_(*layout),
        test_table_(table),
        manager_(manager),
        keeps_snapshot_(keeps_snapshot) {}

  std::optional<uint32_t> condition;  // set: the condition "id >= this value" is pushed
  bool has_even_condition = false;    // a condition on entries of `a` is pushed: the value is even
  bool is_statement_killed = false;

  using PlainSession::transaction;
  txn::Transaction *transaction() const { return transaction_.get(); }
  bool keeps_snapshot() const override { return keeps_snapshot_; }
  bool is_killed() const override { return is_statement_killed; }
  bool has_entry_condition() const override { return has_even_condition; }
  Verdict check_entry() override {
    return is_even(test_table_.entry_row(record(), kSecondary)) ? Verdict::kPasses : Verdict::kRefused;
  }
  const codec::Predicate *predicate() override {
    codec::Operand least{.as = codec::CompareAs::kUnsignedInteger, .unsigned_value = *condition};
    predicate_ = codec::Predicate::compare(0, codec::CompareOp::kGreaterEqual, std::move(least));
    return predicate_.get();
  }
  void note_refused_row() override { refused++; }
  Status each_index_of(std::string_view packed, const Use &use) override {
    std::vector<uint8_t> record(record_.size());
    ATOLL_RETURN_IF_ERROR(layout_.row().unpack(packed, nullptr, record.data()));
    for (size_t number = 0; number < layout_.index_count(); number++)
      if (!layout_.is_primary(number)) ATOLL_RETURN_IF_ERROR(use(number, record.data()));
    return Status::Ok();
  }

  static bool is_even(const Row &row) { return row.a.has_value() && *row.a % 2 == 0; }
  bool passes(const Row &row) const { return !condition || row.id >= *condition; }

  // ---- Which rows the session must see ----
  // The test calls this when the transaction takes its snapshot. `committed`: the rows of that moment.
  void note_snapshot(const Rows &committed) {
    if (!snapshot_) snapshot_ = committed;
  }
  void end_statement() {
    cursor.end_statement();
    *open_table.mutable_mode() = {};
    if (keeps_snapshot_) return;
    transaction_->release_snapshot();
    snapshot_.reset();
  }
  const std::optional<Rows> &snapshot() const { return snapshot_; }
  Rows visible(const Rows &below) const {
    Rows rows = below;
    for (const auto &[id, row] : own_) row ? (void)(rows[id] = *row) : (void)rows.erase(id);
    return rows;
  }
  bool has_writes() const { return !own_.empty(); }

  // ---- writing ----
  // Writes one row in a statement of its own. `now`: the stored row; nullopt: inserts `row`. `row`: the new
  // row, which may have another id; nullopt: removes the stored row. Errors: as RowWriter;
  // kLockTimeout: another transaction has locked the row, a row with the same `u`, or a range that contains
  // one of the keys.
  Status write(uint32_t id, const std::optional<Row> &now, const std::optional<Row> &row) {
    const size_t savepoint = transaction_->set_savepoint();
    const Status status = write_row(id, now, row);
    writer.end_statement();
    if (status.ok()) {
      own_[id] = std::nullopt;
      if (row) own_[row->id] = row;
      transaction_->release_savepoint(savepoint);
    } else {
      cursor.close();
      EXPECT_TRUE(transaction_->rollback_to_savepoint(savepoint).ok());
      transaction_->release_savepoint(savepoint);
    }
    return status;
  }
  // Sets a savepoint; rollback_to() then acts as ROLLBACK TO SAVEPOINT.
  size_t set_savepoint() {
    saved_ = own_;
    return transaction_->set_savepoint();
  }
  void rollback_to(size_t savepoint) {
    cursor.close();
    EXPECT_TRUE(transaction_->rollback_to_savepoint(savepoint).ok());
    own_ = saved_;
  }
  void commit(Rows *committed) {
    *committed = visible(*committed);
    cursor.close();
    EXPECT_TRUE(transaction_->commit(false).ok());
    forget();
  }
  void rollback() {
    cursor.close();
    transaction_->rollback();
    forget();
  }
  bool has_locked(uint32_t id, txn::LockMode at_least = txn::LockMode::kShared) const {
    const std::string key = test_table_.key(layout_, kPrimary, {.id = id}, 1);
    return manager_->locks()->holds(transaction_->lock_owner(), {layout_.family()->id(), key}, at_least);
  }
  bool others_hold_anything() const {
    for (const txn::LockInfo &lock : manager_->locks()->list())
      if (lock.transaction_id != transaction_->id()) return true;
    return false;
  }
  std::set<uint32_t> locked_rows(uint32_t ids) const {
    std::set<uint32_t> rows;
    for (uint32_t id = 0; id < ids; id++)
      if (has_locked(id)) rows.insert(id);
    return rows;
  }

  uint64_t refused = 0;

 private:
  void forget() {
    own_.clear();
    snapshot_.reset();
  }
  // Writes a row as a statement does that has found the row before: locks it, then updates or removes it.
  // Inserts it if `now` is empty.
  Status write_row(uint32_t id, const std::optional<Row> &now, const std::optional<Row> &row) {
    if (!now) return writer.insert(test_table_.record(*row).data(), 0);
    const std::string key = test_table_.key(layout_, kPrimary, {.id = id}, 1);
    ATOLL_RETURN_IF_ERROR(row_locks.lock(key, RowLock::kExclusive, nullptr));
    const codec::testing::Record before = test_table_.record(*now);
    if (!row) return writer.remove(before.data(), 0);
    return writer.update(before.data(), test_table_.record(*row).data(), 0, &updated);
  }

  const Layout &layout_;
  const TestTable &test_table_;
  txn::Manager *const manager_;
  const bool keeps_snapshot_;
  std::unique_ptr<codec::Predicate> predicate_;
  std::optional<Rows> snapshot_;
  std::map<uint32_t, std::optional<Row>> own_, saved_;
};

}  // namespace atoll::table

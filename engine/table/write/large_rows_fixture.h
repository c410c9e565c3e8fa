// Tests only: a table of rows that may be large, and a session that reads and writes it.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "codec/test_tables.h"
#include "table/layout.h"
#include "table/testing/stored_table.h"
#include "table/write/large_rows.h"

namespace atoll::table {

// t (id PRIMARY KEY, body LONGBLOB)
class BlobTable {
 public:
  static constexpr uint32_t kIndexedBytes = 10;

  BlobTable() {
    id_ = table_.add(codec::testing::fixed(4), false);
    body_ = table_.add(codec::testing::blob(4), false);
  }

  std::shared_ptr<const Layout> layout(lsm::Family *family) const {
    return layout(family, {index("PRIMARY", 1, id_part(), {})}, 0);
  }
  // The layout with the additional index KEY body (body(kIndexedBytes)).
  std::shared_ptr<const Layout> indexed_layout(lsm::Family *family) const {
    codec::KeyPart prefix{
        .kind = codec::KeyKind::kBinary, .source = body_, .prefix_length = kIndexedBytes, .never_null = true};
    return layout(family, {index("PRIMARY", 1, id_part(), {}), index("body", 2, prefix, {id_part()})}, 0);
  }
  // The layout without the primary key; the rows have hidden ids.
  std::shared_ptr<const Layout> numbered_layout(lsm::Family *family) const { return layout(family, {}, -1); }

  codec::testing::Record record(uint32_t id, std::string_view body) const {
    std::string bytes(4, '\0');
    store_le_bytes(reinterpret_cast<uint8_t *>(bytes.data()), id, 4);
    codec::testing::Record record(table_);
    record.set(id_, bytes);
    record.set(body_, body);
    return record;
  }
  uint32_t id(const uint8_t *record) const {
    return static_cast<uint32_t>(load_le_bytes(record + id_.record_offset, 4));
  }
  std::string_view body(const uint8_t *record) const { return codec::column_bytes(body_, record); }
  size_t record_length() const { return table_.record_length(); }

 private:
  codec::KeyPart id_part() const {
    return {.kind = codec::KeyKind::kUnsigned, .source = id_, .never_null = true};
  }
  static IndexLayout index(const char *name, uint16_t ordinal, const codec::KeyPart &part,
                           const std::vector<codec::KeyPart> &of_primary) {
    IndexLayout index;
    index.name = name;
    index.ordinal = ordinal;
    index.unique = of_primary.empty();
    index.user_parts = 1;
    index.parts = {part};
    std::vector<codec::KeyPart> parts = index.parts;
    parts.insert(parts.end(), of_primary.begin(), of_primary.end());
    index.codec = std::make_shared<const codec::KeyCodec>(ordinal, std::move(parts), 1);
    return index;
  }
  std::shared_ptr<const Layout> layout(lsm::Family *family, std::vector<IndexLayout> indexes,
                                       int primary) const {
    Layout::Columns columns;
    columns.row = std::make_shared<codec::RowCodec>(1, table_.columns());
    columns.stored = {0, 1};
    columns.primary = primary;
    columns.indexes = std::move(indexes);
    auto def = std::make_shared<catalog::TableDef>();
    def->prefix = 7;
    def->indexes.push_back({"", kNumbersOrdinal});
    return std::make_shared<const Layout>(std::move(def), family, std::move(columns));
  }

  static constexpr uint16_t kNumbersOrdinal = 4;
  codec::testing::Table table_;
  codec::Column id_, body_;
};

inline std::string text(size_t bytes, char first) {
  std::string text(bytes, '\0');
  for (size_t i = 0; i < bytes; i++) text[i] = static_cast<char>(first + i * 7 % 251);
  return text;
}

// A test with a session on a BlobTable. commit() begins a new session, and so a new transaction.
class LargeRowsFixture : public StoredTableTest<BlobTable> {
 protected:
  void SetUp() override {
    ASSERT_NO_FATAL_FAILURE(StoredTableTest::SetUp());
    begin();
  }

  void begin() {
    session_.reset();
    session_ = std::make_unique<PlainSession>(layout_, table_.record_length(), manager_.get());
    session_->writer.set_log(log_);
  }
  void commit() {
    session_->cursor.close();
    ASSERT_ATOLL_OK(session_->transaction()->commit(false));
    begin();
  }
  Status insert(uint32_t id, std::string_view body) {
    Status status = session_->writer.insert(table_.record(id, body).data(), 0);
    session_->writer.end_statement();
    return status;
  }
  // Reads the row with an exclusive lock, as UPDATE and DELETE do.
  Status lock(uint32_t id) {
    ReadMode &mode = *session_->open_table.mutable_mode();
    mode = {.lock = RowLock::kExclusive, .may_change = true};
    RowCursor::Found found = RowCursor::Found::kNone;
    session_->cursor.begin_index(0);
    ATOLL_RETURN_IF_ERROR(session_->cursor.get(key(id), false, session_->record(), &found));
    mode = {};
    return found == RowCursor::Found::kRow ? Status::Ok() : Status(Code::kNotFound, "");
  }
  Status update(uint32_t id, std::string_view body) {
    ATOLL_RETURN_IF_ERROR(lock(id));
    const std::string before(table_.body(session_->record()));
    Status status = session_->writer.update(table_.record(id, before).data(), table_.record(id, body).data(),
                                            0, &session_->updated);
    session_->writer.end_statement();
    return status;
  }
  Status remove(uint32_t id) {
    ATOLL_RETURN_IF_ERROR(lock(id));
    Status status = session_->writer.remove(session_->record(), 0);
    session_->writer.end_statement();
    return status;
  }
  // Returns the body of a row; nullopt: there is no such row, or an error occurred, which is in status_.
  std::optional<std::string> read(uint32_t id) {
    RowCursor::Found found = RowCursor::Found::kNone;
    session_->cursor.begin_index(0);
    status_ = session_->cursor.get(key(id), false, session_->record(), &found);
    if (!status_.ok() || found != RowCursor::Found::kRow) return std::nullopt;
    return std::string(table_.body(session_->record()));
  }
  // Returns the number of committed pieces of all rows.
  uint64_t pieces() {
    uint64_t count = 0;
    EXPECT_TRUE(count_row_pieces(*layout_, UINT64_MAX, &count).ok());
    return count;
  }
  std::string key(uint32_t id) const {
    std::string key;
    layout_->primary_key(table_.record(id, "").data(), 0, &key);
    return key;
  }
  std::string piece_key(uint32_t id, uint64_t number) const {
    return codec::row_piece_key(codec::row_pieces_start(key(id)), number);
  }

  std::unique_ptr<PlainSession> session_;
  Status status_;
  ChangeLog *log_ = nullptr;
};

}  // namespace atoll::table

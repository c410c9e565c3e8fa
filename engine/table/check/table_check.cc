// See table_check.h.
#include "table/check/table_check.h"

#include <memory>

#include "base/bytes.h"
#include "codec/large_row.h"
#include "table/write/large_rows.h"

namespace atoll::table {
namespace {

constexpr size_t kShownBytesMax = 64;    // the most bytes of a key or a value that a message shows
constexpr uint64_t kKilledEvery = 1024;  // entries read between two checks whether the statement was killed

std::string shown(std::string_view bytes) {
  return "0x" + to_hex(bytes.substr(0, kShownBytesMax)) + (bytes.size() > kShownBytesMax ? "..." : "");
}

}  // namespace

Status TableCheck::run(bool with_files) {
  if (with_files) ATOLL_RETURN_IF_ERROR(check_files());
  ATOLL_RETURN_IF_ERROR(check_rows());
  // Indexes are checked only if all rows could be read, because the right entries of a row that cannot be
  // read are not known.
  return problems_ == 0 ? check_indexes() : Status::Ok();
}

void TableCheck::complain(const std::string &index, const std::string &problem) {
  problems_++;
  view_.complain(index, problem);
}

// Reports damage (kCorruption) to the user as a problem, and lets the check continue. Returns other errors.
Status TableCheck::note(const Status &status, const std::string &index, const std::string &what) {
  if (status.code() != Code::kCorruption) return status;
  complain(index, what + ": " + status.message());
  return Status::Ok();
}

// Calls `visit` for each entry in [`start`, `end`). Stops early once kProblemsMax problems have been named.
Status TableCheck::each(const std::string &start, const std::string &end, const Visit &visit) {
  txn::ScanOptions options;
  options.lower = start;
  options.upper = end;
  options.fill_cache = false;
  options.readahead_bytes = 2 << 20;
  const std::unique_ptr<rocksdb::Iterator> it =
      transaction_.scan(layout_.family(), txn::ReadAt::kSnapshot, options);
  for (it->Seek(start); it->Valid() && problems_ < kProblemsMax; it->Next()) {
    if (++read_ % kKilledEvery == 0 && view_.is_killed()) return Status(Code::kInterrupted, "");
    ATOLL_RETURN_IF_ERROR(visit(it->key().ToStringView(), it->value().ToStringView()));
  }
  return lsm::from_rocksdb(it->status());
}

Status TableCheck::get(std::string_view key, rocksdb::PinnableSlice *value) {
  value->Reset();
  return transaction_.get(layout_.family(), key, txn::ReadAt::kSnapshot, value);
}

// ---- Checking files and rows ---------------------------------------------------------------------

Status TableCheck::check_files() {
  const std::string prefix = layout_.primary_index().start.substr(0, codec::kKeyPrefixLength);
  return upkeep_.verify_files(layout_.family(), prefix, codec::key_after_prefix(prefix),
                              [this] { return view_.is_killed(); });
}

Status TableCheck::check_rows() {
  const IndexLayout &primary = layout_.primary_index();
  ATOLL_RETURN_IF_ERROR(each(primary.start, primary.end, [this](std::string_view key, std::string_view row) {
    key_.assign(key);
    return note(add_row(row), "", "row with the key " + shown(key));
  }));
  return problems_ == 0 ? check_pieces() : Status::Ok();
}

Status TableCheck::add_row(std::string_view stored) {
  ATOLL_RETURN_IF_ERROR(read_row(stored));
  codec::LargeRow large;
  if (codec::is_large_row(stored) && codec::decode(stored, &large).ok()) pieces_ += large.piece_count();
  if (!layout_.hidden_primary()) {
    layout_.primary_key(view_.record(), 0, &entry_key_);
    if (entry_key_ != key_)
      return Status(Code::kCorruption,
                    "the row's values, " + view_.row_text(key_) + ", belong to another key");
  }
  // Before the entries are made: to make them computes generated columns in the record.
  for (const std::string &damage : view_.test_values(key_))
    complain("", "row " + view_.row_text(key_) + ": " + damage);
  ATOLL_RETURN_IF_ERROR(unpack_described());
  for (size_t i = 0; i < sums_.size(); i++) {
    if (layout_.is_primary(i)) continue;
    make_entry(i);
    sums_[i].add(entry_key_, entry_value_);
    compare_described(i);
  }
  return Status::Ok();
}

// Unpacks the row into the record of described_, and packs it and encodes its primary key again.
Status TableCheck::unpack_described() {
  if (described_ == nullptr) return Status::Ok();
  uint8_t *record = described_record_.data();
  ATOLL_RETURN_IF_ERROR(described_->row().unpack(packed_row_, nullptr, record).with("by the catalog"));
  const uint64_t hidden_id =
      layout_.hidden_primary() ? hidden_id_of(std::string_view(key_).substr(codec::kKeyStartLength)) : 0;
  described_->primary_key(record, hidden_id, &described_key_);
  described_value_.clear();
  described_->row().pack(record, &described_value_);
  entry_value_.clear();
  layout_.row().pack(view_.record(), &entry_value_);
  if (described_key_ != key_ || described_value_ != entry_value_)
    complain("", "row " + view_.row_text(key_) +
                     ": the columns in the catalog give other bytes than those of the open table");
  return Status::Ok();
}

// Compares the entry that make_entry() has made. Values of virtual columns are not in the row, so entries
// with such values cannot be compared.
void TableCheck::compare_described(size_t index) {
  if (described_ == nullptr) return;
  const catalog::TableDescription &description = described_->def().description;
  for (const catalog::KeyPartDescription &part : description.keys[index].parts)
    if (!description.columns[part.column].is_stored()) return;
  bool has_null = false;
  described_->secondary_entry(index, described_record_.data(), key_, &described_key_, &described_value_,
                              &has_null);
  if (described_key_ != entry_key_ || described_value_ != entry_value_)
    complain(layout_.index(index).name,
             "row " + view_.row_text(key_) +
                 ": the key in the catalog gives another entry than that of the open "
                 "table: " +
                 shown(described_key_) + " instead of " + shown(entry_key_));
}

// Reads the row of key_ into the record. BLOB columns of the record point into `stored`, or into large_row_
// for a row in pieces.
Status TableCheck::read_row(std::string_view stored) {
  if (codec::is_large_row(stored)) {
    ATOLL_RETURN_IF_ERROR(
        join_row_at(layout_, &transaction_, txn::ReadAt::kSnapshot, key_, stored, &large_row_));
    stored = large_row_;
  }
  packed_row_ = stored;
  return layout_.row().unpack(stored, nullptr, view_.record());
}

Status TableCheck::check_pieces() {
  const std::string start =
      codec::row_pieces_start(layout_.primary_index().start.substr(0, codec::kKeyPrefixLength));
  uint64_t found = 0;
  ATOLL_RETURN_IF_ERROR(
      each(start, codec::key_after_prefix(start), [&found](std::string_view, std::string_view) {
        found++;
        return Status::Ok();
      }));
  if (found != pieces_)
    complain("", "there are " + std::to_string(found) + " pieces of large rows, the rows have " +
                     std::to_string(pieces_));
  return Status::Ok();
}

// ---- Checking indexes ----------------------------------------------------------------------------

Status TableCheck::check_indexes() {
  // Once ten problems have been named, each() reads nothing more. A further index would seem to be empty, so
  // it is not checked.
  for (size_t i = 0; i < layout_.index_count() && problems_ < kProblemsMax; i++)
    if (!layout_.is_primary(i)) ATOLL_RETURN_IF_ERROR(check_index(i).with("index " + layout_.index(i).name));
  return Status::Ok();
}

Status TableCheck::check_index(size_t number) {
  const IndexLayout &index = layout_.index(number);
  EntrySum found;
  ATOLL_RETURN_IF_ERROR(each(index.start, index.end, [&found](std::string_view key, std::string_view value) {
    found.add(key, value);
    return Status::Ok();
  }));
  if (found == sums_[number]) return Status::Ok();
  const uint64_t before = problems_;
  ATOLL_RETURN_IF_ERROR(name_missing(number));
  ATOLL_RETURN_IF_ERROR(name_extra(number));
  if (problems_ == before) complain(index.name, "its entries do not match the rows");
  view_.explain_difference(number);
  return Status::Ok();
}

// Makes the entry that the index must have for the row in the record. Virtual columns are computed anew.
void TableCheck::make_entry(size_t index) {
  view_.compute_virtual_columns(index);
  bool has_null = false;
  layout_.secondary_entry(index, view_.record(), key_, &entry_key_, &entry_value_, &has_null);
}

// Reports each row whose entry is missing in the index or has another value.
Status TableCheck::name_missing(size_t number) {
  const IndexLayout &primary = layout_.primary_index();
  const std::string &name = layout_.index(number).name;
  return each(primary.start, primary.end, [&](std::string_view key, std::string_view row) {
    key_.assign(key);
    ATOLL_RETURN_IF_ERROR(read_row(row));
    make_entry(number);
    rocksdb::PinnableSlice found;
    const Status status = get(entry_key_, &found);
    if (status.code() == Code::kNotFound) {
      complain(name, "the entry of row " + view_.row_text(key_) + " is missing: " + shown(entry_key_));
      return Status::Ok();
    }
    ATOLL_RETURN_IF_ERROR(status);
    if (found.ToStringView() != entry_value_)
      complain(name, "the entry of row " + view_.row_text(key_) + " has the value " +
                         shown(found.ToStringView()) + " instead of " + shown(entry_value_));
    return Status::Ok();
  });
}

// Reports each entry of the index whose row does not exist or has other values.
Status TableCheck::name_extra(size_t number) {
  const IndexLayout &index = layout_.index(number);
  return each(index.start, index.end, [&](std::string_view entry, std::string_view) {
    const std::string what = "the entry " + shown(entry);
    Status status = layout_.primary_of_entry(number, entry, &key_);
    if (!status.ok()) return note(status, index.name, what);
    rocksdb::PinnableSlice row;
    status = get(key_, &row);
    if (status.code() == Code::kNotFound) {
      complain(index.name, what + " belongs to a row that does not exist, with the key " + shown(key_));
      return Status::Ok();
    }
    if (status.ok()) status = read_row(row.ToStringView());
    ATOLL_RETURN_IF_ERROR(status);
    make_entry(number);
    if (entry_key_ != entry)
      complain(index.name, what + " has other values than its row " + view_.row_text(key_));
    return Status::Ok();
  });
}

}  // namespace atoll::table

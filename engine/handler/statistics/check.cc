// ha_atoll: CHECK.
//
// All reads of one CHECK are made at one snapshot, so that rows and entries belong
// together while others write:
//
//   rows ──▶ decode ──▶ the entries that they must have ──▶ a sum for each index ──┐
//   entries of each index ───────────────────────────────▶ a sum ──────────────────┴──▶ equal?
//
// Both are scans. To look up the entries of each row instead would read a block of the index for each entry.
// Only where sums differ, entries and rows are looked up, to name what is wrong.
#include "handler/ha_atoll.h"

#include <utility>

#include "base/bytes.h"
#include "base/log.h"
#include "codec/large_row.h"
#include "engine/running.h"
#include "handler/ddl/table_name.h"
#include "handler/server/error_map.h"
#include "handler/write/virtual_columns.h"
#include "table/write/large_rows.h"

using atoll::Code;
using atoll::Status;
namespace ah = atoll::handler;
namespace codec = atoll::codec;
namespace txn = atoll::txn;

namespace {

constexpr uint64_t kProblemsMax = 10;    // named by one CHECK
constexpr size_t kShownBytesMax = 64;    // of a key or a value in a message
constexpr uint64_t kKilledEvery = 1024;  // entries between two looks whether the statement was killed

std::string shown(std::string_view bytes) {
  return "0x" + atoll::to_hex(bytes.substr(0, kShownBytesMax)) + (bytes.size() > kShownBytesMax ? "..." : "");
}

// Equal for equal sets of entries in whatever order they come; for others all but never (64 bits).
class EntrySum {
 public:
  void add(std::string_view key, std::string_view value) {
    const std::hash<std::string_view> hash;
    count_++;
    hashes_ +=
        hash(key) * (2 * static_cast<uint64_t>(hash(value)) + 1);  // which value is of which key counts
  }
  bool operator==(const EntrySum &) const = default;

 private:
  uint64_t count_ = 0, hashes_ = 0;
};

// What to tell the user of a CHECK that could not be finished.
std::string explained(const Status &status) {
  if (status.code() == Code::kInterrupted) return "CHECK TABLE was interrupted";
  const std::string message = status.message();
  if (status.code() == Code::kUnavailable)
    return message +
           "; nothing is known to be damaged. Repeat CHECK TABLE when the bucket and the disk can be read";
  return message + "; CHECK TABLE could not be finished and says nothing about the table";
}

}  // namespace

class ha_atoll::Check {
 public:
  Check(ha_atoll *handler, THD *thd)
      : h_(*handler), thd_(thd), layout_(*handler->layout_), sums_(layout_.index_count()) {}

  int run(bool with_files) {
    Status status = with_files ? check_files() : Status::Ok();
    if (status.ok()) status = check_rows();
    // What a row that cannot be read would have in the indexes is not known.
    if (status.ok() && problems_ == 0) status = check_indexes();
    if (status.ok()) return problems_ == 0 ? HA_ADMIN_OK : HA_ADMIN_CORRUPT;
    return fail(status);
  }

 private:
  using Visit = std::function<Status(std::string_view key, std::string_view value)>;

  int fail(const Status &status) {
    if (status.code() == Code::kCorruption) {
      complain("", status.message());
    } else {
      const std::string text = "ATOLL: " + place("") + ": " + explained(status);
      push_warning(thd_, Sql_condition::WARN_LEVEL_ERROR, ER_GET_ERRMSG, text.c_str());
    }
    return problems_ == 0 ? HA_ADMIN_FAILED : HA_ADMIN_CORRUPT;
  }

  std::string place(const std::string &index) const {
    // Not by its definition, which names the schema of the present where a mount shows the past.
    const std::string table = "table " + ah::shown_table(thd_, h_.table_share);
    return index.empty() ? table : table + ", index " + index;
  }

  void complain(const std::string &index, const std::string &problem) {
    const std::string text = place(index) + ": " + problem;
    atoll::log_error(text);
    push_warning(thd_, Sql_condition::WARN_LEVEL_ERROR, ER_NOT_KEYFILE, ("ATOLL: " + text).c_str());
    problems_++;
  }

  // Damage that does not keep CHECK from going on becomes a problem.
  Status note(const Status &status, const std::string &index, const std::string &what) {
    if (status.code() != Code::kCorruption) return status;
    complain(index, what + ": " + status.message());
    return Status::Ok();
  }

  bool is_killed() const { return atoll::is_statement_killed(thd_); }

  Status check_files() {
    const std::string prefix = layout_.primary_index().start.substr(0, codec::kKeyPrefixLength);
    return atoll::engine::running()->database()->verify_files(
        layout_.family(), prefix, codec::key_after_prefix(prefix), [this] { return is_killed(); });
  }

  // Ends early when enough problems have been named.
  Status each(const std::string &start, const std::string &end, const Visit &visit) {
    txn::ScanOptions options;
    options.lower = start;
    options.upper = end;
    options.fill_cache = false;
    options.readahead_bytes = 2 << 20;
    const std::unique_ptr<rocksdb::Iterator> it =
        h_.transaction()->scan(layout_.family(), txn::ReadAt::kSnapshot, options);
    for (it->Seek(start); it->Valid() && problems_ < kProblemsMax; it->Next()) {
      if (++read_ % kKilledEvery == 0 && is_killed()) return Status(Code::kInterrupted, "");
      ATOLL_RETURN_IF_ERROR(visit(it->key().ToStringView(), it->value().ToStringView()));
    }
    return atoll::lsm::from_rocksdb(it->status());
  }

  // ---- rows ----

  Status check_rows() {
    const ah::IndexLayout &primary = layout_.primary_index();
    ATOLL_RETURN_IF_ERROR(
        each(primary.start, primary.end, [this](std::string_view key, std::string_view row) {
          key_.assign(key);
          const Status status = add_row(row);
          return note(status, "", "row with the key " + shown(key));
        }));
    return problems_ == 0 ? check_pieces() : Status::Ok();
  }

  Status add_row(std::string_view stored) {
    ATOLL_RETURN_IF_ERROR(read_row(stored));
    codec::LargeRow large;
    if (codec::is_large_row(stored) && codec::decode(stored, &large).ok()) pieces_ += large.piece_count();
    if (!layout_.hidden_primary()) {
      layout_.primary_key(record(), 0, &entry_key_);
      if (entry_key_ != key_)
        return Status(Code::kCorruption, "the row's values, " + row_text() + ", are those of another key");
    }
    for (size_t i = 0; i < sums_.size(); i++) {
      if (static_cast<int>(i) == layout_.primary()) continue;
      make_entry(i);
      sums_[i].add(entry_key_, entry_value_);
    }
    return Status::Ok();
  }

  // Reads the row of key_ into the record. What its columns point to lives as long as `stored`.
  Status read_row(std::string_view stored) {
    if (codec::is_large_row(stored)) {
      ATOLL_RETURN_IF_ERROR(atoll::table::join_row_at(layout_, h_.transaction(), h_.reader_.table().read_at(),
                                                      key_, stored, &large_row_));
      stored = large_row_;
    }
    return layout_.row().unpack(stored, nullptr, record());
  }

  Status check_pieces() {
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

  // ---- indexes ----

  Status check_indexes() {
    for (size_t i = 0; i < layout_.index_count(); i++) {
      if (static_cast<int>(i) == layout_.primary()) continue;
      const ah::IndexLayout &index = layout_.index(i);
      EntrySum found;
      const Status status = each(index.start, index.end, [&](std::string_view key, std::string_view value) {
        found.add(key, value);
        return Status::Ok();
      });
      ATOLL_RETURN_IF_ERROR(status.with("index " + index.name));
      if (found == sums_[i]) continue;
      const uint64_t before = problems_;
      ATOLL_RETURN_IF_ERROR(name_missing(i).with("index " + index.name));
      ATOLL_RETURN_IF_ERROR(name_extra(i).with("index " + index.name));
      if (problems_ == before) complain(index.name, "its entries are not those of the rows");
      if (ah::indexes_virtual_column(h_.table, i)) explain_virtual_columns(index.name);
    }
    return Status::Ok();
  }

  // Some expressions say other things under other settings: entries then differ from rows without damage.
  void explain_virtual_columns(const std::string &index) {
    const std::string text =
        "ATOLL: " + place(index) +
        ": its virtual columns were computed with this session's settings. If rows were "
        "written with another sql_mode or div_precision_increment, nothing stored is damaged: "
        "repeat CHECK TABLE with those settings, or drop the index and add it again";
    push_warning(thd_, Sql_condition::WARN_LEVEL_NOTE, ER_NOT_KEYFILE, text.c_str());
  }

  // The entry that index `i` must have for the row in the record. Virtual columns are computed anew.
  void make_entry(size_t i) {
    if (ah::indexes_virtual_column(h_.table, i)) ah::compute_virtual_columns(h_.table, i);
    bool has_null = false;
    layout_.secondary_entry(i, record(), key_, &entry_key_, &entry_value_, &has_null);
  }

  Status get(std::string_view key, rocksdb::PinnableSlice *value) {
    value->Reset();
    return h_.transaction()->get(layout_.family(), key, txn::ReadAt::kSnapshot, value);
  }

  // Names rows whose entry is missing or differs.
  Status name_missing(size_t i) {
    const ah::IndexLayout &primary = layout_.primary_index();
    return each(primary.start, primary.end, [&](std::string_view key, std::string_view row) {
      key_.assign(key);
      ATOLL_RETURN_IF_ERROR(read_row(row));
      make_entry(i);
      rocksdb::PinnableSlice found;
      const Status status = get(entry_key_, &found);
      if (status.code() == Code::kNotFound) {
        complain(layout_.index(i).name,
                 "the entry of row " + row_text() + " is missing: " + shown(entry_key_));
        return Status::Ok();
      }
      ATOLL_RETURN_IF_ERROR(status);
      if (found.ToStringView() != entry_value_)
        complain(layout_.index(i).name, "the entry of row " + row_text() + " has the value " +
                                            shown(found.ToStringView()) + " instead of " +
                                            shown(entry_value_));
      return Status::Ok();
    });
  }

  // Names entries that no row has.
  Status name_extra(size_t i) {
    const ah::IndexLayout &index = layout_.index(i);
    return each(index.start, index.end, [&](std::string_view entry, std::string_view) {
      const std::string what = "the entry " + shown(entry);
      Status status = layout_.primary_of_entry(i, entry, &key_);
      if (!status.ok()) return note(status, index.name, what);
      rocksdb::PinnableSlice row;
      status = get(key_, &row);
      if (status.code() == Code::kNotFound) {
        complain(index.name, what + " belongs to a row that does not exist, with the key " + shown(key_));
        return Status::Ok();
      }
      if (status.ok()) status = read_row(row.ToStringView());
      ATOLL_RETURN_IF_ERROR(status);
      make_entry(i);
      if (entry_key_ != entry) complain(index.name, what + " has other values than its row " + row_text());
      return Status::Ok();
    });
  }

  uchar *record() const { return h_.table->record[0]; }

  // The primary key of the row in the record, as in the message of a duplicate.
  std::string row_text() const {
    if (layout_.hidden_primary())
      return "number " +
             std::to_string(ah::hidden_id_of(std::string_view(key_).substr(codec::kKeyStartLength)));
    StringBuffer<MAX_FIELD_WIDTH> text;
    key_unpack(&text, h_.table, &h_.table->key_info[h_.table_share->primary_key]);
    return "'" + std::string(text.ptr(), text.length()) + "'";
  }

  ha_atoll &h_;
  THD *const thd_;
  const Layout &layout_;
  std::vector<EntrySum> sums_;  // by index: of the entries that the rows must have
  uint64_t problems_ = 0, read_ = 0, pieces_ = 0;
  std::string key_;  // of the row in the record
  std::string entry_key_, entry_value_, large_row_;
};

int ha_atoll::check(THD *thd, HA_CHECK_OPT *options) {
  session_->open_read_view();
  // Under LOCK TABLES ... WRITE the table would be read as it is now.
  const atoll::table::RowLock lock = std::exchange(mode()->lock, atoll::table::RowLock::kNone);
  const int result = Check(this, thd).run((options->flags & T_EXTEND) != 0);
  mode()->lock = lock;
  return result;
}

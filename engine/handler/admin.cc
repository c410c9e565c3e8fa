// ha_atoll: ANALYZE, OPTIMIZE, CHECK.
#include "handler/ha_atoll.h"

#include "codec/large_row.h"
#include "handler/error_map.h"
#include "handler/large_rows.h"
#include "plugin/instance.h"

using atoll::Code;
using atoll::Status;
namespace ah = atoll::handler;

namespace {

constexpr uint64_t kAnalyzedEntries = 200000;  // per index; about 0.1 s of reading

std::unique_ptr<rocksdb::Iterator> iterate(const ah::IndexLayout &index, atoll::lsm::Family *family,
                                           const rocksdb::Slice *lower, const rocksdb::Slice *upper) {
  rocksdb::ReadOptions options;
  options.iterate_lower_bound = lower;
  options.iterate_upper_bound = upper;
  options.fill_cache = false;
  std::unique_ptr<rocksdb::Iterator> it(
      atoll::plugin::instance()->database->db(family->side())->NewIterator(options, family->handle()));
  it->Seek(index.start);
  return it;
}

}  // namespace

int ha_atoll::analyze(THD *thd, HA_CHECK_OPT *) {
  ah::TableStatistics statistics;
  const Status status = ah::sample(
      *layout_, kAnalyzedEntries, [thd] { return thd_killed(thd) != 0; }, &statistics);
  if (!status.ok()) {
    if (status.code() != Code::kInterrupted) ah::report(thd, status);
    return HA_ADMIN_FAILED;
  }
  if (statistics.rows < 0)
    statistics.rows = share_->rows;
  else
    share_->rows = statistics.rows;
  share_->set_records_per_key(statistics.records_per_key);
  share_->sampled_rows = statistics.rows;
  if (!is_temporary())
    atoll::plugin::instance()->catalog->set_statistics(layout_->def().id, ah::encode(statistics));
  info(HA_STATUS_VARIABLE | HA_STATUS_CONST);
  return HA_ADMIN_OK;
}

int ha_atoll::optimize(THD *thd, HA_CHECK_OPT *options) {
  const std::string prefix = layout_->primary_index().start.substr(0, atoll::codec::kKeyPrefixLength);
  const std::string end = atoll::codec::key_after_prefix(prefix);
  const Status status = atoll::plugin::instance()->database->compact(layout_->family(), prefix, end);
  if (!status.ok()) {
    ah::report(thd, status);
    return HA_ADMIN_FAILED;
  }
  return analyze(thd, options);
}

// Every row is read and decoded, every index entry it must have is looked up, and the entries are counted:
// rows and indexes agree when all entries are found and none is left over.
int ha_atoll::check(THD *thd, HA_CHECK_OPT *) {
  const ah::IndexLayout &primary = layout_->primary_index();
  const rocksdb::Slice lower(primary.start), upper(primary.end);
  std::unique_ptr<rocksdb::Iterator> it = iterate(primary, layout_->family(), &lower, &upper);
  atoll::lsm::Family *family = layout_->family();
  rocksdb::DB *db = atoll::plugin::instance()->database->db(family->side());
  std::vector<uint64_t> expected(layout_->index_count(), 0);
  uint64_t rows = 0, pieces = 0, pieces_found = 0;
  for (; it->Valid(); it->Next(), rows++) {
    if ((rows & 0x3FF) == 0 && thd_killed(thd)) return HA_ADMIN_FAILED;
    const std::string key = it->key().ToString();
    atoll::codec::LargeRow large;
    if (atoll::codec::decode(it->value().ToStringView(), &large).ok()) pieces += large.piece_count();
    if (const char *problem = check_row(key, it->value().ToStringView(), db)) {
      push_warning_printf(thd, Sql_condition::WARN_LEVEL_ERROR, ER_NOT_KEYFILE, "ATOLL: row %llu: %s",
                          static_cast<ulonglong>(rows), problem);
      return HA_ADMIN_CORRUPT;
    }
  }
  if (!it->status().ok()) {
    ah::report(thd, atoll::lsm::from_rocksdb(it->status()));
    return HA_ADMIN_CORRUPT;
  }
  if (!ah::count_row_pieces(*layout_, UINT64_MAX, &pieces_found).ok() || pieces != pieces_found) {
    push_warning_printf(thd, Sql_condition::WARN_LEVEL_ERROR, ER_NOT_KEYFILE,
                        "ATOLL: there are %llu pieces of large rows, the rows have %llu",
                        static_cast<ulonglong>(pieces_found), static_cast<ulonglong>(pieces));
    return HA_ADMIN_CORRUPT;
  }
  for (size_t i = 0; i < layout_->index_count(); i++) {
    if (static_cast<int>(i) == layout_->primary()) continue;
    const ah::IndexLayout &index = layout_->index(i);
    const rocksdb::Slice from(index.start), to(index.end);
    uint64_t entries = 0;
    for (auto entry = iterate(index, family, &from, &to); entry->Valid(); entry->Next()) entries++;
    if (entries == rows) continue;
    push_warning_printf(thd, Sql_condition::WARN_LEVEL_ERROR, ER_NOT_KEYFILE,
                        "ATOLL: index %s has %llu entries, the table %llu rows", index.name.c_str(),
                        static_cast<ulonglong>(entries), static_cast<ulonglong>(rows));
    return HA_ADMIN_CORRUPT;
  }
  return HA_ADMIN_OK;
}

// What is wrong with one row, or nullptr.
const char *ha_atoll::check_row(const std::string &key, std::string_view row, rocksdb::DB *db) {
  uchar *record = table->record[0];
  std::string buffer;
  if (!ah::whole_row_at(*layout_, nullptr, key, row, &buffer, &row).ok())
    return "its pieces are not those it was stored in";
  if (!layout_->row().unpack(row, nullptr, record).ok()) return "its bytes cannot be decoded";
  if (!layout_->hidden_primary()) {
    layout_->primary_key(record, 0, &primary_key_);
    if (primary_key_ != key) return "it is stored under another primary key";
  }
  if (table->vfield) table->update_virtual_fields(this, VCOL_UPDATE_FOR_READ);
  for (size_t i = 0; i < layout_->index_count(); i++) {
    if (static_cast<int>(i) == layout_->primary() || indexes_virtual_column(i)) continue;
    bool has_null = false;
    layout_->secondary_entry(i, record, key, &entry_key_, nullptr, &has_null);
    rocksdb::PinnableSlice value;
    if (!db->Get(rocksdb::ReadOptions(), layout_->family()->handle(), entry_key_, &value).ok())
      return "an index entry is missing";
  }
  return nullptr;
}

bool ha_atoll::indexes_virtual_column(size_t number) const {
  const KEY &key = table->key_info[number];
  for (uint i = 0; i < key.user_defined_key_parts; i++)
    if (!table_share->field[key.key_part[i].fieldnr - 1]->stored_in_db()) return true;
  return false;
}

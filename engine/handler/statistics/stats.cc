// ha_atoll: numbers for the optimizer and for SHOW.
#include "handler/ha_atoll.h"

#include "engine/running.h"
#include "handler/server/error_map.h"
#include "table/statistics/sampling.h"
#include "table/write/large_rows.h"

using atoll::Code;
using atoll::Status;
namespace ah = atoll::handler;

void ha_atoll::load_statistics() {
  if (share_->rows >= 0 || is_temporary()) {
    if (share_->rows < 0) share_->rows = 0;
    return;
  }
  atoll::table::TableStatistics known;
  // A mount has none: stored statistics are those of the present table.
  const bool is_unknown = open_table_.is_past() && !bound_view_.is_bound();
  const atoll::catalog::Catalog &all =
      bound_view_.is_bound() ? bound_view_.catalog() : *atoll::engine::running()->catalog();
  if (is_unknown || !atoll::table::decode(all.statistics(layout()->def().id), &known)) known = {};
  if (known.records_per_key.size() == table_share->keys) share_->set_sample(known);
  if (known.rows < 0) {
    const ah::IndexLayout &index = layout()->primary_index();
    known.rows = static_cast<int64_t>(
        atoll::engine::running()->database()->estimate(layout()->family(), index.start, index.end).entries);
  }
  share_->rows = known.rows;
}

namespace {

// Sets the bytes that rows and indexes take in table files and in memory. No space is reported as free: that
// of changed and deleted rows is given back by compactions, and how much it is cannot be told without
// reading.
void read_sizes(const ah::Layout &layout, ha_statistics *stats) {
  atoll::lsm::Figures *figures = atoll::engine::running()->database();
  stats->data_file_length = atoll::table::stored_bytes_of_rows(figures, layout);
  stats->index_file_length = 0;
  for (size_t i = 0; i < layout.index_count(); i++)
    if (!layout.is_primary(i))
      stats->index_file_length +=
          figures->estimate(layout.family(), layout.index(i).start, layout.index(i).end).bytes;
}

}  // namespace

int ha_atoll::info(uint flag) {
  if ((flag & HA_STATUS_ERRKEY) && session_ != nullptr) errkey = session_->duplicate_index;
  if (share_ == nullptr) return 0;
  if (flag & HA_STATUS_VARIABLE) {
    stats.records = static_cast<ha_rows>(std::max<int64_t>(share_->rows, 0));
    // The count is an estimate, but the optimizer would take 0 rows for a fact.
    if (stats.records == 0 && !(flag & (HA_STATUS_TIME | HA_STATUS_OPEN))) stats.records = 1;
    if (!(flag & HA_STATUS_NO_LOCK) || stats.data_file_length == 0) read_sizes(*layout(), &stats);
    // The estimate may be 0 for data that is smaller than a block.
    if (stats.data_file_length == 0) stats.data_file_length = stats.records * kRowBytesMin;
    stats.deleted = 0;
    stats.delete_length = 0;
    stats.mean_rec_length = stats.records ? static_cast<ulong>(stats.data_file_length / stats.records) : 0;
    stats.check_time = 0;
  }
  if (flag & HA_STATUS_TIME) stats.update_time = static_cast<time_t>(ah::update_time_s(layout()->def().id));
  // The background thread may have sampled the table since this handler was opened. For a partitioned table
  // the server asks only the largest partition for HA_STATUS_CONST, so only that one may report news.
  const bool has_news = statistics_version_ != share_->statistics_version;
  statistics_version_ = share_->statistics_version;
  if (flag & HA_STATUS_CONST || (has_news && ah::is_largest_partition(*share_))) set_records_per_key();
  if (flag & HA_STATUS_CONST) {
    stats.max_data_file_length = LONGLONG_MAX;
    stats.create_time = static_cast<ulong>(layout()->def().created_us / 1000000);
  }
  if ((flag & HA_STATUS_AUTO) && table->found_next_number_field && load_auto_increment().ok())
    stats.auto_increment_value = share_->next_auto_increment;
  return 0;
}

// The optimizer takes index lookups for more expensive than they are, compared with scans. InnoDB makes up
// for that by reporting half of the rows per value. The optimizer's constants have been tuned with that, so
// Atoll reports half, too.
constexpr uint64_t kLookupFavour = 2;

namespace {

// Returns the position in the statistics of the value for the first `part + 1` parts of an index. The server
// extends an index only by the primary key columns that the index lacks, but entries, and so the statistics,
// have all of them.
size_t sampled_part(const TABLE &table, const ah::IndexLayout &index, const KEY &key, uint part) {
  if (part < key.user_defined_key_parts) return part;
  const KEY &primary = table.key_info[table.s->primary_key];
  uint place = 0;
  while (place < primary.user_defined_key_parts &&
         primary.key_part[place].fieldnr != key.key_part[part].fieldnr)
    place++;
  return index.user_parts + place;
}

}  // namespace

void ha_atoll::set_records_per_key() {
  const std::vector<std::vector<uint64_t>> known = share_->records_per_key();
  const uint64_t rows = std::max<uint64_t>(stats.records, 1);
  for (uint i = 0; i < table_share->keys; i++) {
    KEY &key = table->key_info[i];
    for (uint part = 0; part < key.ext_key_parts; part++) {
      uint64_t value;
      const bool whole_unique = layout()->index(i).unique && part + 1 >= key.user_defined_key_parts;
      const bool beyond_own_parts = part >= key.user_defined_key_parts;
      const size_t sampled = sampled_part(*table, layout()->index(i), key, part);
      const bool is_known = i < known.size() && sampled < known[i].size();
      if (whole_unique || (beyond_own_parts && (part + 1 == key.ext_key_parts || !is_known)))
        value = 1;
      else if (is_known)
        value = known[i][sampled] / kLookupFavour;
      else  // unknown: the first part leaves a hundredth of the rows, each further part an eighth of that
        value = rows / 100 >> (3 * part);
      key.rec_per_key[part] = static_cast<ulong>(std::max<uint64_t>(value, 1));
    }
  }
}

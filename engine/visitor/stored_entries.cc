// See stored_entries.h.

#include "visitor/stored_entries.h"

#include "base/interrupt.h"

namespace atoll::visitor {
namespace {

constexpr size_t kReadBytes = 2 << 20;  // as in a parallel scan; for such reads TableReader fetches ahead

}  // namespace

Status find_family(lsm::PastDatabase *state, const catalog::TableDef &table, lsm::Family **out) {
  *out = state->find_family(table.family_id);
  return *out != nullptr ? Status::Ok() : Status(Code::kCorruption, "it has no column family");
}

Range rows_of(const catalog::TableDef &table) { return index_range(table, table.indexes.front().ordinal); }

Status check_interrupt() {
  return is_interrupted() ? Status(Code::kInterrupted, "interrupted") : Status::Ok();
}

Status StoredEntries::open(lsm::PastDatabase *state, const catalog::TableDef &table, const Range &keys) {
  lsm::Family *family = nullptr;
  ATOLL_RETURN_IF_ERROR(find_family(state, table, &family));
  keys_ = keys;
  rocksdb::ReadOptions options;
  options.total_order_seek = true;
  options.fill_cache = false;
  options.readahead_size = kReadBytes;
  end_ = keys_.end;
  options.iterate_upper_bound = &end_;
  entries_ = family->iterator(options);
  entries_->Seek(keys_.begin);
  return Status::Ok();
}

}  // namespace atoll::visitor

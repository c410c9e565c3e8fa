// See absent_range.h.
#include "txn/reads/absent_range.h"

#include <memory>

#include "base/mutant.h"
#include "txn/transaction_impl.h"

namespace atoll::txn {

namespace {

// A search passes at most this many deleted entries. If there are more, it gives up, and search_absent()
// looks the key up instead, which is cheaper.
constexpr uint64_t kHiddenEntriesMax = 64;

}  // namespace

Status TransactionImpl::find_locked(lsm::Family *family, std::string_view key, std::string_view end,
                                    AbsentRange *range) {
  rocksdb::PinnableSlice value;
  const uint64_t ended = commits_seen(family);
  const bool is_absent = range->contains(key, ended);
  // Temporary tables are always looked up, because FamilyActivity does not count their transactions.
  if (!is_absent && (family->side() == lsm::Side::kTemp || !range->is_search_due()))
    return get(family, key, ReadAt::kLatest, &value);
  if (writes_ != nullptr) {
    bool found = false;
    const Status own = find_own(family, key, &found, &value);
    if (found || !own.ok()) return own;
  }
  return is_absent ? not_found() : search_absent(family, key, end, ended, range);
}

// Searches for `key`. If no row has it, remembers in `range` that no row lies between `key` and the next key.
Status TransactionImpl::search_absent(lsm::Family *family, std::string_view key, std::string_view end,
                                      uint64_t ended, AbsentRange *range) {
  if (family->handle() == nullptr) return dropped_family();
  const rocksdb::Slice upper(end);
  rocksdb::ReadOptions options = read_options(family, ReadAt::kLatest);
  options.iterate_upper_bound = &upper;
  options.max_skippable_internal_keys = kHiddenEntriesMax;
  count_work(WorkKind::kCursorsOpened);
  count_work(WorkKind::kCursorSeeks);
  const std::unique_ptr<rocksdb::Iterator> it = family->iterator(options);
  it->Seek(key);
  range->set(key, {}, ended);
  if (it->status().IsIncomplete()) {
    rocksdb::PinnableSlice value;
    return get(family, key, ReadAt::kLatest, &value);
  }
  if (!it->status().ok()) return lsm::from_rocksdb(it->status());
  if (it->Valid() && it->key() == rocksdb::Slice(key)) return Status::Ok();
  if (!is_mutant(Mutant::absent_range)) range->set(key, it->Valid() ? it->key().ToStringView() : end, ended);
  return not_found();
}

}  // namespace atoll::txn

// See orphan_search.h.
#include "table/foreign/orphan_search.h"

#include <rocksdb/iterator.h>

#include <atomic>
#include <vector>

#include "catalog/description/record_form.h"
#include "lsm/family.h"
#include "table/description/reference_key.h"
#include "table/foreign/constraint_fit.h"
#include "table/scan/parallel_scan.h"
#include "table/write/large_rows.h"

namespace atoll::table {
namespace {

// What one thread of the search has.
class OrphanSeeker {
 public:
  OrphanSeeker(const Layout &child, size_t index, const Layout &parent, const ReferenceKey &key)
      : child_(child), index_(index), parent_(parent), key_(key) {
    record_.resize(catalog::own_record(child.def().description).record_bytes);
  }

  // Whether the entry of the child's index has a value that the parent lacks.
  Status check(std::string_view entry, std::string_view value, bool *is_orphan) {
    ATOLL_RETURN_IF_ERROR(child_.is_primary(index_) ? unpack(entry, value) : decode(entry, value));
    *is_orphan = false;
    if (key_.has_null(record_.data())) return Status::Ok();
    wanted_.clear();
    key_.append(record_.data(), &wanted_);
    if (wanted_ == last_found_) return Status::Ok();
    if (seek_ == nullptr) {
      rocksdb::ReadOptions options;
      options.total_order_seek = true;
      seek_ = parent_.family()->iterator(options);
    }
    seek_->Seek(wanted_);
    ATOLL_RETURN_IF_ERROR(lsm::from_rocksdb(seek_->status()));
    *is_orphan = !seek_->Valid() || !seek_->key().ToStringView().starts_with(wanted_);
    if (!*is_orphan) last_found_ = wanted_;
    return Status::Ok();
  }

 private:
  Status decode(std::string_view entry, std::string_view value) {
    return child_.index(index_).codec->decode(entry.substr(codec::kKeyStartLength), value, record_.data());
  }
  Status unpack(std::string_view key, std::string_view stored) {
    std::string_view row = stored;
    if (codec::is_large_row(stored))
      ATOLL_RETURN_IF_ERROR(whole_row_at(child_, nullptr, key, stored, &large_row_, &row));
    return child_.row().unpack(row, nullptr, record_.data());
  }

  const Layout &child_;
  const size_t index_;
  const Layout &parent_;
  const ReferenceKey &key_;
  std::vector<uint8_t> record_;
  std::unique_ptr<rocksdb::Iterator> seek_;
  std::string wanted_, last_found_, large_row_;
};

std::vector<uint16_t> positions_of(const catalog::TableDescription &table,
                                   const std::vector<std::string> &names) {
  std::vector<uint16_t> positions;
  for (const std::string &name : names) positions.push_back(static_cast<uint16_t>(table.find_column(name)));
  return positions;
}

Status wait_for(ParallelScan *scan, const std::atomic<bool> &found,
                const std::function<bool()> &is_unwanted) {
  for (bool end = false; !end;) {
    const Status status = scan->wait(&end);
    if (found) return Status::Ok();  // the thread that found a row has ended the scan by an error
    ATOLL_RETURN_IF_ERROR(status);
    if (!end && is_unwanted()) return Status(Code::kInterrupted, "");
  }
  return Status::Ok();
}

}  // namespace

Status find_orphan(const OrphanSearch &search, bool *found) {
  const Layout &child = *search.child, &parent = *search.parent;
  const int index = needed_index(child.def().description, search.key.columns);
  const FoundIndex parent_index =
      find_parent_index(child.def().description, search.key, parent.def().description);
  if (index < 0 || parent_index.index < 0)
    return Status(Code::kInvalid, "an index that the foreign key " + search.key.name + " needs is missing");
  std::unique_ptr<const ReferenceKey> key;
  ATOLL_RETURN_IF_ERROR(ReferenceKey::make(parent, static_cast<size_t>(parent_index.index), child,
                                           positions_of(child.def().description, search.key.columns), &key));
  ParallelScan::Request request;
  request.family = child.family();
  request.begin = child.index(static_cast<size_t>(index)).start;
  request.end = child.index(static_cast<size_t>(index)).end;
  request.threads = search.threads;
  request.splits = search.figures->split(request.family, request.begin, request.end, request.threads * 8);
  request.row = &child.row();
  std::vector<OrphanSeeker> seekers;
  for (size_t i = ParallelScan::thread_count(request); i > 0; --i)
    seekers.emplace_back(child, static_cast<size_t>(index), parent, *key);
  std::atomic<bool> is_found = false;
  request.take = [&](size_t thread, std::string_view entry, std::string_view value) {
    bool is_orphan = false;
    ATOLL_RETURN_IF_ERROR(seekers[thread].check(entry, value, &is_orphan));
    if (!is_orphan) return Status::Ok();
    is_found = true;
    return Status(Code::kNotFound, "");  // ends the scan
  };
  ParallelScan scan(std::move(request));
  const Status status = wait_for(&scan, is_found, search.is_unwanted);
  *found = is_found;
  return status;
}

}  // namespace atoll::table

// See foreign_writes.h.

#include "txn/locks/foreign_writes.h"

#include <algorithm>

#include "txn/locks/lock_table.h"

namespace atoll::txn {

namespace {

// The smallest key after `key`.
std::string after(std::string_view key) {
  std::string next(key);
  next.push_back('\0');
  return next;
}

}  // namespace

void WriteExtents::add(uint32_t family_id, std::string_view key) {
  const std::string_view start = key.substr(0, kIndexStartBytes);
  // A transaction usually writes index by index, so the newest extent is tried first.
  for (auto it = extents_.rbegin(); it != extents_.rend(); ++it) {
    if (it->family_id != family_id || std::string_view(it->lower).substr(0, kIndexStartBytes) != start)
      continue;
    if (key < it->lower) it->lower.assign(key);
    if (key > it->upper) it->upper.assign(key);
    return;
  }
  extents_.push_back({family_id, std::string(key), std::string(key)});
}

namespace {

// The first key that was written, from `lower` on.
KeyIndex::Iterator first_write(const KeyIndex &index, std::string_view lower) {
  auto it = index.lower_bound(lower);
  while (it != index.end() && it->newest == nullptr) ++it;
  return it;
}

}  // namespace

bool has_write(const WriteSet &set, const lsm::Family *family, std::string_view lower,
               std::string_view upper) {
  const WriteSet::FamilyWrites *writes = set.find_family(family);
  if (writes == nullptr) return false;
  const auto it = first_write(writes->index, lower);
  return it != writes->index.end() && it->key < upper;
}

// Finds deletions too, because a rollback to a savepoint can bring back the entry that a deletion hides.
bool find_write(const WriteSet &set, const lsm::Family *family, std::string_view lower,
                std::string_view upper, bool forward, FoundWrite *found) {
  const WriteSet::FamilyWrites *writes = set.find_family(family);
  if (writes == nullptr) return false;
  const KeyIndex &index = writes->index;
  if (forward) {
    const auto it = first_write(index, lower);
    if (it == index.end() || it->key >= upper) return false;
    *found = {std::string(it->key), std::string(it->key)};
    return true;
  }
  for (auto it = index.lower_bound(upper); it != index.begin();) {
    --it;
    if (it->key < lower) return false;
    if (it->newest == nullptr) continue;
    *found = {std::string(it->key), after(it->key)};
    return true;
  }
  return false;
}

bool find_write(const WriteExtents &extents, uint32_t family_id, std::string_view lower,
                std::string_view upper, bool forward, FoundWrite *found) {
  for (const WriteExtent &extent : extents.all()) {
    if (extent.family_id != family_id || extent.lower >= upper || extent.upper < lower) continue;
    found->entry = extent.lower;
    found->bound = forward ? std::max<std::string>(extent.lower, std::string(lower))
                           : std::min<std::string>(after(extent.upper), std::string(upper));
    return true;
  }
  return false;
}

}  // namespace atoll::txn

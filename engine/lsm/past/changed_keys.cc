// See changed_keys.h.

#include "lsm/past/changed_keys.h"

#include <rocksdb/comparator.h>
#include <rocksdb/utilities/types_util.h>

#include <algorithm>

namespace atoll::lsm {
namespace {

bool is_same(const PastFile &one, const PastFile &other) {
  return one.in_bucket && other.in_bucket && one.number == other.number && one.bytes == other.bytes &&
         one.crc32c == other.crc32c;
}

std::vector<PastFile> only_in(const std::vector<PastFile> &files, const std::vector<PastFile> &others) {
  std::vector<PastFile> found;
  for (const PastFile &file : files) {
    const auto same = [&](const PastFile &other) { return is_same(file, other); };
    if (std::none_of(others.begin(), others.end(), same)) found.push_back(file);
  }
  return found;
}

}  // namespace

ChangedKeys::ChangedKeys(const FamilyThen &first, const FamilyThen &second, const std::string &begin,
                         const std::string &end)
    : begin_(begin), end_(end) {
  const std::vector<PastFile> in_first = first.state->files(first.family, begin, end);
  const std::vector<PastFile> in_second = second.state->files(second.family, begin, end);
  for (const PastFile &file : only_in(in_first, in_second)) unopened_.push_back({first, file});
  for (const PastFile &file : only_in(in_second, in_first)) unopened_.push_back({second, file});
  std::sort(unopened_.begin(), unopened_.end(), [](const Unopened &one, const Unopened &other) {
    return one.file.smallest_key > other.file.smallest_key;
  });
  file_count_ = unopened_.size();
}

Status ChangedKeys::next(std::string *out) {
  out->clear();
  ATOLL_RETURN_IF_ERROR(open_files());
  if (queue_.empty()) return Status::Ok();
  *out = queue_.begin()->first;
  while (!queue_.empty() && queue_.begin()->first == *out) {
    std::unique_ptr<File> file = std::move(queue_.extract(queue_.begin()).mapped());
    file->entries->Next();
    ATOLL_RETURN_IF_ERROR(enqueue(std::move(file)));
  }
  return Status::Ok();
}

Status ChangedKeys::open_files() {
  while (!unopened_.empty() &&
         (queue_.empty() || unopened_.back().file.smallest_key <= queue_.begin()->first)) {
    ATOLL_RETURN_IF_ERROR(open_file(unopened_.back()));
    unopened_.pop_back();
  }
  return Status::Ok();
}

Status ChangedKeys::open_file(const Unopened &unopened) {
  auto file = std::make_unique<File>();
  ATOLL_RETURN_IF_ERROR(unopened.side.state->open_file(unopened.side.family, unopened.file, &file->reader));
  file->entries = file->reader->NewTableIterator();
  std::string from;
  ATOLL_RETURN_IF_ERROR(
      from_rocksdb(rocksdb::GetInternalKeyForSeek(begin_, rocksdb::BytewiseComparator(), &from)));
  file->entries->Seek(from);
  return enqueue(std::move(file));
}

Status ChangedKeys::enqueue(std::unique_ptr<File> file) {
  if (!file->entries->Valid()) return from_rocksdb(file->entries->status());
  rocksdb::ParsedEntryInfo entry;
  ATOLL_RETURN_IF_ERROR(from_rocksdb(file->reader->ParseTableIteratorKey(file->entries->key(), &entry)));
  std::string key = entry.user_key.ToString();
  if (key < end_) queue_.emplace(std::move(key), std::move(file));
  return Status::Ok();
}

}  // namespace atoll::lsm

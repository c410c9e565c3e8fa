// See spill.h.

#include "txn/writes/spill.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <sstream>
#include <utility>

#include "base/file.h"

namespace atoll::txn {

namespace {

namespace fs = std::filesystem;

constexpr char kListName[] = "/list";
constexpr size_t kBitsPerKey = 10;  // of a KeyFilter
constexpr int kProbes = 6;          // bits set for each key: about kBitsPerKey * ln 2
// The most runs of a transaction. A run is a few files. The limit bounds the memory for the indexes of the
// files and the time to search all files.
constexpr size_t kRunsMax = 1000;

Status io_error(const std::string &what, const std::string &path) {
  const Code code = errno == ENOSPC || errno == EDQUOT ? Code::kNoSpace : Code::kUnavailable;
  return Status(code, what + " " + path + ": " + std::strerror(errno));
}

Status sync_path(const std::string &path, int flags) {
  const int file = ::open(path.c_str(), flags | O_CLOEXEC);
  if (file < 0) return io_error("opening", path);
  const bool synced = ::fsync(file) == 0;
  Status status = synced ? Status::Ok() : io_error("syncing", path);
  ::close(file);
  return status;
}

}  // namespace

// ---- The Bloom filter of a file ------------------------------------------------------------------

namespace {

// Calls visit(bit) for each of a key's bits in a filter, until visit() returns false. Returns false in that
// case.
template <typename Visit>
bool each_bit(uint64_t hash, size_t bits, const Visit &visit) {
  const uint64_t step = (hash >> 17) | 1;
  for (int i = 0; i < kProbes; ++i, hash += step) {
    if (!visit(hash % bits)) return false;
  }
  return true;
}

}  // namespace

uint64_t KeyFilter::hash(std::string_view key) { return std::hash<std::string_view>{}(key); }

KeyFilter::KeyFilter(const std::vector<uint64_t> &hashes) : bits_(hashes.size() * kBitsPerKey / 64 + 1) {
  for (const uint64_t hash : hashes) {
    each_bit(hash, bits_.size() * 64, [this](uint64_t bit) {
      bits_[bit / 64] |= uint64_t{1} << (bit % 64);
      return true;
    });
  }
}

bool KeyFilter::may_have(std::string_view key) const {
  return each_bit(hash(key), bits_.size() * 64,
                  [this](uint64_t bit) { return (bits_[bit / 64] >> (bit % 64) & 1) != 0; });
}

// ---- Runs: the files that were written together --------------------------------------------------

SpilledRun::~SpilledRun() {
  std::error_code ignored;
  for (Part &part : parts_) {
    part.finder.reset();
    part.file.reset();
    if (!files_stay_) fs::remove(part.path, ignored);
  }
}

const SpilledRun::Part *SpilledRun::part_of(const lsm::Family *family) const {
  for (const Part &part : parts_) {
    if (part.family == family) return &part;
  }
  return nullptr;
}

// ---- Spill: writing, finding and listing ---------------------------------------------------------

Spill::Spill(lsm::Rows *rows, lsm::RunFiles *run_files, std::string directory)
    : rows_(rows),
      run_files_(run_files),
      directory_(std::move(directory)),
      runs_(std::make_shared<const Runs>()) {}

Spill::~Spill() {
  if (keep_) {
    for (const auto &run : *runs_) run->keep_files();
    return;
  }
  runs_.reset();
  (void)remove_tree(directory_);
}

std::string Spill::name() const { return fs::path(directory_).filename().string(); }

Status Spill::open_part(SpilledRun::Part *part) const {
  ATOLL_RETURN_IF_ERROR(lsm::RunFile::open(run_files_->run_file_options(), part->path, &part->file));
  part->finder = part->file->cursor();
  return Status::Ok();
}

// Writes one run: one file (part) for each family, one after the other.
struct Spill::Writing {
  Spill *spill;
  std::vector<SpilledRun::Part> *parts;
  std::unique_ptr<lsm::RunFileWriter> writer;
  std::vector<uint64_t> hashes;  // of the keys in the current part
  Status status;

  void add(lsm::Family *family, std::string_view key, const OwnWrite &write) {
    if (!status.ok()) return;
    if (parts->empty() || parts->back().family != family) {
      finish_part();
      SpilledRun::Part &part = parts->emplace_back();
      part.family = family;
      part.path = spill->directory_ + "/" + std::to_string(spill->next_file_++) + ".sst";
      part.first_key.assign(key);
      writer = std::make_unique<lsm::RunFileWriter>(spill->run_files_->run_file_options(), part.path);
    }
    SpilledRun::Part &part = parts->back();
    part.last_key.assign(key);
    part.bytes += key.size() + write.value_size;
    hashes.push_back(KeyFilter::hash(key));
    if (write.unique_length > 0) hashes.push_back(KeyFilter::hash(key.substr(0, write.unique_length)));
    if (status.ok()) status = writer->add(key, write.value(), write.removed);
  }
  void finish_part() {
    if (writer == nullptr) return;
    if (status.ok()) status = writer->finish();
    writer.reset();
    parts->back().filter = std::make_unique<KeyFilter>(hashes);
    hashes.clear();
    if (status.ok()) status = spill->open_part(&parts->back());
  }
};

// Writes the changes with sequence numbers in [from, before) to disk, as one more run in `out`.
Status Spill::write_interval(const WriteSet &set, uint64_t from, uint64_t before, Runs *out) {
  auto run = std::make_shared<SpilledRun>(from);
  Writing writing{this, run->parts_to_fill(), nullptr, {}, {}};
  set.each_between(from, before, [&](lsm::Family *family, std::string_view key, const OwnWrite &write) {
    writing.add(family, key, write);
  });
  writing.finish_part();
  ATOLL_RETURN_IF_ERROR(writing.status.with("moving a transaction's changes to local disk"));
  if (!run->parts().empty()) out->push_back(std::move(run));
  return Status::Ok();
}

Status Spill::add(const WriteSet &set) {
  std::error_code error;
  fs::create_directories(directory_, error);
  if (error) return Status(Code::kNoSpace, "creating the directory " + directory_ + ": " + error.message());
  auto runs = std::make_shared<Runs>(*runs_);
  const std::vector<uint64_t> interval_ends = set.interval_ends();
  // Each interval takes a call that reads the whole set, and a run. Intervals that earlier write sets have
  // spilled are left out.
  auto before = std::upper_bound(interval_ends.begin(), interval_ends.end(), set.first_sequence());
  if (runs->size() + static_cast<size_t>(interval_ends.end() - before) > kRunsMax) {
    return Status(Code::kInvalid,
                  "the transaction has too many parts on local disk; raise atoll_transaction_memory");
  }
  uint64_t from = before == interval_ends.begin() ? 0 : *(before - 1);
  for (; before != interval_ends.end(); ++before) {
    ATOLL_RETURN_IF_ERROR(write_interval(set, from, *before, runs.get()));
    from = *before;
  }
  runs_ = std::move(runs);
  return Status::Ok();
}

void Spill::drop_from(uint64_t sequence) {
  if (runs_->empty() || runs_->back()->first_sequence() < sequence) return;
  auto runs = std::make_shared<Runs>(*runs_);
  while (!runs->empty() && runs->back()->first_sequence() >= sequence) runs->pop_back();
  runs_ = std::move(runs);
}

bool Spill::has_runs(lsm::Side side) const {
  return std::any_of(runs_->begin(), runs_->end(), [side](const auto &run) {
    return std::any_of(run->parts().begin(), run->parts().end(),
                       [side](const SpilledRun::Part &part) { return part.family->side() == side; });
  });
}

bool Spill::has_family(const lsm::Family *family) const {
  return std::any_of(runs_->begin(), runs_->end(),
                     [family](const auto &run) { return run->part_of(family) != nullptr; });
}

Status Spill::find(const lsm::Family *family, std::string_view key, bool *found, bool *removed,
                   std::string *value) const {
  *found = false;
  for (auto run = runs_->rbegin(); run != runs_->rend(); ++run) {
    const SpilledRun::Part *part = (*run)->part_of(family);
    if (part == nullptr || key < part->first_key || key > part->last_key || !part->filter->may_have(key))
      continue;
    lsm::RunFileCursor *finder = part->finder.get();
    finder->seek(key);
    ATOLL_RETURN_IF_ERROR(finder->status());
    if (!finder->valid() || finder->key() != key) continue;
    *found = true;
    *removed = finder->removed();
    if (!*removed) value->assign(finder->value());
    return Status::Ok();
  }
  return Status::Ok();
}

std::vector<Spill::File> Spill::list(lsm::Side side) const {
  std::vector<File> files;
  for (const auto &run : *runs_) {
    for (const SpilledRun::Part &part : run->parts()) {
      if (part.family->side() == side && !merged_.contains(part.family))
        files.push_back({part.family, part.path});
    }
  }
  for (const auto &[family, paths] : merged_) {
    if (family->side() != side) continue;
    for (const std::string &path : paths) files.push_back({family, path});
  }
  return files;
}

std::vector<lsm::FamilyFiles> Spill::files(lsm::Side side) const {
  std::vector<lsm::FamilyFiles> all;
  for (File &file : list(side)) {
    rocksdb::ColumnFamilyHandle *handle = file.family->handle();
    if (handle == nullptr) continue;
    auto known = std::find_if(all.begin(), all.end(), [&](const auto &one) { return one.family == handle; });
    if (known == all.end()) known = all.insert(all.end(), lsm::FamilyFiles{handle, {}});
    known->paths.push_back(std::move(file.path));
  }
  return all;
}

// ---- The list of files of a prepared transaction -------------------------------------------------

// The list has one line for each file, "<family id> <name>", and then the line "end".
Status Spill::save_list() const {
  const std::string path = directory_ + kListName;
  {
    std::ofstream out(path, std::ios::trunc);
    for (const File &file : list(lsm::Side::kMain)) {
      out << file.family->id() << ' ' << fs::path(file.path).filename().string() << '\n';
    }
    out << "end\n";
    out.flush();
    if (!out) return io_error("writing", path);
  }
  ATOLL_RETURN_IF_ERROR(sync_path(path, O_RDONLY));
  ATOLL_RETURN_IF_ERROR(sync_path(directory_, O_RDONLY | O_DIRECTORY));
  return sync_path(fs::path(directory_).parent_path().string(), O_RDONLY | O_DIRECTORY);
}

Status Spill::load() {
  std::ifstream list(directory_ + kListName);
  auto runs = std::make_shared<Runs>();
  for (std::string line; std::getline(list, line);) {
    if (line == "end") {
      runs_ = std::move(runs);
      return Status::Ok();
    }
    std::istringstream fields(line);
    uint32_t family_id = 0;
    std::string file_name;
    fields >> family_id >> file_name;
    lsm::Family *family = rows_->find_family(family_id);
    if (family == nullptr) continue;  // the family was dropped, so nobody can see its rows
    auto run = std::make_shared<SpilledRun>(0);
    run->keep_files();
    SpilledRun::Part &part = run->parts_to_fill()->emplace_back();
    part.family = family;
    part.path = directory_ + "/" + file_name;
    ATOLL_RETURN_IF_ERROR(open_part(&part));
    runs->push_back(std::move(run));
  }
  return Status(Code::kCorruption, "the list of files in " + directory_ + " is missing or not complete");
}

}  // namespace atoll::txn

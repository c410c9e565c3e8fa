#include "lsm/load/sort_run.h"

#include <lz4.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/bytes.h"

namespace atoll::lsm {
namespace {

// A row has the same form in memory and in a spilled block: the lengths of key and value (4 bytes each, in
// native byte order), key, value. This is the size of the two lengths.
constexpr size_t kRowHeaderBytes = 8;
// A spilled block consists of its uncompressed length, its compressed length (4 bytes each) and the LZ4
// block. Uncompressed, it has at most this many bytes, except a block with one large row.
constexpr size_t kSpillBlockBytes = 256 * 1024;

struct Lengths {
  uint32_t key;
  uint32_t value;
};

Lengths read_lengths(const char *row) {
  Lengths lengths;
  std::memcpy(&lengths, row, sizeof(lengths));
  return lengths;
}

Status read_error(const std::string &path) {
  return Status(Code::kUnavailable, "reading the sorted run " + path + ": " + std::strerror(errno));
}

Status write_error(const std::string &path) {
  const Code code = errno == ENOSPC || errno == EDQUOT ? Code::kNoSpace : Code::kUnavailable;
  return Status(code, "writing a sorted run to " + path + ": " + std::strerror(errno));
}

using File = std::unique_ptr<std::FILE, int (*)(std::FILE *)>;

class SpilledCursor final : public RunCursor {
 public:
  SpilledCursor(File file, std::string path) : file_(std::move(file)), path_(std::move(path)) {}

  Status next(bool *more) override {
    if (position_ == block_.size()) {
      ATOLL_RETURN_IF_ERROR(read_block(more));
      if (!*more) return Status::Ok();
    }
    *more = true;
    if (block_.size() - position_ < kRowHeaderBytes) return unreadable();
    const Lengths lengths = read_lengths(block_.data() + position_);
    const size_t row_bytes = kRowHeaderBytes + size_t{lengths.key} + lengths.value;
    if (block_.size() - position_ < row_bytes) return unreadable();
    const char *row = block_.data() + position_ + kRowHeaderBytes;
    key_ = std::string_view(row, lengths.key);
    value_ = std::string_view(row + lengths.key, lengths.value);
    position_ += row_bytes;
    return Status::Ok();
  }

 private:
  Status unreadable() const {
    if (std::ferror(file_.get()) != 0) return read_error(path_);
    return Status(Code::kCorruption, "the sorted run " + path_ + " is damaged");
  }

  Status read_block(bool *more) {
    uint32_t lengths[2];
    *more = false;
    const size_t header = std::fread(lengths, 1, sizeof(lengths), file_.get());
    if (header == 0 && std::feof(file_.get())) return Status::Ok();
    if (header != sizeof(lengths)) return unreadable();
    packed_.resize(lengths[1]);
    block_.resize(lengths[0]);
    position_ = 0;
    if (std::fread(packed_.data(), 1, packed_.size(), file_.get()) != packed_.size()) return unreadable();
    const int bytes = LZ4_decompress_safe(packed_.data(), block_.data(), static_cast<int>(packed_.size()),
                                          static_cast<int>(block_.size()));
    if (bytes != static_cast<int>(block_.size())) return unreadable();
    *more = true;
    return Status::Ok();
  }

  File file_;
  const std::string path_;
  std::string packed_, block_;
  size_t position_ = 0;
};

}  // namespace

Status RunWriter::open(const std::string &path, std::unique_ptr<RunWriter> *out) {
  File file(std::fopen(path.c_str(), "wb"), std::fclose);
  if (file == nullptr) return write_error(path);
  out->reset(new RunWriter(std::move(file), path));
  return Status::Ok();
}

Status RunWriter::add(std::string_view key, std::string_view value) {
  const size_t row_bytes = kRowHeaderBytes + key.size() + value.size();
  if (!block_.empty() && block_.size() + row_bytes > kSpillBlockBytes) ATOLL_RETURN_IF_ERROR(flush());
  const Lengths lengths{static_cast<uint32_t>(key.size()), static_cast<uint32_t>(value.size())};
  block_.append(reinterpret_cast<const char *>(&lengths), sizeof(lengths)).append(key).append(value);
  return Status::Ok();
}

Status RunWriter::finish() {
  ATOLL_RETURN_IF_ERROR(flush());
  return std::fflush(file_.get()) == 0 ? Status::Ok() : write_error(path_);
}

Status RunWriter::flush() {
  if (block_.empty()) return Status::Ok();
  packed_.resize(8 + static_cast<size_t>(LZ4_compressBound(static_cast<int>(block_.size()))));
  const int packed_bytes =
      LZ4_compress_default(block_.data(), packed_.data() + 8, static_cast<int>(block_.size()),
                           static_cast<int>(packed_.size() - 8));
  if (packed_bytes <= 0) return Status(Code::kBug, "a sorted run does not compress");
  const uint32_t lengths[2] = {static_cast<uint32_t>(block_.size()), static_cast<uint32_t>(packed_bytes)};
  std::memcpy(packed_.data(), lengths, sizeof(lengths));
  const size_t bytes = 8 + static_cast<size_t>(packed_bytes);
  block_.clear();
  return std::fwrite(packed_.data(), 1, bytes, file_.get()) == bytes ? Status::Ok() : write_error(path_);
}

class MemoryCursor final : public RunCursor {
 public:
  explicit MemoryCursor(const SortRun *run) : run_(run) {}

  Status next(bool *more) override {
    *more = index_ < run_->order_.size();
    if (!*more) return Status::Ok();
    const uint32_t offset = run_->order_[index_++].offset;
    // In key order, the rows lie at random places of the memory. So a row is fetched into the processor's
    // cache a few steps before it is needed.
    if (index_ + 4 < run_->order_.size()) {
      __builtin_prefetch(run_->bytes_.get() + run_->order_[index_ + 4].offset);
    }
    key_ = run_->key_at(offset);
    value_ = run_->value_at(offset);
    return Status::Ok();
  }

 private:
  const SortRun *run_;
  size_t index_ = 0;
};

SortRun::SortRun(size_t bytes_max) : capacity_(bytes_max), bytes_(new char[bytes_max]) {}

bool SortRun::fits(size_t key_bytes, size_t value_bytes) const {
  return used_ + kRowHeaderBytes + key_bytes + value_bytes <= capacity_;
}

void SortRun::add(std::string_view key, std::string_view value) {
  const Lengths lengths{static_cast<uint32_t>(key.size()), static_cast<uint32_t>(value.size())};
  char *row = bytes_.get() + used_;
  std::memcpy(row, &lengths, sizeof(lengths));
  std::memcpy(row + kRowHeaderBytes, key.data(), key.size());
  if (!value.empty()) std::memcpy(row + kRowHeaderBytes + key.size(), value.data(), value.size());
  used_ += kRowHeaderBytes + key.size() + value.size();
  ++rows_;
}

std::string_view SortRun::key_at(uint32_t offset) const {
  const char *row = bytes_.get() + offset;
  return {row + kRowHeaderBytes, read_lengths(row).key};
}

std::string_view SortRun::value_at(uint32_t offset) const {
  const char *row = bytes_.get() + offset;
  const Lengths lengths = read_lengths(row);
  return {row + kRowHeaderBytes + lengths.key, lengths.value};
}

uint32_t SortRun::row_end(uint32_t offset) const {
  const Lengths lengths = read_lengths(bytes_.get() + offset);
  return offset + static_cast<uint32_t>(kRowHeaderBytes) + lengths.key + lengths.value;
}

size_t SortRun::shared_prefix_bytes() const {
  const std::string_view first = key_at(0);
  size_t shared = first.size();
  for (uint32_t offset = 0; offset < used_; offset = row_end(offset)) {
    const std::string_view key = key_at(offset);
    shared = std::min(shared, key.size());
    if (std::memcmp(first.data(), key.data(), shared) == 0) continue;
    shared = static_cast<size_t>(
        std::mismatch(first.begin(), first.begin() + static_cast<ptrdiff_t>(shared), key.begin()).first -
        first.begin());
  }
  return shared;
}

void SortRun::index_rows() {
  const size_t shared = shared_prefix_bytes();
  order_.reserve(rows_);
  for (uint32_t offset = 0; offset < used_; offset = row_end(offset)) {
    const std::string_view key = key_at(offset);
    const std::string_view rest = key.substr(shared);
    const uint64_t high = load_be_start(rest);
    const uint64_t low = rest.size() > 8 ? load_be_start(rest.substr(8)) >> 32 : 0;
    order_.push_back({high, static_cast<uint32_t>(low), offset});
  }
}

void SortRun::sort() {
  if (rows_ == 0) return;
  index_rows();
  // Keys with equal numbers can still differ: in bytes after the first 12, or in zero bytes at the end. Then
  // the key bytes decide.
  std::sort(order_.begin(), order_.end(), [this](const Entry &a, const Entry &b) {
    if (a.high != b.high) return a.high < b.high;
    if (a.low != b.low) return a.low < b.low;
    return key_at(a.offset) < key_at(b.offset);
  });
}

std::unique_ptr<RunCursor> SortRun::cursor() const { return std::make_unique<MemoryCursor>(this); }

Status SortRun::spill(RunWriter *writer) const {
  for (const Entry &entry : order_)
    ATOLL_RETURN_IF_ERROR(writer->add(key_at(entry.offset), value_at(entry.offset)));
  return Status::Ok();
}

std::unique_ptr<RunCursor> open_spilled_run(const std::string &path, Status *status) {
  File file(std::fopen(path.c_str(), "rb"), std::fclose);
  if (file == nullptr) {
    *status = read_error(path);
    return nullptr;
  }
  *status = Status::Ok();
  return std::make_unique<SpilledCursor>(std::move(file), path);
}

}  // namespace atoll::lsm

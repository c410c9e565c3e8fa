// See log_space.h.
#include "cloudfs/log_space.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>

namespace atoll::cloudfs {
namespace {

constexpr uint64_t kStepBytes = 256 << 10;  // zeros that one call of prepare() writes
// When a sync covers more bytes than this, zeros save little of its cost but double the bytes written.
constexpr uint64_t kSyncBytesMax = 1 << 10;
// While the log has more unsynced bytes than this, prepare() writes no zeros: the commits evidently do not
// sync the log, so zeros would save nothing.
constexpr uint64_t kUnsyncedBytesMax = 64 << 10;
constexpr uint64_t kSmoothing = 16;  // number of syncs in the moving average

// The zeros that one pwrite() writes: one page. A larger write makes the page cache use larger units
// (folios). When a commit then changes a few bytes of a folio, the kernel counts the whole folio as written,
// in /proc/PID/io and towards its limits.
const std::array<char, 4 << 10> kZeros{};

bool write_zeros(int descriptor, uint64_t from, uint64_t end) {
  while (from < end) {
    const size_t bytes = std::min<uint64_t>(end - from, kZeros.size() - from % kZeros.size());
    const ssize_t written = ::pwrite(descriptor, kZeros.data(), bytes, static_cast<off_t>(from));
    if (written <= 0) return false;
    from += static_cast<uint64_t>(written);
  }
  return true;
}

}  // namespace

LogSpace::~LogSpace() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

bool LogSpace::open() {
  if (descriptor_ < 0) descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CLOEXEC);
  return descriptor_ >= 0;
}

void LogSpace::prepare(uint64_t length, size_t bytes) {
  const uint64_t end = length + bytes;
  if (failed_ || end <= zeros_end_ || bytes > kSyncBytesMax) return;
  if (sync_bytes_ > kSyncBytesMax || length - synced_ > kUnsyncedBytesMax) return;
  const uint64_t zeros_end = end + kStepBytes;
  failed_ = !open() || !write_zeros(descriptor_, end, zeros_end);
  if (!failed_) zeros_end_ = zeros_end;
}

void LogSpace::synced(uint64_t length) {
  sync_bytes_ = (sync_bytes_ * (kSmoothing - 1) + (length - synced_)) / kSmoothing;
  synced_ = length;
}

void LogSpace::cut(uint64_t length) {
  if (descriptor_ >= 0 && zeros_end_ > length) (void)!::ftruncate(descriptor_, static_cast<off_t>(length));
  zeros_end_ = 0;
  failed_ = true;
}

}  // namespace atoll::cloudfs

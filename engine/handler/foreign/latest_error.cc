// See latest_error.h.
#include "handler/foreign/latest_error.h"

#include "base/clock.h"
#include "base/mutex.h"

namespace atoll::handler {
namespace {

struct Latest {
  Mutex mutex;
  ForeignKeyError error ATOLL_GUARDED_BY(mutex);
} latest;

}  // namespace

void note_foreign_key_error(const std::string &text) {
  const MutexLock guard(latest.mutex);
  latest.error = {now_us(), text};
}

ForeignKeyError latest_foreign_key_error() {
  const MutexLock guard(latest.mutex);
  return latest.error;
}

}  // namespace atoll::handler

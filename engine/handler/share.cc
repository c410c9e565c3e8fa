// See share.h.
#include "handler/server.h"

#include "handler/share.h"

#include "engine/running.h"
#include "handler/server/callback.h"

namespace atoll::handler {

// Keeps the AUTO_INCREMENT counter and the number of rows in the catalog. FLUSH TABLES closes a table even
// while transactions that wrote to it go on, and the numbers that they took must not be given out again.
Share::~Share() {
  unregister_share(this);
  const engine::Engine *running = engine::running();
  const std::shared_ptr<const Layout> layout = this->layout();
  if (running == nullptr || !running->catalog() || layout->family()->side() != lsm::Side::kMain) return;
  guarded([&] { running->catalog()->raise_auto_increment(layout->def().id, next_auto_increment); },
          is_logged);
  guarded_or_nothing([&] { keep_rows(*layout, rows); });  // only an estimate: a failure does no harm
}

Status Share::take_hidden_id(const Layout &layout, uint64_t *id) {
  if (next_hidden_id_ == 0) {
    const MutexLock guard(hidden_id_mutex_);
    if (next_hidden_id_ == 0) {
      std::string last;
      ATOLL_RETURN_IF_ERROR(outermost_taken_key(layout, layout.primary_index(), true, &last));
      next_hidden_id_ =
          last.empty() ? 1 : hidden_id_of(std::string_view(last).substr(codec::kKeyStartLength)) + 1;
    }
  }
  *id = next_hidden_id_++;
  return Status::Ok();
}

}  // namespace atoll::handler

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

Status Share::foreign_plan(const std::shared_ptr<const Layout> &layout,
                           std::shared_ptr<const ForeignPlan> *out) {
  const uint64_t generation = engine::running()->catalog()->generation();
  {
    MutexLock guard(mutex_);
    *out = foreign_plan_;
  }
  if (*out && (*out)->generation == generation) return Status::Ok();
  ATOLL_RETURN_IF_ERROR(make_foreign_plan(layout, generation, out));
  MutexLock guard(mutex_);
  foreign_plan_ = *out;
  return Status::Ok();
}

}  // namespace atoll::handler

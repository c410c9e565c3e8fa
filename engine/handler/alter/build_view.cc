// See build_view.h.
#include "handler/alter/build_view.h"

#include "base/interrupt.h"
#include "engine/running.h"

namespace atoll::handler {

bool ServerBuildView::is_unwanted() const { return is_statement_killed(altered_.in_use) || is_interrupted(); }

void ServerBuildView::clear_record() {
  TABLE *const altered = &altered_;
  restore_record(altered, s->default_values);
}

}  // namespace atoll::handler

// See bound_view.h.
#include "handler/server.h"

#include "handler/session/bound_view.h"

#include <table_cache.h>

#include "engine/running.h"

namespace atoll::handler {

// Sets what FLUSH TABLES sets in a share: later statements wait until the share is not used any more, and
// open the table anew.
void BoundView::let_expire(TABLE_SHARE *share, const catalog::TableDef &def) const {
  if (!is_bound() || share->tdc == nullptr) return;
  const engine::ViewPtr newest = engine::running()->views()->newest();
  if (!newest || newest == view_ || engine::View::agree(*view_, *newest, def.database, def.name)) return;
  mysql_mutex_lock(&share->tdc->LOCK_table_share);
  share->tdc->flushed = true;
  mysql_mutex_unlock(&share->tdc->LOCK_table_share);
}

Status BoundView::layout_in(const engine::ViewPtr &view, const TABLE *table, const Layout &opened,
                            std::shared_ptr<const Layout> *now) const {
  const catalog::TableDef &before = opened.def();
  const catalog::TablePtr found = engine::View::find(view, before.database, before.name);
  if (!found) return Status(Code::kNotFound, "the writer has dropped or renamed the table");
  if (!engine::View::agree(*view_, *view, before.database, before.name))
    return Status(Code::kInvalid, "the writer has changed the definition of the table");
  lsm::Family *family = view->find_family(found->family_id);
  if (family == nullptr) return Status(Code::kCorruption, "its column family is missing");
  return build_layout(table, found, family, now);
}

Status BoundView::follow(Session *session, const TABLE *table, const Layout &opened,
                         std::shared_ptr<const Layout> *now) {
  const bool is_chosen = session->view() != nullptr;
  const engine::ViewPtr view = is_chosen ? session->view() : engine::running()->views()->newest();
  const Status status = view == view_ ? Status::Ok() : layout_in(view, table, opened, now);
  if (status.ok()) view_ = view;
  const bool differs = status.code() == Code::kNotFound || status.code() == Code::kInvalid;
  if (is_chosen || (!status.ok() && !differs)) return status;
  session->hold_view(view_);
  return Status::Ok();
}

}  // namespace atoll::handler

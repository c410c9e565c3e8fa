// The view whose rows an open table reads, on a reader (engine/views.h). The server keeps a table open from
// one statement to the next, but each statement reads the view of its transaction.
//
// VIEW-1: all tables that a transaction reads (under READ COMMITTED: a statement) are of one view, so it sees
//     what one moment of the writer had. A table whose definition differs in that view from the one that the
//     server has open is refused with error 1412 (ER_TABLE_DEF_CHANGED): for a statement that the server had
//     begun to open when the definition changed, and for a transaction with an older view, as with InnoDB.
// VIEW-2: a definition that the server has opened for a transaction with an older view serves no other
//     statement.
#pragma once

#include <memory>
#include <utility>

#include "engine/views.h"
#include "handler/layout.h"
#include "handler/session/session.h"

namespace atoll::handler {

// One for each open table; unbound for a table that is of no view. Threads: that of the running statement.
class BoundView {
 public:
  // The table was opened as `view` has it; nullptr: it is of no view.
  void bind(engine::ViewPtr view) { view_ = std::move(view); }
  bool is_bound() const { return view_ != nullptr; }
  // Requires: bound.
  const catalog::Catalog &catalog() const { return view_->catalog(); }

  // Called when the server has opened the table. If the newest view has another definition of it, the server
  // drops `share` after this use (VIEW-2). `def`: of the table, or of one of its partitions.
  void let_expire(TABLE_SHARE *share, const catalog::TableDef &def) const;

  // Called at the begin of each statement that reads the table. Binds the table to the view of the session's
  // transaction. If that has none yet, it gets one: the newest view or, when the table's definition has just
  // changed there, the one in which the server has opened the table. *now: the layout for the view's rows;
  // nullptr: it is `opened`, as before. Requires: bound. Errors: kNotFound and kInvalid (the view has no such
  // table, or another definition), kCorruption.
  Status follow(Session *session, const TABLE *table, const Layout &opened,
                std::shared_ptr<const Layout> *now);

 private:
  Status layout_in(const engine::ViewPtr &view, const TABLE *table, const Layout &opened,
                   std::shared_ptr<const Layout> *now) const;

  engine::ViewPtr view_;
};

}  // namespace atoll::handler

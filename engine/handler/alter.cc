// ha_atoll: ALTER without a copy of the table: what alter_support.cc lets through.
//
// Order: a new index is in the catalog as `building` before its first entry exists, so that a crash leaves
// something that opening removes. commit stores everything that changes - for a partitioned table, of all
// partitions - and the new .frm in one write: it is the moment at which the ALTER has happened.
#include "handler/ha_atoll.h"

#include <algorithm>
#include <map>
#include <mutex>

#include "handler/alter_definition.h"
#include "handler/error_map.h"
#include "handler/handlerton.h"
#include "handler/index_build.h"
#include "handler/table_name.h"
#include "plugin/instance.h"

using atoll::Code;
using atoll::Status;
namespace ah = atoll::handler;
namespace catalog = atoll::catalog;

namespace {

class AlterContext final : public inplace_alter_handler_ctx {
 public:
  catalog::TablePtr before;                  // what the catalog holds
  ah::AlteredDefinition altered;             // what it will hold after commit
  std::shared_ptr<const ah::Layout> layout;  // of the altered table
};

// New .frm images that the server has announced and not committed, by "database/table". Rarely more than one.
struct Announced {
  std::mutex mutex;
  std::map<std::string, std::string> frms;
} announced;

std::string announced_key(const std::string &database, const std::string &table) {
  return database + "/" + ah::whole_table(table);
}

// Takes the image out; empty: none was announced.
std::string take_announced(const catalog::TableDef &def) {
  const std::lock_guard<std::mutex> guard(announced.mutex);
  auto node = announced.frms.extract(announced_key(def.database, def.name));
  return node ? std::move(node.mapped()) : std::string();
}

bool fail_alter(const Status &status, const char *what) {
  my_printf_error(ER_INTERNAL_ERROR, "ATOLL: %s: %s", MYF(0), what, status.message());
  return true;
}

// Adds the definition that names the new .frm: the table's, or that of the partitioned table.
void add_frm(std::string frm, std::vector<catalog::TableDef> *defs) {
  if (frm.empty()) return;
  catalog::TableDef &first = defs->front();
  if (!ah::is_partition(first.name)) {
    first.frm = std::move(frm);
    return;
  }
  const catalog::TablePtr whole =
      atoll::plugin::instance()->catalog->find(first.database, ah::whole_table(first.name));
  if (!whole) return;
  defs->push_back(*whole);
  defs->back().frm = std::move(frm);
}

}  // namespace

namespace atoll::handler {

void announce_definition(const std::string &database, const std::string &table, std::string frm) {
  const std::lock_guard<std::mutex> guard(announced.mutex);
  announced.frms[announced_key(database, table)] = std::move(frm);
}

}  // namespace atoll::handler

bool ha_atoll::prepare_inplace_alter_table(TABLE *altered, Alter_inplace_info *info) {
  auto *context = new AlterContext;
  info->handler_ctx = context;
  (void)take_announced(layout_->def());  // of an ALTER that failed before its end
  catalog::Catalog *all = atoll::plugin::instance()->catalog.get();
  // Not that of the layout: an ALTER that failed since then has used up index ordinals.
  context->before = all->find(layout_->def().id);
  if (!context->before) return fail_alter(Status(Code::kNotFound, "it is gone"), "looking the table up");
  Status status = ah::alter_definition(*context->before, *layout_, altered, info, &context->altered);
  const catalog::TableDef &def = context->altered.def;
  if (status.ok())
    status = Layout::build(altered, std::make_shared<const catalog::TableDef>(def), layout_->family(),
                           &context->layout);
  if (status.ok() && !context->altered.added_indexes.empty()) {
    catalog::TableDef building = *context->before;
    building.next_ordinal = def.next_ordinal;
    for (const catalog::IndexDef &index : def.indexes) {
      if (index.ordinal < context->before->next_ordinal) continue;
      building.indexes.push_back(index);
      building.indexes.back().building = true;
    }
    status = all->update(building);
  }
  return status.ok() ? false : fail_alter(status, "preparing the altered definition");
}

bool ha_atoll::inplace_alter_table(TABLE *altered, Alter_inplace_info *info) {
  auto *context = static_cast<AlterContext *>(info->handler_ctx);
  if (context->altered.added_indexes.empty()) return false;
  ah::IndexBuild build(ha_thd(), context->layout, context->altered.added_indexes, altered);
  const Status status = build.run();
  if (status.ok()) return false;
  if (status.code() == Code::kDuplicate && build.duplicate_index() < altered->s->keys)
    print_keydup_error(altered, &altered->key_info[build.duplicate_index()], MYF(0));
  else if (status.code() == Code::kInterrupted)
    my_error(ER_QUERY_INTERRUPTED, MYF(0));
  else
    return fail_alter(status, "building an index");
  return true;
}

// Called once for all partitions to commit, and once for each to roll back.
bool ha_atoll::commit_inplace_alter_table(TABLE *, Alter_inplace_info *info, bool commit) {
  auto *context = static_cast<AlterContext *>(info->handler_ctx);
  if (context == nullptr) return false;
  catalog::Catalog *all = atoll::plugin::instance()->catalog.get();
  std::string frm = take_announced(layout_->def());
  if (!commit) {
    if (!context->before || context->altered.added_indexes.empty()) return false;
    catalog::TableDef before = *context->before;
    before.next_ordinal = context->altered.def.next_ordinal;  // its keys may still be being removed
    const Status status = all->update(before);
    return status.ok() ? false : fail_alter(status, "taking back the altered definition");
  }
  std::vector<catalog::TableDef> defs;
  if (info->group_commit_ctx == nullptr) {
    defs.push_back(context->altered.def);
  } else {
    for (inplace_alter_handler_ctx **one = info->group_commit_ctx; *one != nullptr; one++)
      defs.push_back(static_cast<AlterContext *>(*one)->altered.def);
  }
  add_frm(std::move(frm), &defs);
  Status status = all->update(defs);
  info->group_commit_ctx = nullptr;  // all are committed
  if (status.ok()) status = atoll::plugin::after_ddl();
  return status.ok() ? false : fail_alter(status, "storing the altered definition");
}

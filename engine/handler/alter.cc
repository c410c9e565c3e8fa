// ha_atoll: in-place ALTER: indexes added and dropped without rewriting rows, and changes of the definition
// alone. Everything else goes through ALTER ... COPY (bulk_copy.h).
//
// Order: the new index is in the catalog as `building` before its first entry exists, so that a crash leaves
// something that opening removes. commit stores the finished index, the dropped ones and the new .frm in one
// write.
#include "handler/ha_atoll.h"

#include <algorithm>

#include "handler/error_map.h"
#include "handler/parallel_scan.h"
#include "plugin/instance.h"

using atoll::Code;
using atoll::Status;
namespace ah = atoll::handler;
namespace catalog = atoll::catalog;
namespace lsm = atoll::lsm;

namespace {

constexpr alter_table_operations kDefinitionOnly =
    ALTER_RENAME_INDEX | ALTER_INDEX_IGNORABILITY | ALTER_COLUMN_DEFAULT | ALTER_COLUMN_NAME |
    ALTER_CHANGE_INDEX_COMMENT | ALTER_ADD_CHECK_CONSTRAINT | ALTER_DROP_CHECK_CONSTRAINT |
    ALTER_INDEX_ORDER | ALTER_RENAME | ALTER_PARTITIONED | ALTER_COLUMN_OPTION | ALTER_COLUMN_INDEX_LENGTH;
constexpr alter_table_operations kAddIndex = ALTER_ADD_NON_UNIQUE_NON_PRIM_INDEX | ALTER_ADD_UNIQUE_INDEX;
constexpr alter_table_operations kDropIndex = ALTER_DROP_NON_UNIQUE_NON_PRIM_INDEX | ALTER_DROP_UNIQUE_INDEX;

class AlterContext final : public inplace_alter_handler_ctx {
 public:
  catalog::TableDef finished;  // what the catalog will hold after commit
  std::vector<std::string> dropped;
  std::vector<std::string> added;
  std::shared_ptr<const ah::Layout> layout;  // of the altered table
};

std::string name_of(const KEY &key) { return std::string(key.name.str, key.name.length); }

std::string primary_name(const TABLE *table) {
  return table->s->primary_key == MAX_KEY ? std::string() : name_of(table->key_info[table->s->primary_key]);
}

// `key` is one that ALTER adds: its field numbers count from 0.
bool uses_virtual_column(const TABLE *altered, const KEY &key) {
  for (uint i = 0; i < key.user_defined_key_parts; i++)
    if (!altered->field[key.key_part[i].fieldnr]->stored_in_db()) return true;
  return false;
}

// The new name of an index that an ALTER renames.
void rename_indexes(const Alter_inplace_info *info, catalog::TableDef *def) {
  for (const Alter_inplace_info::Rename_key_pair &pair : info->rename_keys)
    for (catalog::IndexDef &index : def->indexes)
      if (index.name == name_of(*pair.old_key)) index.name = name_of(*pair.new_key);
}

}  // namespace

// Asked when partitions are exchanged with tables: are both made of the same columns?
bool ha_atoll::check_if_incompatible_data(HA_CREATE_INFO *info, uint changes) {
  const bool same = changes == IS_EQUAL_YES && !(info->used_fields & HA_CREATE_USED_AUTO);
  return same ? COMPATIBLE_DATA_YES : COMPATIBLE_DATA_NO;
}

enum_alter_inplace_result ha_atoll::check_if_supported_inplace_alter(TABLE *altered,
                                                                     Alter_inplace_info *info) {
  if (is_temporary()) return HA_ALTER_INPLACE_NOT_SUPPORTED;
  alter_table_operations flags = info->handler_flags;
  if (flags & ALTER_CHANGE_CREATE_OPTION) {
    // A comment is kept in the definition; anything else about storage means a rebuild.
    const bool only_comment =
        (info->create_info->used_fields & ~(HA_CREATE_USED_COMMENT | HA_CREATE_USED_AUTO)) == 0 &&
        info->create_info->option_list == table_share->option_list;
    if (!only_comment || (info->create_info->used_fields & HA_CREATE_USED_AUTO))
      return HA_ALTER_INPLACE_NOT_SUPPORTED;
    flags &= ~ALTER_CHANGE_CREATE_OPTION;
  }
  if (flags & ~(kDefinitionOnly | kAddIndex | kDropIndex)) return HA_ALTER_INPLACE_NOT_SUPPORTED;
  if (primary_name(table) != primary_name(altered) || table_share->fields != altered->s->fields) {
    info->unsupported_reason = "the primary key changes";
    return HA_ALTER_INPLACE_NOT_SUPPORTED;
  }
  for (uint i = 0; i < info->index_add_count; i++) {
    const KEY &key = info->key_info_buffer[info->index_add_buffer[i]];
    if (info->ignore && (key.flags & HA_NOSAME)) return HA_ALTER_INPLACE_NOT_SUPPORTED;  // rows may go
    if (key.algorithm == HA_KEY_ALG_LONG_HASH || (key.flags & (HA_FULLTEXT | HA_SPATIAL)) ||
        uses_virtual_column(altered, key))
      return HA_ALTER_INPLACE_NOT_SUPPORTED;
  }
  return (flags & kAddIndex) ? HA_ALTER_INPLACE_SHARED_LOCK : HA_ALTER_INPLACE_INSTANT;
}

bool ha_atoll::prepare_inplace_alter_table(TABLE *altered, Alter_inplace_info *info) {
  auto *context = new AlterContext;
  info->handler_ctx = context;
  context->finished = layout_->def();
  catalog::TableDef &def = context->finished;
  // An ALTER that failed since this handler was opened took an ordinal, whose keys may still be being
  // removed.
  if (const catalog::TablePtr now = atoll::plugin::instance()->catalog->find(def.database, def.name))
    def.next_ordinal = std::max(def.next_ordinal, now->next_ordinal);
  rename_indexes(info, &def);
  for (uint i = 0; i < info->index_drop_count; i++) {
    const std::string name = name_of(*info->index_drop_buffer[i]);
    context->dropped.push_back(name);
    std::erase_if(def.indexes, [&](const catalog::IndexDef &index) { return index.name == name; });
  }
  for (uint i = 0; i < info->index_add_count; i++) {
    const KEY &key = info->key_info_buffer[info->index_add_buffer[i]];
    catalog::IndexDef index;
    index.name = name_of(key);
    index.ordinal = def.next_ordinal++;
    index.unique = (key.flags & HA_NOSAME) != 0;
    def.indexes.push_back(index);
    context->added.push_back(index.name);
  }
  Status status = Layout::build(altered, std::make_shared<const catalog::TableDef>(def), layout_->family(),
                                &context->layout);
  if (status.ok() && !context->added.empty()) {
    catalog::TableDef building = layout_->def();
    building.next_ordinal = def.next_ordinal;
    for (const catalog::IndexDef &index : def.indexes)
      if (std::find(context->added.begin(), context->added.end(), index.name) != context->added.end()) {
        building.indexes.push_back(index);
        building.indexes.back().building = true;
      }
    status = atoll::plugin::instance()->catalog->update(building);
  }
  if (status.ok()) return false;
  my_printf_error(ER_INTERNAL_ERROR, "ATOLL: %s", MYF(0), status.message());
  return true;
}

namespace {

// Fills the added indexes from a scan of all rows.
class IndexBuild {
 public:
  IndexBuild(THD *thd, const AlterContext &context, TABLE *altered)
      : thd_(thd),
        context_(context),
        altered_(altered),
        layout_(*context.layout),
        database_(atoll::plugin::instance()->database.get()) {}

  Status run(uint *duplicate_key);

 private:
  void open_streams();
  Status scan();
  Status add_row(std::string_view key, std::string_view row);

  THD *thd_;
  const AlterContext &context_;
  TABLE *altered_;
  const ah::Layout &layout_;
  atoll::lsm::Database *database_;
  std::unique_ptr<atoll::lsm::BulkLoad> load_;
  std::vector<std::pair<size_t, size_t>> streams_;  // index number, stream
  std::vector<uchar> record_;
  std::string entry_key_, entry_value_, primary_key_;
};

void IndexBuild::open_streams() {
  for (size_t i = 0; i < layout_.index_count(); i++) {
    const std::string &name = layout_.index(i).name;
    if (std::find(context_.added.begin(), context_.added.end(), name) == context_.added.end()) continue;
    atoll::lsm::BulkLoad::UniqueLength length;
    if (layout_.index(i).unique)
      length = [this, i](std::string_view key) { return layout_.unique_length(i, key); };
    streams_.emplace_back(i, load_->add_stream(false, length, lsm::StreamKind::kIndexEntries));
  }
}

Status IndexBuild::add_row(std::string_view key, std::string_view row) {
  ATOLL_RETURN_IF_ERROR(layout_.row().unpack(row, nullptr, record_.data()));
  primary_key_.assign(key);
  for (const auto &[index, stream] : streams_) {
    bool has_null = false;
    layout_.secondary_entry(index, record_.data(), primary_key_, &entry_key_, &entry_value_, &has_null);
    ATOLL_RETURN_IF_ERROR(load_->add(stream, entry_key_, entry_value_));
  }
  return Status::Ok();
}

Status IndexBuild::scan() {
  const ah::IndexLayout &primary = layout_.primary_index();
  rocksdb::DB *db = database_->db(layout_.family()->side());
  const rocksdb::Snapshot *snapshot = db->GetSnapshot();
  Status status;
  {
    ah::ParallelScan::Request request;
    request.db = db;
    request.family = layout_.family();
    request.snapshot = snapshot;
    request.begin = primary.start;
    request.end = primary.end;
    request.threads = std::max<size_t>(1, atoll::plugin::scan_threads(thd_));
    request.splits = database_->split(layout_.family(), primary.start, primary.end, request.threads * 8);
    request.row = &layout_.row();
    ah::ParallelScan rows(std::move(request));
    uint64_t count = 0;
    for (bool end = false; status.ok();) {
      std::string_view key, row;
      bool waiting = false;
      status = rows.next(&key, &row, &end, &waiting);
      if (!status.ok() || end) break;
      if ((waiting || (++count & 0xFFF) == 0) && thd_killed(thd_)) status = Status(Code::kInterrupted, "");
      if (!waiting && status.ok()) status = add_row(key, row);
    }
  }
  db->ReleaseSnapshot(snapshot);
  return status;
}

Status IndexBuild::run(uint *duplicate_key) {
  record_.resize(altered_->s->reclength);
  load_ = database_->bulk_load(layout_.family(), layout_.def().compression);
  open_streams();
  Status status = scan();
  if (status.ok()) {
    THD *thd = thd_;
    status = load_->finish([thd](double) { return thd_killed(thd) == 0; });
  }
  if (status.code() != Code::kDuplicate) return status;
  for (const auto &[index, stream] : streams_) {
    if (stream != load_->duplicate_stream()) continue;
    *duplicate_key = static_cast<uint>(index);
    // Show the clashing values: the entry is decoded into the record that the message is made from.
    const std::string_view key = load_->duplicate_key();
    std::string scratch;
    if (key.size() > atoll::codec::kKeyStartLength)
      (void)layout_.index(index).codec->decode(key.substr(atoll::codec::kKeyStartLength),
                                               load_->duplicate_value(), altered_->record[0], &scratch);
  }
  return status;
}

}  // namespace

bool ha_atoll::inplace_alter_table(TABLE *altered, Alter_inplace_info *info) {
  auto *context = static_cast<AlterContext *>(info->handler_ctx);
  if (context->added.empty()) return false;
  uint duplicate_key = MAX_KEY;
  const Status status = IndexBuild(ha_thd(), *context, altered).run(&duplicate_key);
  if (status.ok()) return false;
  if (status.code() == Code::kDuplicate && duplicate_key < altered->s->keys)
    print_keydup_error(altered, &altered->key_info[duplicate_key], MYF(0));
  else if (status.code() == Code::kInterrupted)
    my_error(ER_QUERY_INTERRUPTED, MYF(0));
  else
    my_printf_error(ER_INTERNAL_ERROR, "ATOLL: building an index: %s", MYF(0), status.message());
  return true;
}

bool ha_atoll::commit_inplace_alter_table(TABLE *, Alter_inplace_info *info, bool commit) {
  auto *context = static_cast<AlterContext *>(info->handler_ctx);
  if (context == nullptr) return false;
  catalog::Catalog *all = atoll::plugin::instance()->catalog.get();
  Status status;
  if (commit) {
    if (!new_frm_.empty()) context->finished.frm = std::move(new_frm_);
    new_frm_.clear();
    status = context->dropped.empty()
                 ? all->update(context->finished)
                 : all->drop_indexes(layout_->def().id, context->dropped, context->finished);
    if (status.ok()) status = atoll::plugin::after_ddl();
  } else if (!context->added.empty()) {
    catalog::TableDef before = layout_->def();
    before.next_ordinal = context->finished.next_ordinal;
    status = all->drop_indexes(layout_->def().id, context->added, before);
  }
  if (status.ok()) return false;
  my_printf_error(ER_INTERNAL_ERROR, "ATOLL: storing the altered definition: %s", MYF(0), status.message());
  return true;
}

// See table_clone.h.
#include "table/clone/table_clone.h"

#include "base/border/border.h"
#include "catalog/record.h"
#include "codec/key_codec.h"

namespace atoll::table {
namespace {

using catalog::TableDef;

Status killed() { return Status(Code::kInterrupted, "the statement was killed"); }

// Families that no table in the catalog has yet.
class NewFamilies {
 public:
  explicit NewFamilies(lsm::Database *database) : database_(database) {}
  ~NewFamilies() {
    for (const lsm::Family *family : families_)
      guarded_or_nothing([&] { database_->drop_family(family->id()); });
  }
  NewFamilies(const NewFamilies &) = delete;
  NewFamilies &operator=(const NewFamilies &) = delete;

  void reserve(size_t count) { families_.reserve(count); }
  void add(lsm::Family *family) { families_.push_back(family); }
  void keep() { families_.clear(); }

 private:
  lsm::Database *const database_;
  std::vector<lsm::Family *> families_;
};

Status clone_rows(lsm::Database *database, const TableDef &source, NewFamilies *made, lsm::Family **family,
                  const std::function<bool()> &is_cancelled) {
  if (source.own_family) {
    lsm::Family *of_source = database->find_family(source.family_id);
    if (of_source == nullptr) return Status(Code::kNotFound, "the table was dropped or moved meanwhile");
    ATOLL_RETURN_IF_ERROR(database->clone_family(of_source, source.compression, family));
    made->add(*family);
    return Status::Ok();
  }
  const catalog::Doomed::Range range = catalog::table_range(source);
  const std::string start(codec::kKeyPrefixLength, '\0');
  ATOLL_RETURN_IF_ERROR(database->copy_to_family(database->shared_family(), range.begin, range.end, start,
                                                 source.compression, is_cancelled, family));
  made->add(*family);
  return Status::Ok();
}

TableDef definition_of(const CloneOrder &order, const lsm::Family *family) {
  TableDef clone = *order.source;
  clone.database = order.database;
  clone.name = order.name;
  clone.created_us = 0;
  clone.former_name.clear();
  clone.former_place = {};
  clone.own_family = family != nullptr;
  clone.family_id = family == nullptr ? 0 : family->id();
  clone.prefix = 0;
  return clone;
}

}  // namespace

Status clone_tables(lsm::Database *database, catalog::Catalog *catalog, const std::vector<CloneOrder> &orders,
                    const std::function<bool()> &is_cancelled) {
  NewFamilies made(database);
  made.reserve(orders.size());
  std::vector<TableDef> clones;
  for (const CloneOrder &order : orders) {
    if (is_cancelled()) return killed();
    lsm::Family *family = nullptr;
    if (!order.source->logical_only)
      ATOLL_RETURN_IF_ERROR(clone_rows(database, *order.source, &made, &family, is_cancelled));
    clones.push_back(definition_of(order, family));
  }
  const Status status = catalog->add_clones(clones);
  // After a failed write the rows may be on disk all the same, so the families must stay: opening reconciles.
  if (status.code() != Code::kDuplicate) made.keep();
  return status;
}

}  // namespace atoll::table

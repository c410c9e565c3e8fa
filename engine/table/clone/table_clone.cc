// See table_clone.h.
#include "table/clone/table_clone.h"

#include <algorithm>

#include "base/border/border.h"
#include "catalog/record.h"

namespace atoll::table {
namespace {

using catalog::TableDef;

Status killed() { return Status(Code::kInterrupted, "the statement was killed"); }

// New families of clones that are not in the catalog yet. The destructor drops them, except after keep().
class NewFamilies {
 public:
  explicit NewFamilies(lsm::Families *families) : families_(families) {}
  ~NewFamilies() {
    for (const lsm::Family *family : made_) guarded_or_nothing([&] { families_->drop_family(family->id()); });
  }
  NewFamilies(const NewFamilies &) = delete;
  NewFamilies &operator=(const NewFamilies &) = delete;

  void reserve(size_t count) { made_.reserve(count); }
  void add(lsm::Family *family) { made_.push_back(family); }
  void keep() { made_.clear(); }

 private:
  lsm::Families *const families_;
  std::vector<lsm::Family *> made_;
};

// Copies the rows of a table of the shared family `from` to the reserved key prefix `target`.
Status copy_rows(const ClonePlace &place, lsm::Family *from, const TableDef &source,
                 const catalog::Place &target, const std::function<bool()> &is_cancelled) {
  TableDef moved = source;
  moved.prefix = target.prefix;
  const catalog::Doomed::Range range = catalog::table_range(source);
  const std::string start = catalog::table_range(moved).begin;
  return place.families->copy_entries(from, range.begin, range.end, place.rows->shared_family(), start,
                                      is_cancelled);
}

Status share_rows(const ClonePlace &place, lsm::Family *from, const TableDef &source, NewFamilies *made,
                  uint32_t *family_id) {
  lsm::Family *family = nullptr;
  ATOLL_RETURN_IF_ERROR(place.families->clone_family(from, place.past, source.compression, &family));
  made->add(family);
  *family_id = family->id();
  return Status::Ok();
}

lsm::Family *family_of(const ClonePlace &place, const TableDef &source) {
  return place.past != nullptr ? place.past->find_family(source.family_id)
                               : place.rows->find_family(source.family_id);
}

bool is_in_shared_family(const TableDef &table) { return !table.own_family && !table.logical_only; }

TableDef definition_of(const CloneOrder &order) {
  TableDef clone = *order.source;
  clone.database = order.database;
  clone.name = order.name;
  clone.former_name = order.later_name;
  clone.former_place = {};
  std::erase_if(clone.indexes, [](const catalog::IndexDef &index) { return index.building; });
  if (!order.has_foreign_keys) clone.foreign_keys.clear();
  for (catalog::ForeignKeyDef &key : clone.foreign_keys)
    if (key.parent_database == order.source->database) key.parent_database = order.database;
  return clone;
}

// Places in the shared family that are reserved for the rows of clones. The destructor gives them up, so that
// the copied rows are deleted, except after keep().
class Reserved {
 public:
  explicit Reserved(catalog::Catalog *catalog) : catalog_(catalog) {}
  ~Reserved() { catalog_->give_up(places_); }
  Reserved(const Reserved &) = delete;
  Reserved &operator=(const Reserved &) = delete;

  Status reserve(size_t count) { return count == 0 ? Status::Ok() : catalog_->reserve(count, &places_); }
  catalog::Place next() { return places_[used_++]; }
  void keep() { places_.clear(); }

 private:
  catalog::Catalog *const catalog_;
  std::vector<catalog::Place> places_;
  size_t used_ = 0;
};

}  // namespace

Status clone_tables(const ClonePlace &place, const std::vector<CloneOrder> &orders,
                    const std::function<bool()> &is_cancelled) {
  NewFamilies made(place.families);
  Reserved places(place.catalog);
  made.reserve(orders.size());
  ATOLL_RETURN_IF_ERROR(places.reserve(
      static_cast<size_t>(std::count_if(orders.begin(), orders.end(), [](const CloneOrder &order) {
        return is_in_shared_family(*order.source);
      }))));
  std::vector<catalog::Clone> clones;
  for (const CloneOrder &order : orders) {
    if (is_cancelled()) return killed();
    const TableDef &source = *order.source;
    catalog::Clone &clone = clones.emplace_back(catalog::Clone{definition_of(order), {}, order.belongings});
    if (source.logical_only) continue;
    lsm::Family *from = family_of(place, source);
    if (from == nullptr) return Status(Code::kNotFound, "the table was dropped or moved meanwhile");
    if (source.own_family) {
      ATOLL_RETURN_IF_ERROR(share_rows(place, from, source, &made, &clone.def.family_id));
    } else {
      clone.place = places.next();
      clone.def.family_id = place.rows->shared_family()->id();
      ATOLL_RETURN_IF_ERROR(copy_rows(place, from, source, clone.place, is_cancelled));
    }
  }
  const Status status = place.catalog->add_clones(clones);
  if (status.code() == Code::kDuplicate || status.code() == Code::kInvalid) return status;
  // After a failed write the definitions may be on disk all the same, so the families and places that
  // they name must stay. The next opening of the catalog drops those that no definition names.
  made.keep();
  places.keep();
  return status;
}

}  // namespace atoll::table

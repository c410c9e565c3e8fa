// Both ends of a hand-over (plugin/tables/hand_over.h), without SQL: what is in the catalog under an internal
// name, and who has it. Threads: any; of two threads that settle one hand-over, one at a time does something.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "catalog/catalog.h"

namespace atoll::plugin {

// Who has the table of a hand-over (atoll_store_decide()).
enum class Holder { kUndecided = 0, kTaker = 1, kAnotherTaker = 2, kGiver = 3 };
enum class Wish { kLook = 0, kTake = 1, kTakeBack = 2 };

// Decides who has the table, if nobody has decided yet and the wish says so. `who`: the database that took
// it. Errors: as atoll_store_decide().
Status decide(const std::string &id, bool is_taker, Wish wish, Holder *holder, std::string *who);

// The table (of a partitioned one the whole) that is under the internal name `prefix` + `id`; nullptr: there
// is none.
catalog::TablePtr find_moving(std::string_view prefix, const std::string &id);

// Gives the table the name TableDef::former_name. Errors: kDuplicate (another table has that name), and as
// Catalog::rename().
Status show_moved(const catalog::TableDef &moving);
Status drop_moved(const catalog::TableDef &moving);
// Giver: deletes the pin, then shows the table. In this order, because a table that is shown is not settled
// again. Requires: the giver has it. Errors: as show_moved(), and of the bucket.
Status withdraw_and_show(const catalog::TableDef &given);
// Taker: drops the table, and when that is in the bucket, forgets from whom it was taken. Errors: of the
// bucket.
Status drop_and_forget(const catalog::TableDef &taken);

// Keeps settle_hand_overs() away from a hand-over that a statement works on.
class AtWork {
 public:
  explicit AtWork(std::string id);
  ~AtWork();
  AtWork(const AtWork &) = delete;
  AtWork &operator=(const AtWork &) = delete;
  static bool is(const std::string &id);

 private:
  const std::string id_;
};

}  // namespace atoll::plugin

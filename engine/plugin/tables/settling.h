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

// Remembers where the live entries of a queue begin.
//
// In a table that is used as a queue, entries are deleted at the front. RocksDB keeps what was deleted until
// a flush and a compaction, and each search for the first entry would pass all of it. So the first search
// notes a head: there is no entry from the key that was searched for, `target`, up to the key that was found.
// The next search for the same target begins at that key.
//
// Why a head stays right. It holds for views of the database from a certain sequence number on. A commit that
// writes in [target, key) lowers the key of the head before the commit becomes visible (note_commit()). A
// commit that has passed that point before the head was entered is noticed by the search that enters it: the
// head counts only when no other transaction has uncommitted writes in the range (TXN-3 in foreign_writes.h),
// and when no transaction has ended between the view of the search and that look. Data that is loaded without
// a transaction never gets into a range that a statement has searched before: it goes to an index or a table
// that nobody reads yet, and its keys begin with a number that is never used again (CAT-1).
//
// Heads are noted only where a search that is repeated finds another first key, so other tables have none.
//
// Invariant
//   HEAD-1  A search that begins at a head finds what a search from its target would find.
// Tests: queue_heads_test.cc.
#pragma once

#include <rocksdb/iterator.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/mutex.h"
#include "lsm/family.h"

namespace atoll::txn {

class ManagerImpl;
class TransactionImpl;
struct CursorBounds;

// The heads of all families. Threads: any.
class QueueHeads {
 public:
  // Sets *from to the key at which a search for `target` can begin, if a head is known. `sequence`: the
  // search sees at least the commits up to this sequence number.
  bool find(const lsm::Family *family, std::string_view target, uint64_t sequence, std::string *from);
  // Notes the result of a search. Returns true if the last search for `target` has found another key.
  bool has_moved(const lsm::Family *family, std::string_view target, std::string_view found);
  // Enters the head `key`, which views from `sequence` on may use after confirm(). From this call on, commits
  // lower it.
  uint64_t enter(const lsm::Family *family, std::string_view target, std::string_view key, uint64_t sequence);
  // Replaces older heads of the same target by head number `id`. `is_right`: false: forgets head `id`
  // instead.
  void confirm(const lsm::Family *family, uint64_t id, bool is_right);
  // Called before the commit of `transaction` becomes visible, for each family to which it has written.
  void note_commit(const TransactionImpl &transaction, uint32_t family_id);

 private:
  static constexpr size_t kPlaces = 64;          // families whose ids are equal modulo 64 share a place
  static constexpr size_t kHeadsOfPlaceMax = 8;  // a further head replaces the oldest one
  // A head that no search has used for so many commits to its family is forgotten, so that the tables of the
  // shared family do not pay for a queue that is not used any more.
  static constexpr uint32_t kUnusedCommitsMax = 10'000;

  struct Head {
    uint64_t id = 0;
    const lsm::Family *family = nullptr;
    std::string target, key;
    uint64_t sequence = 0;
    bool is_confirmed = false;
    uint32_t unused_commits = 0;  // commits to the family since a search has used the head
  };
  struct alignas(64) Place {
    // One bit for each head: the one that target_bit() gives. Read without the mutex, so that a search for a
    // target without a head and a commit where there is no head need no mutex.
    std::atomic<uint64_t> targets{0};
    Mutex mutex;
    uint64_t next_id ATOLL_GUARDED_BY(mutex) = 1;
    std::vector<Head> heads ATOLL_GUARDED_BY(mutex);

    void note_targets() ATOLL_REQUIRES(mutex);  // after each change of `heads`
  };
  Place &place_of(uint32_t family_id) { return places_[family_id % kPlaces]; }

  std::array<Place, kPlaces> places_;
  // The last searches: the upper half of an element is a hash of the target, the lower one of the key found.
  std::array<std::atomic<uint64_t>, 256> searches_{};
};

// The forward searches of one cursor over a family of main.
class HeadSearch {
 public:
  // `snapshot`: what the cursor shows; nullptr: the newest commits.
  HeadSearch(ManagerImpl *manager, lsm::Family *family, const rocksdb::Snapshot *snapshot)
      : manager_(manager), family_(family), snapshot_(snapshot) {}

  // Call before the iterator is made or refreshed.
  void note_view();
  // As entries->Seek(target). `bounds`: those of the iterator.
  void seek(rocksdb::Iterator *entries, const rocksdb::Slice &target, const CursorBounds &bounds);

 private:
  void enter_head(std::string_view target, std::string_view key);

  ManagerImpl *const manager_;
  lsm::Family *const family_;
  const rocksdb::Snapshot *const snapshot_;
  uint64_t sequence_ = 0;  // the view shows at least the commits up to this sequence number
  uint64_t ended_ = 0;     // FamilyActivity::ended before the view; of no use with a snapshot
  std::string from_;       // buffer
};

}  // namespace atoll::txn

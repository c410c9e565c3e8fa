// Deadlocks: the search for cycles of waiters. Each request that starts to wait runs it, so that a cycle is
// broken at once (LOCK-2).
//
// Why one search at the start of each wait finds every cycle: a cycle consists of waiters only, and the graph
// mutex serialises the starts of waits. So the waiter of the cycle that starts last searches when all the
// others are queued.
//
// Why it finds no false cycles: every edge that it sees (a request waits for an owner) was there when the
// search began, because owners start and end their waits only under the graph mutex (LOCKTAB-1 in
// lock_table_impl.h). And an owner that waits releases no lock. A range that is granted later, or row locks
// that are exchanged for row ranges, can make a waiter wait for one more owner. That owner is running, so it
// closes no cycle yet; it searches when it starts to wait.

#include <algorithm>

#include "base/clock.h"
#include "txn/locks/lock_table_impl.h"

namespace atoll::txn {

// Pushes onto `stack` the waiting requests that `request` waits for. Pushes the request at the front of the
// queue last, so that the search expands it first. When a later request of the queue is expanded, its loop
// stops at a request that is expanded already. So the whole search is linear in the length of the queue.
void LockTable::Impl::expand(Request *request, std::vector<Request *> *stack) {
  MutexLock guard(mutex_of(*request));
  if (request->state != RequestState::kWaiting) return;
  // The caller holds the graph mutex, but the thread analysis does not see that when each_blocker() calls
  // this lambda.
  const auto push = [&](Request *target) ATOLL_UNCHECKED_THREADS {
    if (target == nullptr || target->visited_epoch == epoch) return;
    target->visited_epoch = epoch;
    target->reached_from = request;
    stack->push_back(target);
  };
  request->expanded_epoch = epoch;
  if (request->slot != nullptr) {
    each_blocker(*request, [&](LockOwner::State *holder) { push(holder->waiting); });
    return;
  }
  for (Grant *g = &request->lock->first; g != nullptr; g = g->next) {
    if (g->owner != nullptr && g->owner != request->owner && !compatible(g->mode, request->mode)) {
      push(g->owner->waiting);
    }
  }
  for (Request *r = request->prev; r != nullptr; r = r->prev) {
    if (!compatible(r->mode, request->mode)) push(r);
    // All requests before `r` in the queue for which `request` waits were pushed when `r` was expanded.
    const bool covers = r->mode == LockMode::kExclusive || request->mode == LockMode::kShared;
    if (r->expanded_epoch == epoch && covers) return;
  }
}

// Searches for a cycle through `start`. Returns the request of the cycle that waits for the owner of `start`;
// the chain of reached_from leads from this request back to `start`. Returns nullptr if there is no cycle.
Request *LockTable::Impl::find_cycle(Request *start) {
  ++epoch;
  std::vector<Request *> stack{start};
  // `start` is not marked as visited, because a cycle is found when the search reaches `start` again.
  while (!stack.empty()) {
    Request *request = stack.back();
    stack.pop_back();
    expand(request, &stack);
    if (start->visited_epoch == epoch) return start->reached_from;
  }
  return nullptr;
}

// True if `owner` is a better victim than `than`. Both owners wait, and cannot end their waits while the
// caller holds the graph mutex. So the users of both still exist.
bool LockTable::Impl::is_better_victim(const LockOwner::State &owner, const LockOwner::State &than) const {
  void *user = owner.user.load(), *other = than.user.load();
  if (victim_preference && user != nullptr && other != nullptr)
    if (const int preference = victim_preference(user, other); preference != 0) return preference < 0;
  return held_in_all(owner) < held_in_all(than);
}

// Ends the victim's wait with kDeadlock. Returns false if the wait has already ended in another way.
bool LockTable::Impl::fail_victim(Request *victim) {
  MutexLock guard(mutex_of(*victim));
  if (victim->state != RequestState::kWaiting) return false;
  dequeue(victim);
  victim->state = RequestState::kDeadlock;
  if (victim->lock != nullptr) grant_waiters(victim->lock);
  wake(victim->owner);
  return true;
}

bool LockTable::Impl::break_cycles(Request *request) {
  while (Request *last = find_cycle(request)) {
    Request *victim = request;
    for (Request *r = last; r != request; r = r->reached_from)
      if (is_better_victim(*r->owner, *victim->owner)) victim = r;
    Deadlock deadlock = describe_cycle(request, last, victim);
    if (!fail_victim(victim)) continue;
    deadlocks.fetch_add(1, std::memory_order_relaxed);
    last_deadlock = std::move(deadlock);
    if (victim == request) return true;
  }
  return false;
}

Deadlock::Member LockTable::Impl::describe_member(const Request &request, const Request &blocker) const {
  Deadlock::Member member;
  member.wait = info_of(request, Clock::now());
  member.wait.blocking_transaction_id = blocker.owner->transaction_id;
  member.locks = held_in_all(*request.owner);
  member.upgrade = request.upgrade;
  void *user = request.owner->user.load();
  if (describe_user && user != nullptr) member.user = describe_user(user);
  return member;
}

Deadlock LockTable::Impl::describe_cycle(Request *start, Request *last, const Request *victim) const {
  std::vector<const Request *> cycle;  // each request waits for the next one, and the last for the first
  for (Request *r = last; r != start; r = r->reached_from) cycle.push_back(r);
  cycle.push_back(start);
  std::reverse(cycle.begin(), cycle.end());
  Deadlock deadlock;
  deadlock.victim_id = victim->owner->transaction_id;
  deadlock.found_us = now_us();
  for (size_t i = 0; i < cycle.size(); ++i)
    deadlock.members.push_back(describe_member(*cycle[i], *cycle[(i + 1) % cycle.size()]));
  return deadlock;
}

}  // namespace atoll::txn

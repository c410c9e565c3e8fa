// Lists the snapshots of a store and passes them to a C++ function, which can throw.
#pragma once

#include <utility>

#include "bridge/callback.h"
#include "bridge/objstore.h"
#include "bridge/result.h"

namespace atoll::bridge {

// Calls `each(const atoll_snapshot *)` for what atoll_store_list_snapshots() lists. Errors, requests: those
// of that function. Throws what `each` throws.
template <typename Each>
Status for_each_snapshot(const atoll_store *store, Each each) {
  Callback callback(std::move(each));
  const Status listed = to_status(
      atoll_store_list_snapshots(store, &callback, callback.template function<const atoll_snapshot *>()));
  callback.rethrow();
  return listed;
}

}  // namespace atoll::bridge

// Lists the snapshots of a store and passes them to a C++ function, which can throw.
#pragma once

#include <utility>

#include "bridge/callback.h"
#include "bridge/objstore.h"
#include "bridge/result.h"

namespace atoll::bridge {

using ListSnapshots = decltype(&atoll_store_list_snapshots);

// Calls `each(const atoll_snapshot *)` for what `list` lists. Errors, requests: those of `list`. Throws what
// `each` throws.
template <typename Each>
Status for_each_listed(ListSnapshots list, const atoll_store *store, Each each) {
  Callback callback(std::move(each));
  const Status listed =
      to_status(list(store, &callback, callback.template function<const atoll_snapshot *>()));
  callback.rethrow();
  return listed;
}

// As for_each_listed(), for what atoll_store_list_snapshots() lists.
template <typename Each>
Status for_each_snapshot(const atoll_store *store, Each each) {
  return for_each_listed(atoll_store_list_snapshots, store, std::move(each));
}

// As for_each_listed(), for what atoll_store_list_pins() lists: cheap, and without the numbers about files.
template <typename Each>
Status for_each_pin(const atoll_store *store, Each each) {
  return for_each_listed(atoll_store_list_pins, store, std::move(each));
}

// As for_each_listed(), for what atoll_store_list_readers() lists.
template <typename Each>
Status for_each_reader(const atoll_store *store, Each each) {
  return for_each_listed(atoll_store_list_readers, store, std::move(each));
}

}  // namespace atoll::bridge

// The callbacks of the handlerton that belong to transactions. In 10.11 the server passes the handlerton as
// their first argument, in 11.8 it does not. The functions of this engine have no such argument.
#pragma once

#include "handler/server.h"
#include "handler/server/callback.h"

namespace atoll::handler {

#if MYSQL_VERSION_ID < 110000

template <auto kFunction>
struct WithHandlerton;

template <typename Result, typename... Arguments, Result (*kFunction)(Arguments...)>
struct WithHandlerton<kFunction> {
  static Result call(handlerton *, Arguments... arguments) { return kFunction(arguments...); }
};

// As guarded_function, for a callback of transactions.
template <auto kFunction, auto kFailure>
inline constexpr auto guarded_participant = guarded_function<&WithHandlerton<kFunction>::call, kFailure>;

// Calls of these functions of another engine, which must have them.
inline int recover_of(handlerton *engine, XID *xids, uint length) {
  return engine->recover(engine, xids, length);
}
inline int commit_by_xid_of(handlerton *engine, XID *xid) { return engine->commit_by_xid(engine, xid); }

#else

template <auto kFunction, auto kFailure>
inline constexpr auto guarded_participant = guarded_function<kFunction, kFailure>;

inline int recover_of(handlerton *engine, XID *xids, uint length) { return engine->recover(xids, length); }
inline int commit_by_xid_of(handlerton *engine, XID *xid) { return engine->commit_by_xid(xid); }

#endif

}  // namespace atoll::handler

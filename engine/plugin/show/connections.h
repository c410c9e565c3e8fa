// Finds the connections to which transactions belong, for texts and views that users see.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "txn/transaction.h"

class THD;

namespace atoll::plugin {

struct Connection {
  uint64_t thread_id = 0;  // 0: none; for example, the connection of a prepared transaction is gone
  std::string query;       // the running statement, cut off if it is long; empty: there is none
};

// The key is the id of the transaction.
using Connections = std::map<uint64_t, Connection>;

// Returns the connections of the transactions. A connection may end meanwhile, so this function reads only
// those that are still in the server's list.
Connections connections_of(const std::vector<txn::TransactionInfo> &transactions);

// Returns "connection 7: UPDATE t ...", or "no connection".
std::string describe(const Connection &connection);
std::string describe(const Connections &connections, uint64_t transaction_id);

// Returns the connection of a THD. Requires: the THD's statement cannot continue meanwhile.
Connection connection_of(THD *thd);

}  // namespace atoll::plugin

// The connections behind transactions, for what people are shown.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "txn/transaction.h"

class THD;

namespace atoll::plugin {

struct Connection {
  uint64_t thread_id = 0;  // 0: none, as of a prepared transaction whose connection is gone
  std::string query;       // the running statement, cut; empty: none
};

// By the id of the transaction.
using Connections = std::map<uint64_t, Connection>;

// The connections of the transactions. They may end meanwhile: only those that the server still lists are
// asked.
Connections connections_of(const std::vector<txn::TransactionInfo> &transactions);

// "connection 7: UPDATE t ..."; "no connection".
std::string describe(const Connection &connection);
std::string describe(const Connections &connections, uint64_t transaction_id);

// The connection of a THD. Requires: its statement cannot go on meanwhile.
Connection connection_of(THD *thd);

}  // namespace atoll::plugin

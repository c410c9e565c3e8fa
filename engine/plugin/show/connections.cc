// See connections.h.
#include "handler/server.h"

#include "plugin/show/connections.h"

#include <algorithm>
#include <cctype>

// The server exports this function for engines, but declares it in no header. It returns no text when another
// thread uses the connection's data. It never waits, so it may be called with any mutex held. Source:
// sql/sql_class.cc.
extern "C" size_t thd_query_safe(MYSQL_THD thd, char *buffer, size_t size);

namespace atoll::plugin {
namespace {

constexpr size_t kQueryBytesMax = 1024;

using ByUser = std::map<void *, Connection>;

my_bool note_connection(THD *thd, ByUser *connections) {
  const auto found = connections->find(thd);
  if (found != connections->end()) found->second = connection_of(thd);
  return 0;
}

}  // namespace

Connection connection_of(THD *thd) {
  char query[kQueryBytesMax];
  const size_t length = thd_query_safe(thd, query, sizeof(query));
  // A binary literal may contain control characters, which could do anything to a terminal.
  std::replace_if(
      query, query + length, [](char c) { return iscntrl(static_cast<unsigned char>(c)) != 0; }, ' ');
  return {thd->thread_id, std::string(query, length)};
}

Connections connections_of(const std::vector<txn::TransactionInfo> &transactions) {
  ByUser by_user;
  for (const txn::TransactionInfo &info : transactions)
    if (info.user != nullptr) by_user[info.user];
  THD_list_iterator::iterator()->iterate(note_connection, &by_user);
  Connections result;
  for (const txn::TransactionInfo &info : transactions)
    if (const auto found = by_user.find(info.user); found != by_user.end()) result[info.id] = found->second;
  return result;
}

std::string describe(const Connection &connection) {
  if (connection.thread_id == 0) return "no connection";
  const std::string text = "connection " + std::to_string(connection.thread_id);
  return connection.query.empty() ? text : text + ": " + connection.query;
}

std::string describe(const Connections &connections, uint64_t transaction_id) {
  const auto found = connections.find(transaction_id);
  return describe(found == connections.end() ? Connection() : found->second);
}

}  // namespace atoll::plugin

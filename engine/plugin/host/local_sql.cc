// See local_sql.h. The server's SQL service: https://mariadb.com/kb/en/plugin-services/
#include "plugin/host/local_sql.h"

#include <mysql.h>
#include <mysqld_error.h>

#include <mysql/service_sql.h>

namespace atoll::plugin {

struct LocalSql::Connection {
  MYSQL *handle = nullptr;
  bool is_open = false;
};

LocalSql::LocalSql() : connection_(std::make_unique<Connection>()) {
  connection_->handle = sql_service->mysql_init_func(nullptr);
  connection_->is_open = connection_->handle != nullptr &&
                         sql_service->mysql_real_connect_local_func(connection_->handle) != nullptr;
}

LocalSql::~LocalSql() {
  if (connection_->handle != nullptr) sql_service->mysql_close_func(connection_->handle);
}

LocalSql::Outcome LocalSql::run(const std::string &statement) {
  MYSQL *handle = connection_->handle;
  if (handle == nullptr) return {ER_OUTOFMEMORY, "there is no memory for a connection"};
  if (connection_->is_open &&
      sql_service->mysql_real_query_func(handle, statement.data(), statement.size()) == 0) {
    if (MYSQL_RES *rows = sql_service->mysql_store_result_func(handle))
      sql_service->mysql_free_result_func(rows);
    return {};
  }
  return {sql_service->mysql_errno_func(handle), sql_service->mysql_error_func(handle)};
}

std::string quoted(const std::string &name) {
  std::string text("`");
  for (const char c : name) text.append(c == '`' ? 2 : 1, c);
  return text.append("`");
}

}  // namespace atoll::plugin

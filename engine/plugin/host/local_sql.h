// SQL statements of the engine itself, run by the server it is loaded into.
#pragma once

#include <memory>
#include <string>

namespace atoll::plugin {

// A connection without a socket or a user, which may do everything; what it does is not in the binary log.
// Its statements run in the calling thread, which must not have a connection already and has called
// my_thread_init().
class LocalSql {
 public:
  // What the server said to a statement; 0: it succeeded.
  struct Outcome {
    unsigned error = 0;
    std::string message;
  };

  LocalSql();
  ~LocalSql();
  LocalSql(const LocalSql &) = delete;
  LocalSql &operator=(const LocalSql &) = delete;

  // Rows that the statement returns are thrown away. There is no default database before a USE.
  Outcome run(const std::string &statement);

 private:
  struct Connection;
  const std::unique_ptr<Connection> connection_;
};

// The name in backticks, as SQL writes it whatever its characters are.
std::string quoted(const std::string &name);

}  // namespace atoll::plugin

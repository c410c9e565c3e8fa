// Runs SQL statements of the engine itself in the server that has loaded the engine.
#pragma once

#include <memory>
#include <string>

namespace atoll::plugin {

// A connection without a socket and without a user. It has all privileges, and its statements do not go to
// the binary log. They run in the calling thread, which must not have another connection and must have called
// my_thread_init().
class LocalSql {
 public:
  // The server's answer to a statement: its error number and message. 0: the statement succeeded.
  struct Outcome {
    unsigned error = 0;
    std::string message;
  };

  LocalSql();
  ~LocalSql();
  LocalSql(const LocalSql &) = delete;
  LocalSql &operator=(const LocalSql &) = delete;

  // Runs a statement and drops the rows that it returns. There is no default database before a USE.
  Outcome run(const std::string &statement);

 private:
  struct Connection;
  const std::unique_ptr<Connection> connection_;
};

// Returns the name in backticks, as SQL needs it, for any characters in it.
std::string quoted(const std::string &name);

}  // namespace atoll::plugin

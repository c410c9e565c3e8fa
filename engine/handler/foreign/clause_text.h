// A constraint FOREIGN KEY as SQL text, as InnoDB writes it. Applications and tools read this text from SHOW
// CREATE TABLE and from error messages. One thing differs: a backtick in a name of a constraint or a column
// is doubled, so that the statement can be run again; InnoDB does so only since MariaDB 11.8.
#pragma once

#include <string>

#include "catalog/catalog.h"

class THD;

namespace atoll::handler {

// The name in quotes, by the SQL mode of `thd`: `t`, or "t" with ANSI_QUOTES.
std::string quoted(THD *thd, const std::string &name);
// Database and table, which are names of files, as SQL writes them: `db`.`t`.
std::string quoted_table(THD *thd, const std::string &database, const std::string &table);

// CONSTRAINT `n` FOREIGN KEY (`a`) REFERENCES `p` (`id`) ON DELETE CASCADE. The database of the parent is
// shown if it is not that of `child`. RESTRICT and SET DEFAULT are not shown.
std::string clause_text(THD *thd, const catalog::TableDef &child, const catalog::ForeignKeyDef &key);

// The constraints of the table as SHOW CREATE TABLE shows them behind the last index.
std::string show_create_text(THD *thd, const catalog::TableDef &child);

}  // namespace atoll::handler

// Reads the clauses FOREIGN KEY of CREATE TABLE and ALTER TABLE, and checks that each fits its two tables.
// The names of constraints, the order of the checks and the texts are InnoDB's.
#pragma once

#include <string>
#include <vector>

#include "catalog/catalog.h"

class Alter_info;
class Foreign_key;
class THD;
struct TABLE;

namespace atoll::handler {

// What a clause belongs to.
struct ClauseContext {
  THD *thd = nullptr;
  bool is_alter = false;
  // The table as it will be, with its columns and keys, under the name that it will have. Its constraints are
  // those that it has before the statement.
  catalog::TableDef table;
  std::string former_name;  // that it has before the statement, as a name of a file; empty: it is new
  TABLE *form = nullptr;    // the new table, for its generated columns
  bool warns = true;        // whether the reason of an error is shown as a warning
};

// Why a clause is refused, for the errors of an ALTER in place.
enum class ClauseError : uint8_t { kNone, kParentIndex, kName, kSetNull, kOther };

class ForeignKeyClauses {
 public:
  explicit ForeignKeyClauses(ClauseContext context) : context_(std::move(context)) {}

  // Reads all new clauses. Returns 0 or a handler error with which CREATE TABLE fails: for a constraint that
  // does not fit HA_ERR_CANNOT_ADD_FOREIGN, for a used name HA_ERR_FOUND_DUPP_KEY.
  int read(const Alter_info &info);

  const std::vector<catalog::ForeignKeyDef> &added() const { return added_; }
  // What was wrong, and with which clause, after read() has failed.
  ClauseError error() const { return error_; }
  const Foreign_key *clause() const { return clause_; }
  const std::string &name() const { return name_; }  // of the refused constraint

 private:
  int read_clause();
  int choose_name(catalog::ForeignKeyDef *key);
  int check_child(catalog::ForeignKeyDef *key);
  int check_parent(catalog::ForeignKeyDef *key);
  int check_actions(const catalog::ForeignKeyDef &key);
  int check_null_cascade(const catalog::ForeignKeyDef &key, const catalog::TableDescription &parent);
  int check_stored_columns() const;
  int refuse(ClauseError error, const std::string &reason);
  void warn(unsigned code, const std::string &text) const;
  int refuse_index(int misfit, const std::string &column, const std::string &other);

  ClauseContext context_;
  const Foreign_key *clause_ = nullptr;
  std::vector<catalog::ForeignKeyDef> added_;
  uint64_t next_number_ = 1;  // for the next generated name
  ClauseError error_ = ClauseError::kNone;
  std::string name_;
};

// The clause as the statement has it: "FOREIGN KEY name (a) REFERENCES db.parent (b)".
std::string source_text(const Foreign_key &clause);

// The first clause that is new in the statement; nullptr: there is none.
const Foreign_key *first_new_clause(const Alter_info &info);

// How generated names of constraints begin: TABLE_ibfk_. `table`: the name of a file.
std::string generated_prefix(const std::string &table);

}  // namespace atoll::handler

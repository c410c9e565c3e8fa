// See action_function.h.
#include "handler/server.h"

#include <item_create.h>
#include <item_strfunc.h>
#include <sql_acl.h>

#include <algorithm>
#include <cstring>

#include "base/border/border.h"
#include "engine/running.h"
#include "handler/server/callback.h"
#include "plugin/snapshots/action_function.h"

namespace atoll::plugin {
namespace {

constexpr uint kResultCharsMax = 1024;

unsigned error_of(Code code) {
  switch (code) {
    case Code::kInvalid:
    case Code::kNotFound:
      return ER_WRONG_ARGUMENTS;
    case Code::kReadOnly:
    case Code::kFenced:
      return ER_OPTION_PREVENTS_STATEMENT;
    case Code::kInterrupted:
      return ER_QUERY_INTERRUPTED;
    default:
      return ER_GET_ERRMSG;
  }
}

privilege_t global_privileges(ActionPrivilege privilege) {
  switch (privilege) {
    case ActionPrivilege::kReload:
      return RELOAD_ACL | SUPER_ACL;
    case ActionPrivilege::kBinlogAdmin:
      return PRIV_STMT_PURGE_BINLOG;
  }
  return SUPER_ACL;
}

class ActionFunction final : public Item_str_func {
 public:
  ActionFunction(THD *thd, List<Item> &arguments, const SqlAction *action)
      : Item_str_func(thd, arguments), action_(*action) {}

  LEX_CSTRING func_name_cstring() const override { return {action_.name, std::strlen(action_.name)}; }
  bool fix_fields(THD *thd, Item **reference) override {
    return check_global_access(thd, global_privileges(action_.privilege)) ||
           Item_str_func::fix_fields(thd, reference);
  }
  bool fix_length_and_dec(THD *) override {
    set_maybe_null();
    collation.set(&my_charset_utf8mb4_bin);
    fix_char_length(kResultCharsMax);
    return false;
  }
  // Tell the server that the value is not constant and differs between statements, so that the optimizer and
  // EXPLAIN do not call the function.
  bool const_item() const override { return false; }
  table_map used_tables() const override { return used_tables_cache | RAND_TABLE_BIT; }
  bool is_expensive() override { return true; }
  bool check_vcol_func_processor(void *argument) override {
    return mark_unsupported_function(action_.name, "()", argument, VCOL_IMPOSSIBLE);
  }
  String *val_str(String *) override {
    return guarded([this] { return value(); },
                   [this](const Status &status) {
                     null_value = true;
                     return handler::fails_by<static_cast<String *>(nullptr)>(status);
                   });
  }
  void cleanup() override {
    Item_str_func::cleanup();
    is_done_ = false;
  }

 protected:
  Item *shallow_copy(THD *thd) const override { return get_item_copy<ActionFunction>(thd, this); }

 private:
  String *value();
  bool read_arguments(THD *thd, std::vector<std::string> *arguments);
  bool run(THD *thd, const std::vector<std::string> &arguments, std::string *what);

  const SqlAction &action_;
  bool is_done_ = false;  // this execution of the statement has called the action, or has failed before that
  StringBuffer<64> result_;
};

// Returns false when an error was reported.
bool ActionFunction::read_arguments(THD *thd, std::vector<std::string> *arguments) {
  for (uint i = 0; i < arg_count; i++) {
    String buffer;
    const String *argument = args[i]->val_str(&buffer);
    if (thd->is_error()) return false;
    if (argument == nullptr) {
      my_printf_error(ER_WRONG_ARGUMENTS, "ATOLL: %s", MYF(0), action_.null_refusal);
      return false;
    }
    StringBuffer<64> text;
    uint errors = 0;
    if (text.copy(argument->ptr(), argument->length(), argument->charset(), &my_charset_utf8mb4_bin,
                  &errors)) {
      my_error(ER_OUT_OF_RESOURCES, MYF(0));
      return false;
    }
    // The bytes of a binary string are copied as they are, so they may not be UTF-8.
    const Well_formed_prefix valid(&my_charset_utf8mb4_bin, text.ptr(), text.length());
    if (errors != 0 || valid.length() != text.length()) {
      my_printf_error(ER_WRONG_ARGUMENTS, "ATOLL: argument %u is no valid text", MYF(0), i + 1);
      return false;
    }
    arguments->emplace_back(text.ptr(), text.length());
  }
  return true;
}

// Returns false when an error was reported.
bool ActionFunction::run(THD *thd, const std::vector<std::string> &arguments, std::string *what) {
  if (thd->in_sub_stmt) {
    my_error(ER_WRONG_USAGE, MYF(0), action_.name, "a trigger or stored function");
    return false;
  }
  const auto has_nul = [](const std::string &text) { return text.find('\0') != std::string::npos; };
  Status status = engine::may_write();
  if (status.ok() && std::any_of(arguments.begin(), arguments.end(), has_nul))
    status = Status(Code::kInvalid, "the name contains a NUL byte");
  if (status.ok()) status = action_.run(arguments, what);
  if (thd->is_error()) return false;
  if (!status.ok()) {
    my_printf_error(error_of(status.code()), "ATOLL: %s", MYF(0), status.message());
    return false;
  }
  push_warning_printf(thd, Sql_condition::WARN_LEVEL_NOTE, ER_YES, "ATOLL: %s", what->c_str());
  return true;
}

// Whether the server only analyses the statement and does not execute it. Even then the server evaluates
// derived tables and subqueries, and the action must not run.
bool is_only_looked_at(LEX &lex) {
  return lex.is_ps_or_view_context_analysis() || (lex.describe != 0 && !lex.analyze_stmt);
}

String *ActionFunction::value() {
  THD *thd = current_thd;
  if (is_only_looked_at(*thd->lex)) {
    null_value = true;
    return nullptr;
  }
  if (!is_done_) {
    is_done_ = true;
    null_value = true;
    std::vector<std::string> arguments;
    std::string what;
    if (!read_arguments(thd, &arguments) || !run(thd, arguments, &what)) return nullptr;
    const std::string result =
        action_.result < arguments.size() ? arguments[action_.result] : what.substr(0, what.find(' '));
    null_value = result_.copy(result.data(), result.size(), &my_charset_utf8mb4_bin);
  }
  return null_value ? nullptr : &result_;
}

class CreateActionFunction final : public Create_native_func {
 public:
  explicit CreateActionFunction(const SqlAction *action) : action_(action) {}

  Item *create_native(THD *thd, const LEX_CSTRING *name, List<Item> *arguments) override {
    if (arguments == nullptr || arguments->elements != action_->arguments) {
      my_error(ER_WRONG_PARAMCOUNT_TO_NATIVE_FCT, MYF(0), name->str);
      return nullptr;
    }
    if (thd->lex->sql_command == SQLCOM_CREATE_VIEW) {
      my_error(ER_WRONG_USAGE, MYF(0), action_->name, "VIEW");
      return nullptr;
    }
    thd->lex->set_stmt_unsafe(LEX::BINLOG_STMT_UNSAFE_SYSTEM_FUNCTION);
    thd->lex->uncacheable(UNCACHEABLE_SIDEEFFECT);
    thd->lex->safe_to_cache_query = false;
    return new (thd->mem_root) ActionFunction(thd, *arguments, action_);
  }

 private:
  const SqlAction *const action_;
};

}  // namespace

// Never freed, because the server may call the function for as long as the library is loaded.
Create_func *action_function(const SqlAction *action) { return new CreateActionFunction(action); }

}  // namespace atoll::plugin

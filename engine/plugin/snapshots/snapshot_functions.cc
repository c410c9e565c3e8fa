// See snapshot_functions.h.
#include "handler/server.h"

#include <item_create.h>
#include <item_strfunc.h>
#include <sql_acl.h>

#include <cstdio>
#include <string>

#include "bridge/callback.h"
#include "bridge/result.h"
#include "engine/running.h"
#include "handler/server/callback.h"
#include "plugin/snapshots/snapshot_functions.h"

namespace atoll::plugin {
namespace {

constexpr uint kNameBytesMax = 1024;

// The newest commit of the snapshot as text: UTC, and the GTID position.
std::string commit_text(const atoll_snapshot &snapshot) {
  if (snapshot.commit_us == 0) return "no commit yet";
  const auto seconds = static_cast<time_t>(snapshot.commit_us / 1000000);
  tm utc{};
  gmtime_r(&seconds, &utc);
  char text[64];
  const size_t length = std::strftime(text, sizeof(text), "%Y-%m-%d %H:%M:%S", &utc);
  std::snprintf(text + length, sizeof(text) - length, ".%06u UTC",
                static_cast<unsigned>(snapshot.commit_us % 1000000));
  const std::string gtid = snapshot.gtid_position;
  return "last commit " + std::string(text) + (gtid.empty() ? "" : ", GTID position " + gtid);
}

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

using Action = Status (*)(const std::string &name, std::string *what);

class SnapshotFunction : public Item_str_func {
 public:
  SnapshotFunction(THD *thd, Item *name, const char *function, Action action)
      : Item_str_func(thd, name), function_(function), action_(action) {}

  LEX_CSTRING func_name_cstring() const override { return {function_, std::strlen(function_)}; }
  bool fix_fields(THD *thd, Item **reference) override {
    return check_global_access(thd, RELOAD_ACL | SUPER_ACL) || Item_str_func::fix_fields(thd, reference);
  }
  bool fix_length_and_dec(THD *) override {
    set_maybe_null();
    collation.set(&my_charset_utf8mb4_bin);
    fix_char_length(kNameBytesMax);
    return false;
  }
  // Neither a constant nor the same for two statements: the optimizer must not call it, nor EXPLAIN.
  bool const_item() const override { return false; }
  table_map used_tables() const override { return used_tables_cache | RAND_TABLE_BIT; }
  bool is_expensive() override { return true; }
  bool check_vcol_func_processor(void *argument) override {
    return mark_unsupported_function(function_, "()", argument, VCOL_IMPOSSIBLE);
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
  Item *shallow_copy(THD *thd) const override { return get_item_copy<SnapshotFunction>(thd, this); }

 private:
  String *value();
  bool run(THD *thd, const std::string &name);

  const char *function_;
  Action action_;
  bool is_done_ = false;
  StringBuffer<64> name_;
};

bool SnapshotFunction::run(THD *thd, const std::string &name) {
  if (thd->in_sub_stmt) {
    my_error(ER_WRONG_USAGE, MYF(0), function_, "a trigger or stored function");
    return false;
  }
  std::string what;
  Status status = name.find('\0') == std::string::npos
                      ? engine::may_write()
                      : Status(Code::kInvalid, "the name contains a NUL byte");
  if (status.ok()) status = action_(name, &what);
  if (!status.ok()) {
    my_printf_error(error_of(status.code()), "ATOLL: %s", MYF(0), status.message());
    return false;
  }
  push_warning_printf(thd, Sql_condition::WARN_LEVEL_NOTE, ER_YES, "ATOLL: %s", what.c_str());
  return true;
}

// The server only looks at the statement. Derived tables and subqueries are evaluated even then.
bool is_only_looked_at(LEX &lex) {
  return lex.is_ps_or_view_context_analysis() || (lex.describe != 0 && !lex.analyze_stmt);
}

String *SnapshotFunction::value() {
  THD *thd = current_thd;
  if (is_only_looked_at(*thd->lex)) {
    null_value = true;
    return nullptr;
  }
  if (!is_done_) {
    is_done_ = true;
    String buffer;
    const String *argument = args[0]->val_str(&buffer);
    null_value = true;
    if (thd->is_error()) return nullptr;
    if (argument == nullptr) {
      my_printf_error(ER_WRONG_ARGUMENTS, "ATOLL: a snapshot needs a name, not NULL", MYF(0));
      return nullptr;
    }
    uint errors = 0;
    name_.copy(argument->ptr(), argument->length(), argument->charset(), &my_charset_utf8mb4_bin, &errors);
    null_value = !run(thd, std::string(name_.ptr(), name_.length()));
  }
  return null_value ? nullptr : &name_;
}

class CreateSnapshotFunction : public Create_func_arg1 {
 public:
  CreateSnapshotFunction(const char *function, Action action) : function_(function), action_(action) {}
  ~CreateSnapshotFunction() override = default;

  Item *create_1_arg(THD *thd, Item *name) override {
    if (thd->lex->sql_command == SQLCOM_CREATE_VIEW) {
      my_error(ER_WRONG_USAGE, MYF(0), function_, "VIEW");
      return nullptr;
    }
    thd->lex->set_stmt_unsafe(LEX::BINLOG_STMT_UNSAFE_SYSTEM_FUNCTION);
    thd->lex->uncacheable(UNCACHEABLE_SIDEEFFECT);
    thd->lex->safe_to_cache_query = false;
    return new (thd->mem_root) SnapshotFunction(thd, name, function_, action_);
  }

 private:
  const char *function_;
  Action action_;
};

}  // namespace

Status make_snapshot(const std::string &name, std::string *what) {
  // Also with atoll_durability=local: the snapshot holds all that was committed before it.
  ATOLL_RETURN_IF_ERROR(engine::running()->gate().publish_all());
  const auto describe = [what](const atoll_snapshot *made) {
    *what = "snapshot '" + std::string(made->name) + "': " + commit_text(*made) + ", " +
            std::to_string(made->files) + " table files, " + std::to_string(made->shared_bytes) + " bytes";
  };
  bridge::Callback told(describe);
  const Status status = bridge::to_status(atoll_store_create_snapshot(
      engine::running()->store(), name.c_str(), &told, told.function<const atoll_snapshot *>()));
  told.rethrow();
  return status;
}

Status drop_snapshot(const std::string &name, std::string *what) {
  *what = "snapshot '" + name + "' is given up; the server deletes what it alone kept within an hour";
  return bridge::to_status(atoll_store_drop_snapshot(engine::running()->store(), name.c_str()));
}

Create_func *snapshot_function() {
  static CreateSnapshotFunction function("atoll_snapshot", make_snapshot);
  return &function;
}

Create_func *drop_snapshot_function() {
  static CreateSnapshotFunction function("atoll_drop_snapshot", drop_snapshot);
  return &function;
}

}  // namespace atoll::plugin

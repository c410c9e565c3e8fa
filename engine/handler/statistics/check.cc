// ha_atoll: CHECK. table/check/table_check.h compares rows and entries.
#include "handler/ha_atoll.h"

#include <utility>

#include "base/log.h"
#include "engine/running.h"
#include "handler/ddl/table_name.h"
#include "handler/server/error_map.h"
#include "handler/write/virtual_columns.h"
#include "table/check/table_check.h"

using atoll::Code;
using atoll::Status;
namespace ah = atoll::handler;
namespace at = atoll::table;

namespace {

// Returns the message to the user about a CHECK that could not be finished.
std::string explained(const Status &status) {
  if (status.code() == Code::kInterrupted) return "CHECK TABLE was interrupted";
  const std::string message = status.message();
  if (status.code() == Code::kUnavailable)
    return message +
           "; nothing is known to be damaged. Repeat CHECK TABLE when the bucket and the disk can be read";
  return message + "; CHECK TABLE could not be finished and says nothing about the table";
}

class ServerCheck final : public at::CheckView {
 public:
  ServerCheck(THD *thd, TABLE *table) : thd_(thd), table_(*table) {}

  uint8_t *record() override { return table_.record[0]; }
  void compute_virtual_columns(size_t index) override {
    if (ah::indexes_virtual_column(&table_, index)) ah::compute_virtual_columns(&table_, index);
  }
  bool is_killed() const override { return atoll::is_statement_killed(thd_); }

  // Returns the row's primary key in the form that the message about a duplicate uses.
  std::string row_text(std::string_view primary_key) override {
    if (table_.s->primary_key == MAX_KEY)
      return "number " + std::to_string(ah::hidden_id_of(primary_key.substr(atoll::codec::kKeyStartLength)));
    StringBuffer<MAX_FIELD_WIDTH> text;
    key_unpack(&text, &table_, &table_.key_info[table_.s->primary_key]);
    return "'" + std::string(text.ptr(), text.length()) + "'";
  }

  void complain(const std::string &index, const std::string &problem) override {
    const std::string text = place(index) + ": " + problem;
    atoll::log_error(text);
    push_warning(thd_, Sql_condition::WARN_LEVEL_ERROR, ER_NOT_KEYFILE, ("ATOLL: " + text).c_str());
  }

  // Some expressions have another result under other settings. Entries then differ from their rows although
  // nothing is damaged.
  void explain_difference(size_t index) override {
    if (!ah::indexes_virtual_column(&table_, index)) return;
    const std::string text =
        "ATOLL: " + place(table_.key_info[index].name.str) +
        ": its virtual columns were computed with this session's settings. If rows were "
        "written with another sql_mode or div_precision_increment, nothing stored is damaged: "
        "repeat CHECK TABLE with those settings, or drop the index and add it again";
    push_warning(thd_, Sql_condition::WARN_LEVEL_NOTE, ER_NOT_KEYFILE, text.c_str());
  }

  void explain_early_end() {
    const std::string text = "ATOLL: " + place("") + ": CHECK TABLE has ended after " +
                             std::to_string(at::TableCheck::kProblemsMax) +
                             " problems; what is behind them was not looked at";
    push_warning(thd_, Sql_condition::WARN_LEVEL_NOTE, ER_NOT_KEYFILE, text.c_str());
  }

  // Tells the user why the check could not go on.
  void explain_end(const Status &status) {
    const std::string text = "ATOLL: " + place("") + ": " + explained(status);
    push_warning(thd_, Sql_condition::WARN_LEVEL_ERROR, ER_GET_ERRMSG, text.c_str());
  }

 private:
  std::string place(const std::string &index) const {
    // Takes the name from the server and not from the definition: in a mount of the past, the definition
    // names the schema of the present.
    const std::string table = "table " + ah::shown_table(thd_, table_.s);
    return index.empty() ? table : table + ", index " + index;
  }

  THD *const thd_;
  TABLE &table_;
};

}  // namespace

int ha_atoll::check(THD *thd, HA_CHECK_OPT *options) {
  session_->open_read_view();
  ServerCheck view(thd, table);
  at::TableCheck check(*layout_, transaction(), atoll::engine::running()->database(), &view);
  const Status status = check.run((options->flags & T_EXTEND) != 0);
  if (status.code() == Code::kCorruption)
    view.complain("", status.message());
  else if (!status.ok())
    view.explain_end(status);
  if (check.problems() >= at::TableCheck::kProblemsMax) view.explain_early_end();
  if (check.problems() > 0 || status.code() == Code::kCorruption) return HA_ADMIN_CORRUPT;
  return status.ok() ? HA_ADMIN_OK : HA_ADMIN_FAILED;
}

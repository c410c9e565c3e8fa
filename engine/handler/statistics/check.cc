// ha_atoll: CHECK. table/check/table_check.h compares rows and entries; row_rules.h tests the values of rows.
#include "handler/ha_atoll.h"

#include <utility>

#include "base/log.h"
#include "engine/running.h"
#include "handler/ddl/table_name.h"
#include "handler/server/error_map.h"
#include "handler/statistics/row_rules.h"
#include "handler/write/virtual_columns.h"
#include "catalog/description/record_form.h"
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
  ServerCheck(THD *thd, TABLE *table, const handler *part)
      : thd_(thd), table_(*table), rules_(thd, table, part) {}

  uint8_t *record() override { return table_.record[0]; }
  void compute_virtual_columns(size_t index) override {
    if (ah::indexes_virtual_column(&table_, index)) ah::compute_virtual_columns(&table_, index);
  }
  std::vector<std::string> test_values(std::string_view primary_key) override {
    rules_.test(&verdict_);
    if (rules_.warned_rows() <= kWarnedRowsMax)
      for (const std::string &warning : verdict_.warnings)
        warn(Sql_condition::WARN_LEVEL_WARN, "row " + row_text(primary_key) + ": " + warning);
    return verdict_.damage;
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
    note(table_.key_info[index].name.str,
         "its virtual columns were computed with this session's settings. If rows were "
         "written with another sql_mode or div_precision_increment, nothing stored is damaged: "
         "repeat CHECK TABLE with those settings, or drop the index and add it again");
  }

  // Tells the user what to do about the values of rows.
  void explain_values() {
    const uint64_t rows = rules_.warned_rows();
    if (rows > kWarnedRowsMax)
      note("", "there are such warnings about " + std::to_string(rows) + " rows, and the first " +
                   std::to_string(kWarnedRowsMax) + " rows are named");
    if (rows > 0)
      note("",
           "a row that violates a constraint is not damaged: a session with check_constraint_checks=0 may "
           "have written it. Change the row or drop the constraint; before that, an ALTER that copies the "
           "table fails");
    if (rules_.has_stale())
      note("",
           "stored generated columns were computed with this session's settings. If rows were written with "
           "another sql_mode or div_precision_increment, nothing stored is damaged");
    if (rules_.has_stale() || rules_.has_misplaced())
      note("",
           "ALTER TABLE ... FORCE, ALGORITHM=COPY computes stored columns and partitions of all rows again");
  }

  void explain_early_end() {
    note("", "CHECK TABLE has ended after " + std::to_string(at::TableCheck::kProblemsMax) +
                 " problems; the rest of the table was not checked");
  }

  // Tells the user why the check could not go on.
  void explain_end(const Status &status) {
    const std::string text = "ATOLL: " + place("") + ": " + explained(status);
    push_warning(thd_, Sql_condition::WARN_LEVEL_ERROR, ER_GET_ERRMSG, text.c_str());
  }

 private:
  static constexpr uint64_t kWarnedRowsMax = 10;  // of the rows that violate a constraint, how many are named

  void warn(Sql_condition::enum_warning_level level, const std::string &text, const std::string &index = "") {
    push_warning(thd_, level, ER_NOT_KEYFILE, ("ATOLL: " + place(index) + ": " + text).c_str());
  }
  void note(const std::string &index, const std::string &text) {
    warn(Sql_condition::WARN_LEVEL_NOTE, text, index);
  }

  std::string place(const std::string &index) const {
    // Takes the name from the server and not from the definition: in a mount of the past, the definition
    // names the schema of the present.
    const std::string table = "table " + ah::shown_table(thd_, table_.s);
    return index.empty() ? table : table + ", index " + index;
  }

  THD *const thd_;
  TABLE &table_;
  ah::RowRules rules_;
  ah::RowRules::Verdict verdict_;
};

// Lets CHECK TABLE ... EXTENDED compare what the catalog's description says with the open table. Errors: as
// described_layout().
Status compare_description(const ah::Layout &layout, at::TableCheck *check) {
  const atoll::catalog::TableDescription &description = layout.def().description;
  if (!description.is_known()) return Status::Ok();
  std::shared_ptr<const ah::Layout> described;
  ATOLL_RETURN_IF_ERROR(ah::described_layout(layout.def_ptr(), layout.family(), &described));
  check->compare_with(std::move(described), atoll::catalog::own_record(description).record_bytes);
  return Status::Ok();
}

}  // namespace

int ha_atoll::check(THD *thd, HA_CHECK_OPT *options) {
  session_->open_read_view();
  ServerCheck view(thd, table, this);
  at::TableCheck check(*layout(), transaction(), atoll::engine::running()->database(), &view);
  const bool is_extended = (options->flags & T_EXTEND) != 0;
  Status status = is_extended ? compare_description(*layout(), &check) : Status::Ok();
  if (status.ok()) status = check.run(is_extended);
  if (status.code() == Code::kCorruption)
    view.complain("", status.message());
  else if (!status.ok())
    view.explain_end(status);
  view.explain_values();
  if (check.problems() >= at::TableCheck::kProblemsMax) view.explain_early_end();
  if (check.problems() > 0 || status.code() == Code::kCorruption) return HA_ADMIN_CORRUPT;
  return status.ok() ? HA_ADMIN_OK : HA_ADMIN_FAILED;
}

// ha_atoll: constraints FOREIGN KEY of the statement's rows. The work is done in foreign/.
#include "handler/ha_atoll.h"

#include <cstring>

#include "handler/foreign/foreign_keys.h"

using atoll::Status;
namespace ah = atoll::handler;

namespace {

void copy_name(const std::string &name, char *out, uint bytes) {
  strncpy(out, name.c_str(), bytes - 1);
  out[bytes - 1] = '\0';
}

}  // namespace

Status ha_atoll::load_foreign_keys(ah::ForeignKeys **keys) {
  if (!is_foreign_loaded_) {
    std::shared_ptr<const ah::ForeignPlan> plan;
    ATOLL_RETURN_IF_ERROR(share_->foreign_plan(layout(), &plan));
    if (plan->is_empty())
      foreign_.reset();
    else if (!foreign_ || foreign_->plan() != plan)
      foreign_ = std::make_unique<ah::ForeignKeys>(this, std::move(plan));
    is_foreign_loaded_ = true;
  }
  *keys = foreign_.get();
  return Status::Ok();
}

// Called when a statement that may write the table begins. A TEMPORARY table and a sequence have no
// constraints.
Status ha_atoll::begin_foreign() {
  end_foreign();
  if (is_temporary() || is_sequence() || open_table_.is_past()) return Status::Ok();
  ATOLL_RETURN_IF_ERROR(load_foreign_keys(&constraints_));
  writer_.set_check(constraints_);
  return Status::Ok();
}

void ha_atoll::end_foreign() {
  if (foreign_) foreign_->end_statement();
  is_foreign_loaded_ = false;
  constraints_ = nullptr;
  writer_.set_check(nullptr);
}

void ha_atoll::count_row(int64_t added) {
  count_rows(share_->rows >= 0 && share_->rows + added >= 0 ? added : 0);
}

bool ha_atoll::get_foreign_dup_key(char *table, uint table_bytes, char *key, uint key_bytes) {
  const ah::ForeignViolation &violation = session_->violation;
  if (violation.child_key.empty()) return false;
  copy_name(violation.child_table, table, table_bytes);
  copy_name(violation.child_key, key, key_bytes);
  return true;
}

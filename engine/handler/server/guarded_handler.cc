// See guarded_handler.h. GuardedHandler overrides each virtual function of ha_atoll that is not noexcept
// (`make check` compares the lists). What it does when the function throws depends on the kind of result:
//
//   an error code              returns the code of the exception; the statement fails by it
//   success or failure         sets the error of the statement, and returns the value for failure: true,
//                              nullptr, HA_ALTER_ERROR or HA_ADMIN_FAILED
//   the answer to a question   sets the error of the statement, and returns the answer that is always safe:
//                              no estimate, a column that must be converted, an index that must be rebuilt
//   no result                  sets the error of the statement
//
// An exception may leave a change half done in memory. So the whole transaction is rolled back, not only the
// statement.
#include "handler/ha_atoll.h"

#include "handler/server/guarded_handler.h"

#include <cstring>

#include "base/border/border.h"
#include "handler/server/callback.h"
#include "handler/server/error_map.h"

namespace atoll::handler {
namespace {

class GuardedHandler final : public ha_atoll {
 public:
  using ha_atoll::ha_atoll;

  // ---- open and close ----
  int open(const char *name, int mode, uint test_if_locked) override {
    return code([&] { return ha_atoll::open(name, mode, test_if_locked); });
  }
  int close() override {
    return code([&] { return ha_atoll::close(); });
  }
  int reset() override {
    return code([&] { return ha_atoll::reset(); });
  }
  int extra(ha_extra_function operation) override {
    return code([&] { return ha_atoll::extra(operation); });
  }
  ::handler *clone(const char *name, MEM_ROOT *mem_root) override {
    return with_error([&] { return ha_atoll::clone(name, mem_root); }, nullptr);
  }

  // ---- statements and locks ----
  int external_lock(THD *thd, int lock_type) override {
    const int error = code([&] { return ha_atoll::external_lock(thd, lock_type); });
    if (error == 0 || lock_type == F_UNLCK || thd->is_error()) return error;
    // The server does not report this error for the new table of ALTER with ALGORITHM=COPY. Without this
    // report, the statement would end as a success.
    if (std::strstr(table_share->path.str, "/#sql-alter") != nullptr) print_error(error, MYF(0));
    return error;
  }
  int start_stmt(THD *thd, thr_lock_type lock_type) override {
    return code([&] { return ha_atoll::start_stmt(thd, lock_type); });
  }
  void unlock_row() override {
    with_error([&] { ha_atoll::unlock_row(); });
  }
  void init_table_handle_for_HANDLER() override {
    with_error([&] { ha_atoll::init_table_handle_for_HANDLER(); });
  }

  // ---- reading ----
  int index_init(uint index, bool sorted) override {
    return code([&] { return ha_atoll::index_init(index, sorted); });
  }
  int index_end() override {
    return code([&] { return ha_atoll::index_end(); });
  }
  int index_read_map(uchar *record, const uchar *key, key_part_map parts, ha_rkey_function find) override {
    return code([&] { return ha_atoll::index_read_map(record, key, parts, find); });
  }
  int index_read_last_map(uchar *record, const uchar *key, key_part_map parts) override {
    return code([&] { return ha_atoll::index_read_last_map(record, key, parts); });
  }
  int index_next(uchar *record) override {
    return code([&] { return ha_atoll::index_next(record); });
  }
  int index_prev(uchar *record) override {
    return code([&] { return ha_atoll::index_prev(record); });
  }
  int index_next_same(uchar *record, const uchar *key, uint length) override {
    return code([&] { return ha_atoll::index_next_same(record, key, length); });
  }
  int index_first(uchar *record) override {
    return code([&] { return ha_atoll::index_first(record); });
  }
  int index_last(uchar *record) override {
    return code([&] { return ha_atoll::index_last(record); });
  }
  int read_range_first(const key_range *start, const key_range *end, bool is_equality, bool sorted) override {
    return code([&] { return ha_atoll::read_range_first(start, end, is_equality, sorted); });
  }
  int read_range_next() override {
    return code([&] { return ha_atoll::read_range_next(); });
  }
  int prepare_range_scan(const key_range *start, const key_range *end) override {
    return code([&] { return ha_atoll::prepare_range_scan(start, end); });
  }
  int rnd_init(bool scan) override {
    return code([&] { return ha_atoll::rnd_init(scan); });
  }
  int rnd_end() override {
    return code([&] { return ha_atoll::rnd_end(); });
  }
  int rnd_next(uchar *record) override {
    return code([&] { return ha_atoll::rnd_next(record); });
  }
  int rnd_pos(uchar *record, uchar *position) override {
    return code([&] { return ha_atoll::rnd_pos(record, position); });
  }

  // ---- many ranges ----
  ha_rows ranges_info_const(uint index, RANGE_SEQ_IF *ranges, void *ranges_context, uint range_count,
                            uint *buffer_bytes, uint *mode, const RangesCost &cost) override {
    return with_error(
        [&] {
          return ha_atoll::ranges_info_const(index, ranges, ranges_context, range_count, buffer_bytes, mode,
                                             cost);
        },
        HA_POS_ERROR);
  }
  ha_rows multi_range_read_info(uint index, uint range_count, uint rows, uint parts, uint *buffer_bytes,
                                uint *mode, Cost_estimate *cost) override {
    return with_error(
        [&] {
          return ha_atoll::multi_range_read_info(index, range_count, rows, parts, buffer_bytes, mode, cost);
        },
        HA_POS_ERROR);
  }
  int multi_range_read_init(RANGE_SEQ_IF *ranges, void *ranges_context, uint range_count, uint mode,
                            HANDLER_BUFFER *buffer) override {
    return code(
        [&] { return ha_atoll::multi_range_read_init(ranges, ranges_context, range_count, mode, buffer); });
  }
  int multi_range_read_next(range_id_t *range) override {
    return code([&] { return ha_atoll::multi_range_read_next(range); });
  }

  // ---- writing ----
  int write_row(const uchar *record) override {
    return code([&] { return ha_atoll::write_row(record); });
  }
  int update_row(const uchar *old_record, const uchar *new_record) override {
    return code([&] { return ha_atoll::update_row(old_record, new_record); });
  }
  int delete_row(const uchar *record) override {
    return code([&] { return ha_atoll::delete_row(record); });
  }
  void get_auto_increment(ulonglong offset, ulonglong increment, ulonglong wanted, ulonglong *first,
                          ulonglong *reserved) override {
    const auto get = [&] {
      return ha_atoll::get_auto_increment(offset, increment, wanted, first, reserved), 0;
    };
    if (code(get) != 0) *first = ULONGLONG_MAX;
  }
  void update_create_info(HA_CREATE_INFO *info) override {
    with_error([&] { ha_atoll::update_create_info(info); });
  }
  int reset_auto_increment(ulonglong value) override {
    return code([&] { return ha_atoll::reset_auto_increment(value); });
  }

  // ---- definitions ----
  int create(const char *name, TABLE *form, HA_CREATE_INFO *info) override {
    return code([&] { return ha_atoll::create(name, form, info); });
  }
  int delete_table(const char *name) override {
    return code([&] { return ha_atoll::delete_table(name); });
  }
  int rename_table(const char *from, const char *to) override {
    return code([&] { return ha_atoll::rename_table(from, to); });
  }
  int truncate() override {
    return code([&] { return ha_atoll::truncate(); });
  }
  bool check_if_incompatible_data(HA_CREATE_INFO *info, uint changes) override {
    return with_error([&] { return ha_atoll::check_if_incompatible_data(info, changes); },
                      COMPATIBLE_DATA_NO);
  }
  bool can_convert_nocopy(const Field &field, const Column_definition &changed) const override {
    return with_error([&] { return ha_atoll::can_convert_nocopy(field, changed); }, false);
  }
  Compare_keys compare_key_parts(const Field &before, const Column_definition &changed,
                                 const KEY_PART_INFO &old_part,
                                 const KEY_PART_INFO &new_part) const override {
    return with_error([&] { return ha_atoll::compare_key_parts(before, changed, old_part, new_part); },
                      Compare_keys::NotEqual);
  }
  enum_alter_inplace_result check_if_supported_inplace_alter(TABLE *altered,
                                                             Alter_inplace_info *info) override {
    return with_error([&] { return ha_atoll::check_if_supported_inplace_alter(altered, info); },
                      HA_ALTER_ERROR);
  }
  bool prepare_inplace_alter_table(TABLE *altered, Alter_inplace_info *info) override {
    return with_error([&] { return ha_atoll::prepare_inplace_alter_table(altered, info); }, true);
  }
  bool inplace_alter_table(TABLE *altered, Alter_inplace_info *info) override {
    return with_error([&] { return ha_atoll::inplace_alter_table(altered, info); }, true);
  }
  bool commit_inplace_alter_table(TABLE *altered, Alter_inplace_info *info, bool commit) override {
    return with_error([&] { return ha_atoll::commit_inplace_alter_table(altered, info, commit); }, true);
  }

  // ---- foreign keys ----
  char *get_foreign_key_create_info() override {
    return with_error([&] { return ha_atoll::get_foreign_key_create_info(); }, nullptr);
  }
  int get_foreign_key_list(THD *thd, List<FOREIGN_KEY_INFO> *list) override {
    return code([&] { return ha_atoll::get_foreign_key_list(thd, list); });
  }
  int get_parent_foreign_key_list(THD *thd, List<FOREIGN_KEY_INFO> *list) override {
    return code([&] { return ha_atoll::get_parent_foreign_key_list(thd, list); });
  }
  bool can_switch_engines() override {
    return with_error([&] { return ha_atoll::can_switch_engines(); }, false);
  }
  bool is_fk_defined_on_table_or_index(uint index) override {
    return with_error([&] { return ha_atoll::is_fk_defined_on_table_or_index(index); }, true);
  }

  // ---- numbers and maintenance ----
  int info(uint flag) override {
    return code([&] { return ha_atoll::info(flag); });
  }
  ha_rows records_in_range(uint index, const key_range *min_key, const key_range *max_key,
                           page_range *pages) override {
    return with_error([&] { return ha_atoll::records_in_range(index, min_key, max_key, pages); },
                      HA_POS_ERROR);
  }
  int analyze(THD *thd, HA_CHECK_OPT *options) override {
    return with_error([&] { return ha_atoll::analyze(thd, options); }, HA_ADMIN_FAILED);
  }
  int optimize(THD *thd, HA_CHECK_OPT *options) override {
    return with_error([&] { return ha_atoll::optimize(thd, options); }, HA_ADMIN_FAILED);
  }
  int check(THD *thd, HA_CHECK_OPT *options) override {
    return with_error([&] { return ha_atoll::check(thd, options); }, HA_ADMIN_FAILED);
  }
  bool get_foreign_dup_key(char *table, uint table_bytes, char *key, uint key_bytes) override {
    return with_error([&] { return ha_atoll::get_foreign_dup_key(table, table_bytes, key, key_bytes); },
                      false);
  }

 private:
  using Status = atoll::Status;

  template <typename Call>
  int code(Call &&call) {
    return guarded(call, [this](const Status &status) { return fail_by_exception(status); });
  }

  template <typename Call, typename Result>
  static auto with_error(Call &&call, Result result) -> decltype(call()) {
    return guarded(call, [result](const Status &status) -> decltype(call()) {
      fail_by_error(status);
      return result;
    });
  }

  template <typename Call>
  static void with_error(Call &&call) {
    guarded([&] { call(); }, fail_by_error);
  }

  static void fail_by_error(const Status &status) noexcept {
    give_up_transaction();
    fails(status);
  }

  int fail_by_exception(const Status &status) noexcept {
    give_up_transaction();
    return guarded([&] { return fail(status); }, [&](const Status &) { return to_ha_error(status.code()); });
  }
};

}  // namespace

::handler *make_handler(handlerton *hton, TABLE_SHARE *share, MEM_ROOT *mem_root) {
  return new (mem_root) GuardedHandler(hton, share);
}

}  // namespace atoll::handler

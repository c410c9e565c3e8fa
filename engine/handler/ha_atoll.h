// class ha_atoll: a table, or one partition of it, that a statement has open. The member functions are spread
// over the files of this folder by what they do; the first line of each file says which it holds. The server
// gets a class derived from ha_atoll (guarded_handler.cc). A row passes these layers: ha_atoll, the
// row writer or row cursor (table), which uses the codec, the transaction of the Session (txn), RocksDB
// (lsm). The code in this folder uses no RocksDB database itself.
#pragma once

#include "handler/server/compat/server_handler.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "handler/layout.h"
#include "handler/read/multi_range.h"
#include "handler/read/search_keys.h"
#include "handler/read/server_view.h"
#include "handler/session/bound_view.h"
#include "handler/session/session.h"
#include "handler/share.h"
#include "table/row_cursor.h"
#include "table/scan/parallel_scan.h"

namespace atoll::table {
class BulkCopy;
}
namespace atoll::handler {
class ForeignKeys;
}  // namespace atoll::handler

// The server makes one for each instance of an open table or partition, keeps it in its table cache,
// and uses it for one statement after the other, each on the thread of its connection.
class ha_atoll : public atoll::handler::ServerHandler {
 public:
  ha_atoll(handlerton *hton, TABLE_SHARE *share);
  ~ha_atoll() override;

  // ---- what the engine can do (open.cc) ----
  Table_flags table_flags() const noexcept override;
  ulong index_flags(uint index, uint part, bool all_parts) const noexcept override;
  const char *index_type(uint) noexcept override { return "BTREE"; }
  enum row_type get_row_type() const noexcept override { return ROW_TYPE_DYNAMIC; }
  uint max_supported_keys() const noexcept override { return MAX_KEY; }
  uint max_supported_key_parts() const noexcept override { return MAX_REF_PARTS; }
  uint max_supported_key_length() const noexcept override { return 3072; }
  uint max_supported_key_part_length() const noexcept override { return 3072; }
  uint max_supported_record_length() const noexcept override { return HA_MAX_REC_LENGTH; }
  const key_map *keys_to_use_for_scanning() noexcept override { return &key_map_full; }
  uint8 table_cache_type() noexcept override { return HA_CACHE_TBL_NOCACHE; }
  double scan_pages() noexcept override;
  double range_pages(ulong ranges, ha_rows rows) noexcept override;
  double lookup_pages(ulong ranges, ha_rows rows) noexcept override;

  // ---- open and close (open.cc) ----
  int open(const char *name, int mode, uint test_if_locked) override;
  int close() override;
  int reset() override;
  int extra(ha_extra_function operation) override;
  ::handler *clone(const char *name, MEM_ROOT *mem_root) override;

  // ---- statements and locks (locking.cc) ----
  int external_lock(THD *thd, int lock_type) override;
  int start_stmt(THD *thd, thr_lock_type lock_type) override;
  THR_LOCK_DATA **store_lock(THD *thd, THR_LOCK_DATA **to, thr_lock_type lock_type) noexcept override;
  uint lock_count() const noexcept override { return 0; }
  void unlock_row() override;
  bool was_semi_consistent_read() noexcept override { return row_locks_.returned_unlocked(); }
  void try_semi_consistent_read(bool yes) noexcept override;
  void init_table_handle_for_HANDLER() override;

  // ---- reading by index and ranges (index_read.cc), whole table, position (scan.cc) ----
  int index_init(uint index, bool sorted) override;
  int index_end() override;
  int index_read_map(uchar *record, const uchar *key, key_part_map parts, ha_rkey_function find) override;
  int index_read_last_map(uchar *record, const uchar *key, key_part_map parts) override;
  int index_next(uchar *record) override;
  int index_prev(uchar *record) override;
  int index_next_same(uchar *record, const uchar *key, uint length) override;
  int index_first(uchar *record) override;
  int read_range_first(const key_range *start, const key_range *end, bool is_equality, bool sorted) override;
  int read_range_next() override;
  int prepare_range_scan(const key_range *start, const key_range *end) override;
  int index_last(uchar *record) override;
  int rnd_init(bool scan) override;
  int rnd_end() override;
  int rnd_next(uchar *record) override;
  int rnd_pos(uchar *record, uchar *position) override;
  void position(const uchar *record) noexcept override;
  int cmp_ref(const uchar *a, const uchar *b) noexcept override;

  // ---- many ranges of one index (multi_range.cc) ----
  ha_rows ranges_info_const(uint index, RANGE_SEQ_IF *ranges, void *ranges_context, uint range_count,
                            uint *buffer_bytes, uint *mode, const atoll::handler::RangesCost &cost) override;
  ha_rows multi_range_read_info(uint index, uint range_count, uint rows, uint parts, uint *buffer_bytes,
                                uint *mode, Cost_estimate *cost) override;
  int multi_range_read_init(RANGE_SEQ_IF *ranges, void *ranges_context, uint range_count, uint mode,
                            HANDLER_BUFFER *buffer) override;
  int multi_range_read_next(range_id_t *range) override;
  int multi_range_read_explain_info(uint mode, char *text, size_t text_bytes_max) noexcept override;

  // ---- conditions (pushdown.cc) ----
  const COND *cond_push(const COND *condition) noexcept override;
  void cond_pop() noexcept override;
  Item *idx_cond_push(uint index, Item *condition) noexcept override;
  bool rowid_filter_push(Rowid_filter *filter) noexcept override;

  // ---- writing (write.cc, auto_increment.cc) ----
  int write_row(const uchar *record) override;
  int update_row(const uchar *old_record, const uchar *new_record) override;
  int delete_row(const uchar *record) override;
  void get_auto_increment(ulonglong offset, ulonglong increment, ulonglong wanted, ulonglong *first,
                          ulonglong *reserved) override;
  bool autoinc_lock_mode_stmt_unsafe() const noexcept override;
  void update_create_info(HA_CREATE_INFO *info) override;
  int reset_auto_increment(ulonglong value) override;

  // ---- definitions (ddl.cc, alter_support.cc, alter.cc) ----
  int create(const char *name, TABLE *form, HA_CREATE_INFO *info) override;
  int delete_table(const char *name) override;
  int rename_table(const char *from, const char *to) override;
  int truncate() override;
  bool check_if_incompatible_data(HA_CREATE_INFO *info, uint changes) override;
  bool can_convert_nocopy(const Field &field, const Column_definition &changed) const override;
  Compare_keys compare_key_parts(const Field &before, const Column_definition &changed,
                                 const KEY_PART_INFO &old_part, const KEY_PART_INFO &new_part) const override;
  enum_alter_inplace_result check_if_supported_inplace_alter(TABLE *altered,
                                                             Alter_inplace_info *info) override;
  bool prepare_inplace_alter_table(TABLE *altered, Alter_inplace_info *info) override;
  bool inplace_alter_table(TABLE *altered, Alter_inplace_info *info) override;
  bool commit_inplace_alter_table(TABLE *altered, Alter_inplace_info *info, bool commit) override;

  // ---- foreign keys (foreign/lists.cc) ----
  char *get_foreign_key_create_info() override;
  void free_foreign_key_create_info(char *text) noexcept override;
  int get_foreign_key_list(THD *thd, List<FOREIGN_KEY_INFO> *list) override;
  int get_parent_foreign_key_list(THD *thd, List<FOREIGN_KEY_INFO> *list) override;
  bool referenced_by_foreign_key() const noexcept override;
  bool can_switch_engines() override;
  bool is_fk_defined_on_table_or_index(uint index) override;

  // ---- numbers and maintenance (stats.cc, admin.cc, check.cc) ----
  int info(uint flag) override;
  ha_rows records_in_range(uint index, const key_range *min_key, const key_range *max_key,
                           page_range *pages) override;
  ha_rows estimate_rows_upper_bound() noexcept override { return HA_POS_ERROR; }
  int analyze(THD *thd, HA_CHECK_OPT *options) override;
  int optimize(THD *thd, HA_CHECK_OPT *options) override;
  int check(THD *thd, HA_CHECK_OPT *options) override;
  bool get_error_message(int error, String *out) noexcept override;
  bool get_foreign_dup_key(char *table, uint table_bytes, char *key, uint key_bytes) override;
  void print_error(int error, myf flags) noexcept override;

  // ---- for ServerView ----
  const std::shared_ptr<const atoll::handler::Layout> &layout() const { return open_table_.shared_layout(); }
  atoll::handler::Session *session() const { return session_; }
  atoll::txn::Transaction *transaction() const { return apart_ ? apart_.get() : session_->transaction(); }
  bool locking() const { return open_table_.locking(); }
  THD *thd() const { return ha_thd(); }

  // ---- for foreign/ (write_foreign.cc) ----
  atoll::handler::ServerView *view() { return &view_; }
  atoll::table::Statement *statement() { return &view_; }
  atoll::handler::Share *share() const { return share_; }
  atoll::txn::LockTable *locks() const { return open_table_.locks(); }
  // *keys: the constraints of the table, the same until the statement ends; nullptr: it has none.
  atoll::Status load_foreign_keys(atoll::handler::ForeignKeys **keys);
  // Counts a row that a cascade has added or removed.
  void count_row(int64_t added);

 protected:
  // Reports `status` to the user and keeps it for get_error_message(). Returns the HA_ERR_* of `status`.
  int fail(const atoll::Status &status);

 private:
  using Layout = atoll::handler::Layout;
  using Status = atoll::Status;

  int show_read_error(int error);
  bool is_sequence() const { return table_share->table_type == TABLE_TYPE_SEQUENCE; }
  bool is_temporary() const { return layout()->family()->side() == atoll::lsm::Side::kTemp; }
  atoll::table::ReadMode *mode() { return open_table_.mutable_mode(); }
  int choose_layout();

  // functions for reading
  void choose_columns();
  void choose_entries();
  size_t rows_wanted(bool is_exact) const;
  int read_result(const Status &status, atoll::table::RowCursor::Found found, int none);
  int search(uchar *record, const uchar *key, key_part_map parts, ha_rkey_function find);
  int read_from(atoll::table::Seek *seek, uchar *record);
  int read_by_primary_key(uchar *record, const std::string &key, bool is_chosen);
  void give_bounds(const key_range *start, const key_range *end);
  bool counts_rows() const noexcept;
  bool pays_parallel_scan(size_t threads);
  void start_parallel_scan(size_t threads);
  int rnd_next_parallel(uchar *record);
  uint own_mode(uint wanted, uint mode) const;
  int next_row_of_ranges(range_id_t *range);
  int read_current_range(range_id_t *range);

  // functions for writing
  Status write_apart(const std::function<Status()> &write);
  Status write_new_row(const uchar *record);
  Status update_existing_row(const uchar *old_record, const uchar *new_record, bool *is_same);
  Status remove_row(const uchar *record);
  Status begin_foreign();
  void end_foreign();
  Status note_written(const Status &status);
  void count_rows(int64_t added);
  void set_online_build(std::shared_ptr<atoll::table::OnlineBuild> build);
  Status load_auto_increment();
  void raise_auto_increment(const uchar *record);
  int check_past(THD *thd);
  int check_writable();
  bool needs_row_logging(THD *thd);
  void choose_mode(THD *thd, thr_lock_type lock_type);
  void begin_copy(bool ignore_duplicates);
  int end_copy();
  void show_copy_duplicate(atoll::table::BulkCopy *bulk);

  // functions for definitions and statistics
  enum_alter_inplace_result choose_algorithm(TABLE *altered, Alter_inplace_info *info);
  atoll::catalog::TablePtr present_definition() const;
  std::vector<atoll::catalog::TablePtr> children() const;
  Status load_layout(const char *name);
  void find_share();
  void load_statistics();
  void set_records_per_key();
  // The least bytes that a key and its row take uncompressed: in a table with one small column.
  static constexpr ulonglong kRowBytesMin = 20;
  uint32_t statistics_version_ = 0;  // the Share::statistics_version that info() has seen last

  atoll::handler::Share *share_ = nullptr;  // owned by TABLE_SHARE
  atoll::handler::Session *session_ = nullptr;

  // the table, which the reader and the writer share
  atoll::handler::ServerView view_{this};
  atoll::table::OpenTable open_table_{&view_};
  atoll::table::RowLocks row_locks_{open_table_};

  atoll::handler::BoundView bound_view_;  // on a reader

  // the state of reading
  atoll::table::RowCursor reader_{&open_table_, &row_locks_, &view_};
  atoll::handler::SearchKeys keys_{this, &open_table_};
  atoll::handler::MultiRange multi_range_{this, &open_table_, &reader_, &keys_};
  std::unique_ptr<atoll::table::ParallelScan> parallel_;
  // Whether a virtual TEXT or BLOB column is part of an index.
  bool indexes_virtual_text_ = false;

  // the state of writing
  atoll::table::RowWriter writer_{&open_table_, &row_locks_, &view_};
  std::unique_ptr<atoll::txn::Transaction> apart_;           // set while the row of a sequence is written
  std::shared_ptr<atoll::table::OnlineBuild> online_build_;  // the build to which this statement logs changes
  std::unique_ptr<atoll::table::BulkCopy> bulk_;
  std::unique_ptr<atoll::handler::ForeignKeys> foreign_;
  bool is_foreign_loaded_ = false;                      // foreign_ is that of this statement
  atoll::handler::ForeignKeys *constraints_ = nullptr;  // foreign_ while a statement writes; nullptr: none
  std::string duplicate_row_;                           // after a duplicate in bulk_, holds record[0]'s BLOBs

  Status last_error_;    // what fail() has reported last, for get_error_message()
  int shown_error_ = 0;  // the error that show_read_error() has reported; 0: none
};

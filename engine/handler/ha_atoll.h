// class ha_atoll: one open table (or partition) of one statement. Split by verb over the files of this
// folder; each file says which functions it holds. A row's way down: ha_atoll -> Layout (codec) ->
// Session's transaction (txn) -> RocksDB. Nothing here touches RocksDB's database object except through
// txn and lsm.
#pragma once

#include "handler/server.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "codec/predicate.h"
#include "handler/layout.h"
#include "handler/multi_range.h"
#include "handler/parallel_scan.h"
#include "handler/row_batch.h"
#include "handler/session.h"
#include "handler/share.h"

namespace atoll::handler {
class BulkCopy;
class InplaceAlter;
enum class RowLock : uint8_t { kNone, kShared, kExclusive };
}  // namespace atoll::handler

class ha_atoll final : public handler {
 public:
  ha_atoll(handlerton *hton, TABLE_SHARE *share);
  ~ha_atoll() override;

  // ---- what the engine can do (open.cc) ----
  Table_flags table_flags() const override;
  ulong index_flags(uint index, uint part, bool all_parts) const override;
  const char *index_type(uint) override { return "BTREE"; }
  enum row_type get_row_type() const override { return ROW_TYPE_DYNAMIC; }
  uint max_supported_keys() const override { return MAX_KEY; }
  uint max_supported_key_parts() const override { return MAX_REF_PARTS; }
  uint max_supported_key_length() const override { return 3072; }
  uint max_supported_key_part_length() const override { return 3072; }
  uint max_supported_record_length() const override { return HA_MAX_REC_LENGTH; }
  const key_map *keys_to_use_for_scanning() override { return &key_map_full; }
  uint8 table_cache_type() override { return HA_CACHE_TBL_NOCACHE; }
  double scan_time() override;
  double read_time(uint index, uint ranges, ha_rows rows) override;
  double keyread_time(uint index, uint ranges, ha_rows rows) override;

  // ---- life (open.cc) ----
  int open(const char *name, int mode, uint test_if_locked) override;
  int close() override;
  int reset() override;
  int extra(ha_extra_function operation) override;
  ::handler *clone(const char *name, MEM_ROOT *mem_root) override;

  // ---- statements and locks (locking.cc) ----
  int external_lock(THD *thd, int lock_type) override;
  int start_stmt(THD *thd, thr_lock_type lock_type) override;
  THR_LOCK_DATA **store_lock(THD *thd, THR_LOCK_DATA **to, thr_lock_type lock_type) override;
  uint lock_count() const override { return 0; }
  void unlock_row() override;
  bool was_semi_consistent_read() override { return semi_consistent_ == SemiConsistent::kReturned; }
  void try_semi_consistent_read(bool yes) override;
  void init_table_handle_for_HANDLER() override;

  // ---- reading by index (index_read.cc), whole table (scan.cc), position (scan.cc), ranges (range_scan.cc)
  // ----
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
  void position(const uchar *record) override;
  int cmp_ref(const uchar *a, const uchar *b) override;

  // ---- many ranges of one index (multi_range.cc) ----
  ha_rows multi_range_read_info_const(uint index, RANGE_SEQ_IF *ranges, void *ranges_context,
                                      uint range_count, uint *buffer_bytes, uint *mode,
                                      Cost_estimate *cost) override;
  ha_rows multi_range_read_info(uint index, uint range_count, uint rows, uint parts, uint *buffer_bytes,
                                uint *mode, Cost_estimate *cost) override;
  int multi_range_read_init(RANGE_SEQ_IF *ranges, void *ranges_context, uint range_count, uint mode,
                            HANDLER_BUFFER *buffer) override;
  int multi_range_read_next(range_id_t *range) override;
  int multi_range_read_explain_info(uint mode, char *text, size_t text_bytes_max) override;

  // ---- conditions (pushdown.cc) ----
  const COND *cond_push(const COND *condition) override;
  void cond_pop() override;
  Item *idx_cond_push(uint index, Item *condition) override;
  bool rowid_filter_push(Rowid_filter *filter) override;

  // ---- writing (write.cc, auto_increment.cc, bulk_copy.cc) ----
  int write_row(const uchar *record) override;
  int update_row(const uchar *old_record, const uchar *new_record) override;
  int delete_row(const uchar *record) override;
  void get_auto_increment(ulonglong offset, ulonglong increment, ulonglong wanted, ulonglong *first,
                          ulonglong *reserved) override;
  bool autoinc_lock_mode_stmt_unsafe() const override;
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

  // ---- numbers and maintenance (stats.cc, admin.cc, check.cc) ----
  int info(uint flag) override;
  ha_rows records_in_range(uint index, const key_range *min_key, const key_range *max_key,
                           page_range *pages) override;
  ha_rows estimate_rows_upper_bound() override { return HA_POS_ERROR; }
  int analyze(THD *thd, HA_CHECK_OPT *options) override;
  int optimize(THD *thd, HA_CHECK_OPT *options) override;
  int check(THD *thd, HA_CHECK_OPT *options) override;
  bool get_error_message(int error, String *out) override;
  void print_error(int error, myf flags) override;

  const std::shared_ptr<const atoll::handler::Layout> &layout() const { return layout_; }

 private:
  using Layout = atoll::handler::Layout;
  using Status = atoll::Status;

  // Where a read starts and which way it goes.
  struct Seek {
    std::string key;           // full key bytes
    bool forward = true;       // forward: first key >= key; backward: last key < key
    std::string prefix;        // when not empty: only keys that start so
    size_t parts = 0;          // of an exact search: how many parts `key` has
    bool whole_index = false;  // the scan goes over all of the index
    bool after = false;        // HA_READ_AFTER_KEY
  };

  // Of the keys of an index: from `lower` to before `upper`.
  struct Bounds {
    std::string lower, upper;
  };

  class Check;  // check.cc

  int fail(const Status &status);
  int show_read_error(int error);
  int search(uchar *record, const uchar *key, key_part_map parts, ha_rkey_function find);
  bool is_whole_key(const std::string &key, size_t parts) const;
  void begin_search(bool for_one_row);
  atoll::txn::Transaction *transaction() { return apart_ ? apart_.get() : session_->transaction(); }
  bool is_sequence() const { return table_share->table_type == TABLE_TYPE_SEQUENCE; }
  bool is_temporary() const { return layout_->family()->side() == atoll::lsm::Side::kTemp; }

  // reading
  void choose_columns();
  void choose_entries();
  bool locking() const { return lock_ != atoll::handler::RowLock::kNone; }
  atoll::txn::ReadAt read_at() const;
  void open_cursor(bool for_scan);
  std::unique_ptr<atoll::txn::Cursor> new_cursor(atoll::txn::ReadAt at, bool for_scan);
  void bound_scan(const Seek &seek);
  void give_bounds(const key_range *start, const key_range *end);
  void close_cursor();
  int read_from(const Seek &seek, uchar *record);
  int read_below_range(uchar *record);
  int begin_reading();
  void choose_layout();
  bool is_newer_than_snapshot(uint64_t readable_from);
  int step(uchar *record, bool forward);
  void stand_at(const std::string &key);
  void leave_prefix();
  void complete_for_merge(uchar *record);
  void compute_virtual_columns_of(uchar *record, size_t first, size_t end);
  static bool is_virtual_text(const Field *field);
  bool indexes_virtual_text(size_t number) const;
  void swap_virtual_text();
  void compute_virtual_text(const uchar *record, const uchar *other);
  int accept_current(uchar *record, bool forward);
  int accept_primary_entry(uchar *record, bool *accepted);
  int accept_secondary_entry(uchar *record, bool *accepted);
  bool batching() const;
  size_t rows_wanted(bool is_exact) const;
  size_t primary_parts_given(const KEY &key, size_t count) const;
  int add_to_batch();
  int gather_batch(bool forward);
  int read_batch(uchar *record, bool forward);
  atoll::Status batch_row(size_t i);
  int look_up_batch();
  int next_from_batch(uchar *record);
  uint own_mode(uint wanted, uint mode) const;
  int next_row_of_ranges(range_id_t *range);
  int gather_ranges();
  int begin_ranges();
  bool start_next_range();
  int read_current_range(range_id_t *range);
  int fetch_row(const std::string &primary_key, uchar *record, bool *found);
  int lock_and_fetch(const std::string &primary_key, std::string_view seen, bool seen_is_row, uchar *record,
                     bool *found);
  Status lock_row(std::string_view key, atoll::handler::RowLock mode, bool *waited);
  Status lock_row(std::string_view key, atoll::handler::RowLock mode, const atoll::txn::LockWait &wait,
                  bool *waited);
  Status lock_or_peek(std::string_view key, bool *waited);
  Status check_snapshot(const std::string &primary_key);
  atoll::txn::LockWait lock_wait() const;
  int unpack_row(std::string_view packed, uchar *record);
  int decode_entry(std::string_view entry_key, std::string_view entry_value, uchar *record);
  int check_pushed_index_condition();
  bool filters_rowids() const;
  int check_pushed_rowid_filter(const std::string &primary_key);
  const atoll::codec::Predicate *predicate();
  bool asks_predicate();
  bool may_refuse_row();
  bool passes_predicate(const std::string &primary_key, std::string_view packed, int *error);
  Status whole_row(const std::string &primary_key, std::string_view *stored, std::string *buffer);
  int read_by_primary_key(uchar *record, const std::string &key, bool filters_rows);
  bool killed();
  void search_key(const uchar *key, key_part_map parts, std::string *out, size_t *parts_used);
  void range_end(const key_range &last, std::string *out);
  bool should_scan_in_parallel();
  int rnd_next_parallel(uchar *record);
  void resume_scan();

  // range locks
  bool protects_ranges() const;
  const atoll::handler::IndexLayout &scanned_index() const;
  void start_protection(std::string_view from, bool forward);
  void resume_protection(bool forward);
  bool checks_long_unique() const;
  Status protect_unique_key(const std::string &key, size_t parts);
  void leave_absent_key(const std::string &key);
  std::string protection_goal(bool forward) const;
  int protect_to_cursor(bool forward);
  int wait_for_obstacle(const std::string &entry, const std::string &goal, bool forward, bool *waited);

  // writing
  Status check_unique(const uchar *record, const std::string &primary_key, const std::string *old_primary_key,
                      const uchar *old_record);
  Status check_unique_entry(size_t index, const std::string &start);
  Status find_unique_entry(const std::string &start, std::string *entry);
  size_t unique_length(size_t index, const std::string &entry_key) const;
  Status write_apart(const std::function<Status()> &write);
  Status write_new_row(const uchar *record);
  Status update_existing_row(const uchar *old_record, const uchar *new_record);
  Status remove_row(const uchar *record);
  bool goes_in_pieces(const uchar *record) const;
  bool are_same_large_row(const uchar *a, const uchar *b) const;
  Status put_row(const uchar *record, const std::string &primary_key, bool in_pieces, bool is_new);
  Status pack_old_row(const uchar *record, const std::string &primary_key);
  Status remove_pieces(const std::string &primary_key, uint64_t from);
  Status remove_entries_of(std::string_view row, const std::string &primary_key);
  Status remove_snapshot_entries(const std::string &primary_key, std::string_view current_row);
  Status put_secondary_entries(const uchar *record, const std::string &primary_key);
  Status update_secondary_entries(const uchar *old_record, const uchar *new_record,
                                  const std::string &old_primary_key, const std::string &primary_key);
  Status log_online(const uchar *old_record, const std::string &old_primary_key, const uchar *new_record,
                    const std::string &primary_key);
  Status outermost_taken_key(const atoll::handler::IndexLayout &index, bool last, std::string *key) const;
  Status next_hidden_id(uint64_t *id);
  Status load_auto_increment();
  void raise_auto_increment(const uchar *record);
  int check_writable();
  bool needs_row_logging(THD *thd);
  void begin_copy(bool ignore_duplicates);
  int end_copy();
  void show_copy_duplicate(atoll::handler::BulkCopy *bulk);

  // definitions
  Status note_new_indexes(inplace_alter_handler_ctx *alter);
  Status begin_index_build(inplace_alter_handler_ctx *alter, TABLE *altered);
  bool end_index_build(inplace_alter_handler_ctx *alter, TABLE *altered, bool ignore);
  Status load_layout(const char *name);
  void load_statistics();
  size_t sampled_part(uint index, uint part) const;
  void set_records_per_key();
  void range_bounds(uint index, const key_range *min_key, const key_range *max_key, std::string *begin,
                    std::string *end, size_t *begin_parts);
  uint32_t statistics_version_ = 0;  // of the share's, as told to the optimizer
  struct Probe;                      // range_estimate.cc
  Probe probe(std::string_view from, uint64_t entries_max);
  void count_entries(uint64_t entries_max, Probe *found);
  bool seems_small(const Probe &start) const;
  void open_cursor_for_estimates();
  double interpolate_rows(const Probe &start);
  bool is_usual_density(double density);
  double rows_by_size(uint index) const;
  double stats_rows() const { return static_cast<double>(std::max<int64_t>(share_->rows, 1)); }
  bool indexes_virtual_column(size_t number) const;
  void compute_virtual_columns(size_t index);

  atoll::handler::Share *share_ = nullptr;  // owned by TABLE_SHARE
  std::shared_ptr<const Layout> layout_;
  std::shared_ptr<const Layout> newest_layout_;  // while layout_ is its former(), for one statement
  atoll::handler::Session *session_ = nullptr;

  // statement
  atoll::handler::RowLock lock_ = atoll::handler::RowLock::kNone;
  bool skip_locked_ = false;
  // READ COMMITTED, UPDATE: a row that another transaction has locked is returned as last committed, and only
  // if it matches the server asks for it again; then it is waited for.
  enum class SemiConsistent : uint8_t { kOff, kAllowed, kReturned, kAgain };
  SemiConsistent semi_consistent_ = SemiConsistent::kOff;
  bool write_locked_ = false;             // the statement may change rows: unpack and copy whole rows
  bool keyread_ = false;                  // the server computes no virtual columns of the index
  bool entries_suffice_ = false;          // keyread_, and the entries of the index have all that is wanted
  std::vector<uint32_t> wanted_columns_;  // stored columns
  bool want_all_columns_ = false;

  // cursor
  std::unique_ptr<atoll::txn::Cursor> cursor_;
  uint64_t cursor_writes_ = 0;                           // own writes when it was opened
  static constexpr uint64_t kForEstimates = UINT64_MAX;  // cursor_writes_ of one that no row is read with
  uint64_t cursor_sequence_ = 0;  // newest committed write when it was opened (locking reads)
  uint64_t cursor_commits_ = 0;   // Transaction::commits_seen() before it was opened
  bool scan_started_ = false;
  bool cursor_positioned_ = false;  // false: the last row came from a point read
  std::string cursor_prefix_;       // of an exact search: all that the keys it finds begin with
  // Of the scan: nothing outside of them is read, locked or stepped over. Empty: all of the index, in
  // HANDLER.
  Bounds bounds_;
  Bounds next_bounds_;  // of the scan that is about to start, if has_next_bounds_
  bool has_next_bounds_ = false;
  std::string range_end_;     // of the last range given; a loose scan searches on for its groups. Empty: none
  bool filters_rows_ = true;  // rows that the predicate refuses are passed over; see bound_scan()
  bool shows_any_row_ = false;  // nothing refuses a row; see read_below_range()
  std::string protected_to_;    // how far the range lock goes; see start_protection()
  bool protect_forward_ = true;
  bool protected_as_point_ = false;  // a row lock on the whole unique key serves
  std::string current_key_;          // key of the entry last returned (of the active index)
  bool prefix_stays_ = false;        // index_prev() stays within cursor_prefix_
  bool is_point_read_ = false;       // the last search was for the row of a whole primary key
  std::string current_primary_key_;
  bool current_lock_is_new_ = false;
  bool row_is_absent_ = false;  // set by fetch_row(): there is no row at all
  rocksdb::PinnableSlice row_slice_;
  std::string row_buffer_;  // what blob pointers of the current row point into
  std::string key_scratch_;
  uint64_t rows_since_kill_check_ = 0;
  atoll::handler::RowBatch batch_;
  bool batch_forward_ = true;
  bool batch_started_ = false;  // the cursor stands behind a batch, not on a returned entry
  atoll::handler::MultiRange multi_range_;
  std::unique_ptr<atoll::handler::ParallelScan> parallel_;
  std::vector<uchar> search_record_;
  bool indexes_virtual_text_ = false;  // is a virtual TEXT or BLOB column part of an index?

  // conditions
  const COND *condition_ = nullptr;                     // pushed
  std::unique_ptr<atoll::codec::Predicate> predicate_;  // of it; see predicate()
  uint32_t rows_unasked_ = 0;                           // by may_refuse_row()
  uint32_t predicate_passes_ = 0;                       // rows since it refused one

  // writing
  std::unique_ptr<atoll::txn::Transaction> apart_;             // set while the row of a sequence is written
  std::shared_ptr<atoll::handler::OnlineBuild> online_build_;  // of this statement; see Share
  bool snapshot_differs_ = false;
  atoll::txn::AbsentRange absent_keys_;  // of the primary key; of this statement
  uint64_t old_pieces_ = 0;              // of the row being changed, as it was
  std::string entry_key_, entry_value_, old_entry_key_, old_entry_value_, packed_row_, old_packed_row_;
  std::string primary_key_, old_primary_key_;
  std::unique_ptr<atoll::handler::BulkCopy> bulk_;

  Status last_error_;    // for get_error_message
  int shown_error_ = 0;  // see show_read_error
};

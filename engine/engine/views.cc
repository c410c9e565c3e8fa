// See views.h.
#include "engine/views.h"

#include <algorithm>
#include <filesystem>
#include <utility>

#include "base/file.h"
#include "bridge/result.h"

namespace atoll::engine {
namespace {

int64_t steady_ms() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

// A writer that starts on an empty bucket creates the database and then publishes its first root. A reader
// that finds neither tries again.
Status unless_empty(const Status &status) {
  if (status.code() != Code::kNotFound) return status;
  return Status(
      Code::kUnavailable,
      std::string(status.message()) +
          ". A reader shows what another server writes: start a server with atoll_role=writer on this "
          "bucket first");
}

}  // namespace

View::View(std::shared_ptr<atoll_reader> reader, std::unique_ptr<lsm::PastDatabase> past,
           std::unique_ptr<catalog::Catalog> catalog)
    : reader_(std::move(reader)),
      past_(std::move(past)),
      catalog_(std::move(catalog)),
      gtids_(past_->gtids()) {}

catalog::TablePtr View::find(const ViewPtr &view, std::string_view database, std::string_view name) {
  const catalog::TablePtr found = view->catalog_->find(database, name);
  return found ? catalog::TablePtr(view, found.get()) : nullptr;
}

std::vector<catalog::TablePtr> View::list(const ViewPtr &view, std::string_view database) {
  std::vector<catalog::TablePtr> tables = view->catalog_->list(database);
  for (catalog::TablePtr &table : tables) table = catalog::TablePtr(view, table.get());
  return tables;
}

bool View::agree(const View &a, const View &b, std::string_view database, std::string_view name) {
  const std::string_view whole = catalog::whole_table(name);
  const catalog::TablePtr in_a = a.catalog().find(database, whole), in_b = b.catalog().find(database, whole);
  return in_a && in_b && in_a->frm == in_b->frm && in_a->par == in_b->par;
}

Views::Views(std::shared_ptr<atoll_reader> reader, lsm::Database *database, std::string url,
             std::string directory)
    : reader_(std::move(reader)),
      database_(database),
      url_(std::move(url)),
      directory_(std::move(directory)),
      current_at_ms_(steady_ms()) {}

Status Views::open(const atoll_store_config &config, lsm::Database *database, std::string directory,
                   std::unique_ptr<Views> *out) {
  (void)remove_tree(directory);
  std::error_code error;
  std::filesystem::create_directories(directory, error);
  if (error)
    return Status(Code::kNoSpace, "cannot create the directory " + directory + ": " + error.message());
  atoll_reader *opened = nullptr;
  ATOLL_RETURN_IF_ERROR(unless_empty(bridge::to_status(atoll_reader_open(&config, &opened))));
  std::shared_ptr<atoll_reader> reader(opened, atoll_reader_close);
  out->reset(new Views(std::move(reader), database, config.url, std::move(directory)));
  return Status::Ok();
}

ViewPtr Views::newest() const {
  const MutexLock lock(mutex_);
  return newest_;
}

ViewPtr Views::settled() const {
  const MutexLock lock(mutex_);
  return settled_;
}

Status Views::take(ViewPtr *taken) {
  taken->reset();
  const int64_t asked_at_ms = steady_ms();
  int has_news = 0;
  ATOLL_RETURN_IF_ERROR(bridge::to_status(atoll_reader_look(reader_.get(), &has_news)));
  if (has_news == 0) {
    current_at_ms_ = asked_at_ms;
    return Status::Ok();
  }
  note_writer();
  ATOLL_RETURN_IF_ERROR(open_view(directory_ + "/" + std::to_string(++opened_), taken));
  taken_at_ms_ = asked_at_ms;
  return Status::Ok();
}

Status Views::open_view(const std::string &directory, ViewPtr *out) const {
  std::unique_ptr<lsm::PastDatabase> past;
  const auto mount = [this](const char *to, atoll_mount **mounted) {
    return atoll_reader_view(reader_.get(), to, mounted);
  };
  Status status = unless_empty(database_->open_past(mount, directory, &past));
  if (!status.ok()) {
    (void)remove_tree(directory);
    return status;
  }
  std::unique_ptr<catalog::Catalog> catalog;
  ATOLL_RETURN_IF_ERROR(catalog::Catalog::open_past(past->catalog_family(), &catalog));
  const catalog::MaskingRecord masking = catalog->masking();
  if (!masking.begun_in.empty() || atoll_reader_owes_masking(reader_.get(), masking.done_in.c_str()) != 0)
    return Status(
        Code::kUnavailable,
        "the rows of this clone are not masked yet, and nobody may see them before. The writer masks "
        "them when it starts with atoll_mask_file");
  *out = std::make_shared<const View>(reader_, std::move(past), std::move(catalog));
  return Status::Ok();
}

void Views::show(ViewPtr view) {
  ViewPtr former;  // destroyed after the mutex is released
  {
    const MutexLock lock(mutex_);
    former = std::exchange(newest_, std::move(view));
  }
  count_++;
}

void Views::settle() {
  ViewPtr former;  // destroyed after the mutex is released
  {
    const MutexLock lock(mutex_);
    former = std::exchange(settled_, newest_);
  }
  current_at_ms_ = taken_at_ms_;
  changed_.notify_all();
}

ViewPtr Views::wait_for_other(const ViewPtr &known, std::chrono::steady_clock::time_point end) const {
  MutexLock lock(mutex_);
  changed_.wait_until(lock, end, [&]() ATOLL_REQUIRES(mutex_) { return settled_ != known; });
  return settled_;
}

// The name is only for messages, so an error changes nothing.
void Views::note_writer() {
  char name[ATOLL_OWNER_BYTES] = "";
  if (!bridge::ok(atoll_reader_owner(reader_.get(), name))) return;
  const MutexLock lock(mutex_);
  writer_ = name;
}

std::string Views::writer() const {
  const MutexLock lock(mutex_);
  return writer_;
}

Status Views::why_read_only() const {
  const std::string name = writer();
  return Status(Code::kReadOnly,
                "this server is a reader of " + url_ + " (atoll_role=reader); " +
                    (name.empty() ? "the writer has not told its name" : "the server " + name + " writes"));
}

uint64_t Views::lag_ms() const {
  return static_cast<uint64_t>(std::max<int64_t>(steady_ms() - current_at_ms_, 0));
}

}  // namespace atoll::engine

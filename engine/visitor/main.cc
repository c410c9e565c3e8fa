// The program that atollctl runs to read rows, because that takes RocksDB.
//
//   atollctl-rows diff URL SCRATCH FIRST SECOND     compares two states: `atollctl diff --rows`
//   atollctl-rows check URL SCRATCH STATE           reads all of a state: `atollctl verify --restore --rows`
//   atollctl-rows schema URL SCRATCH STATE          shows columns and keys: `atollctl ls --schema`
//
// URL names the bucket. The other settings for access to the bucket come from the environment, as for
// atollctl. FIRST, SECOND and STATE name states as in atoll_visitor_mount(). The program makes the directory
// SCRATCH and removes it at the end. The directory holds up to kPartCacheBytes of parts of table files, and
// the logs of the states twice: as logs and as table files.
//
// The program writes lines whose fields are separated by tabs. Names are encoded as in file names (db@002d1).
// FAMILY and PREFIX say where the rows are stored. `diff` writes a line for each table that differs. CHANGE
// is a name from table_pairs.h, or empty if only rows differ. WHAT says which columns and keys have changed,
// in the form of escaped(), see schema.h:
//
//   FAMILY PREFIX DATABASE NAME CHANGE INSERTED CHANGED DELETED KEYS_READ FORMER_DATABASE FORMER_NAME WHAT
//
// `check` writes a line for each table. PROBLEM is empty if there is none:
//
//   FAMILY PREFIX DATABASE NAME ROWS ENTRIES PROBLEM
//
// `schema` writes the lines of schema.h:
//
//   FAMILY PREFIX DATABASE NAME KIND COLUMN_OR_KEY DEFINITION
//
// The last line is a single dot. The exit status is 1 after an error, which is on stderr, and 3 if a state is
// too damaged to be opened or compared. SIGINT, SIGTERM, SIGHUP and the end of atollctl end the program,
// which then leaves nothing in the bucket or on the disk.
#include <sys/prctl.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <charconv>
#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <filesystem>
#include <iterator>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/interrupt.h"
#include "bridge/objstore.h"
#include "bridge/result.h"
#include "visitor/row_check.h"
#include "visitor/row_diff.h"
#include "visitor/schema.h"
#include "visitor/table_pairs.h"

namespace atoll::visitor {
namespace {

constexpr uint64_t kPartCacheBytes = 2ull << 30;
constexpr uint64_t kBlockCacheBytes = 256ull << 20;
constexpr int kFirstState = 4;  // the first state's position in the command line
constexpr int kExitError = 1;
constexpr int kExitCorruption = 3;

std::atomic<bool> is_ended{false};
static_assert(std::atomic<bool>::is_always_lock_free, "a signal handler sets it");

// A state that the command line names, and its tables.
struct State {
  std::unique_ptr<lsm::PastDatabase> database;
  std::vector<catalog::TablePtr> tables;

  Status open(const atoll_visitor *visitor, const std::string &when, const std::string &directory) {
    lsm::DatabaseOptions options;
    options.block_cache_bytes = kBlockCacheBytes;
    ATOLL_RETURN_IF_ERROR(lsm::PastDatabase::visit(visitor, when, directory, options, &database));
    std::unique_ptr<catalog::Catalog> catalog;
    ATOLL_RETURN_IF_ERROR(catalog::Catalog::open_past(database->catalog_family(), &catalog));
    // A whole partitioned table has no rows of its own, and those under internal names are copies.
    for (catalog::TablePtr &table : catalog->list(""))
      if (!table->logical_only && !catalog::is_internal(table->name)) tables.push_back(std::move(table));
    return Status::Ok();
  }
};

void print_place(const catalog::TableDef &table) {
  std::printf("%" PRIu32 "\t%" PRIu32 "\t%s\t%s\t", table.family_id, table.prefix, table.database.c_str(),
              table.name.c_str());
}

void print(const TablePair &pair, const RowCounts &rows) {
  const catalog::TableDef &named = pair.after != nullptr ? *pair.after : *pair.before;
  const catalog::TableDef &former = pair.before != nullptr ? *pair.before : *pair.after;
  print_place(named);
  std::printf("%s\t", name_of(change_of(pair)));
  std::printf("%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%" PRIu64 "\t%s\t%s\t%s\n", rows.inserted, rows.changed,
              rows.deleted, rows.keys_read, former.database.c_str(), former.name.c_str(),
              escaped(changes(former.description, named.description)).c_str());
}

std::string full_name(const catalog::TableDef &table) { return table.database + "/" + table.name; }

Status diff(const atoll_visitor *visitor, const std::string &scratch, const char *const *states) {
  State first, second;
  ATOLL_RETURN_IF_ERROR(first.open(visitor, states[0], scratch + "/first"));
  ATOLL_RETURN_IF_ERROR(second.open(visitor, states[1], scratch + "/second"));
  RowDiff diff(first.database.get(), second.database.get());
  for (const TablePair &pair : pair_tables(first.tables, second.tables)) {
    RowCounts rows;
    const catalog::TableDef &named = pair.after != nullptr ? *pair.after : *pair.before;
    ATOLL_RETURN_IF_ERROR(
        diff.compare(pair.before.get(), pair.after.get(), &rows).with("the table " + full_name(named)));
    const bool is_same = rows.inserted + rows.changed + rows.deleted == 0;
    if (!is_same || change_of(pair) != Change::kNone) print(pair, rows);
  }
  return Status::Ok();
}

Status check(const atoll_visitor *visitor, const std::string &scratch, const char *const *states) {
  State state;
  ATOLL_RETURN_IF_ERROR(state.open(visitor, states[0], scratch + "/state"));
  for (const catalog::TablePtr &table : state.tables) {
    StoredTable stored;
    ATOLL_RETURN_IF_ERROR(
        read_table(state.database.get(), *table, &stored).with("the table " + full_name(*table)));
    for (char &character : stored.problem)
      if (character == '\t' || character == '\n') character = ' ';
    print_place(*table);
    std::printf("%" PRIu64 "\t%" PRIu64 "\t%s\n", stored.rows, stored.entries, stored.problem.c_str());
  }
  return Status::Ok();
}

Status schema(const atoll_visitor *visitor, const std::string &scratch, const char *const *states) {
  State state;
  ATOLL_RETURN_IF_ERROR(state.open(visitor, states[0], scratch + "/state"));
  for (const catalog::TablePtr &table : without_further_partitions(state.tables)) {
    for (const std::string &line : schema_lines(*table)) {
      print_place(*table);
      std::printf("%s\n", line.c_str());
    }
  }
  return Status::Ok();
}

// A directory that the destructor removes. It holds parts of table files, so no other user may read it.
class Scratch {
 public:
  explicit Scratch(std::string path) : path_(std::move(path)) {}
  ~Scratch() {
    if (is_made_) (void)remove_tree(path_);
  }
  Scratch(const Scratch &) = delete;
  Scratch &operator=(const Scratch &) = delete;

  const std::string &path() const { return path_; }
  Status make() {
    is_made_ = ::mkdir(path_.c_str(), 0700) == 0;
    if (is_made_) return Status::Ok();
    return Status(Code::kInvalid, "making the directory " + path_ + ": " + std::strerror(errno));
  }

 private:
  const std::string path_;
  bool is_made_ = false;
};

struct CloseVisitor {
  void operator()(atoll_visitor *visitor) const { atoll_visitor_close(visitor); }
};

// A command: the first word of the command line, how many states follow, and the function that does it.
struct Verb {
  const char *name;
  int states;
  Status (*run)(const atoll_visitor *visitor, const std::string &scratch, const char *const *states);
};
constexpr Verb kVerbs[] = {{"diff", 2, diff}, {"check", 1, check}, {"schema", 1, schema}};

const char *setting(const char *name) {
  const char *const value = std::getenv(name);
  return value != nullptr ? value : "";
}

// Returns 0 if `text` is no number; the default applies then.
uint32_t number_of(std::string_view text) {
  uint32_t number = 0;
  std::from_chars(text.data(), text.data() + text.size(), number);
  return number;
}

Status run(const Verb &verb, const char *url, const std::string &scratch, const char *const *states) {
  const std::string absent = scratch + "/absent", cache = scratch + "/cache";
  atoll_store_config config{};
  config.url = url;
  config.endpoint = setting("ATOLL_S3_ENDPOINT");
  config.region = setting("ATOLL_S3_REGION");
  config.access_key = setting("ATOLL_S3_ACCESS_KEY");
  config.secret_key = setting("ATOLL_S3_SECRET_KEY");
  config.session_token = setting("ATOLL_S3_SESSION_TOKEN");
  config.ca_file = setting("ATOLL_S3_CA_FILE");
  config.addressing = setting("ATOLL_S3_ADDRESSING");
  config.sse = setting("ATOLL_S3_SSE");
  config.sse_kms_key_id = setting("ATOLL_S3_SSE_KMS_KEY_ID");
  config.request_timeout_ms = number_of(setting("ATOLL_REQUEST_TIMEOUT_MS"));
  config.server_id = setting("ATOLL_VISITOR");
  config.local_dir = absent.c_str();
  config.cache_dir = cache.c_str();
  config.cache_bytes = kPartCacheBytes;
  config.wish = []() -> int { return is_ended.load() ? ATOLL_WISH_STOP : ATOLL_WISH_GO_ON; };
  config.log = [](int level, const char *message) {
    if (level != ATOLL_LOG_INFO) std::fprintf(stderr, "%s\n", message);
  };
  atoll_visitor *opened = nullptr;
  ATOLL_RETURN_IF_ERROR(bridge::to_status(atoll_visitor_open(&config, &opened)));
  const std::unique_ptr<atoll_visitor, CloseVisitor> visitor(opened);
  return verb.run(visitor.get(), scratch, states);
}

int fail(const Status &status) {
  std::fprintf(stderr, "%s\n", status.message());
  return status.code() == Code::kCorruption ? kExitCorruption : kExitError;
}

// Makes the process clean up and end after a signal, and when atollctl ends, because no program reads the
// output then. Ignores SIGPIPE, so that a failed write is only an error.
void heed_signals() {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) std::signal(signal, [](int) { is_ended = true; });
  std::signal(SIGPIPE, SIG_IGN);
  ::prctl(PR_SET_PDEATHSIG, SIGTERM);
}

int main_guarded(int count, char **words) {
  const auto is_meant = [&](const Verb &verb) {
    return count == kFirstState + verb.states && std::string(words[1]) == verb.name;
  };
  const Verb *const verb = std::find_if(std::begin(kVerbs), std::end(kVerbs), is_meant);
  if (verb == std::end(kVerbs))
    return fail(Status(Code::kInvalid, "atollctl runs this program: see atollctl diff --rows"));
  heed_signals();
  const InterruptScope scope(&is_ended);
  Scratch scratch(words[3]);
  Status status = scratch.make();
  if (status.ok()) status = run(*verb, words[2], scratch.path(), words + kFirstState);
  if (status.ok() && (std::printf(".\n") < 0 || std::fflush(stdout) != 0))
    status = Status(Code::kUnavailable, "nobody reads what this program writes");
  return status.ok() ? 0 : fail(status);
}

}  // namespace
}  // namespace atoll::visitor

int main(int count, char **words) {
  try {
    return atoll::visitor::main_guarded(count, words);
  } catch (const std::exception &error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

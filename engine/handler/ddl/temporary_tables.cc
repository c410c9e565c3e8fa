// See temporary_tables.h.
#include "handler/ddl/temporary_tables.h"

#include <map>

#include "base/mutex.h"

namespace atoll::handler {
namespace {

struct Registry {
  Mutex mutex;
  std::map<std::string, catalog::TablePtr> tables ATOLL_GUARDED_BY(mutex);
  std::map<std::string, uint64_t> auto_increments ATOLL_GUARDED_BY(mutex);
  uint32_t next_prefix ATOLL_GUARDED_BY(mutex) = 1;
};

Registry &registry() {
  static Registry one;
  return one;
}

}  // namespace

catalog::TablePtr TemporaryTables::find(const std::string &path) {
  Registry &r = registry();
  MutexLock guard(r.mutex);
  auto it = r.tables.find(path);
  return it == r.tables.end() ? nullptr : it->second;
}

catalog::TablePtr TemporaryTables::add(const std::string &path, catalog::TableDef def) {
  Registry &r = registry();
  MutexLock guard(r.mutex);
  def.id = def.prefix = r.next_prefix++;
  auto table = std::make_shared<const catalog::TableDef>(std::move(def));
  r.tables[path] = table;
  return table;
}

uint32_t TemporaryTables::take_prefix() {
  Registry &r = registry();
  MutexLock guard(r.mutex);
  return r.next_prefix++;
}

void TemporaryTables::set_auto_increment(const std::string &path, uint64_t next) {
  Registry &r = registry();
  MutexLock guard(r.mutex);
  r.auto_increments[path] = next;
}

uint64_t TemporaryTables::auto_increment(const std::string &path) {
  Registry &r = registry();
  MutexLock guard(r.mutex);
  auto it = r.auto_increments.find(path);
  return it == r.auto_increments.end() ? 0 : it->second;
}

void TemporaryTables::rename(const std::string &from, const std::string &to) {
  Registry &r = registry();
  MutexLock guard(r.mutex);
  auto it = r.tables.find(from);
  if (it == r.tables.end()) return;
  r.tables[to] = it->second;
  r.tables.erase(from);
  r.auto_increments[to] = r.auto_increments[from];
  r.auto_increments.erase(from);
}

catalog::TablePtr TemporaryTables::remove(const std::string &path) {
  Registry &r = registry();
  MutexLock guard(r.mutex);
  auto it = r.tables.find(path);
  if (it == r.tables.end()) return nullptr;
  catalog::TablePtr table = it->second;
  r.tables.erase(it);
  r.auto_increments.erase(path);
  return table;
}

}  // namespace atoll::handler

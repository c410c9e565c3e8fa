// A shortage of memory or of threads for one process: preloaded into a server, it lets one request of Atoll's
// own code for memory (operator new) or for a thread (pthread_create) fail, as the test asks for.
//
// A request is Atoll's own when the nearest function below it on the stack, apart from the standard
// library's, is. RocksDB, the Rust part and the server do not promise to survive, so their requests are
// granted. So are those of the plugin's static initializers: the dynamic loader knows no failure of these.
//
//   ATOLL_SHORTAGE_CONTROL   a file of one Control, which the test maps, too
//   ATOLL_SHORTAGE_STACKS    when set, standard error gets the stack of each request that fails
//   ATOLL_SHORTAGE_OWNERS    a file of Functions, ascending: whose the code of the plugin is
//
// Threads: any.
#include <dlfcn.h>
#include <elf.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <unwind.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>

namespace {

enum Kind : uint32_t { kNothing = 0, kMemory = 1, kThreads = 2 };

// Shared with the test (tests/harness/shortage.py).
struct Control {
  std::atomic<uint32_t> kind;         // what fails, and is counted
  std::atomic<uint32_t> is_counting;  // count only
  std::atomic<uint64_t> left;         // requests until the one that fails: 1 is the next; 0: none fails
  std::atomic<uint64_t> counted;      // requests since the test has set it to 0
  std::atomic<uint64_t> failed;       // requests
  std::atomic<uint64_t> repeat;       // so many requests in a row fail
};

enum Owner : uint64_t { kNobody = 0, kAtoll = 1, kOthers = 2, kInitializer = 3 };

// Addresses of the plugin's file, the end exclusive.
struct Function {
  uint64_t from, end, owner;
};

Control *control;
const Function *functions;
size_t function_count;
std::atomic<uintptr_t> plugin_base{0}, plugin_end{0}, server_base{0}, server_end{0};
thread_local bool is_looking;

uintptr_t end_of(const dl_phdr_info &info) {
  uintptr_t end = 0;
  for (int i = 0; i < info.dlpi_phnum; i++) {
    const ElfW(Phdr) &part = info.dlpi_phdr[i];
    if (part.p_type == PT_LOAD && part.p_vaddr + part.p_memsz > end) end = part.p_vaddr + part.p_memsz;
  }
  return info.dlpi_addr + end;
}

// The program itself has no name.
int find_code(dl_phdr_info *info, size_t, void *) {
  if (info->dlpi_name == nullptr || *info->dlpi_name == 0) {
    if (server_end != 0) return 0;  // the vDSO has none either
    server_base = info->dlpi_addr;
    server_end = end_of(*info);
  } else if (std::strstr(info->dlpi_name, "ha_atoll") != nullptr) {
    plugin_end = end_of(*info);
    plugin_base = info->dlpi_addr;
  }
  return 0;
}

Owner owner_of(uint64_t address) {
  size_t low = 0, high = function_count;
  while (low < high) {
    const size_t middle = (low + high) / 2;
    if (functions[middle].end <= address)
      low = middle + 1;
    else
      high = middle;
  }
  const bool is_known = low < function_count && functions[low].from <= address;
  return is_known ? static_cast<Owner>(functions[low].owner) : kNobody;
}

_Unwind_Reason_Code look_at_frame(_Unwind_Context *context, void *owner) {
  const uintptr_t address = _Unwind_GetIP(context) - 1;
  Owner found = kNobody;
  if (address >= plugin_base && address < plugin_end)
    found = owner_of(address - plugin_base);
  else if (address >= server_base && address < server_end)
    found = kOthers;
  *static_cast<Owner *>(owner) = found;
  return found == kNobody ? _URC_NO_REASON : _URC_END_OF_STACK;
}

bool is_ours() {
  if (plugin_base == 0) dl_iterate_phdr(find_code, nullptr);
  if (plugin_base == 0) return false;
  Owner owner = kNobody;
  is_looking = true;
  _Unwind_Backtrace(look_at_frame, &owner);
  is_looking = false;
  return owner == kAtoll;
}

_Unwind_Reason_Code look_for_initializer(_Unwind_Context *context, void *found) {
  const uintptr_t address = _Unwind_GetIP(context) - 1;
  const bool in_plugin = address >= plugin_base && address < plugin_end;
  if (!in_plugin || owner_of(address - plugin_base) != kInitializer) return _URC_NO_REASON;
  *static_cast<bool *>(found) = true;
  return _URC_END_OF_STACK;
}

bool is_initializing() {
  bool found = false;
  is_looking = true;
  _Unwind_Backtrace(look_for_initializer, &found);
  is_looking = false;
  return found;
}

void print_stack() {
  void *frames[64];
  backtrace_symbols_fd(frames, backtrace(frames, 64), STDERR_FILENO);
}

// Code let an exception out that no exception may leave; the server's own trace does not tell which.
[[noreturn]] void terminate() {
  print_stack();
  std::abort();
}

// Whether this request fails.
bool fails(Kind kind) {
  if (control == nullptr || control->kind.load(std::memory_order_relaxed) != kind || is_looking) return false;
  const int error = errno;
  const bool ours = is_ours();
  errno = error;
  if (!ours) return false;
  control->counted++;
  if (control->is_counting != 0) return false;
  uint64_t left = control->left;
  while (left != 0 && !control->left.compare_exchange_weak(left, left - 1)) continue;
  if (left == 0 || left > control->repeat || is_initializing()) return false;
  control->failed++;
  if (std::getenv("ATOLL_SHORTAGE_STACKS") != nullptr) {
    is_looking = true;
    print_stack();
    is_looking = false;
  }
  return true;
}

const char *mapped(const char *variable, int protection, size_t *bytes) {
  const char *path = std::getenv(variable);
  const int descriptor = path == nullptr ? -1 : ::open(path, O_RDWR | O_CLOEXEC);
  struct stat about;
  if (descriptor < 0 || ::fstat(descriptor, &about) != 0) return nullptr;
  *bytes = static_cast<size_t>(about.st_size);
  void *place = ::mmap(nullptr, *bytes, protection, MAP_SHARED, descriptor, 0);
  ::close(descriptor);
  return place == MAP_FAILED ? nullptr : static_cast<const char *>(place);
}

__attribute__((constructor)) void begin() {
  std::set_terminate(terminate);
  size_t bytes = 0;
  functions = reinterpret_cast<const Function *>(mapped("ATOLL_SHORTAGE_OWNERS", PROT_READ, &bytes));
  function_count = functions == nullptr ? 0 : bytes / sizeof(Function);
  const char *place = mapped("ATOLL_SHORTAGE_CONTROL", PROT_READ | PROT_WRITE, &bytes);
  control = reinterpret_cast<Control *>(const_cast<char *>(place));
}

void *allocate(size_t bytes, size_t alignment) {
  if (fails(kMemory)) throw std::bad_alloc();
  void *place = alignment == 0
                    ? std::malloc(bytes)
                    : std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (place == nullptr) throw std::bad_alloc();
  return place;
}

}  // namespace

void *operator new(size_t bytes) { return allocate(bytes, 0); }
void *operator new[](size_t bytes) { return allocate(bytes, 0); }
void *operator new(size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<size_t>(alignment));
}
void *operator new[](size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<size_t>(alignment));
}

void operator delete(void *place) noexcept { std::free(place); }
void operator delete[](void *place) noexcept { std::free(place); }
void operator delete(void *place, size_t) noexcept { std::free(place); }
void operator delete[](void *place, size_t) noexcept { std::free(place); }
void operator delete(void *place, std::align_val_t) noexcept { std::free(place); }
void operator delete[](void *place, std::align_val_t) noexcept { std::free(place); }
void operator delete(void *place, size_t, std::align_val_t) noexcept { std::free(place); }
void operator delete[](void *place, size_t, std::align_val_t) noexcept { std::free(place); }

extern "C" int pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*body)(void *),
                              void *argument) {
  static const auto real = reinterpret_cast<decltype(&pthread_create)>(dlsym(RTLD_NEXT, "pthread_create"));
  return fails(kThreads) ? EAGAIN : real(thread, attributes, body, argument);
}

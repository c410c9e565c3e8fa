// A power loss for one process: preloaded into a server, it notes what is synced below one directory, and
// ends the process at its n-th sync. tests/harness/power_loss.py makes of that what a disk may hold
// afterwards.
//
// It stands below the C library's calls, so it sees RocksDB's C++ and the Rust part alike. It assumes no more
// than POSIX promises: a sync of a file keeps the bytes of that file, a sync of a directory keeps the names
// in it, and nothing else keeps anything. (Linux file systems keep more: ext4 the name of a file that is
// synced.)
//
//   ATOLL_POWER_ROOT     the directory, without symbolic links
//   ATOLL_POWER_DURABLE  where to note, an empty directory:
//                          file/<inode>       the bytes of a file at its last sync
//                          directory/<inode>  the names at its last sync, a line "<inode> <name>" each
//                          ended              the process was ended here
//   ATOLL_POWER_LAST     the number of the sync that does not happen any more, counted from 1; 0: none
//   ATOLL_POWER_LIE      part of a path: syncs of such files succeed and keep nothing
//
// Everything that is there when the process starts counts as synced.
// Threads: any; one sync at a time.
#define _GNU_SOURCE
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <unistd.h>

// More files than a test makes.
#define INODES_MAX (1 << 16)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static const char *root, *durable, *lie;
static unsigned long last, count;
static ino_t held[INODES_MAX];

static void fail(const char *what) {
  fprintf(stderr, "power_loss: %s: %s\n", what, strerror(errno));
  abort();
}

// Keeps the number of a file from being given to another one, after the file is deleted.
static void hold(ino_t inode, const char *path) {
  size_t at = inode % INODES_MAX;
  while (held[at] && held[at] != inode) at = (at + 1) % INODES_MAX;
  if (held[at]) return;
  if (open(path, O_PATH | O_CLOEXEC) >= 0) held[at] = inode;
}

static FILE *note(const char *kind, ino_t inode) {
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s/%s/%lu", durable, kind, (unsigned long)inode);
  FILE *out = fopen(path, "w");
  if (!out) fail(path);
  return out;
}

static void keep_bytes(const char *path, ino_t inode) {
  int in = open(path, O_RDONLY | O_CLOEXEC);
  if (in < 0) return;  // deleted meanwhile
  FILE *out = note("file", inode);
  ssize_t sent;
  while ((sent = sendfile(fileno(out), in, NULL, 1 << 20)) > 0) continue;
  if (sent < 0) fail(path);
  fclose(out);
  close(in);
}

static void keep_names(const char *path, ino_t inode) {
  DIR *directory = opendir(path);
  if (!directory) return;
  FILE *out = note("directory", inode);
  for (struct dirent *entry; (entry = readdir(directory));) {
    char inner[PATH_MAX];
    struct stat found;
    if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
    if (fstatat(dirfd(directory), entry->d_name, &found, AT_SYMLINK_NOFOLLOW)) continue;
    snprintf(inner, sizeof inner, "%s/%s", path, entry->d_name);
    hold(found.st_ino, inner);
    fprintf(out, "%lu %s\n", (unsigned long)found.st_ino, entry->d_name);
  }
  fclose(out);
  closedir(directory);
}

static void keep(const char *path) {
  struct stat found;
  if (stat(path, &found)) return;
  hold(found.st_ino, path);
  if (S_ISDIR(found.st_mode)) keep_names(path, found.st_ino);
  if (S_ISREG(found.st_mode)) keep_bytes(path, found.st_ino);
}

static void keep_all_below(const char *path) {
  keep(path);
  DIR *directory = opendir(path);
  if (!directory) return;
  for (struct dirent *entry; (entry = readdir(directory));) {
    char inner[PATH_MAX];
    if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, "..")) continue;
    snprintf(inner, sizeof inner, "%s/%s", path, entry->d_name);
    keep_all_below(inner);
  }
  closedir(directory);
}

// The path of the descriptor's file; false when it is not below the root.
static int is_ours(int descriptor, char *path) {
  char link[64];
  snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  ssize_t length = readlink(link, path, PATH_MAX - 1);
  if (length < 0) return 0;
  path[length] = 0;
  return root && !strncmp(path, root, strlen(root));
}

static void end_process(void) {
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s/ended", durable);
  close(creat(path, 0600));
  kill(getpid(), SIGKILL);
  for (;;) pause();
}

static int sync_with(int (*real)(int), int descriptor) {
  char path[PATH_MAX], link[64];
  if (!is_ours(descriptor, path)) return real(descriptor);
  snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
  pthread_mutex_lock(&lock);
  if (++count == last) end_process();
  int result = real(descriptor), error = errno;
  if (!result && !(lie && *lie && strstr(path, lie))) keep(link);
  pthread_mutex_unlock(&lock);
  errno = error;
  return result;
}

int fsync(int descriptor) {
  static int (*real)(int);
  if (!real) real = (int (*)(int))dlsym(RTLD_NEXT, "fsync");
  return sync_with(real, descriptor);
}

int fdatasync(int descriptor) {
  static int (*real)(int);
  if (!real) real = (int (*)(int))dlsym(RTLD_NEXT, "fdatasync");
  return sync_with(real, descriptor);
}

__attribute__((constructor)) static void begin(void) {
  root = getenv("ATOLL_POWER_ROOT");
  durable = getenv("ATOLL_POWER_DURABLE");
  lie = getenv("ATOLL_POWER_LIE");
  const char *number = getenv("ATOLL_POWER_LAST");
  last = number ? strtoul(number, NULL, 10) : 0;
  if (root && durable) keep_all_below(root);
}

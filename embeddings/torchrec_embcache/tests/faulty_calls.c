// Preloaded library: the n-th system call that changes files fails, or ends the process as kill -9 does.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

static atomic_long countdown = 0;  // 0: nothing is to happen
static int failure = 0;            // 0: SIGKILL; else errno, from then on
static char folder[4096];          // for calls on paths in it
static _Atomic int failing = 0;

// After `calls` more calls. share: percent of a write that is still done.
static int share = 0;

void faulty_arm(long calls, int error, int percent, const char* where) {
  snprintf(folder, sizeof folder, "%s", where);
  failure = error;
  share = percent;
  failing = 0;
  countdown = calls;
}

long faulty_left(void) { return countdown; }

static int in_folder(int fd) {
  char link[64], path[4096];
  snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
  const ssize_t size = readlink(link, path, sizeof path - 1);
  if (size < 0 || folder[0] == 0) return 0;
  path[size] = 0;
  return strncmp(path, folder, strlen(folder)) == 0;
}

// Whether this is the call; a failure lasts.
static int due(void) {
  if (failing) return 1;
  if (countdown <= 0) return 0;
  if (atomic_fetch_sub(&countdown, 1) != 1) return 0;
  if (failure != 0) failing = 1;
  return 1;
}

static int happen(void) {
  if (failure == 0) {
    kill(getpid(), SIGKILL);
    pause();
  }
  errno = failure;
  return -1;
}

typedef ssize_t (*Write)(int, const void*, size_t, off_t);

ssize_t pwrite(int fd, const void* data, size_t size, off_t offset) {
  const Write real = (Write)dlsym(RTLD_NEXT, "pwrite");
  if (!in_folder(fd) || !due()) return real(fd, data, size, offset);
  const size_t part = size * (size_t)share / 100;
  if (part > 0 && real(fd, data, part, offset) < 0) return -1;
  return happen();
}

ssize_t pwrite64(int fd, const void* data, size_t size, off_t offset) { return pwrite(fd, data, size, offset); }

typedef ssize_t (*Read)(int, void*, size_t, off_t);

static _Atomic int reads_fail = 0;

// Files that are mapped to be read, so that their reads can fail as those of a disk: by SIGBUS.
enum { MAPPINGS = 1024 };
static struct {
  void* place;
  size_t size;
  int fd;
} mappings[MAPPINGS];
static _Atomic int mapped = 0;

typedef void* (*Map)(void*, size_t, int, int, int, off_t);

void* mmap(void* where, size_t size, int protection, int flags, int fd, off_t offset) {
  void* place = ((Map)dlsym(RTLD_NEXT, "mmap"))(where, size, protection, flags, fd, offset);
  if (place != MAP_FAILED && fd >= 0 && (flags & MAP_SHARED) != 0 && mapped < MAPPINGS) {
    const int k = mapped++;
    mappings[k].place = place;
    mappings[k].size = size;
    mappings[k].fd = fd;
  }
  return place;
}

void* mmap64(void* where, size_t size, int protection, int flags, int fd, off_t offset) {
  return mmap(where, size, protection, flags, fd, offset);
}

// An empty file in the place of each has no page to be read.
int faulty_reads(int fail) {
  int taken = 0;
  FILE* empty = tmpfile();
  for (int k = 0; fail && k < mapped; ++k) {
    if (!in_folder(mappings[k].fd)) continue;
    mmap(mappings[k].place, mappings[k].size, PROT_READ, MAP_PRIVATE | MAP_FIXED, fileno(empty), 0);
    ++taken;
  }
  reads_fail = fail;
  return taken;
}

ssize_t pread(int fd, void* data, size_t size, off_t offset) {
  const Read real = (Read)dlsym(RTLD_NEXT, "pread");
  if (reads_fail && in_folder(fd)) {
    errno = EIO;
    return -1;
  }
  return real(fd, data, size, offset);
}

ssize_t pread64(int fd, void* data, size_t size, off_t offset) { return pread(fd, data, size, offset); }

int fdatasync(int fd) {
  if (in_folder(fd) && due()) return happen();
  return ((int (*)(int))dlsym(RTLD_NEXT, "fdatasync"))(fd);
}

int ftruncate(int fd, off_t size) {
  if (in_folder(fd) && failure == 0 && due()) return happen();  // a full disk can still be truncated
  return ((int (*)(int, off_t))dlsym(RTLD_NEXT, "ftruncate"))(fd, size);
}

int unlink(const char* path) {
  if (folder[0] && strncmp(path, folder, strlen(folder)) == 0 && failure == 0 && due()) return happen();
  return ((int (*)(const char*))dlsym(RTLD_NEXT, "unlink"))(path);
}

int rename(const char* from, const char* to) {
  if (folder[0] && strncmp(to, folder, strlen(folder)) == 0 && due()) return happen();
  return ((int (*)(const char*, const char*))dlsym(RTLD_NEXT, "rename"))(from, to);
}

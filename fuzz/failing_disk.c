/* Calls that change files, counted, one of which fails or is where the process is killed: preloaded by
 * `fuzz/faults`. FAULT_AT says which (from 1), FAULT how; FAULT_COUNT names a file for the number of calls. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static atomic_long calls;

static int is(const char *how) {
  const char *fault = getenv("FAULT");
  return fault && !strcmp(fault, how);
}

/* Counts a call; -1 if it is to fail, with errno set. */
static int step(void) {
  const char *at = getenv("FAULT_AT");
  long call = atomic_fetch_add(&calls, 1) + 1;
  /* A disk that is full stays full. */
  int here = at && (is("ENOSPC-ON") ? call >= atol(at) : call == atol(at));
  if (!here) return 0;
  if (is("KILL")) kill(getpid(), SIGKILL);
  if (is("TERM")) kill(getpid(), SIGTERM);
  if (is("HUP")) kill(getpid(), SIGHUP);
  if (is("INT")) kill(getpid(), SIGINT);
  if (is("EIO")) return errno = EIO, -1;
  if (is("ENOSPC") || is("ENOSPC-ON")) return errno = ENOSPC, -1;
  if (is("EMFILE")) return errno = EMFILE, -1;
  return is("TORN") ? 1 : 0;
}

__attribute__((destructor)) static void report(void) {
  const char *path = getenv("FAULT_COUNT");
  FILE *file = path ? fopen(path, "w") : NULL;
  if (!file) return;
  fprintf(file, "%ld\n", atomic_load(&calls));
  fclose(file);
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static int regular(int fd) {
  struct stat info;
  return fd > 2 && !fstat(fd, &info) && S_ISREG(info.st_mode);
}

ssize_t write(int fd, const void *bytes, size_t length) {
  if (regular(fd)) {
    int fault = step();
    if (fault < 0) return -1;
    if (fault > 0) {
      /* Half of it is there, then the power goes. */
      if (REAL(write)(fd, bytes, length / 2) < 0) _exit(3);
      kill(getpid(), SIGKILL);
    }
  }
  return REAL(write)(fd, bytes, length);
}

#define BEFORE(call) (step() < 0 ? -1 : (call))
int fsync(int fd) { return BEFORE(REAL(fsync)(fd)); }
int fdatasync(int fd) { return BEFORE(REAL(fdatasync)(fd)); }
int rename(const char *from, const char *to) { return BEFORE(REAL(rename)(from, to)); }
int unlink(const char *path) { return BEFORE(REAL(unlink)(path)); }
int mkdir(const char *path, mode_t mode) { return BEFORE(REAL(mkdir)(path, mode)); }
int ftruncate64(int fd, off64_t length) { return BEFORE(REAL(ftruncate64)(fd, length)); }

int open64(const char *path, int flags, ...) {
  mode_t mode = 0;
  va_list rest;
  va_start(rest, flags);
  if (flags & O_CREAT) mode = va_arg(rest, mode_t);
  va_end(rest);
  if ((flags & O_ACCMODE) != O_RDONLY && step() < 0) return -1;
  return REAL(open64)(path, flags, mode);
}

/* Makes chosen calls on chosen files fail, also those that no disk of ours sees.
 *
 * A process of the tests has this in front of the system's library. Its environment says what fails:
 *
 *   ROWMILL_FAULT_PATH    part of the paths of the files whose calls count
 *   ROWMILL_FAULT_FIRST   the call that fails, counted from 1; 0 for none
 *   ROWMILL_FAULT_TIMES   how many fail, from that one on
 *   ROWMILL_FAULT_ERRNO   what they fail with; 0: a write writes the half
 *   ROWMILL_FAULT_AFTER   set: they do what they are to do, and fail then
 *   ROWMILL_FAULT_WRITES  set: calls that only read do not count
 *   ROWMILL_FAULT_NOTES   the file that gets a line for each call that counts
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static const char *part;
static long first, times, cause;
static int after, writes;
static int notes = -1;
static long calls;

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

static long number(const char *name) {
    const char *text = getenv(name);
    return text ? strtol(text, NULL, 10) : 0;
}

__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("ROWMILL_FAULT_NOTES");
    first = number("ROWMILL_FAULT_FIRST");
    times = number("ROWMILL_FAULT_TIMES");
    cause = number("ROWMILL_FAULT_ERRNO");
    after = getenv("ROWMILL_FAULT_AFTER") != NULL;
    writes = getenv("ROWMILL_FAULT_WRITES") != NULL;
    if (path)
        notes = REAL(open)(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    part = getenv("ROWMILL_FAULT_PATH");
}

static int is_one_of(const char *names, const char *name) {
    const char *at = strstr(names, name);
    size_t length = strlen(name);
    return at && at[length] == ' ' && (at == names || at[-1] == ' ');
}

static const char *const WRITES =
    "create open rename unlink write writev pwrite pwritev fsync fdatasync ftruncate fallocate posix_fallocate flock ";

/* What has one cause for some calls has not the same for all: a disk that is full can be read. */
static int may_fail(const char *name) {
    switch (cause) {
    case ENOSPC:
        return is_one_of("create rename write writev pwrite pwritev fsync fdatasync fallocate posix_fallocate ", name);
    case EMFILE:
        return is_one_of("create open look ", name);
    case ENOMEM:
        return is_one_of("mmap ", name);
    case ENOLCK:
        return is_one_of("fcntl flock ", name);
    case EINTR:
        return !is_one_of("stat lseek mmap rename unlink ", name);
    default:
        return 1;
    }
}

/* Counts the call, and says whether it fails. */
static int counts(const char *name, const char *path) {
    char line[1024];
    long call;
    int length;
    if (!part || !path || !strstr(path, part) || (writes && !is_one_of(WRITES, name)))
        return 0;
    call = __atomic_add_fetch(&calls, 1, __ATOMIC_SEQ_CST);
    length = snprintf(line, sizeof line, "%s %s\n", name, path);
    if (notes >= 0 && length < (int)sizeof line)
        (void)!REAL(write)(notes, line, length);
    return first > 0 && call >= first && call - first < times && may_fail(name);
}

static int counts_of(const char *name, int fd) {
    char link[64], path[4096];
    ssize_t length;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    length = readlink(link, path, sizeof path - 1);
    if (length < 0)
        return 0;
    path[length] = 0;
    return counts(name, path);
}

/* A call that fails before or behind what it does. */
#define FAIL(call)             \
    do {                       \
        if (!cause)            \
            return call;       \
        if (after)             \
            (void)!(call);     \
        errno = (int)cause;    \
        return -1;             \
    } while (0)

/* A write, of which the half may be all that fails. */
#define WRITE(name, fd, call, half) \
    do {                            \
        if (!counts_of(name, fd))   \
            return call;            \
        if (!cause)                 \
            return half;            \
        FAIL(call);                 \
    } while (0)

#define CALL(name, fd, call)      \
    do {                          \
        if (!counts_of(name, fd)) \
            return call;          \
        FAIL(call);               \
    } while (0)

#define NAMED(name, path, call)    \
    do {                           \
        if (!counts(name, path))   \
            return call;           \
        errno = cause ? (int)cause : EIO; \
        return -1;                 \
    } while (0)

static mode_t mode_of(int flags, va_list rest) {
    return flags & (O_CREAT | O_TMPFILE) ? va_arg(rest, mode_t) : 0;
}

static const char *opening(int flags) {
    return flags & O_CREAT ? "create" : (flags & O_ACCMODE) == O_RDONLY ? "look" : "open";
}

#define MODE(flags)            \
    va_list rest;              \
    mode_t mode;               \
    va_start(rest, flags);     \
    mode = mode_of(flags, rest); \
    va_end(rest)

int open(const char *path, int flags, ...) {
    MODE(flags);
    NAMED(opening(flags), path, REAL(open)(path, flags, mode));
}

int open64(const char *path, int flags, ...) {
    MODE(flags);
    NAMED(opening(flags), path, REAL(open64)(path, flags, mode));
}

int openat(int folder, const char *path, int flags, ...) {
    MODE(flags);
    NAMED(opening(flags), path, REAL(openat)(folder, path, flags, mode));
}

int openat64(int folder, const char *path, int flags, ...) {
    MODE(flags);
    NAMED(opening(flags), path, REAL(openat64)(folder, path, flags, mode));
}

int rename(const char *from, const char *to) { NAMED("rename", from, REAL(rename)(from, to)); }

int unlink(const char *path) { NAMED("unlink", path, REAL(unlink)(path)); }

int stat(const char *path, struct stat *found) { NAMED("stat", path, REAL(stat)(path, found)); }

int stat64(const char *path, struct stat64 *found) { NAMED("stat", path, REAL(stat64)(path, found)); }

int fstat(int fd, struct stat *found) { CALL("stat", fd, REAL(fstat)(fd, found)); }

int fstat64(int fd, struct stat64 *found) { CALL("stat", fd, REAL(fstat64)(fd, found)); }

int statx(int folder, const char *restrict path, int flags, unsigned mask, struct statx *restrict found) {
    if (flags & AT_EMPTY_PATH)
        CALL("stat", folder, REAL(statx)(folder, path, flags, mask, found));
    NAMED("stat", path, REAL(statx)(folder, path, flags, mask, found));
}

ssize_t write(int fd, const void *bytes, size_t length) {
    WRITE("write", fd, REAL(write)(fd, bytes, length), REAL(write)(fd, bytes, length / 2));
}

ssize_t pwrite(int fd, const void *bytes, size_t length, off_t at) {
    WRITE("pwrite", fd, REAL(pwrite)(fd, bytes, length, at), REAL(pwrite)(fd, bytes, length / 2, at));
}

ssize_t pwrite64(int fd, const void *bytes, size_t length, off64_t at) {
    WRITE("pwrite", fd, REAL(pwrite64)(fd, bytes, length, at), REAL(pwrite64)(fd, bytes, length / 2, at));
}

ssize_t writev(int fd, const struct iovec *pieces, int count) {
    WRITE("writev", fd, REAL(writev)(fd, pieces, count), REAL(write)(fd, pieces->iov_base, pieces->iov_len / 2));
}

ssize_t pwritev(int fd, const struct iovec *pieces, int count, off_t at) {
    WRITE("pwritev", fd, REAL(pwritev)(fd, pieces, count, at),
          REAL(pwrite)(fd, pieces->iov_base, pieces->iov_len / 2, at));
}

ssize_t pwritev64(int fd, const struct iovec *pieces, int count, off64_t at) {
    WRITE("pwritev", fd, REAL(pwritev64)(fd, pieces, count, at),
          REAL(pwrite64)(fd, pieces->iov_base, pieces->iov_len / 2, at));
}

ssize_t read(int fd, void *bytes, size_t length) { CALL("read", fd, REAL(read)(fd, bytes, length)); }

ssize_t pread(int fd, void *bytes, size_t length, off_t at) { CALL("pread", fd, REAL(pread)(fd, bytes, length, at)); }

ssize_t pread64(int fd, void *bytes, size_t length, off64_t at) {
    CALL("pread", fd, REAL(pread64)(fd, bytes, length, at));
}

off_t lseek(int fd, off_t at, int from) { CALL("lseek", fd, REAL(lseek)(fd, at, from)); }

off64_t lseek64(int fd, off64_t at, int from) { CALL("lseek", fd, REAL(lseek64)(fd, at, from)); }

int fsync(int fd) { CALL("fsync", fd, REAL(fsync)(fd)); }

int fdatasync(int fd) { CALL("fdatasync", fd, REAL(fdatasync)(fd)); }

int ftruncate(int fd, off_t length) { CALL("ftruncate", fd, REAL(ftruncate)(fd, length)); }

int ftruncate64(int fd, off64_t length) { CALL("ftruncate", fd, REAL(ftruncate64)(fd, length)); }

int fallocate(int fd, int how, off_t at, off_t length) { CALL("fallocate", fd, REAL(fallocate)(fd, how, at, length)); }

int fallocate64(int fd, int how, off64_t at, off64_t length) {
    CALL("fallocate", fd, REAL(fallocate64)(fd, how, at, length));
}

/* These two give the error itself. */
int posix_fallocate(int fd, off_t at, off_t length) {
    return counts_of("posix_fallocate", fd) && cause ? (int)cause : REAL(posix_fallocate)(fd, at, length);
}

int posix_fallocate64(int fd, off64_t at, off64_t length) {
    return counts_of("posix_fallocate", fd) && cause ? (int)cause : REAL(posix_fallocate64)(fd, at, length);
}

int flock(int fd, int how) { CALL("flock", fd, REAL(flock)(fd, how)); }

static int is_lock(int order) { return order == F_GETLK || order == F_SETLK || order == F_SETLKW; }

#define FCNTL(name)                                             \
    int name(int fd, int order, ...) {                          \
        va_list rest;                                           \
        void *given;                                            \
        va_start(rest, order);                                  \
        given = va_arg(rest, void *);                           \
        va_end(rest);                                           \
        if (is_lock(order))                                     \
            CALL("fcntl", fd, REAL(name)(fd, order, given));    \
        return REAL(name)(fd, order, given);                    \
    }

FCNTL(fcntl)
FCNTL(fcntl64)

#define MMAP(name, offset)                                                      \
    void *name(void *at, size_t length, int may, int how, int fd, offset from) { \
        if (fd < 0 || !counts_of("mmap", fd) || !cause)                         \
            return REAL(name)(at, length, may, how, fd, from);                  \
        errno = (int)cause;                                                     \
        return MAP_FAILED;                                                      \
    }

MMAP(mmap, off_t)
MMAP(mmap64, off64_t)

/* Behaves as a system with pages of 64 KiB does, for a program that this library is preloaded into: mappings begin at a multiple of
   65,536, fill whole pages, and are refused where an address or an offset in a file is no such multiple. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

static const size_t kPage = 65536;

static size_t whole(size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

long sysconf(int name) {
  static long (*real)(int);
  if (name == _SC_PAGESIZE) return (long)kPage;
  if (real == NULL) real = (long (*)(int))dlsym(RTLD_NEXT, "sysconf");
  return real(name);
}

int getpagesize(void) { return (int)kPage; }

void* mmap(void* at, size_t bytes, int protection, int flags, int fd, off_t offset) {
  static void* (*real)(void*, size_t, int, int, int, off_t);
  if (real == NULL) real = (void* (*)(void*, size_t, int, int, int, off_t))dlsym(RTLD_NEXT, "mmap");
  if (offset % (off_t)kPage != 0 || ((flags & MAP_FIXED) != 0 && (uintptr_t)at % kPage != 0)) {
    errno = EINVAL;
    return MAP_FAILED;
  }
  if ((flags & MAP_FIXED) != 0 || bytes == 0) return real(at, bytes, protection, flags, fd, offset);
  const size_t size = whole(bytes);
  char* memory = real(NULL, size + kPage, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return MAP_FAILED;
  char* begin = memory + (kPage - (uintptr_t)memory % kPage) % kPage;
  if (begin > memory) munmap(memory, (size_t)(begin - memory));
  munmap(begin + size, kPage - (size_t)(begin - memory));
  if ((flags & MAP_ANONYMOUS) != 0 && (flags & MAP_PRIVATE) != 0) return begin;
  return real(begin, bytes, protection, flags | MAP_FIXED, fd, offset);
}

void* mmap64(void* at, size_t bytes, int protection, int flags, int fd, off_t offset) {
  return mmap(at, bytes, protection, flags, fd, offset);
}

int mprotect(void* at, size_t bytes, int protection) {
  static int (*real)(void*, size_t, int);
  if (real == NULL) real = (int (*)(void*, size_t, int))dlsym(RTLD_NEXT, "mprotect");
  if ((uintptr_t)at % kPage != 0) {
    errno = EINVAL;
    return -1;
  }
  return real(at, whole(bytes), protection);
}

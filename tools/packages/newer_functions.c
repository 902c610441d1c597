/* What programs, libstdc++.a and libgcc_eh.a of a newer system ask of the C library, for one that lacks it.
 * old_glibc.sh has it linked in. All is hidden: the library that has it here is not to give it to a program.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define HIDDEN __attribute__((visibility("hidden")))

/* glibc 2.32: whether locked instructions may be left out. They never are. */
HIDDEN char __libc_single_threaded = 0;

/* glibc 2.36: std::random_device's. */
HIDDEN uint32_t arc4random(void) {
  uint32_t value = 0;
  while (syscall(SYS_getrandom, &value, sizeof value, 0) < 0 && errno == EINTR) {
  }
  return value;
}

/* glibc 2.35: where the tables of the code at an address are, which exceptions are thrown by. Found as it was
 * before. */
#ifdef DLFO_STRUCT_HAS_EH_DBASE
struct search {
  uintptr_t address;
  struct dl_find_object* found;
};
static int look_into(struct dl_phdr_info* object, size_t size, void* data) {
  struct search* search = data;
  const ElfW(Phdr)* code = NULL, *tables = NULL;
  (void)size;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)* part = &object->dlpi_phdr[i];
    if (part->p_type == PT_GNU_EH_FRAME) tables = part;
    if (part->p_type == PT_LOAD && search->address - (object->dlpi_addr + part->p_vaddr) < part->p_memsz)
      code = part;
  }
  if (!code || !tables) return 0;
  search->found->dlfo_map_start = (void*)(object->dlpi_addr + code->p_vaddr);
  search->found->dlfo_map_end = (void*)(object->dlpi_addr + code->p_vaddr + code->p_memsz);
  search->found->dlfo_eh_frame = (void*)(object->dlpi_addr + tables->p_vaddr);
  return 1;
}
HIDDEN int _dl_find_object(void* address, struct dl_find_object* found) {
  struct search search = {(uintptr_t)address, found};
  memset(found, 0, sizeof *found);
  return dl_iterate_phdr(look_into, &search) == 1 ? 0 : -1;
}
#endif

/* glibc 2.33: before that, these were no functions of the library, which had others with a version of the
 * structure, as it still does. */
#ifdef __x86_64__
enum { stat_version = 1 };
#else
enum { stat_version = 0 };
#endif
struct stat;
int __xstat(int version, const char* path, struct stat* result);
int __lxstat(int version, const char* path, struct stat* result);
int __fxstat(int version, int file, struct stat* result);
int __fxstatat(int version, int folder, const char* path, struct stat* result, int flags);
HIDDEN int stat(const char* path, struct stat* result) {
  return __xstat(stat_version, path, result);
}
HIDDEN int lstat(const char* path, struct stat* result) {
  return __lxstat(stat_version, path, result);
}
HIDDEN int fstat(int file, struct stat* result) {
  return __fxstat(stat_version, file, result);
}
HIDDEN int fstatat(int folder, const char* path, struct stat* result, int flags) {
  return __fxstatat(stat_version, folder, path, result, flags);
}
/* With 64 bits, these are the same. */
HIDDEN int stat64(const char* path, struct stat* result) {
  return stat(path, result);
}
HIDDEN int lstat64(const char* path, struct stat* result) {
  return lstat(path, result);
}
HIDDEN int fstat64(int file, struct stat* result) {
  return fstat(file, result);
}
HIDDEN int fstatat64(int folder, const char* path, struct stat* result, int flags) {
  return fstatat(folder, path, result, flags);
}

/* The same moment of another clock as that of this one, by the time that is left until then. */
static struct timespec on_clock(clockid_t clock, clockid_t other, const struct timespec* moment) {
  struct timespec now, there;
  clock_gettime(clock, &now);
  clock_gettime(other, &there);
  there.tv_sec += moment->tv_sec - now.tv_sec;
  there.tv_nsec += moment->tv_nsec - now.tv_nsec;
  if (there.tv_nsec < 0) {
    there.tv_nsec += 1000000000;
    --there.tv_sec;
  } else if (there.tv_nsec >= 1000000000) {
    there.tv_nsec -= 1000000000;
    ++there.tv_sec;
  }
  return there;
}

/* glibc 2.30: what condition variables and mutexes of C++ wait with until a moment of the steady clock. Here
 * they wait by the system's clock. Who sets that one forward makes a wait end early, for which callers look
 * at the steady clock again; who sets it back makes it longer. */
HIDDEN int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                                  const struct timespec* until) {
  const struct timespec moment = on_clock(clock, CLOCK_REALTIME, until);
  return pthread_cond_timedwait(condition, mutex, &moment);
}
HIDDEN int pthread_mutex_clocklock(pthread_mutex_t* mutex, clockid_t clock, const struct timespec* until) {
  const struct timespec moment = on_clock(clock, CLOCK_REALTIME, until);
  return pthread_mutex_timedlock(mutex, &moment);
}

/* glibc 2.34: before that, a program brought the function along that runs its own constructors, and its first
 * code handed it to the library. This system's first code hands none. */
typedef void (*constructor)(int, char**, char**);
extern constructor __init_array_start[] __attribute__((weak, visibility("hidden")));
extern constructor __init_array_end[] __attribute__((weak, visibility("hidden")));
static void construct(int count, char** arguments, char** environment) {
  for (constructor* each = __init_array_start; each < __init_array_end; ++each)
    (*each)(count, arguments, environment);
}
int older_start(int (*)(int, char**, char**), int, char**, constructor, void (*)(void), void (*)(void),
                void*);
#ifdef __x86_64__
__asm__(".symver older_start, __libc_start_main@GLIBC_2.2.5");
#else
__asm__(".symver older_start, __libc_start_main@GLIBC_2.17");
#endif
HIDDEN int __libc_start_main(int (*run)(int, char**, char**), int count, char** arguments, constructor before,
                             void (*after)(void), void (*loader_after)(void), void* stack_end) {
  return older_start(run, count, arguments, before ? before : construct, after, loader_after, stack_end);
}

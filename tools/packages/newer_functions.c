/* What libstdc++.a, its headers and libgcc_eh.a of a newer system ask of the C library, for one that lacks it.
 * old_glibc.sh has it linked in. They are hidden: the library that has them here is not to give them to a
 * program. */
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
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

/* glibc 2.35: a faster way to what dl_iterate_phdr() finds, which is asked after a failure. */
HIDDEN int _dl_find_object(void* address, void* result) {
  (void)address, (void)result;
  return -1;
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
 * they wait by the system's clock. Who sets that one forward makes a wait end early, for which callers look at
 * the steady clock again; who sets it back makes it longer. */
HIDDEN int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                                  const struct timespec* until) {
  const struct timespec moment = on_clock(clock, CLOCK_REALTIME, until);
  return pthread_cond_timedwait(condition, mutex, &moment);
}
HIDDEN int pthread_mutex_clocklock(pthread_mutex_t* mutex, clockid_t clock, const struct timespec* until) {
  const struct timespec moment = on_clock(clock, CLOCK_REALTIME, until);
  return pthread_mutex_timedlock(mutex, &moment);
}

/* What libstdc++.a and libgcc_eh.a of a newer system ask of the C library, for one that lacks it. wheel.sh
 * links it in. They are hidden: the library that has them here is not to give them to a program. */
#include <errno.h>
#include <stdint.h>
#include <sys/syscall.h>
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

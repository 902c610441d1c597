#pragma once

#ifdef __linux__
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

// Of the calling thread: larger values come later. 0 where threads of a process have none of their own.
inline int nice_value() {
#ifdef __linux__
  return getpriority(PRIO_PROCESS, static_cast<id_t>(syscall(SYS_gettid)));
#else
  return 0;
#endif
}

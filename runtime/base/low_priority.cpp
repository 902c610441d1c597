#include "base/low_priority.h"

#ifdef __linux__
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

namespace pumice {

void lower_priority() {
#ifdef __linux__
  constexpr int third = 5; // of the usual share: in the end somebody may wait for it on a busy machine
  const auto thread = static_cast<id_t>(::syscall(SYS_gettid));
  (void)::setpriority(PRIO_PROCESS, thread, third); // Linux: of a thread, whatever the name says
#endif
}

} // namespace pumice

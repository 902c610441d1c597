#include "base/low_priority.h"

#include <utility>

#if defined(__linux__)
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>
#elif defined(_WIN32)
#include <windows.h>
#elif defined(__APPLE__)
#include <pthread/qos.h>
#endif

namespace pumice {

namespace {

#ifdef __linux__
constexpr bool threads_inherit = true;
#else
constexpr bool threads_inherit = false;
#endif

thread_local bool lowered = false;

void lower_thread() {
#if defined(__linux__)
  constexpr int third = 5; // of the usual share: in the end somebody may wait for it on a busy machine
  const auto thread = static_cast<id_t>(::syscall(SYS_gettid));
  const int usual = ::getpriority(PRIO_PROCESS, thread); // Linux: of a thread, whatever the name says
  (void)::setpriority(PRIO_PROCESS, thread, usual + third);
#elif defined(_WIN32)
  (void)SetThreadPriority(GetCurrentThread(), THREAD_PRIORITY_BELOW_NORMAL);
#elif defined(__APPLE__)
  (void)pthread_set_qos_class_self_np(QOS_CLASS_UTILITY, 0);
#endif
}

} // namespace

void lower_priority() {
  if (!std::exchange(lowered, true)) lower_thread();
}

std::thread start_thread(std::function<void()> body) {
  return std::thread([low = lowered, work = std::move(body)] {
    if (low && !threads_inherit) lower_thread();
    lowered = low;
    work();
  });
}

} // namespace pumice

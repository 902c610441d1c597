#pragma once

#include <functional>
#include <thread>

namespace pumice {

// From now on, the calling thread goes behind all others, where the system can do that for some of a
// process's threads: for work that nobody waits for.
void lower_priority();

// Starts a thread that does so if the calling one does: some systems give a new thread the usual priority.
// What the body throws ends the program. Throws what std::thread does.
std::thread start_thread(std::function<void()> body);

} // namespace pumice

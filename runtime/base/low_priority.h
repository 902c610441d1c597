#pragma once

namespace pumice {

// From now on, the calling thread and those that it starts go behind all others, where the system can do that
// for some of a process's threads: for work that nobody waits for.
void lower_priority();

} // namespace pumice

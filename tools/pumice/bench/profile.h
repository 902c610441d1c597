#pragma once

#include <functional>

#include "generate/session.h"

namespace pumice::command {

// Runs a step, measures each dispatch with the device's clock, and prints the time of each kernel. `what`: of
// the step, such as "8 tokens". `write` writes it before each of several runs: the sampler of a decoder's
// step leaves the next one, of one token, in its place.
Status print_kernel_times(Runner& runner, uint32_t tokens, const std::string& what,
                          const std::function<Status()>& write);

// The same of a decode step and of a chunk of a prompt. The session loses its tokens.
Status print_profile(Session& session);

} // namespace pumice::command

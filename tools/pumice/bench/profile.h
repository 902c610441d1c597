#pragma once

#include "generate/session.h"

namespace pumice::command {

// Runs the step that was written last, measures each dispatch with the device's clock, and prints the time of
// each kernel. `what`: of the step, such as "8 tokens".
Status print_kernel_times(Runner& runner, uint32_t tokens, const std::string& what);

// The same of a decode step and of a chunk of a prompt. The session loses its tokens.
Status print_profile(Session& session);

} // namespace pumice::command

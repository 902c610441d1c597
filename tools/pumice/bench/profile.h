#pragma once

#include <functional>

#include "bench/report.h"
#include "generate/session.h"

namespace pumice::command {

// Runs a step and measures each dispatch with the device's clock. `step` names it, such as "8 tokens".
// `write` writes it before each of several runs: the sampler of a decoder's step leaves the next one, of one
// token, in its place.
Result<StepProfile> profile_step(Runner& runner, uint32_t tokens, std::string step,
                                 const std::function<Status()>& write);

// Of a decode step and of a chunk of a prompt. The session loses its tokens.
Result<std::vector<StepProfile>> profile_session(Session& session);

} // namespace pumice::command

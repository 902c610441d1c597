#pragma once

#include "generate/session.h"

namespace pumice::command {

// Runs a decode step and a chunk of a prompt, measures each dispatch with the device's clock, and prints the
// time of each kernel. The session loses its tokens.
Status print_profile(Session& session);

} // namespace pumice::command

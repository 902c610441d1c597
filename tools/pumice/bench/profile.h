#pragma once

#include "generate/session.h"

namespace pumice::command {

// Runs a decode step and a prompt's chunk dispatch by dispatch, timed by the device, and prints what each
// kernel takes. The session's tokens are lost.
Status print_profile(Session& session);

} // namespace pumice::command

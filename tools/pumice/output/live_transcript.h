#pragma once

#include "input/sound_input.h"
#include "speech/transcription.h"

namespace pumice::command {

// Prints what is spoken in raw samples while they arrive, until they end: a line for what lies between two
// pauses, whose words appear as soon as they are certain; or a JSON object.
Status print_live(Transcriber& transcriber, SoundInput& input, bool json);

} // namespace pumice::command

#pragma once

#include "help/other_programs/other_programs.h"

namespace pumice::command {

// What several options, or an option and a command, say.
inline constexpr std::string_view driver_threads = "the device's driver chooses how many threads it takes";
inline constexpr std::string_view no_download =
    "models are not downloaded: fetch the file or folder first, then give its path";

// The parts of other_options(), in its order.
std::span<const OtherOption> llama_text_options();
std::span<const OtherOption> llama_device_options();
std::span<const OtherOption> llama_tools_options();
std::span<const OtherOption> whisper_options();

} // namespace pumice::command

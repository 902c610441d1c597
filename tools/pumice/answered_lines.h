#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

// Which lines of the input are answered, in a file (--resume): a later run goes on after them. There is one
// such file in a process at most.
namespace pumice::command {

// Opens the file, or makes it. `path` empty: nothing is kept.
Status keep_answered(const std::string& path);
// The last line that earlier runs have answered, with all before it; 0: none.
uint64_t answered_before();
// Tells of a line that is read. An error if it is the last one that was answered, and another text than then.
Status note_read(uint64_t number, const std::string& text);
// Tells that a line and all before it are answered.
Status note_answered(uint64_t number);

} // namespace pumice::command

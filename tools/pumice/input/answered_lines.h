#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "base/result.h"

// Which lines of the input are answered, and what other lines have come to, in a file (--resume): a later run
// goes on after them. There is one such file in a process at most.
namespace pumice::command {

// What lines without an answer have come to, by their numbers, each as one line of text.
using UnfinishedLines = std::map<uint64_t, std::string>;

// At the end of a run: there is no such file any more.
void forget_answered();
// Opens the file, or makes it. `path` empty: nothing is kept.
Status keep_answered(const std::string& path);
// The last line that earlier runs have answered, with all before it; 0: none.
uint64_t answered_before();
// What was kept of a line that is not answered; empty: nothing.
std::string unfinished_before(uint64_t number);
// Tells of a line that is read. An error if it is the last one that was answered, and another text than then.
Status note_read(uint64_t number, const std::string& text);
// Tells that a line and all before it are answered.
Status note_answered(uint64_t number);
// Keeps this of lines, each in place of what was kept of it before. What is kept of other lines that are not
// answered stays. Writes the file again, which takes its place when it is whole.
Status note_unfinished(const UnfinishedLines& lines);

} // namespace pumice::command

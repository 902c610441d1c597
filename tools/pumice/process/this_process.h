#pragma once

#include <string>

// What the operating system says of this process.
namespace pumice::command {

// Its path, to start it again; "pumice" where that is not known.
std::string this_program();
// The command line, with spaces between the words. Empty where it is not known.
std::string command_line();
// Seconds since the process was started, which Linux rounds to 10 ms; since the first call where that is not
// known.
double process_age();

} // namespace pumice::command

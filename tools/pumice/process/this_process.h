#pragma once

#include <string>

// What the operating system says of this process.
namespace pumice::command {

// Its path, or what use_program() named; "pumice" where that is not known.
std::string this_program();
// The same, to start it again: also where its file was replaced or removed meanwhile.
std::string program_to_start();
// From now on, the program that both name. Empty: this process's own.
void use_program(const std::string& path);
// The command line, with spaces between the words. Empty where it is not known.
std::string command_line();
// Seconds since the process was started, which Linux rounds to 10 ms; since the first call where that is not
// known.
double process_age();

} // namespace pumice::command

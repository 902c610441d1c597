#pragma once

#include <cstddef>
#include <string>

// Open files by number, which Windows has under other names than POSIX.
namespace pumice::command {

inline constexpr int standard_input = 0, standard_output = 1, standard_error = 2;

// Makes closed streams and full disks errors instead of signals, and opens the standard streams that the
// parent process has closed, so that no file takes their place. On Windows it also makes them carry bytes and
// UTF-8, as they do elsewhere. Call it first.
void prepare_standard_streams();

bool is_terminal(int file);
// Whether it is a terminal whose cursor moves and whose lines can be erased: not where TERM is "dumb".
bool moves_cursor(int file);
// Whether it is one that gets escapes for more than editing a line: not where NO_COLOR is set.
bool shows_styles(int file);
unsigned columns_of(int file); // of a terminal; 0: unknown
// Whether it is a pipe or a file, rather than a terminal or the device that stands for nothing.
bool has_contents(int file);

// These return -1 and set errno, as open(), read() and write() of POSIX do.
int open_to_read(const std::string& path);
ptrdiff_t read_some(int file, char* bytes, size_t count);
ptrdiff_t write_some(int file, const char* bytes, size_t count);
void close_file(int file);

// Waits until something can be read, the file has ended, or a signal has come. Returns whether reading would
// not wait. `milliseconds`: the longest wait; -1: any.
bool wait_to_read(int file, int milliseconds);

} // namespace pumice::command

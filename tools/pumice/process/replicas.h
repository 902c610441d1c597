#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "input/answered_lines.h"
#include "input/waiting_lines.h"
#include "stage/processes.h"

// Several copies of a model (--replicas), each in one process of those that mpirun started or in stages over
// several. They divide the lines of one command: process 0 reads them, hands them out to the copies as they
// ask for more, and prints the results in the order of the lines.
namespace pumice::command {

// Whether this process has the last stage of one of several copies.
bool is_replica();

// Opens the links between the copies: process 0 to the last stage of each. Copy `i` has the processes from
// `i` times `stages` on.
Status begin_replicas(Processes& world, uint32_t replicas, uint32_t stages);
// At the end of the command, with what came of it here. In process 0: waits for the copies, prints the rest,
// and returns the error of the first line without a result, if any. In the others: tells process 0.
Status end_replicas(const Status& status);
// Closes the links.
void forget_replicas();

// A line for one of the copies, or with the result that it has already: none gets it then.
struct DealtLine {
  Line line;
  std::optional<std::string> result;
};

// Reads lines as WaitingLines::next() does without waiting, and whether there may be more.
struct LineReader {
  std::function<Result<std::vector<DealtLine>>(size_t most)> next;
  std::function<bool()> ended;
};
// The lines of this copy, as WaitingLines::next() has it. `reader` is used in process 0, until
// stop_reading().
Result<std::vector<Line>> next_dealt(const LineReader& reader, size_t most, bool wait);
bool all_dealt(); // to this copy
void stop_reading();

// Tells that a line is answered (answered_lines.h). Of several copies: what was printed since the last call,
// or since the beginning, is its answer.
Status end_line(uint64_t number);
// Keeps what lines without an answer have come to (answered_lines.h), in the file of process 0.
Status keep_unfinished(const UnfinishedLines& lines);

} // namespace pumice::command

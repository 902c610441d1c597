#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "input/waiting_lines.h"
#include "stage/hop.h"

// What the copies of a model tell each other (replicas.h). Messages of any length, over hops that have room
// for small ones.
namespace pumice::command {

struct LineMessage {
  enum class Kind : uint32_t {
    want,   // to process 0: at most so many lines; with `flag`, at least one unless there are no more
    lines,  // the answer; with `flag`, there will be no more
    result, // to process 0: of the line `number`: `text`
    kept,   // to process 0: what `lines` have come to
    end,    // to process 0: the copy has ended; with `flag`, by an error: its code, and `text`
  };
  Kind kind = Kind::end;
  bool flag = false;
  uint64_t number = 0;
  std::string text;
  std::vector<Line> lines;
};

Status send_line_message(Hop& hop, const LineMessage& message);
Result<LineMessage> receive_line_message(Hop& hop);

} // namespace pumice::command

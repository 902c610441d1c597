#pragma once

#include <string_view>
#include <vector>

#include "text/chat/chat_answer.h"

namespace pumice::command {

// Prints the parts of an answer as they come, without the white space before it. Thinking is dimmed at a
// terminal. Where it is hidden, a line on standard error at least says that there is some.
class AnswerPrinter {
public:
  explicit AnswerPrinter(bool shows_thinking) : shows_thinking_(shows_thinking) {}

  void print(const std::vector<AnswerPart>& parts);
  // Ends the line.
  void finish();

private:
  void show(bool thinks, std::string_view text);
  void fold();
  void dim(bool wanted);

  bool shows_thinking_, begun_ = false, thought_ = false, dim_ = false, folded_ = false;
};

// Prints thinking that was hidden before.
void print_thinking(std::string_view thinking);

} // namespace pumice::command

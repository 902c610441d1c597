#include "chat/answer_printer.h"

#include <algorithm>
#include <string>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "terminal/terminal.h"

namespace pumice::command {

namespace {

size_t leading_white_space(std::string_view text) {
  return std::min(text.find_first_not_of(" \t\r\n"), text.size());
}

} // namespace

void AnswerPrinter::print(const std::vector<AnswerPart>& parts) {
  for (const AnswerPart& part : parts) {
    if (part.kind == AnswerPart::Kind::tool_call) {
      show(false, fmt::format("\n{}({})\n", part.call.name, part.call.arguments.dump()));
    } else {
      show(part.kind == AnswerPart::Kind::thinking, part.text);
    }
  }
}

void AnswerPrinter::finish() {
  dim(false);
  print_result("\n");
}

void AnswerPrinter::show(bool thinks, std::string_view text) {
  if (thinks && !shows_thinking_) {
    fold();
    return;
  }
  if (thinks != thought_) begun_ = false;
  if (!begun_) {
    text.remove_prefix(leading_white_space(text));
    if (text.empty()) return;
    if (thought_ && !thinks) print_result("\n\n");
    begun_ = true;
    thought_ = thinks;
  }
  dim(thinks);
  print_result(text);
}

void AnswerPrinter::fold() {
  if (std::exchange(folded_, true) || !stdout_is_terminal() || !stderr_is_terminal()) return;
  print_figures("(thinking)\n");
}

void AnswerPrinter::dim(bool wanted) {
  if (wanted != dim_ && stdout_shows_styles()) print_result(wanted ? "\033[2m" : "\033[0m");
  dim_ = wanted;
}

void print_thinking(std::string_view thinking) {
  AnswerPrinter printer(true);
  printer.print({AnswerPart{AnswerPart::Kind::thinking, std::string(thinking), {}}});
  printer.finish();
}

} // namespace pumice::command

#include "input/waiting_lines.h"

#include <utility>

#include <fmt/format.h>

#include "input/answered_lines.h"
#include "options/option_text.h"
#include "options/prompt.h"
#include "process/replicas.h"
#include "task/translation/document.h"
#include "terminal/terminal.h"

namespace pumice::command {

void add_text_options(CLI::App& app, TextOptions& options, const char* name, const std::string& help) {
  CLI::Option* texts = app.add_option(name, options.texts, help)->type_name("");
  app.add_option("-f,--file", options.file, "Read the texts from this file, a text on each line")
      ->type_name("FILE")
      ->group("Text")
      ->excludes(texts);
  app.add_flag("--skip-bad-lines", options.skip_bad,
               "Leave out lines that are not UTF-8 or that the model cannot read, with a note for each. "
               "Without it, "
               "such a line is an error, the others are answered, and the exit status is 1")
      ->group(more_of("Text"));
}

void add_resume_option(CLI::App& app, std::string& resume) {
  app.add_option("--resume", resume,
                 "Keep in this file which lines are answered. If it exists, go on after them: what an "
                 "earlier run has printed is not printed again. Of requests, it also keeps the texts that "
                 "are not complete")
      ->type_name("FILE")
      ->group(more_of("Output"));
}

std::string WaitingLines::name(const Line& line) const {
  return given_ ? fmt::format("TEXT {}", line.number)
                : fmt::format("{}: {} {}", input_.name(), paragraphs_ ? "paragraph" : "line", line.number);
}

// Returns what stands in the place of its answer.
std::string WaitingLines::tell(const Line& line, const Error& error) const {
  if (skip_bad_) {
    print_note(error.text() + ": left out");
    return {};
  }
  print_part_error(error.text());
  return error_row_ ? error_row_(line, error) : std::string();
}

Status WaitingLines::reject(const Line& line, const Error& error) const {
  if (const std::string row = tell(line, error); !row.empty()) print_result(row);
  return end_line(line.number);
}

// The complete line that begins at this byte of what has arrived, or at the end of the input the last one.
// Goes on to the next one.
std::optional<std::string> WaitingLines::line_at(size_t& at) const {
  const size_t end = unread_.find('\n', at);
  if (end == std::string::npos && (!input_.ended() || at == unread_.size())) return std::nullopt;
  const size_t next = end == std::string::npos ? unread_.size() : end + 1;
  std::string line = without_marks(unread_.substr(at, next - at));
  at = next;
  return line;
}

// Takes the next text: a line, or a paragraph.
bool WaitingLines::take(std::string& text) {
  if (given_) {
    if (count_ == texts_.size()) return false;
    text = texts_[count_];
    return true;
  }
  size_t at = taken_;
  std::optional<std::string> line = line_at(at);
  if (!line) return false;
  text = *std::move(line);
  if (paragraphs_ && !is_blank(text)) {
    for (;;) {
      const size_t next = at;
      line = line_at(at);
      if (!line && !input_.ended()) return false; // the paragraph may go on
      if (!line || is_blank(*line)) {
        at = next;
        break;
      }
      append_line(text, *line);
    }
  }
  taken_ = at;
  return true;
}

Status WaitingLines::read(bool wait) {
  if (!announced_ && input_.is_terminal()) {
    print_note("waiting for lines, each of which is answered; Ctrl-D on an empty line ends");
    announced_ = true;
  }
  unread_.erase(0, std::exchange(taken_, 0));
  PUMICE_TRY(const bool some, input_.read(unread_, wait));
  dry_ = !some;
  return {};
}

WaitingLines::~WaitingLines() {
  stop_reading();
}

bool WaitingLines::ended() const {
  return is_replica() ? all_dealt() : all_read();
}

Result<std::vector<Line>> WaitingLines::next(size_t most, bool wait) {
  if (!is_replica()) return read_lines(most, wait);
  const auto read = [this](size_t count) -> Result<std::vector<DealtLine>> {
    PUMICE_TRY(std::vector<Line> lines, read_lines(count, false));
    std::vector<DealtLine> dealt;
    for (Line& line : lines) {
      std::optional<std::string> result;
      if (line.error) result = tell(line, *line.error);
      dealt.push_back({std::move(line), std::move(result)});
    }
    return dealt;
  };
  return next_dealt({read, [this] { return all_read(); }}, most, wait);
}

// Whether the line is used; an error if it cannot be.
Result<bool> WaitingLines::use(Line& line) const {
  if (line.number <= answered_before()) {
    if (prepare_) (void)prepare_(line);
    return false;
  }
  PUMICE_CHECK(check_utf8(line.text, name(line)));
  return is_replica() && prepare_ ? prepare_(line) : Result<bool>(true);
}

bool WaitingLines::all_read() const {
  return given_ ? count_ == texts_.size() : input_.ended() && taken_ == unread_.size();
}

Result<std::vector<Line>> WaitingLines::read_lines(size_t most, bool wait) {
  PUMICE_CHECK(keep_answered(resume_));
  std::vector<Line> lines;
  dry_ = false;
  while (lines.size() < most) {
    Line line;
    if (take(line.text)) {
      line.number = ++count_;
      PUMICE_CHECK(note_read(line.number, line.text));
      const Result<bool> used = use(line);
      if (used.ok() && !*used) continue;
      if (used.ok()) {
        line.kept = unfinished_before(line.number);
      } else {
        line.error = used.error();
      }
      lines.push_back(std::move(line));
    } else if (given_ || input_.ended() || (dry_ && !(wait && lines.empty()))) {
      break;
    } else {
      const Status status = read(wait && lines.empty());
      if (!status.ok() && lines.empty()) return status.error();
      if (!status.ok()) break; // it comes again with the next lines
    }
  }
  return lines;
}

} // namespace pumice::command

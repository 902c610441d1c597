#include "terminal/line_editor.h"

#include <algorithm>

#include "terminal/descriptor.h"
#include "terminal/interrupt.h"
#include "terminal/terminal.h"

#ifdef PUMICE_LIBEDIT
#include <climits>
#include <clocale>
#include <cstdlib>
#include <cstring>

#include <cwchar>

#include <histedit.h>
#include <langinfo.h>

#include "base/path.h"
#endif

namespace pumice::command {

namespace {

TypedLine::End end_of_input(const StoppableReading& reading) {
  if (reading.stopped()) return TypedLine::End::ctrl_c;
  return TypedLine::End::ctrl_d;
}

} // namespace

TypedLine LineEditor::read_plain(const std::string& prompt) {
  const StoppableReading reading;
  print_to_stderr(prompt);
  while (unread_.find('\n') == std::string::npos && !input_.ended() && input_.read(unread_, true).ok()) {
  }
  const size_t end = std::min(unread_.find('\n'), unread_.size());
  if (interrupted() || (end == unread_.size() && (!input_.ended() || unread_.empty())))
    return {end_of_input(reading), {}};
  TypedLine line{TypedLine::End::enter, unread_.substr(0, end)};
  unread_.erase(0, end + 1);
  return line;
}

#ifdef PUMICE_LIBEDIT

namespace {

constexpr int kept_lines = 1000;

// libedit takes characters as the locale has them, and all texts here are UTF-8.
bool use_utf8_characters() {
  std::setlocale(LC_CTYPE, "");
  if (std::strcmp(nl_langinfo(CODESET), "UTF-8") == 0) return true;
  return std::setlocale(LC_CTYPE, "C.UTF-8") != nullptr;
}

} // namespace

struct LineEditor::Editing {
  EditLine* line = nullptr;
  History* history = nullptr;
  std::filesystem::path file; // of the history
  std::string prompt, inserted;
  Complete complete;

  static Editing& of(EditLine* line) {
    void* data = nullptr;
    el_get(line, EL_CLIENTDATA, &data);
    return *static_cast<Editing*>(data);
  }
  static char* prompt_of(EditLine* line) { return of(line).prompt.data(); }
  static unsigned char insert_text(EditLine* line, int) {
    el_insertstr(line, of(line).inserted.c_str());
    return CC_REFRESH;
  }

  // What the terminal sends between the marks of a paste, whatever it would do if it was typed.
  static unsigned char insert_pasted(EditLine* line, int) {
    std::string text;
    wchar_t character = 0;
    while (!text.ends_with(paste_end) && el_wgetc(line, &character) == 1) {
      char bytes[MB_LEN_MAX];
      std::mbstate_t state = {};
      const size_t count = std::wcrtomb(bytes, character == L'\r' ? L'\n' : character, &state);
      if (count != static_cast<size_t>(-1)) text.append(bytes, count);
    }
    if (text.ends_with(paste_end)) text.resize(text.size() - paste_end.size());
    el_insertstr(line, text.c_str());
    return CC_REFRESH;
  }

  // Adds what all that may follow have in common; shows them where that is nothing.
  static unsigned char complete_word(EditLine* line, int) {
    const LineInfo* typed = el_line(line);
    const std::string_view before(typed->buffer, static_cast<size_t>(typed->cursor - typed->buffer));
    const Complete& complete = of(line).complete;
    const std::vector<std::string> all = complete ? complete(before) : std::vector<std::string>();
    std::string common = all.empty() ? "\t" : all[0];
    for (const std::string& each : all) common.erase(std::ranges::mismatch(common, each).in1, common.end());
    while (!common.empty() && (common.back() & 0x80)) common.pop_back(); // no part of a character
    if (!common.empty()) {
      el_insertstr(line, common.c_str());
      return CC_REFRESH;
    }
    const std::string word(before.substr(before.find_last_of(" /") + 1));
    std::string shown = "\n";
    for (const std::string& each : all) shown += word + each + "  ";
    print_to_stderr(shown + "\n");
    return CC_REDISPLAY;
  }

  ~Editing() {
    if (line) el_end(line);
    if (history) history_end(history);
  }

  bool begin() {
    line = el_init("pumice", stdin, stderr, stderr);
    history = history_init();
    if (!line || !history) return false;
    HistEvent event;
    ::history(history, &event, H_SETSIZE, kept_lines);
    ::history(history, &event, H_SETUNIQUE, 1);
    if (!file.empty()) ::history(history, &event, H_LOAD, file.c_str()); // none at first
    el_set(line, EL_CLIENTDATA, this);
    el_set(line, EL_PROMPT, prompt_of);
    el_set(line, EL_HIST, ::history, history);
    el_set(line, EL_EDITOR, "emacs");
    el_set(line, EL_BIND, "^R", "em-inc-search-prev", nullptr);
    // Ctrl-D that was typed before the line began arrives as a zero.
    el_set(line, EL_BIND, "^@", "em-delete-or-list", nullptr);
    el_set(line, EL_ADDFN, "insert-given", "Insert the text to be changed", insert_text);
    el_set(line, EL_ADDFN, "insert-pasted", "Insert what is pasted", insert_pasted);
    el_set(line, EL_ADDFN, "complete-word", "Complete a command or a file's name", complete_word);
    el_set(line, EL_BIND, "^I", "complete-word", nullptr);
    el_source(line, nullptr);
    el_set(line, EL_BIND, insert_key, "insert-given", nullptr);
    el_set(line, EL_BIND, paste_begin, "insert-pasted", nullptr);
    return true;
  }

  // What a key stands for is put into the line as it is, whatever its characters do when they are typed.
  static constexpr const char* insert_key = "\x18p"; // Ctrl-X and p
  // A terminal that is asked to marks what is pasted.
  static constexpr const char *paste_begin = "\033[200~", *mark_pastes = "\033[?2004h",
                              *mark_no_pastes = "\033[?2004l";
  static constexpr std::string_view paste_end = "\033[201~";

  TypedLine read() {
    const StoppableReading reading;
    el_resize(line);
    if (!inserted.empty()) el_push(line, insert_key);
    int length = 0;
    print_to_stderr(mark_pastes);
    const char* text = el_gets(line, &length);
    print_to_stderr(mark_no_pastes);
    const LineInfo* typed = el_line(line);
    if (reading.stopped() || interrupted()) {
      const bool empty = !typed || typed->lastchar == typed->buffer;
      print_to_stderr("\n");
      if (!reading.stopped()) return {};
      return {empty ? TypedLine::End::ctrl_c : TypedLine::End::dropped, {}};
    }
    if (!text || length <= 0) {
      print_to_stderr("\n");
      return {};
    }
    TypedLine result{TypedLine::End::enter, std::string(text, static_cast<size_t>(length))};
    if (result.text.ends_with('\n')) result.text.pop_back();
    return result;
  }
};

LineEditor::LineEditor(std::filesystem::path history, Complete complete) {
  if (!moves_cursor(input_file()) || !stderr_is_terminal()) return;
  if (!use_utf8_characters()) return;
  auto editing = std::make_unique<Editing>();
  editing->file = std::move(history);
  editing->complete = std::move(complete);
  if (editing->begin()) editing_ = std::move(editing);
}

TypedLine LineEditor::read(const std::string& prompt, const std::string& text) {
  if (!editing_) return read_plain(prompt);
  editing_->prompt = prompt;
  editing_->inserted = text;
  return editing_->read();
}

void LineEditor::remember(const std::string& text) {
  if (!editing_ || text.empty()) return;
  HistEvent event;
  history(editing_->history, &event, H_ENTER, text.c_str());
  // Now: a command that a signal ends keeps it as well. A history that cannot be written is no reason to end.
  if (!editing_->file.empty()) history(editing_->history, &event, H_SAVE, editing_->file.c_str());
}

#else

struct LineEditor::Editing {};

LineEditor::LineEditor(std::filesystem::path, Complete) {}

TypedLine LineEditor::read(const std::string& prompt, const std::string&) {
  return read_plain(prompt);
}

void LineEditor::remember(const std::string&) {}

#endif

LineEditor::~LineEditor() = default;

} // namespace pumice::command

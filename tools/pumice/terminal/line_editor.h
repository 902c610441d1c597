#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "input/input_stream.h"

namespace pumice::command {

// What a person typed.
struct TypedLine {
  enum class End {
    enter,
    dropped, // Ctrl-C, after something was typed
    ctrl_c,  // Ctrl-C on an empty line, or where lines are read without editing
    ctrl_d,  // on an empty line, or the input has ended
  };
  End end = End::ctrl_d;
  std::string text; // without the newline; only with `enter`
};

// Reads lines from the terminal, with editing and a history of earlier ones where the command was built with
// libedit (a person's .editrc is read), else as the terminal gives them. What is pasted into a line, with
// newlines in it, is a part of it. Prompts go to standard error.
class LineEditor {
public:
  // What may follow the text before the cursor, for the Tab key, which is itself where nothing may.
  using Complete = std::function<std::vector<std::string>(std::string_view before)>;
  // `history`: the file that keeps the lines between runs; empty: none does.
  explicit LineEditor(std::filesystem::path history, Complete complete = {});
  ~LineEditor();
  LineEditor(const LineEditor&) = delete;
  LineEditor& operator=(const LineEditor&) = delete;

  // `given` is put into the line, to be changed. Ctrl-C ends the line and not the command.
  TypedLine read(const std::string& prompt, const std::string& text = {});
  // Adds to the history what was typed, which may have several lines.
  void remember(const std::string& text);
  // Whether lines can be edited, so that read() has a use for `given`.
  bool edits() const { return editing_ != nullptr; }

private:
  struct Editing;
  TypedLine read_plain(const std::string& prompt);

  std::unique_ptr<Editing> editing_; // null: lines are read as they come
  InputStream input_{"-"};           // then
  std::string unread_;               // that has arrived
};

} // namespace pumice::command

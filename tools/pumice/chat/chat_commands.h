#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "chat/conversation.h"
#include "output/output_files.h"
#include "terminal/line_editor.h"

namespace pumice::command {

// The commands of a conversation at a terminal, such as /reset.
class ChatCommands {
public:
  // `reads`: files that no command may write.
  ChatCommands(Conversation& conversation, Conversation::AskToForget forget, std::vector<NamedFile> reads)
      : conversation_(conversation), forget_(std::move(forget)), reads_(std::move(reads)) {}

  static bool is_command(const std::string& line) { return line.starts_with('/'); }

  enum class Then {
    prompt,  // the next line is read
    figures, // there is a new answer
    end,
  };
  Result<Then> run(const std::string& line);
  // What the next line begins with.
  std::string take_given() { return std::exchange(given_, {}); }
  // What the next question begins with.
  std::string take_read() { return std::exchange(read_, {}); }
  // What may follow a line that begins a command: the rest of its name, or of a file's.
  static std::vector<std::string> completions(std::string_view before);

private:
  struct Command;
  static const std::vector<Command>& all();
  static Error unknown(const std::string& name);
  std::string help() const;
  Status set(const std::string& text);
  Status show_thinking(const std::string& how);
  Status save(const std::string& file);
  Status load(const std::string& file);
  Status show(const std::string& picture);
  Status play(const std::string& sound);
  Status read(const std::string& file);

  Conversation& conversation_;
  Conversation::AskToForget forget_;
  std::vector<NamedFile> reads_;
  std::vector<std::filesystem::path> saved_; // by this command, which may write them again
  std::string given_, read_;
};

// Adds the options of `pumice chat` that /set can change.
void add_chat_settings(CLI::App& app, ChatSettings& settings);

} // namespace pumice::command

#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "support/files/speech_folder.h"
#include "support/files/temporary_folder.h"
#include "support/files/whisper_folder.h"

// A command line that works of each subcommand, with small models of its own, for tests of what all of them
// have in common.
class EveryCommand {
public:
  struct Command {
    std::vector<std::string> arguments;
    std::vector<std::string> outputs; // options that name a file to write; "": an argument without an option
    std::vector<std::string> reads;   // some of the files that it reads
    bool needs_output = false;        // the first of `outputs` has to be given

    // With a file to write.
    std::vector<std::string> writing(const std::string& option, const std::string& file) const;
    // With all that it needs. `file` is written if it has to be.
    std::vector<std::string> complete(const std::string& file) const;
    std::string name() const;
  };

  EveryCommand();
  const std::vector<Command>& commands() const { return commands_; }
  // Lines that those commands read that read standard input.
  std::string input() const { return file("lines.txt"); }
  std::string file(const std::string& name) const { return (folder_.path() / name).string(); }

private:
  void write_files() const;

  TemporaryFolder folder_;
  WhisperFolder speech_;
  SpeechFolder talker_;
  std::vector<Command> commands_;
};

// Every file that a subcommand writes: what is in its way stays as it was, and is named before the work
// begins.
#include <doctest/doctest.h>

#include <fstream>
#include <iterator>
#include <thread>

#include <sys/stat.h>

#include "support/command/command.h"
#include "support/command/every_command.h"

namespace {

namespace fs = std::filesystem;

std::string contents(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

// Calls check(command, option) for each file that a subcommand writes.
template <class Check>
void for_each_output(const EveryCommand& every, const Check& check) {
  size_t outputs = 0;
  for (const EveryCommand::Command& command : every.commands()) {
    for (const std::string& option : command.outputs) {
      CAPTURE(command.name());
      CAPTURE(option);
      check(command, option);
      ++outputs;
    }
  }
  CHECK(outputs >= 9);
}

// A command that has begun its work names the device.
bool has_begun(const CommandResult& result) {
  return result.err.find("CPU device") != std::string::npos || !result.out.empty();
}

} // namespace

TEST_CASE("no subcommand overwrites a file that it reads") {
  const EveryCommand every;
  size_t checked = 0;
  for (const EveryCommand::Command& command : every.commands()) {
    for (const std::string& option : command.outputs) {
      for (const std::string& input : command.reads) {
        CAPTURE(command.name());
        const std::string before = contents(input), link = every.file("link.png"),
                          hard = every.file("hard.png");
        fs::create_symlink(input, link);
        fs::create_hard_link(input, hard);
        for (const std::string& path : {input, link, hard}) {
          CAPTURE(path);
          const CommandResult result = pumice_command(command.writing(option, path));
          CHECK(fails_saying(result, {path, option}) == "");
          CHECK(!has_begun(result));
          CHECK(contents(input) == before);
          ++checked;
        }
        fs::remove(link);
        fs::remove(hard);
      }
    }
  }
  CHECK(checked >= 21);
}

TEST_CASE("a file that cannot be written is named before the work begins") {
  const EveryCommand every;
  const fs::path folder = every.file("folder");
  fs::create_directory(folder);
  const fs::path kept = folder / "kept.png";
  std::ofstream(kept) << "kept";
  REQUIRE(::chmod(kept.c_str(), 0444) == 0);
  for_each_output(every, [&](const EveryCommand::Command& command, const std::string& option) {
    for (const std::string& path :
         {std::string("/nonexistent/x.png"), every.file("no/x.png"), folder.string(), kept.string()}) {
      const CommandResult result = pumice_command(command.writing(option, path));
      CHECK(fails_saying(result, {path, "cannot be written"}) == "");
      CHECK(!has_begun(result));
    }
  });
  CHECK(contents(kept) == "kept");
  CHECK(std::distance(fs::directory_iterator(folder), {}) == 1);
}

TEST_CASE("links, pipes and devices that a subcommand writes to stay what they are") {
  const EveryCommand every;
  for_each_output(every, [&](const EveryCommand::Command& command, const std::string& option) {
    const TemporaryFolder folder;
    const std::string end = option == "--attention" ? ".png" : "";
    const fs::path file = folder.path() / ("file" + end), link = folder.path() / ("link" + end);
    fs::create_symlink(file.filename(), link);
    CommandResult result = pumice_command(command.writing(option, link.string()));
    CAPTURE(result.err);
    CHECK(result.status == 0);
    CHECK(fs::is_symlink(link));
    REQUIRE(fs::is_regular_file(file));
    CHECK(fs::file_size(file) > 0);

    if (option == "--session") return; // is read first, which needs a regular file
    const fs::path pipe = folder.path() / ("pipe" + end);
    REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
    std::string read;
    std::thread reader([&] { read = contents(pipe); });
    result = pumice_command(command.writing(option, pipe.string()));
    if (result.status != 0) std::ofstream(pipe) << "failed"; // lets the reader go
    reader.join();
    CHECK(result.status == 0);
    CHECK(fs::is_fifo(pipe));
    CHECK(read.size() > 8);

    // A link, so that nothing could happen to the device of the system.
    const fs::path full = folder.path() / ("full" + end);
    fs::create_symlink("/dev/full", full);
    result = pumice_command(command.writing(option, full.string()));
    CHECK(result.status == 1);
    CHECK(result.err.find("No space left") != std::string::npos);
    CHECK(fs::is_symlink(full));
    CHECK(fs::is_character_file(full));
    CHECK(std::distance(fs::directory_iterator(folder.path()), {}) == 4);
  });
}

// Every subcommand with standard streams that are closed, full or gone: it ends with a status, never by a
// signal.
#include <doctest/doctest.h>

#include <fstream>
#include <iterator>

#include "support/command/command_process.h"
#include "support/command/every_command.h"

namespace {

std::string contents(const std::string& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

// Runs a command with one stream as `change` makes it. The others are files.
struct Outcome {
  int status = 0;
  std::string out, err;
};
Outcome run(const EveryCommand& every, const std::vector<std::string>& arguments,
            const std::function<void()>& change) {
  const std::string in = every.input(), out = every.file("out"), err = every.file("err");
  CommandProcess process(arguments, [&] {
    redirect(0, in.c_str(), O_RDONLY);
    redirect(1, out.c_str(), O_WRONLY | O_CREAT | O_TRUNC);
    redirect(2, err.c_str(), O_WRONLY | O_CREAT | O_TRUNC);
    change();
  });
  const int status = process.wait();
  return {status, contents(out), contents(err)};
}

bool prints(const EveryCommand::Command& command) {
  return !command.needs_output || command.name() == "convert";
}

// What is done to the standard streams, and whether results are lost by it.
struct Change {
  const char* what;
  std::function<void()> apply;
  bool loses_results = false;
};

void check_every_command(const std::vector<Change>& changes) {
  const EveryCommand every;
  const std::string file = every.file("written");
  for (const EveryCommand::Command& command : every.commands()) {
    for (const Change& change : changes) {
      CAPTURE(command.name());
      CAPTURE(change.what);
      const Outcome outcome = run(every, command.complete(file), change.apply);
      CAPTURE(outcome.err);
      const bool lost = change.loses_results && prints(command);
      CHECK(outcome.status == (lost ? 1 : 0));
      CHECK((outcome.err.find("standard output: it could not be written") != std::string::npos) == lost);
      CHECK(outcome.out.empty() == (lost || !prints(command)));
    }
  }
}

} // namespace

TEST_CASE("every subcommand says that standard output is full") {
  check_every_command({{"standard output is full", [] { redirect(1, "/dev/full", O_WRONLY); }, true}});
}

TEST_CASE("every subcommand with all streams, with one that is closed or full, and with two" *
          doctest::test_suite("long")) {
  check_every_command({{"nothing", [] {}},
                       {"standard error is closed", [] { ::close(2); }},
                       {"standard output is closed", [] { ::close(1); }, true},
                       {"standard error is full", [] { redirect(2, "/dev/full", O_WRONLY); }},
                       {"standard input is closed", [] { ::close(0); }},
                       {"standard input and error are closed", [] {
                          for (const int stream : {0, 2}) ::close(stream);
                        }}});
}

TEST_CASE("a reader that ends early ends the command quietly, and one of standard error does not") {
  const EveryCommand every;
  for (const int stream : {1, 2}) {
    int ends[2];
    REQUIRE(::pipe(ends) == 0);
    ::close(ends[0]);
    const Outcome outcome = run(every, every.commands()[0].arguments, [&] { ::dup2(ends[1], stream); });
    ::close(ends[1]);
    CHECK(outcome.status == (stream == 1 ? 141 : 0));
    CHECK(outcome.err.find("standard output") == std::string::npos);
    CHECK(outcome.out.empty() == (stream == 1));
  }
}

TEST_CASE("help and errors say where they could not be printed") {
  const EveryCommand every;
  CHECK(run(every, {"--help"}, [] { redirect(1, "/dev/full", O_WRONLY); }).status == 1);
  CHECK(run(every, {"run", "--help"}, [] { ::close(1); }).status == 1);
  CHECK(run(every, {"--version"}, [] { redirect(1, "/dev/full", O_WRONLY); }).status == 1);
  for (int streams = 1; streams < 8; ++streams) {
    const Outcome outcome = run(every, {"run", "/nonexistent/model.gguf", "x"}, [&] {
      for (int stream = 0; stream < 3; ++stream) {
        if (streams & (1 << stream)) ::close(stream);
      }
    });
    CHECK(outcome.status == 1);
  }
}

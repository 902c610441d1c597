// Every subcommand with standard streams that are closed, full or gone: it ends with a status, never by a
// signal.
#include <doctest/doctest.h>

#include <fstream>
#include <iterator>

#include "support/command_process.h"
#include "support/every_command.h"

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

} // namespace

TEST_CASE("every subcommand works, and says where standard output is full or closed") {
  const EveryCommand every;
  const std::string file = every.file("written");
  for (const EveryCommand::Command& command : every.commands()) {
    CAPTURE(command.name());
    const std::vector<std::string> arguments = command.complete(file);
    const Outcome good = run(every, arguments, [] {});
    CAPTURE(good.err);
    CHECK(good.status == 0);
    CHECK(good.out.empty() == !prints(command));
    for (const bool closed : {false, true}) {
      CAPTURE(closed);
      const Outcome lost =
          run(every, arguments, [&] { closed ? void(::close(1)) : redirect(1, "/dev/full", O_WRONLY); });
      CAPTURE(lost.err);
      CHECK(lost.status == (prints(command) ? 1 : 0));
      CHECK((lost.err.find("standard output: it could not be written") != std::string::npos) ==
            prints(command));
    }
  }
}

TEST_CASE("no subcommand needs a standard error or a standard input") {
  const EveryCommand every;
  const std::string file = every.file("written");
  const std::function<void()> changes[] = {[] { ::close(2); }, [] { redirect(2, "/dev/full", O_WRONLY); },
                                           [] {
                                             for (const int stream : {0, 2}) ::close(stream);
                                           }};
  for (const EveryCommand::Command& command : every.commands()) {
    CAPTURE(command.name());
    for (const auto& change : changes) {
      const Outcome outcome = run(every, command.complete(file), change);
      CHECK(outcome.status == 0);
      CHECK(outcome.out.empty() == !prints(command));
    }
  }
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

// Texts that people hand in, as arguments, files and pipes: what of them is read.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "support/command/command.h"
#include "support/files/bert_folder.h"
#include "support/files/fixtures.h"

using nlohmann::json;

namespace {

const std::vector<std::string> few = {"-n", "12", "--temp", "0"};

CommandResult run(std::vector<std::string> arguments, const std::string* input = nullptr) {
  arguments.insert(arguments.begin(), {"run", fixtures().story().string()});
  arguments.insert(arguments.end(), few.begin(), few.end());
  const CommandResult result = pumice_command(arguments, input);
  CAPTURE(result.err);
  REQUIRE(result.status == 0);
  return result;
}

} // namespace

TEST_CASE("a prompt from a pipe or a file writes the story that the argument does") {
  const std::string expected = run({"Once upon a time"}).out;
  for (const std::string& input :
       {std::string("Once upon a time"), std::string("Once upon a time\n"),
        std::string("Once upon a time\r\n"), std::string("\xEF\xBB\xBFOnce upon a time\n")}) {
    CAPTURE(input);
    CHECK(run({}, &input).out == expected);
  }
  const std::string input = "\xEF\xBB\xBFOnce upon a time\r\n";
  CHECK(run({"-"}, &input).out == expected);
  CHECK(run({"-f", "-"}, &input).out == expected);
  const TemporaryFolder folder;
  CHECK(run({"-f", folder.write("prompt.txt", input).string()}).out == expected);
  // What is within a text stays, but for the carriage returns of its lines.
  const std::string lines = "One day,\r\n\r\nTom ran.\n\n";
  CHECK(run({}, &lines).out == run({"One day,\n\nTom ran.\n"}).out);
}

TEST_CASE("an empty pipe is as good as none") {
  const std::string none = run({}).out;
  for (const std::string& input : {std::string(), std::string("\n"), std::string("\xEF\xBB\xBF\r\n")}) {
    CAPTURE(input);
    CHECK(run({}, &input).out == none);
  }
  const TemporaryFolder folder;
  const std::string file = folder.write("empty", std::string_view("\n")).string(),
                    model = fixtures().story().string();
  CHECK(fails_saying(pumice_command({"run", model, "-f", file}), {file, "empty"}) == "");
  CHECK(fails_saying(pumice_command({"run", model, "-f", "/nonexistent/p"}), {"/nonexistent/p"}) == "");
  CHECK(fails_saying(pumice_command({"run", model, "-f", folder.path().string()}),
                     {folder.path().string()}) == "");
  CHECK(fails_saying(pumice_command({"run", model, "text", "-f", file}), {"--file", "PROMPT"}) == "");
}

TEST_CASE("run --no-echo prints what is new, --quiet nothing else, --verbose more") {
  const std::string whole = run({"Once upon a time"}).out;
  const CommandResult quiet = run({"Once upon a time", "--no-echo", "--quiet"});
  CHECK("Once upon a time" + quiet.out == whole);
  CHECK(quiet.err == "");
  const CommandResult verbose = run({"Once upon a time", "--verbose"});
  CHECK(verbose.out == whole);
  CHECK(verbose.err.find("loaded") != std::string::npos);
  CHECK(run({"Once upon a time"}).err.find("loaded") == std::string::npos);
  const CommandResult failed = pumice_command({"run", "/nonexistent.gguf", "--quiet"});
  CHECK(fails_saying(failed, {"/nonexistent.gguf"}) == "");
}

TEST_CASE("lines come from a file as they come from a pipe") {
  const TemporaryFolder folder;
  REQUIRE(BertFolder().write(folder));
  const std::string model = folder.path().string(), plain = "fox\n\nthe quick fox\n",
                    marked = "\xEF\xBB\xBF"
                             "fox\r\n\r\nthe quick fox";
  const std::string file = folder.write("lines.txt", marked).string();
  const CommandResult expected = pumice_command({"embed", model}, plain);
  REQUIRE(expected.status == 0);
  CHECK(pumice_command({"embed", model}, marked).out == expected.out);
  CHECK(pumice_command({"embed", model, "-f", file}).out == expected.out);
  CHECK(pumice_command({"embed", model, "fox", "", "the quick fox"}).out == expected.out);
  CHECK(fails_saying(pumice_command({"embed", model, "fox", "-f", file}), {"--file", "TEXT"}) == "");
  const std::string bad = folder.write("bad.txt", std::string_view("fox\na\xff\n")).string();
  const CommandResult failed = pumice_command({"embed", model, "-f", bad});
  CHECK(failed.status == 1);
  CHECK(failed.err.find(bad + ": line 2") != std::string::npos);
  CHECK(failed.out == pumice_command({"embed", model, "fox"}).out + "\n"); // the line before it is answered
}

TEST_CASE("perplexity and tokenize read files and pipes") {
  const TemporaryFolder folder;
  const std::string model = fixtures().story().string();
  std::string text;
  for (int i = 0; i < 40; ++i) text += "Tom and the dog ran to the pond.\n";
  const std::string file = folder.write("text.txt", text).string();
  const CommandResult from_file = pumice_command({"perplexity", model, file, "--context", "64"});
  CAPTURE(from_file.err);
  REQUIRE(from_file.status == 0);
  CHECK(pumice_command({"perplexity", model, "-", "--context", "64"}, text).out == from_file.out);
  CHECK(pumice_command({"tokenize", model, "-f", file}).out == pumice_command({"tokenize", model}, text).out);
}

#include <doctest/doctest.h>

#include "support/command.h"

TEST_CASE("the help of every subcommand begins with a sentence and ends with an example") {
  for (const char* name :
       {"run", "generate", "translate", "transcribe", "caption", "embed", "rerank", "classify", "tokenize",
        "eval", "inspect", "devices", "tune", "bench", "perplexity", "convert"}) {
    CAPTURE(name);
    const CommandResult help = pumice_command({name, "--help"});
    CHECK(help.status == 0);
    CHECK(help.err == "");
    CHECK(help.out.find(".\nUsage: ") != std::string::npos);
    CHECK(help.out.find(std::string("Example:\n  ")) != std::string::npos);
    CHECK(help.out.find(std::string("pumice ") + name) != std::string::npos);
  }
  CHECK(pumice_command({"--help"}).out.find("tokenize") != std::string::npos);
  CHECK(pumice_command({"--version"}).out.find("1.") == 0);
}

TEST_CASE("bad arguments end with status 1 and a message") {
  CHECK(fails_saying(pumice_command({}), {"subcommand"}) == "");
  CHECK(fails_saying(pumice_command({"paint"}), {"--help"}) == "");
  CHECK(fails_saying(pumice_command({"run"}), {"MODEL", "pumice run --help"}) == "");
  CHECK(fails_saying(pumice_command({"run", "m.gguf", "x", "--temp", "warm"}), {"--temp", "warm"}) == "");
  CHECK(fails_saying(pumice_command({"run", "m.gguf", "x", "--top-p", "2"}), {"--top-p", "2"}) == "");
  CHECK(fails_saying(pumice_command({"run", "m.gguf", "x", "--kv", "f8"}), {"--kv", "f16", "f8"}) == "");
  CHECK(fails_saying(pumice_command({"run", "m.gguf", "x", "--chunk", "0"}), {"--chunk"}) == "");
  CHECK(fails_saying(pumice_command({"generate", "m", "--ids", "1", "--prompt", "x"}),
                     {"--ids", "--prompt"}) == "");
  CHECK(fails_saying(pumice_command({"bench", "m", "-o", "xml"}), {"--output", "json", "xml"}) == "");
  CHECK(fails_saying(pumice_command({"eval", "m"}), {"--inputs"}) == "");
}

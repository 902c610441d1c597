#include <doctest/doctest.h>

#include <sstream>

#include "support/command/command.h"
#include "support/files/fixtures.h"

namespace {

using Arguments = std::vector<std::string>;

// What both commands answer, without the figures on standard error.
void check_same(const Arguments& alias, const Arguments& own) {
  CAPTURE(alias);
  const CommandResult with_alias = pumice_command(alias), with_own = pumice_command(own);
  CAPTURE(with_alias.err);
  CAPTURE(with_own.err);
  CHECK(with_alias.status == with_own.status);
  CHECK(with_alias.out == with_own.out);
  if (with_own.status != 0) CHECK(with_alias.err == with_own.err);
}

} // namespace

// Each alias gets a value that its own option refuses, or a file that is not there: the message then shows
// which option it was taken for, and no model is loaded.
TEST_CASE("names from llama.cpp, whisper.cpp and CTranslate2 stand for Pumice's own") {
  const struct {
    Arguments alias, own;
  } cases[] = {
      {{"run", "-m", "/none.gguf", "-p", "x"}, {"run", "/none.gguf", "x"}},
      {{"run", "-p", "-x", "--model", "/none.gguf"}, {"run", "/none.gguf", "--", "-x"}},
      {{"run", "--model=/none.gguf", "--prompt=x"}, {"run", "/none.gguf", "x"}},
      {{"inspect", "-m", "/none.gguf"}, {"inspect", "/none.gguf"}},
      {{"tokenize", "-m", "/none.gguf"}, {"tokenize", "/none.gguf"}},
      {{"convert", "-m", "/none", "out.gguf"}, {"convert", "/none", "out.gguf"}},
      {{"perplexity", "-m", "/none.gguf", "-f", "x"}, {"perplexity", "/none.gguf", "x"}},
      {{"run", "m", "-c", "x"}, {"run", "m", "--context", "x"}},
      {{"run", "m", "--ctx-size", "x"}, {"run", "m", "--context", "x"}},
      {{"run", "m", "--ctx_size=x"}, {"run", "m", "--context", "x"}},
      {{"run", "m", "--predict", "x"}, {"run", "m", "--count", "x"}},
      {{"run", "m", "--n-predict", "x"}, {"run", "m", "--count", "x"}},
      {{"run", "m", "-s", "x"}, {"run", "m", "--seed", "x"}},
      {{"run", "m", "--temperature", "x"}, {"run", "m", "--temp", "x"}},
      {{"run", "m", "--repeat-last-n", "x"}, {"run", "m", "--repeat-window", "x"}},
      {{"run", "m", "-ub", "x"}, {"run", "m", "--chunk", "x"}},
      {{"run", "m", "--ubatch-size", "x"}, {"run", "m", "--chunk", "x"}},
      {{"run", "m", "-ctk", "x"}, {"run", "m", "--kv", "x"}},
      {{"run", "m", "-ctv", "x"}, {"run", "m", "--kv", "x"}},
      {{"run", "m", "--cache-type-k", "x", "--cache-type-v", "x"}, {"run", "m", "--kv", "x"}},
      {{"run", "m", "-r", "x", "-c", "x"}, {"run", "m", "--stop", "x", "--context", "x"}},
      {{"run", "/none", "--prompt-cache", "/none.session"}, {"run", "/none", "--session", "/none.session"}},
      {{"transcribe", "m", "a", "-bs", "x"}, {"transcribe", "m", "a", "--beams", "x"}},
      {{"translate", "m", "--beam-size", "x"}, {"translate", "m", "--beams", "x"}},
      {{"translate", "m", "--beam_size", "x"}, {"translate", "m", "--beams", "x"}},
      {{"translate", "m", "--num-hypotheses", "x"}, {"translate", "m", "--n-best", "x"}},
      {{"translate", "m", "--num_hypotheses=x"}, {"translate", "m", "--n-best", "x"}},
      {{"transcribe", "-m", "/none", "-f", "/none.wav", "-l", "de"}, {"transcribe", "/none", "/none.wav"}},
      {{"transcribe", "/none", "/none.wav", "-tr"}, {"transcribe", "/none", "/none.wav", "--translate"}},
      {{"transcribe", "/none", "/none.wav", "-nf", "-dl"},
       {"transcribe", "/none", "/none.wav", "--no-fallback", "--detect-language"}},
      {{"run", "m", "--kv", "F8"}, {"run", "m", "--kv", "F8"}},
  };
  for (const auto& each : cases) {
    check_same(each.alias, each.own);
    CHECK(pumice_command(each.alias).status == 1);
  }
  check_same({"--list-devices"}, {"devices"});
  check_same({"run", "--list-devices"}, {"devices"});
}

TEST_CASE("whisper.cpp's number of processors is accepted, with what is there instead") {
  const CommandResult result = pumice_command({"transcribe", "/none", "/none.wav", "-p", "4"});
  CHECK(fails_saying(result, {"-p has no effect", "--batch", "/none: cannot be opened"}) == "");
}

TEST_CASE("an alias without a value, or two that differ, is an error") {
  CHECK(fails_saying(pumice_command({"run", "m", "x", "-c"}), {"-c: a value is missing"}) == "");
  CHECK(fails_saying(pumice_command({"run", "m", "x", "-ctk", "f16", "-ctv", "q8_0"}),
                     {"-ctk f16", "-ctv q8_0", "--kv"}) == "");
}

TEST_CASE("a subcommand's own option comes before an alias, and so does an option's value") {
  CHECK(fails_saying(pumice_command({"bench", "m", "-p", "x"}), {"--prompt: 'x'"}) == "");
  CHECK(fails_saying(pumice_command({"bench", "m", "-r", "x"}), {"--repetitions: 'x'"}) == "");
  // "-m" is the string to stop at, and "-c" is a text.
  CHECK(fails_saying(pumice_command({"run", "/none.gguf", "--stop", "-m", "--", "-c"}), {"/none.gguf"}) ==
        "");
}

TEST_CASE("options without a meaning here are accepted and explained") {
  const std::string model = fixtures().story().string();
  const Arguments own = {"run", model, "Once upon a time", "-n", "4", "--temp", "0"};
  Arguments alias = own;
  alias.insert(alias.end(), {"-ngl", "99", "--threads", "4"});
  const CommandResult result = pumice_command(alias);
  CHECK(result.status == 0);
  CHECK(result.out == pumice_command(own).out);
  CHECK(result.err.find("-ngl has no effect: ") != std::string::npos);
  CHECK(result.err.find("--threads has no effect: ") != std::string::npos);
}

TEST_CASE("-n -1 is no limit, and types have any case and the names of other programs") {
  const std::string model = fixtures().story().string();
  const auto run = [&](Arguments more) {
    more.insert(more.begin(), {"run", model, "Once upon a time", "--temp", "0", "--context", "24"});
    const CommandResult result = pumice_command(more);
    CAPTURE(result.err);
    CHECK(result.status == 0);
    return result.out;
  };
  const std::string whole = run({});
  CHECK(run({"-n", "-1"}) == whole);
  CHECK(run({"--n-predict", "-1", "-ctk", "F16", "-ctv", "F16"}) == whole);
  CHECK(run({"-n", "3"}).size() < whole.size());
  const CommandResult generated = pumice_command(
      {"generate", model, "--prompt", "Once upon a time", "-n", "-1", "--context", "24", "--ignore-eos"});
  CHECK(generated.status == 0);
  CHECK(generated.out.size() > 20);

  const std::string mha = fixtures().model("llama-mha").string();
  const auto ids = [&](const char* type) {
    return pumice_command({"generate", mha, "--ids", "1,2", "-n", "4", "--weights", type}).out;
  };
  CHECK(ids("q8_0") != "");
  CHECK(ids("int8") == ids("q8_0"));
  CHECK(ids("Q8_0") == ids("q8_0"));
  CHECK(ids("float16") == ids("F16"));
  CHECK(ids("q4_k_m") == ids("Q4_K"));
  CHECK(fails_saying(pumice_command({"generate", mha, "--ids", "1", "--weights", "Q3_K_M"}),
                     {"Q3_K_M", "Q4_K"}) == "");

  const TemporaryFolder folder;
  const auto convert = [&](const char* type) {
    const std::string out = (folder.path() / "out.gguf").string();
    const CommandResult result = pumice_command({"convert", mha, out, "--type", type});
    CAPTURE(result.err);
    CHECK(result.status == 0);
    std::stringstream bytes;
    bytes << std::ifstream(out, std::ios::binary).rdbuf();
    return bytes.str();
  };
  CHECK(convert("q4_k_m") == convert("Q4_K"));
}

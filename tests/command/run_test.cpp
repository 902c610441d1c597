#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "support/command/command.h"
#include "support/files/fixtures.h"

namespace {

CommandResult run(const std::string& model, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"run", model});
  arguments.insert(arguments.end(), {"--temp", "0"});
  return pumice_command(arguments);
}

} // namespace

TEST_CASE("run goes on with the prompt and tells its figures apart from the text") {
  const std::string model = fixtures().story().string();
  const CommandResult result = run(model, {"Once upon a time", "-n", "40"});
  CAPTURE(result.err);
  REQUIRE(result.status == 0);
  CHECK(result.out.find("Once upon a time, there was a little girl named Lily.") == 0);
  CHECK(result.out.find('\033') == std::string::npos);
  CHECK(result.err.find("tokens/s") != std::string::npos);
  CHECK(result.err.find("per decode step") != std::string::npos);

  const std::string prompt = "Once upon a time";
  const CommandResult piped = pumice_command({"run", model, "-n", "40", "--temp", "0"}, prompt);
  CHECK(piped.out == result.out);
  // From nothing but the token that begins a text.
  CHECK(run(model, {"-n", "20"}).out.find("Once upon a time, there was") == 0);
}

TEST_CASE("keys and values may have two types" * doctest::test_suite("rest")) {
  const std::string model = fixtures().story().string();
  const TemporaryFolder folder;
  const auto told = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"Once upon a time", "-n", "30"});
    const CommandResult result = run(model, std::move(more));
    CAPTURE(result.err);
    CHECK(result.status == 0);
    return result.out;
  };
  const std::string usual = told({});
  CHECK(told({"--kv", "F16,f16"}) == usual);
  const std::string session = (folder.path() / "session").string();
  const std::string mixed = told({"--kv", "q8_0,f16", "--session", session});
  CHECK(mixed.starts_with("Once upon a time, there was a little girl named"));
  CHECK(told({"-ctv", "f16", "-ctk", "q8_0"}) == mixed);
  CHECK(told({"--kv", "f16/q8_0"}).starts_with("Once upon a time, there was a little girl named"));
  const std::string smaller = told({"-ctk", "q8_0", "-ctv", "q4_0"});
  CHECK(smaller.starts_with("Once upon a time, there was"));
  CHECK(smaller == told({"--kv", "q8_0,q4_0", "--chunk", "1"}));
  CHECK(told({"-ctk", "q4_0", "-ctv", "q4_0"}).starts_with("Once upon a time, there"));
  // A session's file knows both.
  const auto go_on = [&](const char* kv) {
    return pumice_command({"run", model, "--session", session, "-n", "4", "--temp", "0", "--kv", kv});
  };
  CHECK(fails_saying(go_on("f16,q8_0"), {"cache type", "f16/q8_0", "q8_0/f16"}) == "");
  CHECK(go_on("q8_0/f16").status == 0);
  CHECK(fails_saying(run(model, {"x", "--kv", "f16,q4_0"}), {"--kv: 'f16,q4_0'", "q8_0,f16"}) == "");
}

TEST_CASE("run tells compiling apart from reading the prompt") {
  const TemporaryFolder cache;
  const auto speed = [&](std::vector<std::string> more) {
    more.insert(more.begin(),
                {"run", fixtures().story().string(), "Once upon a time", "-n", "4", "--temp", "0"});
    return pumice_process(more);
  };
  const CommandResult result = speed({"--cache", cache.path().string()});
  CHECK(result.err.find("\ncompiled ") != std::string::npos);
  const nlohmann::json object = nlohmann::json::parse(speed({"--json"}).out);
  CHECK(object["compiled_kernels"] > 5);
  CHECK(object["compile_seconds"] > 0);
  if (object["device"].get<std::string>().starts_with("llvmpipe")) {
    CHECK(object["prompt_seconds"] > 0.001); // five tokens do not come for nothing
  }
  // Some tokens take much less than the compiler, whatever the device.
  CHECK(object["prompt_seconds"] <
        object["first_token_seconds"].get<double>() - object["compile_seconds"].get<double>());
}

TEST_CASE("run ends before a stop string, wherever tokens cut it") {
  const std::string model = fixtures().story().string();
  CHECK(run(model, {"Once upon a time", "-n", "40", "--stop", "girl named"}).out ==
        "Once upon a time, there was a little \n");
  CHECK(run(model, {"Once upon a time", "-n", "40", "--stop", "nothing", "--stop", "Lily."}).out ==
        "Once upon a time, there was a little girl named \n");
}

TEST_CASE("run tells the seed where it matters, and counts in plain words") {
  const std::string model = fixtures().story().string();
  const CommandResult certain = run(model, {"Once", "-n", "1"});
  CHECK(certain.err.find("seed") == std::string::npos);
  CHECK(certain.err.find("generated 1 token;") != std::string::npos);
  const CommandResult drawn = pumice_command({"run", model, "Once", "-n", "2", "--seed", "7", "--temp", "1"});
  CHECK(drawn.err.find(", seed 7\n") != std::string::npos);
  CHECK(drawn.err.find("generated 2 tokens,") != std::string::npos);
}

TEST_CASE("run gives the same text for the same seed") {
  const std::string model = fixtures().story().string();
  const auto text = [&](const char* seed) {
    return pumice_command({"run", model, "Once", "-n", "30", "--seed", seed, "--temp", "1.5"}).out;
  };
  const std::string first = text("1");
  CHECK(first.find("Once") == 0);
  CHECK(text("1") == first);
  CHECK(text("2") != first);
}

// The sampling options that `run` and `generate` share.
#include <algorithm>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "support/command/command.h"
#include "support/files/paths.h"

using nlohmann::json;

namespace {

const std::string model = stories_model().string();

CommandResult generate(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"generate", model, "--prompt", "Once upon a time", "--ignore-eos",
                                       "--json", "--seed", "1"});
  return pumice_command(arguments);
}

std::vector<uint32_t> ids(std::vector<std::string> arguments) {
  const CommandResult result = generate(std::move(arguments));
  CAPTURE(result.err);
  REQUIRE(result.status == 0);
  return json::parse(result.out)["ids"];
}

} // namespace

TEST_CASE("logit biases can forbid tokens and force tokens") {
  const std::vector<uint32_t> greedy = ids({"-n", "4"});
  const std::string first = std::to_string(greedy[0]);
  const std::vector<uint32_t> without = ids({"-n", "4", "--logit-bias", first + "=-inf"});
  CHECK(std::count(without.begin(), without.end(), greedy[0]) == 0);
  CHECK(ids({"-n", "3", "--logit-bias", "7=+1e4", "--logit-bias", first + "=-1.5"}) ==
        std::vector<uint32_t>{7, 7, 7});
  CHECK(ids({"-n", "3", "--logit-bias", "7=1e4", "--logit-bias", "7=-1e4"}) ==
        std::vector<uint32_t>(greedy.begin(), greedy.begin() + 3));
}

TEST_CASE("penalties keep a text from repeating itself") {
  // Differences that the logits themselves do not reach.
  CHECK(ids({"-n", "4", "--logit-bias", "7=1000", "--logit-bias", "8=950"}) ==
        std::vector<uint32_t>{7, 7, 7, 7});
  CHECK(ids({"-n", "4", "--logit-bias", "7=1000", "--logit-bias", "8=950", "--presence-penalty", "100"}) ==
        std::vector<uint32_t>{7, 8, 7, 7});
  CHECK(ids({"-n", "4", "--logit-bias", "7=1000", "--logit-bias", "8=900", "--frequency-penalty", "70"}) ==
        std::vector<uint32_t>{7, 7, 8, 7});
}

TEST_CASE("typical sampling reduces the choice of tokens, and 1 switches it off") {
  const auto drawn = [](const char* share) { return ids({"-n", "20", "--temp", "1.5", "--typical", share}); };
  CHECK(drawn("1") == ids({"-n", "20", "--temp", "1.5"}));
  CHECK(drawn("0.2") != drawn("1"));
}

TEST_CASE("samplers of llama.cpp change what is drawn, and their defaults do not") {
  const auto drawn = [](std::vector<std::string> options) {
    options.insert(options.end(), {"-n", "24", "--temp", "1.5"});
    return ids(std::move(options));
  };
  const std::vector<uint32_t> plain = drawn({});
  CHECK(drawn({"--top-n-sigma",
               "-1",
               "--dynatemp-range",
               "0",
               "--dynatemp-exp",
               "2",
               "--xtc-probability",
               "0",
               "--xtc-threshold",
               "0.2",
               "--mirostat",
               "0",
               "--mirostat-ent",
               "3",
               "--mirostat-lr",
               "0.2",
               "--dry-multiplier",
               "0",
               "--dry-base",
               "2",
               "--dry-allowed-length",
               "3",
               "--dry-penalty-last-n",
               "-1",
               "--dry-sequence-breaker",
               "x",
               "--samplers",
               "penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature"}) == plain);
  for (const std::vector<std::string>& options :
       std::vector<std::vector<std::string>>{{"--top-nsigma", "0.5"},
                                             {"--dynatemp-range", "1.4"},
                                             {"--xtc-probability", "1"},
                                             {"--mirostat", "2"}}) {
    CAPTURE(options[0]);
    CHECK(drawn(options) != plain);
  }
}

TEST_CASE("samplers come in the order that is asked for, and those left out do nothing") {
  const auto drawn = [](std::vector<std::string> options) {
    options.insert(options.end(), {"-n", "24", "--temp", "2", "--min-p", "0.05", "--top-k", "8"});
    return ids(std::move(options));
  };
  const std::vector<uint32_t> plain = drawn({});
  CHECK(drawn({"--samplers", "top_k;min_p;temperature", "--top-p", "0.1"}) == plain);
  CHECK(drawn({"--sampling-seq", "kmt"}) == plain);
  CHECK(drawn({"--samplers", "temperature;top_k;min_p"}) != plain);
  CHECK(drawn({"--samplers", "temperature;top-k"}) == drawn({"--samplers", "top_k;temp"}));
}

TEST_CASE("DRY ends a repetition") {
  const std::vector<std::string> loop = {"-n", "8", "--logit-bias", "7=1000", "--logit-bias", "8=980"};
  const auto with = [&](std::vector<std::string> options) {
    options.insert(options.end(), loop.begin(), loop.end());
    return ids(std::move(options));
  };
  CHECK(with({}) == std::vector<uint32_t>(8, 7));
  const std::vector<uint32_t> dried = with({"--dry-multiplier", "10", "--dry-allowed-length", "1"});
  CHECK(std::count(dried.begin(), dried.end(), 8) > 0);
  CHECK(with({"--dry-multiplier", "10", "--dry-penalty-last-n", "0"}) == std::vector<uint32_t>(8, 7));
  CHECK(fails_saying(generate({"--dry-multiplier", "1", "--dry-sequence-breaker", "no such token"}),
                     {"no such token", "shorter"}) == "");
}

TEST_CASE("sampling options out of range are refused") {
  CHECK(fails_saying(generate({"--samplers", "top_k;heat"}), {"--samplers", "'heat'", "penalties;dry"}) ==
        "");
  CHECK(fails_saying(generate({"--samplers", "top_k;dry"}), {"'dry' comes after others"}) == "");
  CHECK(fails_saying(generate({"--samplers", "top_k;top_k"}), {"'top_k' is there twice"}) == "");
  CHECK(fails_saying(generate({"--mirostat", "1"}), {"--mirostat", "2 is"}) == "");
  CHECK(fails_saying(generate({"--logit-bias", "999999=1"}),
                     {"--logit-bias: there is no token 999999", "0 to "}) == "");
  CHECK(fails_saying(generate({"--typical", "1.5"}), {"--typical", "1.5"}) == "");
  CHECK(fails_saying(generate({"--frequency-penalty", "101"}), {"--frequency-penalty"}) == "");
  CHECK(fails_saying(generate({"--presence-penalty", "x"}), {"--presence-penalty"}) == "");
  CHECK(fails_saying(generate({"--repeat-window", "4097"}), {"--repeat-window"}) == "");
  for (const char* bad : {"7", "7=", "=1", "x=1", "7=x", "7=1x", "7=nan", "-1=1", "7=++1"}) {
    CAPTURE(bad);
    CHECK(fails_saying(generate({"--logit-bias", bad}), {"--logit-bias", bad, "42=-inf"}) == "");
  }
  std::vector<std::string> many;
  for (int id = 0; id < 1025; ++id) many.insert(many.end(), {"--logit-bias", std::to_string(id) + "=1"});
  CHECK(fails_saying(generate(many), {"--logit-bias", "1024", "1025"}) == "");
}

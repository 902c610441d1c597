#include <doctest/doctest.h>

#include <algorithm>

#include <nlohmann/json.hpp>

#include "support/command/command.h"
#include "support/files/paths.h"

using nlohmann::json;

namespace {

const std::string model = stories_model().string();

} // namespace

TEST_CASE("tune measures variants and keeps the results for later runs") {
  const TemporaryFolder cache;
  const auto files = [&] {
    std::vector<std::filesystem::path> paths;
    for (const auto& entry : std::filesystem::directory_iterator(cache.path())) paths.push_back(entry.path());
    return paths;
  };
  const std::vector<std::string> in_cache = {"--cache", cache.path().string()};
  const auto with_cache = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.end(), in_cache.begin(), in_cache.end());
    const CommandResult result = pumice_process(arguments); // each opens the folder
    CAPTURE(result.err);
    REQUIRE(result.status == 0);
    return result;
  };
  const json tuned = json::parse(with_cache({"tune", model, "-o", "json", "--seconds", "2"}).out);
  CHECK(tuned["device"] != "");
  for (const char* loads : {"uniform_loads", "texel_loads", "half_loads"}) CHECK(tuned[loads].is_boolean());
  REQUIRE(tuned["classes"].size() > 0);
  for (const json& each : tuned["classes"]) {
    REQUIRE(each["variants"].size() > 1);
    bool won = false;
    for (const json& variant : each["variants"]) {
      CHECK((variant.contains("blocked") || variant["seconds"] > 0));
      won = won || (variant["variant"] == each["winner"] && !variant.contains("blocked"));
    }
    CHECK(won);
  }
  REQUIRE(files().size() == 1);

  // Everything that had been measured is kept by a run, and a damaged file is as good as none.
  const std::vector<std::string> run = {"run", model, "Once upon a time", "-n", "8", "--temp", "0"};
  const std::string text = with_cache(run).out;
  const std::filesystem::path file = files()[0];
  const auto size = std::filesystem::file_size(file);
  CHECK(with_cache(run).out == text);
  CHECK(std::filesystem::file_size(file) >= size);
  std::filesystem::resize_file(file, size / 2);
  CHECK(with_cache(run).out.starts_with("Once upon a time"));
  CHECK(files().size() == 1);

  const std::string table = with_cache({"tune", model, "--seconds", "0.5"}).out;
  CHECK(table.find("GFLOP/s") != std::string::npos);
  CHECK(table.find("  *") != std::string::npos);
  CHECK(table.find(tuned["classes"][0]["class"]) != std::string::npos);
}

TEST_CASE("every kernel variant is listed with its family and what it is") {
  const CommandResult help = pumice_command({"tune", "--help-all"});
  CHECK(help.status == 0);
  for (const char* line : {"cpu8 [matmul] For CPU drivers: ", "portable [matmul] For any device: ",
                           "rope [attention] For GPUs: ", "split-kv [attention] For GPUs: ",
                           "portable [attention] For any device: ", "chunked [delta_rule] For GPUs: ",
                           "portable [selective_scan] For any device: "}) {
    CHECK(help.out.find(line) != std::string::npos);
  }
}

TEST_CASE("a variant can be forced, and measuring can be switched off") {
  CHECK(fails_saying(pumice_command({"run", model, "x", "--kernel-variant", "fastest"}),
                     {"fastest", "cpu8", "portable"}) == "");
  const auto variants = [](std::vector<std::string> more) {
    std::vector<std::string> arguments = {"inspect", model, "--plan", "--no-cache"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return pumice_command(arguments).out;
  };
  // A variant that the device cannot run is refused rather than ignored.
  const json devices = json::parse(pumice_command({"devices", "--json"}).out);
  const json& device = devices["devices"][devices["chosen"].get<size_t>()];
  const auto tiers = device["tiers"].get<std::vector<std::string>>();
  const CommandResult matrices =
      pumice_command({"inspect", model, "--plan", "--no-cache", "--kernel-variant", "cm"});
  if (std::ranges::count(tiers, "cm")) {
    CHECK(matrices.status == 0);
  } else {
    CHECK(fails_saying(matrices, {"--kernel-variant cm", "cannot run it", "cooperative matrices"}) == "");
  }
  const std::string forced = variants({"--kernel-variant", "portable"});
  CHECK(forced.find("matmul_portable.q8_0 ") != std::string::npos);
  CHECK(forced.find("µs  portable  linear") != std::string::npos);
  CHECK(forced.find("at best") != std::string::npos);
  CHECK(forced.find("fused into them") != std::string::npos);
  const char* first = device["type"] == "CPU" ? "matmul." : "matmul_subgroup."; // for one token
  CHECK(variants({"--no-tune"}).find(first) != std::string::npos);
  CHECK(variants({"--measure"}).find("measured") != std::string::npos);

  const CommandResult result =
      pumice_command({"run", model, "Once upon a time", "-n", "4", "--temp", "0", "--no-tune", "--no-cache"});
  CHECK(result.status == 0);
  CHECK(result.err.find("measuring") == std::string::npos);
  CHECK(fails_saying(pumice_command({"run", model, "x", "--no-tune", "--kernel-variant", "portable"}),
                     {"--kernel-variant"}) == "");
}

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "support/command.h"
#include "support/fixtures.h"

using nlohmann::json;

TEST_CASE("bench measures a prompt and decoding, and their shares of the device's ceilings") {
  const auto folder = fixtures();
  if (!folder) {
    MESSAGE("skipped: no fixtures");
    return;
  }
  const std::string model = (*folder / "gguf" / "stories260K-F32.gguf").string();
  const std::vector<std::string> arguments = {"bench", model, "-p", "16", "-n", "8", "-r", "3", "--no-cache"};
  const auto with = [&](const char* format, const char* depth) {
    std::vector<std::string> all = arguments;
    all.insert(all.end(), {"-o", format, "-d", depth});
    return pumice_command(all);
  };
  const CommandResult result = with("json", "0");
  CAPTURE(result.err);
  REQUIRE(result.status == 0);
  const json object = json::parse(result.out);
  CHECK(!object["device"].get<std::string>().empty());
  CHECK(object["ceilings"]["copy_bytes_per_second"] > 0);
  REQUIRE(object["results"].size() == 2);
  CHECK(object["results"][0]["test"] == "pp16");
  CHECK(object["results"][1]["test"] == "tg8");
  for (const json& each : object["results"]) {
    CHECK(each["samples"].size() == 3);
    CHECK(each["median_tokens_per_second"] > 0);
    CHECK(each["share_of_bandwidth"] > 0);
    CHECK(each["share_of_arithmetic"] > 0);
  }
  const CommandResult table = with("md", "20");
  CHECK(table.out.find("| pp16 @ d20") != std::string::npos);
  CHECK(table.out.find("t/s") != std::string::npos);
  CHECK(with("csv", "0").out.find("share_of_arithmetic\n\"") != std::string::npos);
}

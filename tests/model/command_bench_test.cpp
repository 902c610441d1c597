#include <doctest/doctest.h>

#include <random>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "support/command.h"
#include "support/fixtures.h"

using nlohmann::json;

namespace {

CommandResult bench(const std::filesystem::path& model, std::vector<std::string> more) {
  std::vector<std::string> all = {"bench", model.string(), "-r", "3", "-w", "3", "--no-cache"};
  all.insert(all.end(), more.begin(), more.end());
  return pumice_command(all);
}

json bench_json(const std::filesystem::path& model, std::vector<std::string> more) {
  more.insert(more.end(), {"-o", "json"});
  const CommandResult result = bench(model, std::move(more));
  CAPTURE(result.err);
  REQUIRE(result.status == 0);
  return json::parse(result.out);
}

void check_result(const json& result) {
  CAPTURE(result["test"]);
  CHECK(result["samples"].size() == 3);
  for (const json& sample : result["samples"]) {
    CHECK(sample["seconds"] > 0);
    CHECK(sample["clocks"].contains("cpu_mhz"));
  }
  CHECK(result["warm_up_seconds"].size() == 3);
  CHECK(result["median_tokens_per_second"] > 0);
  CHECK(result["share_of_bandwidth"] > 0);
  CHECK(result["share_of_arithmetic"] > 0);
}

} // namespace

TEST_CASE("bench measures every combination, with every sample and what it was measured with") {
  const auto model = fixtures().story();
  const json object = bench_json(model, {"-p", "16,7", "-n", "8", "-d", "0,20"});
  for (const char* field : {"version", "command", "date", "device", "driver", "driver_version"}) {
    CAPTURE(field);
    CHECK(!object[field].get<std::string>().empty());
  }
  CHECK(object["command"].get<std::string>().find(" -p 16,7 ") != std::string::npos);
  CHECK(object["clocks"].contains("cpu_mhz"));
  CHECK(object["ceilings"]["copy_bytes_per_second"] > 0);
  CHECK(object["model"]["hash"].get<std::string>().size() == 16);
  const json& start = object["cold_start"];
  CHECK(start["test"] == "pp16");
  CHECK(start["device_seconds"] > 0);
  CHECK(start["loaded_seconds"] >= start["device_seconds"]);
  CHECK(start["started_seconds"] >= start["loaded_seconds"]);
  CHECK(start["first_seconds"] > start["started_seconds"]);
  const char* const tests[] = {"pp16", "pp7", "tg8", "pp16 @ d20", "pp7 @ d20", "tg8 @ d20"};
  REQUIRE(object["results"].size() == std::size(tests));
  for (size_t i = 0; i < std::size(tests); ++i) {
    const json& result = object["results"][i];
    CHECK(result["test"] == tests[i]);
    check_result(result);
    const json& sample = result["samples"][0];
    if (result["kind"] == "prompt") {
      CHECK(sample["first_token_seconds"] > sample["seconds"]);
    } else {
      REQUIRE(sample["token_seconds"].size() == 8);
      double sum = 0;
      for (const json& seconds : sample["token_seconds"]) {
        CHECK(seconds > 1e-6); // none comes for nothing beside the one it was submitted with
        sum += seconds.get<double>();
      }
      CHECK(sum <= sample["seconds"].get<double>() * 1.000001);
      CHECK(sample["host_step_seconds"] > 0);
      CHECK(result["token_seconds"]["max"] >= result["token_seconds"]["p50"]);
    }
  }
}

TEST_CASE("bench's table has llama-bench's columns, and its page needs nothing from elsewhere") {
  const auto model = fixtures().story();
  const CommandResult table = bench(model, {"-p", "16", "-n", "8", "-d", "20"});
  const std::string head = table.out.substr(0, table.out.find('\n'));
  size_t at = 0;
  for (const char* column : {"| model ", "| size ", "| params ", "| backend ", "| test ", "t/s |"}) {
    CAPTURE(column);
    at = head.find(column, at);
    REQUIRE(at != std::string::npos);
  }
  CHECK(table.out.find("| pp16 @ d20 ") != std::string::npos);
  CHECK(bench(model, {"-p", "16", "-n", "0", "-o", "csv"}).out.find("share_of_arithmetic\n\"") !=
        std::string::npos);
  const CommandResult page = bench(model, {"-p", "16", "-n", "8", "-o", "html"});
  CHECK(page.out.starts_with("<!doctype html>"));
  CHECK(page.out.ends_with("</html>\n"));
  CHECK(page.out.find("src=") == std::string::npos);
  CHECK(page.out.find("href=") == std::string::npos);
  for (const char* title : {"Roofline", "Generating tokens, by depth", "Samples over time"}) {
    CAPTURE(title);
    CHECK(page.out.find(title) != std::string::npos);
  }
}

TEST_CASE("bench measures encoders, and encoder-decoders end to end") {
  const auto test_of = [&](const char* model, std::vector<std::string> options, size_t at = 0) {
    const json object = bench_json(fixtures().model(model), std::move(options));
    REQUIRE(object["results"].size() > at);
    check_result(object["results"][at]);
    CHECK(object["cold_start"]["first_seconds"] > 0);
    return object["results"][at]["test"].get<std::string>();
  };
  CHECK(test_of("bert", {"-p", "16", "-b", "1,3"}) == "enc16");
  CHECK(test_of("bert", {"-p", "16", "-b", "1,3"}, 1) == "enc16 b3");
  CHECK(test_of("vit", {"-b", "2"}).starts_with("enc"));
  CHECK(test_of("marian", {"-p", "9", "-n", "5", "-b", "2"}) == "enc9+tg5 b2");
  CHECK(test_of("whisper", {"-n", "5"}).find("+tg5") != std::string::npos);
  CHECK(fails_saying(bench(fixtures().model("bert"), {"-p", "100000"}), {"-p 100000", "at most"}) == "");
}

TEST_CASE("bench reads a prompt that fills the context, and says which tests do not fit or are left out") {
  const auto model = fixtures().story(); // made for 512 tokens
  const auto once = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"-r", "1", "-w", "0"});
    return bench(model, std::move(more));
  };
  CHECK(once({"-p", "511", "-n", "0"}).out.find("| pp511 ") != std::string::npos);
  CHECK(fails_saying(once({"-p", "512"}), {"-p 512", "context of 512", "-p 511"}) == "");
  CHECK(fails_saying(once({"-p", "0", "-n", "600"}),
                     {"-n 600", "context of 512", "the most that fits is -n "}) == "");
  CHECK(fails_saying(once({"-d", "600"}), {"after -d 600", "does not fit"}) == "");
  CHECK(fails_saying(once({"-p", "0", "-n", "0"}), {"nothing to measure", "-p 0 and -n 0"}) == "");
  CHECK(fails_saying(bench(fixtures().model("bert"), {"-p", "0"}), {"nothing to measure"}) == "");
}

TEST_CASE("bench measures single operations below the device's ceilings") {
  const CommandResult result = pumice_command(
      {"bench", "--ops", "--only", "F16 8 x 768", "-r", "3", "-w", "3", "--no-cache", "-o", "json"});
  CAPTURE(result.err);
  REQUIRE(result.status == 0);
  const json object = json::parse(result.out);
  REQUIRE(object["results"].size() == 2); // F16 and BF16
  for (const json& each : object["results"]) {
    CHECK(each["kind"] == "operation");
    CHECK(each["samples"].size() == 3);
    CHECK(each["flops"] == 2.0 * 8 * 768 * 768);
    CHECK(each["bytes"] >= 2.0 * 768 * 768);
    CHECK(each["share_of_roof"] > 0);
  }
  CHECK(fails_saying(pumice_command({"bench", "--ops", "model.gguf"}), {"leave MODEL out"}) == "");
  CHECK(fails_saying(pumice_command({"bench"}), {"MODEL", "--ops"}) == "");
}

namespace {

// What bench writes, of a device that takes so long and is a little uneven.
std::string written(unsigned seed, double slowdown, size_t samples, const std::string& device = "A device",
                    const std::string& hash = "1") {
  std::mt19937 random(seed);
  std::normal_distribution<double> noise(1, 0.01);
  json object = {{"device", device}, {"model", {{"hash", hash}}}, {"results", json::array()}};
  for (const auto& [test, seconds] : {std::pair("pp128", 0.3), {"tg32", 0.02}}) {
    const bool prompt = std::string(test) == "pp128";
    json result = {
        {"test", test}, {"kind", prompt ? "prompt" : "decode"}, {"stable", true}, {"samples", json::array()}};
    for (size_t i = 0; i < samples; ++i) {
      const double factor = std::string(test) == "tg32" ? slowdown : 1;
      json sample = {{"seconds", seconds * factor * noise(random)}};
      if (prompt) sample["first_token_seconds"] = sample["seconds"].get<double>() + 0.01; // no row of its own
      result["samples"].push_back(std::move(sample));
    }
    object["results"].push_back(std::move(result));
  }
  return object.dump();
}

// The verdicts of pp128 and tg32.
std::string compare(const std::string& a, const std::string& b) {
  const TemporaryFolder folder;
  folder.write("a.json", a);
  folder.write("b.json", b);
  const auto path = [&](const char* name) { return (folder.path() / name).string(); };
  const CommandResult result = pumice_command({"bench", "compare", path("a.json"), path("b.json"), "--json"});
  CAPTURE(result.err);
  REQUIRE(result.status == 0);
  const json results = json::parse(result.out)["results"];
  REQUIRE(results.size() == 2);
  return fmt::format("{}, {}", results[0]["verdict"].get<std::string>(),
                     results[1]["verdict"].get<std::string>());
}

} // namespace

TEST_CASE("bench compare finds a slowdown of a tenth, and none between two runs of the same thing") {
  for (unsigned seed : {1u, 2u, 3u, 4u, 5u}) {
    CAPTURE(seed);
    const std::string base = written(seed, 1, 10);
    CHECK(compare(base, written(seed + 100, 1, 10)) == "no difference, no difference");
    CHECK(compare(base, written(seed + 200, 1.1, 10)) == "no difference, slower");
    CHECK(compare(written(seed + 200, 1.1, 10), base) == "no difference, faster");
  }
  CHECK(compare(written(1, 1, 3), written(2, 1.1, 3)) == "too few samples, too few samples");
}

TEST_CASE("bench compare refuses what cannot be compared") {
  const TemporaryFolder folder;
  const auto path = [&](const char* name) { return (folder.path() / name).string(); };
  folder.write("a.json", written(1, 1, 10));
  folder.write("device.json", written(2, 1, 10, "Another device"));
  folder.write("model.json", written(2, 1, 10, "A device", "2"));
  folder.write("text.json", "no JSON");
  folder.write("list.json", "{\"results\": 3}");
  folder.write("sample.json", "{\"results\": [{\"test\": \"pp1\", \"samples\": [{\"seconds\": 0}]}]}");
  folder.write("other.json", "{\"device\": \"A device\", \"model\": {\"hash\": \"1\"}, \"results\": []}");
  const auto with = [&](const char* name) {
    return pumice_command({"bench", "compare", path("a.json"), path(name)});
  };
  CHECK(fails_saying(with("device.json"), {"device", "A device", "Another device", "--force"}) == "");
  CHECK(fails_saying(with("model.json"), {"model.hash"}) == "");
  CHECK(fails_saying(with("text.json"), {"text.json", "not a JSON object"}) == "");
  CHECK(fails_saying(with("list.json"), {"list.json", "'results'"}) == "");
  CHECK(fails_saying(with("sample.json"), {"pp1", "'seconds'"}) == "");
  CHECK(fails_saying(with("other.json"), {"no test in common"}) == "");
  CHECK(fails_saying(with("missing.json"), {"missing.json", "cannot be read"}) == "");
  const CommandResult forced =
      pumice_command({"bench", "compare", path("a.json"), path("device.json"), "--force"});
  CHECK(forced.status == 0);
  CHECK(forced.err.find("Another device") != std::string::npos);
  CHECK(forced.out.find("| no difference ") != std::string::npos);
}

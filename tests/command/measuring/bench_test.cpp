#include <doctest/doctest.h>

#include <fstream>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "support/command/command.h"
#include "support/command/terminal.h"
#include "support/files/fixtures.h"

using nlohmann::json;

namespace {

std::vector<std::string> bench_arguments(const std::filesystem::path& model, std::vector<std::string> more) {
  more.insert(more.begin(), {"bench", model.string(), "-r", "3", "-w", "3", "--no-cache"});
  return more;
}

CommandResult bench(const std::filesystem::path& model, std::vector<std::string> more) {
  return pumice_command(bench_arguments(model, std::move(more)));
}

json json_of(const CommandResult& result) {
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
  CHECK(result["stable"] == result["unstable_because"].is_null());
  CHECK(result["spread"] >= 0);
  CHECK(result["drift"] >= 0);
  // The system counts in ticks of some milliseconds: of a shorter time it says nothing.
  double seconds = 0;
  for (const json& sample : result["samples"]) seconds += sample["seconds"].get<double>();
  for (const char* share : {"others", "stolen"}) {
    const json& value = result["machine"][share];
    CHECK((value.is_null() ? seconds < 0.1 : value >= 0));
  }
  CHECK(result["median_tokens_per_second"] > 0);
  CHECK(result["share_of_bandwidth"] > 0);
  CHECK(result["share_of_arithmetic"] > 0);
}

} // namespace

TEST_CASE("bench measures every combination, with every sample and what it was measured with") {
  const auto model = fixtures().story();
  // A process that began for it: its start is measured too, and its command line is kept.
  const json object =
      json_of(pumice_process(bench_arguments(model, {"-p", "16,7", "-n", "8", "-d", "0,20", "-o", "json"})));
  for (const std::string field : {"version", "command", "date", "device", "driver"}) {
    CAPTURE(field);
    CHECK(!object[field].get<std::string>().empty());
  }
  CHECK(object["driver_version"].is_string()); // SwiftShader's is empty
  CHECK(object["command"].get<std::string>().find(" -p 16,7 ") != std::string::npos);
  CHECK(object["clocks"].contains("cpu_mhz"));
  CHECK(object["ceilings"]["copy_bytes_per_second"] > 0);
  CHECK(object["ceilings"]["copy_date"].get<std::string>().starts_with("20"));
  CHECK(object["ceilings"]["flops_date"].get<std::string>().ends_with("Z"));
  CHECK(object["machine"]["load"] >= 0);
  CHECK(object["model"]["hash"].get<std::string>().size() == 16);
  const json& start = object["cold_start"];
  CHECK(start["test"] == "pp16");
  CHECK(start["device_seconds"] > 0);
  CHECK(start["loaded_seconds"] >= start["device_seconds"]);
  CHECK(start["started_seconds"] >= start["loaded_seconds"]);
  CHECK(start["first_seconds"] > start["started_seconds"]);
  CHECK(start["compile_seconds"] > 0);
  CHECK(start["compile_seconds"] < start["first_seconds"]);
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
  CHECK(table.out.find("| other programs |") != std::string::npos);
  CHECK(table.out.find("\nthe machine was ") != std::string::npos);
  CHECK(table.out.find("other programs used ") != std::string::npos);
  CHECK(table.out.find(" GB/s copying (reached on 20") != std::string::npos);
  CHECK(bench(model, {"-p", "16", "-n", "0", "-o", "csv"}).out.find(",other_programs,stolen\n\"") !=
        std::string::npos);
  const CommandResult page =
      bench(model, {"-p", "16", "-n", "8", "-d", "0,20", "--batch", "1,3", "-o", "html"});
  CHECK(page.out.starts_with("<!doctype html>"));
  CHECK(page.out.ends_with("</html>\n"));
  CHECK(page.out.find("<meta name=\"viewport\"") != std::string::npos); // for phones
  CHECK(page.out.find("src=") == std::string::npos);
  CHECK(page.out.find("href=") == std::string::npos);
  for (const char* title : {"Roofline", "Generating tokens, by depth", "by sequences together",
                            "Samples over time", ">pp16</text>"}) {
    CAPTURE(title);
    CHECK(page.out.find(title) != std::string::npos);
  }
}

TEST_CASE("bench measures encoders, and encoder-decoders end to end") {
  const auto test_of = [&](const char* model, std::vector<std::string> options, size_t at = 0) {
    options.insert(options.end(), {"-o", "json"});
    const json object = json_of(bench(fixtures().model(model), std::move(options)));
    REQUIRE(object["results"].size() > at);
    check_result(object["results"][at]);
    CHECK(object["cold_start"]["first_seconds"] > 0);
    if (const json& result = object["results"][at]; result.contains("token_seconds")) {
      CHECK(result["token_seconds"]["p50"] > 1e-6); // tokens that come together share their time
    }
    return object["results"][at]["test"].get<std::string>();
  };
  CHECK(test_of("bert", {"-p", "16", "--batch", "1,3"}) == "enc16");
  CHECK(test_of("bert", {"-p", "16", "--batch", "1,3"}, 1) == "enc16 b3");
  CHECK(test_of("vit", {"--batch", "2"}).starts_with("enc"));
  CHECK(test_of("marian", {"-p", "9", "-n", "5", "--batch", "2"}) == "enc9+tg5 b2");
  CHECK(test_of("whisper", {"-n", "5"}).find("+tg5") != std::string::npos);
  CHECK(fails_saying(bench(fixtures().model("bert"), {"-p", "100000"}), {"-p 100000", "at most"}) == "");
}

TEST_CASE("bench measures a size once that is given twice") {
  const CommandResult result = pumice_command({"bench", fixtures().story().string(), "-p", "4,2,4", "-n", "0",
                                               "-r", "1", "-w", "0", "--json", "--no-cache"});
  REQUIRE(result.status == 0);
  const nlohmann::json results = nlohmann::json::parse(result.out)["results"];
  REQUIRE(results.size() == 2);
  CHECK(results[0]["test"] == "pp4");
  CHECK(results[1]["test"] == "pp2");
}

TEST_CASE("bench reads a prompt that fills the context, and says which tests do not fit or are left out") {
  const auto model = fixtures().story(); // made for 512 tokens
  const auto once = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"bench", model.string(), "-r", "1", "-w", "0", "--no-cache"});
    return pumice_command(more);
  };
  CHECK(once({"-p", "511", "-n", "0"}).out.find("| pp511 ") != std::string::npos);
  CHECK(fails_saying(once({"-p", "512"}), {"-p 512", "context of 512", "-p 511"}) == "");
  CHECK(fails_saying(once({"-p", "0", "-n", "600"}),
                     {"-n 600", "context of 512", "the most that fits is -n "}) == "");
  CHECK(fails_saying(once({"-d", "600"}), {"after -d 600", "does not fit"}) == "");
  CHECK(fails_saying(once({"-p", "0", "-n", "0"}), {"nothing to measure", "-p 0 and -n 0"}) == "");
  CHECK(fails_saying(bench(fixtures().model("bert"), {"-p", "0"}), {"nothing to measure"}) == "");
}

TEST_CASE("bench measures several sequences in the same steps") {
  const auto batches = [](std::vector<std::string> more) {
    more.insert(more.begin(), {"bench", fixtures().story().string(), "-p", "0", "-n", "4", "-r", "2", "-w",
                               "0", "--json", "--no-cache"});
    return pumice_command(more);
  };
  const CommandResult result = batches({"--batch", "1,3", "-d", "0,40", "--chunk", "16"});
  CAPTURE(result.err);
  REQUIRE(result.status == 0);
  const json results = json::parse(result.out)["results"];
  std::vector<std::string> tests;
  for (const json& each : results) tests.push_back(each["test"]);
  CHECK(tests == std::vector<std::string>{"tg4", "tg4 b3", "tg4 @ d40", "tg4 b3 @ d40"});
  CHECK(results[1]["tokens"] == 12);
  CHECK(results[1]["kind"] == "decode");
  CHECK(results[1]["samples"][0]["token_seconds"].size() == 4);
  CHECK(fails_saying(batches({"--batch", "8", "-d", "500"}), {"--batch 8 after -d 500 needs a context of"}) ==
        "");
  const CommandResult alone = batches({"--batch", "2"}); // not also one by one
  CHECK(json::parse(alone.out)["results"].size() == 1);
  // Texts that begin alike, of which only the own tokens are of the depth.
  const CommandResult alike =
      batches({"--batch", "1,3", "-d", "40", "--shared-prefix", "90", "--chunk", "16"});
  CAPTURE(alike.err);
  REQUIRE(alike.status == 0);
  const json of_alike = json::parse(alike.out)["results"];
  REQUIRE(of_alike.size() == 2);
  CHECK(!of_alike[0].contains("shared_prefix"));
  CHECK(of_alike[1]["test"] == "tg4 b3 @ shared 90 @ d40");
  CHECK(of_alike[1]["shared_prefix"] == 90);
  CHECK(of_alike[1]["depth"] == 40);
  CHECK(fails_saying(batches({"--shared-prefix", "5"}), {"--shared-prefix", "--batch", "at least 2"}) == "");
  CHECK(fails_saying(batches({"--batch", "2", "--shared-prefix", "600"}),
                     {"--shared-prefix 600", "context"}) == "");
  // A text that joins three others: how long they wait for each of their tokens, and it for its first.
  const auto join = [&](const char* limit) {
    const CommandResult joined =
        batches({"--batch", "3", "-n", "0", "--newcomer", "50", "--chunk", "20", "--max-stall-ms", limit});
    CAPTURE(joined.err);
    REQUIRE(joined.status == 0);
    return json(json::parse(joined.out)["results"].back());
  };
  const json whole = join("0"), pieces = join("0.001");
  CHECK(whole["test"] == "pp50 beside b3");
  CHECK(whole["kind"] == "join");
  CHECK(whole["tokens"] == 50);
  const auto waits = [](const json& each) { return each["samples"][0]["token_seconds"].size(); };
  CHECK(waits(whole) < 40); // three chunks, and what was under way
  CHECK(waits(pieces) >= 50);
  CHECK(whole["samples"][0]["first_token_seconds"] > 0);
  CHECK(fails_saying(batches({"--newcomer", "50"}), {"--newcomer", "--batch", "at least 2"}) == "");
  CHECK(fails_saying(batches({"--batch", "2", "--newcomer", "600"}), {"--newcomer 600", "context"}) == "");
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

// What bench writes, of a device that takes so long and is a little uneven. Nothing disturbed it, whatever
// else the machine does while a test reads it.
std::string written(unsigned seed, double slowdown, size_t samples, const std::string& device = "A device",
                    const std::string& hash = "1") {
  std::mt19937 random(seed);
  std::normal_distribution<double> noise(1, 0.01);
  json object = {{"device", device}, {"model", {{"hash", hash}}}, {"results", json::array()}};
  for (const auto& [test, seconds] : {std::pair("pp128", 0.3), {"tg32", 0.02}}) {
    const bool prompt = std::string(test) == "pp128";
    json result = {{"test", test},
                   {"kind", prompt ? "prompt" : "decode"},
                   {"stable", true},
                   {"machine", {{"others", 0}, {"stolen", 0}}},
                   {"samples", json::array()}};
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

// Several processes, one after another.
std::string written_processes(unsigned seed, double slowdown, size_t processes) {
  std::string all;
  for (size_t i = 0; i < processes; ++i) all += written(seed * 1000 + i, slowdown, 3) + "\n";
  return all;
}

CommandResult compare_texts(const std::string& a, const std::string& b, std::vector<std::string> more = {}) {
  const TemporaryFolder folder;
  folder.write("a.json", a);
  folder.write("b.json", b);
  const auto path = [&](const char* name) { return (folder.path() / name).string(); };
  more.insert(more.begin(), {"bench", "compare", path("a.json"), path("b.json")});
  return pumice_command(more);
}

// The verdicts of pp128 and tg32.
std::string verdicts_of(const CommandResult& result) {
  CAPTURE(result.err);
  const json results = json::parse(result.out)["results"];
  REQUIRE(results.size() == 2);
  return fmt::format("{}, {}", results[0]["verdict"].get<std::string>(),
                     results[1]["verdict"].get<std::string>());
}

std::string compare(const std::string& a, const std::string& b) {
  const CommandResult result = compare_texts(a, b, {"--json"});
  REQUIRE(result.status == 0);
  return verdicts_of(result);
}

// A program that answers as `pumice bench -o json` does, without measuring anything.
std::string answering(const TemporaryFolder& folder, const std::string& name, const std::string& answer) {
  folder.write(name + ".json", answer);
  folder.write(name, fmt::format("#!/bin/sh\ncat '{}/{}.json'\n", folder.path().string(), name));
  const std::filesystem::path path = folder.path() / name;
  std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  return path.string();
}

CommandResult compare_sides(const std::string& a, const std::string& b, std::vector<std::string> more) {
  more.insert(more.begin(), {"bench", "ab", a, b});
  return pumice_command(more);
}

} // namespace

TEST_CASE("bench compare finds a slowdown of a tenth, and none between two runs of the same thing") {
  for (unsigned seed : {1u, 2u, 3u, 4u, 5u}) {
    CAPTURE(seed);
    const std::string base = written_processes(seed, 1, 10);
    CHECK(compare(base, written_processes(seed + 100, 1.1, 10)).ends_with(", slower"));
    CHECK(compare(written_processes(seed + 100, 1.1, 10), base).ends_with(", faster"));
    const std::string same = compare(base, written_processes(seed + 200, 1, 10));
    CHECK(same.find("faster") == std::string::npos);
    CHECK(same.find("slower") == std::string::npos);
  }
}

TEST_CASE("bench compare says what one process of each cannot tell, however many samples it has") {
  const std::string a = written(1, 1, 30), b = written(2, 1.5, 30);
  CHECK(compare(a, b) == "cannot tell, cannot tell");
  const CommandResult table = compare_texts(a, b);
  CHECK(table.out.find("one process does not show how much processes differ") != std::string::npos);
  CHECK(table.out.find("bench ab") != std::string::npos);
  CHECK(table.out.find("more processes of each") != std::string::npos);
}

TEST_CASE("bench compare and bench ab fail if B is slower, where that is asked for") {
  const std::string base = written_processes(1, 1, 10), slow = written_processes(2, 1.2, 10);
  CHECK(compare_texts(base, slow).status == 0);
  CHECK(compare_texts(base, slow, {"--fail-if-slower"}).status == 2);
  CHECK(compare_texts(slow, base, {"--fail-if-slower"}).status == 0);
  CHECK(verdicts_of(compare_texts(base, slow, {"--json", "--margin", "50"})) == "the same, the same");

  const TemporaryFolder folder;
  const std::string a = answering(folder, "a", written(1, 1, 3)),
                    b = answering(folder, "b", written(1, 1.1, 3));
  const std::vector<std::string> options = {"model.gguf", "--rounds", "20", "--json"};
  CommandResult result = compare_sides(a, b, options);
  CAPTURE(result.err);
  CHECK(result.status == 0);
  CHECK(verdicts_of(result) == "the same, slower");
  const json object = json::parse(result.out);
  CHECK(object["results"][1]["ratio"] == doctest::Approx(1 / 1.1).epsilon(0.01));
  CHECK(object["confidence"] == doctest::Approx(0.99));
  CHECK(object["rounds"].size() >= 10);
  CHECK(object["rounds"].size() < 20); // it is clear before the last one
  CHECK(object["rounds"][0]["b_seconds"]["tg32"] > object["rounds"][0]["a_seconds"]["tg32"]);
  CHECK(object["machine"].contains("others"));
  CHECK(object["b"][0] == b);
  CHECK(object["b"][1] == "bench");
  CHECK(object["b"][2] == "model.gguf");
  CHECK(verdicts_of(compare_sides(b, a, options)) == "the same, faster");
  result = compare_sides(a, b, {"--rounds", "20", "--fail-if-slower"});
  CHECK(result.status == 2);
  CHECK(result.out.find("| slower ") != std::string::npos);
}

TEST_CASE("bench ab says what it needs, and what is wrong with A and B") {
  const TemporaryFolder folder;
  const std::string a = answering(folder, "a", written(1, 1, 3)),
                    b = answering(folder, "b", written(1, 1.1, 3));
  const CommandResult few = compare_sides(a, b, {"--rounds", "3"});
  CHECK(few.status == 0);
  CHECK(few.out.find("tg32: cannot tell; it needs about 6 more rounds") != std::string::npos);
  CHECK(few.out.find("from 3 rounds") != std::string::npos);

  const CommandResult times = compare_sides("sleep 0.01", "sleep 0.5", {"--rounds", "12", "--json"});
  const json whole = json::parse(times.out);
  CHECK(whole["results"][0]["test"] == "whole command");
  CHECK(whole["results"][0]["verdict"] == "slower");

  CHECK(fails_saying(pumice_command({"bench", "ab"}), {"expected A and B"}) == "");
  CHECK(fails_saying(compare_sides("no-such-program", a, {}), {"no-such-program", "no model, no program"}) ==
        "");
  CHECK(fails_saying(compare_sides("sleep 0", a, {"-p", "3"}), {"-p 3", "into the quotes"}) == "");
  CHECK(fails_saying(compare_sides("sleep 0", a, {}), {"no test in common", "whole command", "tg32"}) == "");
  CHECK(fails_saying(compare_sides(a, "ls /no/such/file", {}), {"/no/such/file", "status 2"}) == "");
  CHECK(fails_saying(compare_sides(a, "sh -c 'exit", {}), {"is not closed"}) == "");
  const std::string broken = answering(folder, "broken", "no JSON");
  CHECK(fails_saying(compare_sides(a, broken, {}), {"broken", "not a JSON object"}) == "");
}

TEST_CASE("bench ab compares option sets and models in fresh processes" * doctest::test_suite("long")) {
  const TemporaryFolder cache;
  const std::string model = fixtures().story().string();
  const std::vector<std::string> options = {"-p",       "4",  "-n",    "2",       "-r",
                                            "1",        "-w", "1",     "--cache", cache.path().string(),
                                            "--rounds", "1",  "--json"};
  std::vector<std::string> with_model = options;
  with_model.insert(with_model.begin(), model);
  CommandResult result = compare_sides("--kv f16", "--kv f32", with_model);
  CAPTURE(result.err);
  REQUIRE(result.status == 0);
  json object = json::parse(result.out);
  REQUIRE(object["results"].size() == 2);
  CHECK(object["results"][0]["test"] == "pp4");
  CHECK(object["results"][0]["verdict"] == "cannot tell");
  CHECK(object["results"][0]["more_rounds"] > 5);
  CHECK(object["results"][0]["low"].is_null());
  CHECK(object["device"] != "");
  CHECK(object["rounds"].size() == 1);
  CHECK(object["rounds"][0]["a_seconds"]["tg2"] > 0);
  CHECK(object["rounds"][0]["alternated"] == true);
  CHECK(object["rounds"][0]["quotient"]["tg2"] > 0);
  std::vector<std::string> apart = options;
  apart.emplace_back("--apart");
  result = compare_sides(model, model + " --kv f32", apart);
  CAPTURE(result.err);
  REQUIRE(result.status == 0);
  object = json::parse(result.out);
  CHECK(object["rounds"][0]["alternated"] == false);
  CHECK(object["rounds"][0]["a_disturbed"]["tg2"] >= 0);
}

// Notes each turn in a file that both processes write to.
TEST_CASE("bench ab gives two processes turns, one at a time") {
  const TemporaryFolder folder;
  const auto playing = [&](const std::string& name) {
    folder.write(name + ".json", written(1, 1, 3));
    folder.write(name, fmt::format(R"(#!/bin/sh
if [ -n "$PUMICE_BENCH_TURNS" ]; then
  in=${{PUMICE_BENCH_TURNS%,*}} out=${{PUMICE_BENCH_TURNS#*,}}
  for run in 1 2 3 4; do
    printf x > /proc/self/fd/$out
    head -c 1 < /proc/self/fd/$in > '{0}/{1}.turn'
    echo begin {1} $run >> '{0}/turns'
    sleep 0.02
    echo end {1} $run >> '{0}/turns'
  done
fi
cat '{0}/{1}.json'
)",
                                   folder.path().string(), name));
    const std::filesystem::path path = folder.path() / name;
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
    return path.string();
  };
  const std::string a = playing("a"), b = playing("b");
  const CommandResult result = compare_sides(a, b, {"--rounds", "1", "-r", "3", "--json"});
  CAPTURE(result.err);
  REQUIRE(result.status == 0);
  CHECK(json::parse(result.out)["rounds"][0]["alternated"] == true);
  std::vector<std::string> lines;
  std::ifstream turns(folder.path() / "turns");
  for (std::string line; std::getline(turns, line);) lines.push_back(line);
  REQUIRE(lines.size() == 16);
  for (size_t turn = 0; turn < 8; ++turn) {
    const std::string began = lines[2 * turn].substr(6);
    CHECK(lines[2 * turn + 1] == "end " + began);
    CHECK(began.substr(2) == std::to_string(turn / 2 + 1)); // both have had it before either goes on
  }
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
  CHECK(forced.out.find("| cannot tell ") != std::string::npos);
  // In a narrow terminal the table is divided, and each test stands in front of each part.
  const TerminalResult narrow =
      pumice_at_terminal({"bench", "compare", path("a.json"), path("device.json"), "--force"}, "", {}, 40);
  CHECK(narrow.shown.find("cannot tell") != std::string::npos);
  std::istringstream lines(narrow.shown);
  for (std::string line; std::getline(lines, line);) {
    CAPTURE(line);
    CHECK(line.substr(0, line.find('\r')).size() <= 40);
  }
}

TEST_CASE("operations have the names of their kernels, and those that there are none of are an error") {
  const CommandResult none = pumice_command({"bench", "--ops", "--only", "zzz"});
  CHECK(fails_saying(none, {"--only", "'zzz'", "attention, norm, product. "}) == "");
  // Those that a model's profile has.
  const CommandResult profile =
      bench(fixtures().story(), {"-p", "0", "-n", "0", "--profile", "--context", "64", "-o", "json"});
  REQUIRE(profile.status == 0);
  for (const json& each : json::parse(profile.out)["profiles"][0]["kernels"]) {
    const std::string kernel = each["kernel"];
    if (!kernel.starts_with("matmul.") && kernel != "norm") continue;
    CAPTURE(kernel);
    CHECK(none.err.find(kernel.substr(0, kernel.rfind('.'))) != std::string::npos);
  }
  const CommandResult result =
      pumice_command({"bench", "--ops", "--only", "norm", "-r", "1", "-w", "0", "-o", "json"});
  CAPTURE(result.err);
  REQUIRE(result.status == 0);
  for (const json& each : json::parse(result.out)["results"]) CHECK(each["kernels"] == json{"norm"});
}

TEST_CASE("bench's profile is of all tokens of a step") {
  const auto milliseconds = [](const std::string& text, const std::string& heading) {
    const size_t at = text.find("\n" + heading);
    REQUIRE(at != text.npos);
    return std::stod(text.substr(text.find(": ", at) + 2));
  };
  const CommandResult result =
      bench(fixtures().story(), {"-p", "8", "-n", "0", "--context", "128", "--chunk", "64", "--profile"});
  CAPTURE(result.out);
  REQUIRE(result.status == 0);
  // Much of a small model's step is the launches' time, on a GPU most of it.
  const double times = result.out.find("llvmpipe") != std::string::npos ? 2 : 1;
  CHECK(milliseconds(result.out, "64 tokens from position 32: ") >
        times * milliseconds(result.out, "1 token from position 63: "));

  const CommandResult in_json = bench(fixtures().story(), {"-p", "0", "-n", "0", "--profile", "-o", "json"});
  REQUIRE(in_json.status == 0);
  const nlohmann::json report = nlohmann::json::parse(in_json.out);
  CHECK(report["results"].empty());
  REQUIRE(report["profiles"].size() == 2);
  double sum = 0;
  for (const nlohmann::json& kernel : report["profiles"][0]["kernels"])
    sum += kernel["seconds"].get<double>();
  CHECK(sum == doctest::Approx(report["profiles"][0]["seconds"].get<double>()));
  const CommandResult html = bench(fixtures().story(), {"-p", "0", "-n", "0", "--profile", "-o", "html"});
  CHECK(html.out.ends_with("</body></html>\n"));
  CHECK(html.out.find("<h2>Kernels of a step</h2>") != std::string::npos);
  CHECK(fails_saying(bench(fixtures().story(), {"--profile", "-o", "csv"}), {"--profile", "json"}) == "");
}

TEST_CASE("bench reads and writes in one test, in each size of a list, and prints a line for each") {
  const CommandResult result =
      bench(fixtures().story(), {"-p", "0", "-n", "0", "-pg", "16,4", "-pg", "8,2", "-ub", "8,16", "-ctk",
                                 "f16,q8_0", "-ctv", "f16,q8_0", "-o", "jsonl"});
  CAPTURE(result.err);
  REQUIRE(result.status == 0);
  std::istringstream lines(result.out);
  std::vector<std::string> tests;
  for (std::string line; std::getline(lines, line);) {
    const json test = json::parse(line);
    check_result(test);
    CHECK(test["model"]["kv"] == "f16,q8_0");
    CHECK(!test["device"].get<std::string>().empty());
    CHECK(test["tokens"] == (test["test"].get<std::string>().starts_with("pp16") ? 20 : 10));
    CHECK(test["samples"][0]["first_token_seconds"] < test["samples"][0]["seconds"]);
    tests.push_back(test["test"]);
  }
  CHECK(tests.size() == 8);
  CHECK(tests.front() == "pp16+tg4 chunk 8 kv f16");
  CHECK(tests.back() == "pp8+tg2 chunk 16 kv q8_0");
  CHECK(fails_saying(bench(fixtures().story(), {"-p", "0", "-n", "0", "--pg", "500,100", "--context", "64"}),
                     {"--pg", "64"}) == "");
}

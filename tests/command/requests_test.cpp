// `generate` for programs: several samples, stop strings, and JSON lines in and out.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <thread>

#include <nlohmann/json.hpp>
#include <sys/stat.h>

#include "support/command/answers.h"
#include "support/command/command.h"
#include "support/command/command_process.h"
#include "support/files/fixtures.h"

using nlohmann::json;

namespace {

CommandResult generate(std::vector<std::string> arguments, const std::string& input = "") {
  arguments.insert(arguments.begin(), {"generate", fixtures().story().string()});
  return pumice_command(arguments, input);
}

// The objects that a command wrote, one a line.
std::vector<json> objects_of(const CommandResult& result) {
  CAPTURE(result.err);
  REQUIRE(result.status == 0);
  std::vector<json> objects;
  std::istringstream text(result.out);
  for (std::string line; std::getline(text, line);) objects.push_back(json::parse(line));
  return objects;
}

std::vector<json> lines(const std::vector<std::string>& arguments, const std::string& input = "") {
  return objects_of(generate(arguments, input));
}

const std::vector<std::string> warm = {"-n", "16", "--temp", "1", "--seed", "7"};

std::vector<std::string> with(std::vector<std::string> more, const std::vector<std::string>& rest = warm) {
  more.insert(more.end(), rest.begin(), rest.end());
  return more;
}

} // namespace

TEST_CASE("samples of a prompt have seeds of their own, one after the other") {
  const std::vector<json> samples = lines(with({"--prompt", "Once", "--samples", "3", "--json-lines"}));
  REQUIRE(samples.size() == 3);
  std::set<std::string> texts;
  for (size_t i = 0; i < 3; ++i) {
    CHECK(samples[i]["schema"] == 1);
    CHECK(samples[i]["index"] == 0);
    CHECK(samples[i]["sample"] == i);
    CHECK(samples[i]["seed"] == 7 + i);
    texts.insert(samples[i]["text"].get<std::string>());
    const json alone = json::parse(
        generate({"--prompt", "Once", "-n", "16", "--temp", "1", "--seed", std::to_string(7 + i), "--json"})
            .out);
    CHECK(alone["ids"] == samples[i]["ids"]);
  }
  CHECK(texts.size() == 3);
  // The same prompt three times is as good as three samples, and another prompt begins with the first seed.
  const std::vector<json> repeated =
      lines(with({"--prompt", "Once", "--prompt", "Tom", "--prompt", "Once", "--json-lines"}));
  REQUIRE(repeated.size() == 3);
  CHECK(repeated[0]["ids"] == samples[0]["ids"]);
  CHECK(repeated[1]["seed"] == 7);
  CHECK(repeated[2]["ids"] == samples[1]["ids"]);
  const json together = json::parse(generate(with({"--prompt", "Once", "--samples", "2", "--json"})).out);
  REQUIRE(together["sequences"].size() == 2);
  CHECK(together["sequences"][1]["ids"] == samples[1]["ids"]);
}

TEST_CASE("generate ends a text before a stop string, whatever goes on beside it") {
  const std::string prompt = "Once upon a time";
  const auto stopped = [&](std::vector<std::string> more) {
    return json::parse(generate(with({"--prompt", prompt, "--json", "-n", "40", "--temp", "0"}, more)).out);
  };
  const json whole = stopped({}), cut = stopped({"--stop", "girl named"});
  CHECK(whole["finish_reason"] == "count");
  CHECK(cut["finish_reason"] == "stop string");
  const std::string text = whole["text"];
  CHECK(cut["text"] == text.substr(0, text.find("girl named")));
  CHECK(cut["ids"].size() < whole["ids"].size());
  const json both = stopped({"--prompt", "Tom", "--stop", "girl named"});
  REQUIRE(both["sequences"].size() == 2);
  CHECK(both["sequences"][0]["text"] == cut["text"]);
  CHECK(generate({"--prompt", prompt, "-n", "40", "--temp", "0", "--stop", "girl named"}).out ==
        cut["text"].get<std::string>() + "\n");
  const std::string mha = fixtures().model("llama-mha").string();
  CHECK(fails_saying(pumice_command({"generate", mha, "--ids", "1", "--stop", "x"}),
                     {mha, "tokenizer.json"}) == "");
}

TEST_CASE("generate answers JSON lines in their order") {
  const std::string requests = R"({"id": "a", "prompt": "Once", "count": 4}

{"id": [2], "ids": [1, 5, 6], "seed": 3, "temperature": 1.5, "samples": 2}
{"prompt": "Once upon a time", "stop": ["girl"], "count": 40}
)";
  const std::vector<json> answers =
      lines({"--requests", "-", "-n", "9", "--temp", "0", "--seed", "1"}, requests);
  REQUIRE(answers.size() == 4);
  CHECK(answers[0]["id"] == "a");
  CHECK(answers[0]["ids"].size() == 4);
  CHECK(answers[1]["id"] == json::array({2}));
  CHECK(answers[2]["sample"] == 1);
  CHECK(answers[2]["seed"] == 4);
  CHECK(answers[1]["index"] == 1);
  CHECK(!answers[3].contains("id"));
  CHECK(answers[3]["finish_reason"] == "stop string");
  const json alone =
      json::parse(generate({"--ids", "1,5,6", "-n", "9", "--temp", "1.5", "--seed", "4", "--json"}).out);
  CHECK(alone["ids"] == answers[2]["ids"]);
  const TemporaryFolder folder;
  const std::string file = folder.write("requests.jsonl", requests).string();
  CHECK(lines({"--requests", file, "-n", "9", "--temp", "0", "--seed", "1"}) == answers);
  CHECK(lines({"--requests", file, "-n", "9", "--temp", "0", "--seed", "1", "--max-stall-ms", "0.01"}) ==
        answers);
  CHECK(lines({"--requests", file, "-n", "9", "--temp", "0", "--seed", "1", "--cache-tokens", "50"}) ==
        answers);
  CHECK(lines({"--requests", "-"}, "\n").empty());
}

TEST_CASE("generate answers a request before the next one is there") {
  const TemporaryFolder folder;
  const std::string out = (folder.path() / "out").string(), pipe = (folder.path() / "pipe").string();
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  for (const std::string& model : {fixtures().story().string(), fixtures().model("t5").string()}) {
    CAPTURE(model);
    std::filesystem::remove(out);
    CommandProcess process({"generate", model, "--requests", "-", "-n", "4"}, [&] {
      redirect(0, pipe.c_str(), O_RDONLY);
      redirect(1, out.c_str(), O_WRONLY | O_CREAT | O_TRUNC);
      redirect(2, "/dev/null", O_WRONLY);
    });
    std::ofstream requests(pipe);
    const auto answers = [&] {
      std::ifstream file(out);
      return std::count(std::istreambuf_iterator<char>(file), {}, '\n');
    };
    for (int asked = 1; asked <= 3; ++asked) {
      // The second one needs more room than what the first one got.
      const int count = asked == 2 ? 300 : 4;
      requests << R"({"ids": [5, 6], "count": )" << count << ", \"id\": " << asked << "}" << std::endl;
      const auto start = std::chrono::steady_clock::now();
      while (answers() < asked && std::chrono::steady_clock::now() - start < std::chrono::seconds(30))
        std::this_thread::sleep_for(std::chrono::milliseconds(5));
      REQUIRE(answers() == asked);
    }
    requests.close();
    CHECK(process.wait() == 0);
    std::ifstream file(out);
    for (int asked = 1; asked <= 3; ++asked) {
      std::string line;
      std::getline(file, line);
      CHECK(json::parse(line)["id"] == asked);
    }
  }
}

TEST_CASE("generate answers requests with an encoder-decoder as it does its options") {
  const std::string t5 = fixtures().model("t5").string();
  const auto run = [&](std::vector<std::string> arguments, const std::string& input = "") {
    arguments.insert(arguments.begin(), {"generate", t5});
    if (std::ranges::count(arguments, "-n") == 0) arguments.insert(arguments.end(), {"-n", "9"});
    return objects_of(pumice_command(arguments, input));
  };
  const std::vector<json> answers = run({"--requests", "-"}, R"({"id": "a", "ids": [5, 6, 7]}
{"ids": [8, 9], "count": 3}
{"ids": [8, 9], "temperature": 1.5, "seed": 4, "samples": 2}
)");
  REQUIRE(answers.size() == 4);
  CHECK(answers[0]["id"] == "a");
  CHECK(answers[0]["ids"] == run({"--ids", "5,6,7", "--json"})[0]["ids"]);
  CHECK(answers[1]["ids"] == run({"--ids", "8,9", "-n", "3", "--json"})[0]["ids"]);
  CHECK(answers[1]["finish_reason"] == "count");
  CHECK(answers[3]["seed"] == 5);
  CHECK(answers[3]["sample"] == 1);
  CHECK(answers[3]["ids"] == run({"--ids", "8,9", "--temp", "1.5", "--seed", "5", "--json"})[0]["ids"]);
  CHECK(answers[2]["ids"] != answers[3]["ids"]);
  const std::string end = answers[0]["ids"].back().dump();
  const json ended = run({"--ids", "5,6,7", "--stop-id", end, "--json"})[0];
  CHECK(ended["finish_reason"] == "stop token");
  const std::vector<json> beams =
      run({"--requests", "-", "--beams", "3", "--n-best", "2"}, "{\"ids\": [5, 6, 7]}");
  REQUIRE(beams[0]["hypotheses"].size() == 2);
  CHECK(beams[0]["score"] == beams[0]["hypotheses"][0]["score"]);
}

TEST_CASE("a text that ends by its count says so, whatever room the batch has") {
  const std::vector<json> answers = lines(
      {"--requests", "-", "--temp", "0"},
      "{\"ids\": [1, 5], \"count\": 3}\n{\"ids\": [1], \"count\": 2}\n{\"ids\": [1, 6], \"count\": -1}");
  REQUIRE(answers.size() == 3);
  CHECK(answers[0]["finish_reason"] == "count");
  CHECK(answers[1]["finish_reason"] == "count");
  CHECK(answers[2]["finish_reason"] != "count");
  const json both =
      json::parse(generate({"--ids", "1,5", "--ids", "1,6,7", "-n", "3", "--temp", "0", "--json"}).out);
  for (const json& each : both["sequences"]) CHECK(each["finish_reason"] == "count");
}

TEST_CASE("a request that is wrong is named with its line and field") {
  const auto fails = [](const std::string& line, const std::vector<std::string>& parts) {
    CommandResult result = generate({"--requests", "-"}, "{\"ids\": [1]}\n" + line + "\n{\"ids\": [2]}");
    // The requests around it are answered, and in its place is the error.
    std::vector<json> answers;
    std::istringstream text(result.out);
    for (std::string each; std::getline(text, each);) answers.push_back(json::parse(each));
    const bool whole = answers.size() == 3 && answers[0].contains("ids") && answers[2].contains("ids") &&
                       answers[1]["line"] == 2 && answers[1].contains("error");
    if (!whole) return "standard output has: " + result.out;
    result.out.clear();
    return fails_saying(result, parts);
  };
  const std::string where = "standard input: line 2";
  CHECK(fails("{\"prompt\": 3}", {where, "prompt", "3"}) == "");
  CHECK(fails("{\"prompt\": \"a\", \"ids\": [1]}", {where, "both"}) == "");
  CHECK(fails("{\"count\": 3}", {where, "neither"}) == "");
  CHECK(fails("{\"prompt\": \"a\", \"temprature\": 1}", {where, "temprature", "temperature"}) == "");
  CHECK(fails("{\"prompt\": \"a\", \"temperature\": -1}", {where, "temperature", "-1"}) == "");
  CHECK(fails("{\"prompt\": \"\"}", {where, "empty"}) == "");
  CHECK(fails("{\"ids\": [1, 512]}", {where, "512"}) == "");
  CHECK(fails("[1]", {where}) == "");
  CHECK(fails_saying(generate({"--requests", "/nonexistent/r"}), {"/nonexistent/r"}) == "");
  const CommandResult skipped =
      generate({"--requests", "-", "--skip-bad-lines"}, "{\"ids\": [1]}\nx\n{\"ids\": [2]}");
  CHECK(skipped.status == 0);
  CHECK(std::ranges::count(skipped.out, '\n') == 2);
  CHECK(skipped.err.find("standard input: line 2") != std::string::npos);
}

TEST_CASE("generate reads prompts from files") {
  const TemporaryFolder folder;
  const std::string file = folder.write("prompt", std::string_view("Once upon a time\n")).string();
  const std::vector<std::string> few = {"-n", "5", "--temp", "0"};
  CHECK(generate(with({"-f", file}, few)).out == generate(with({"--prompt", "Once upon a time"}, few)).out);
  CHECK(generate(with({"-f", "-"}, few), "Once upon a time\n").out == generate(with({"-f", file}, few)).out);
}

TEST_CASE("a bad request in the middle is an error in its place, also for --json and --outputs") {
  const TemporaryFolder folder;
  const std::string out = (folder.path() / "out.safetensors").string();
  const std::string requests = R"({"ids": [1, 2]}
{"ids": [1, 3], "count": 3}
{"ids": [99999], "id": "third"}
{"ids": [1, 4]}
)";
  const CommandResult result =
      generate({"--requests", "-", "-n", "4", "--ignore-eos", "--json", "--outputs", out, "--sequences", "1"},
               requests);
  CHECK(result.status == 1);
  CHECK(result.err.find("99999") != std::string::npos);
  const Answers written(out);
  CHECK(written.shapes.at("generated_ids") == std::vector<uint64_t>{4, 4}); // padding in the third row
  const CommandResult listed = generate({"--requests", "-", "-n", "4", "--ignore-eos"}, requests);
  CHECK(listed.status == 1);
  CHECK(std::ranges::count(listed.out, '\n') == 4);
}

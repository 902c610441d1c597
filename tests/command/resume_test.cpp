// generate --requests --resume: texts that were not complete when a run ended go on where they were, and the
// answers of all runs together are those of one.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <iterator>
#include <thread>

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "base/lines.h"
#include "io/checksum.h"
#include "support/command/command.h"
#include "support/command/command_process.h"

using nlohmann::json;

namespace {

namespace fs = std::filesystem;

constexpr int interrupted = 130;

std::string contents(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

using Words = std::vector<std::string>;

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

// What is kept of the texts of a line of the input.
struct KeptLine {
  uint64_t number = 0;
  json texts;
};

class Requests {
public:
  // `requests`: JSON lines.
  explicit Requests(const std::string& requests) { folder_.write("requests", requests); }

  Words command(const Words& more) const {
    return with({"generate", stories_model().string(), "--requests", path("requests"), "--ignore-eos",
                 "--context", "512", "--cache", path("cache")},
                more);
  }
  CommandResult run(const Words& more, const Words& environment = {}) const {
    return pumice_command(command(more), nullptr, environment);
  }
  // Until `after` says so; then it gets the signal. Its status; what it printed is added to output().
  template <class After>
  int run_until(const Words& more, int signal, const After& after) {
    const std::string out = path("out"), err = path("err");
    CommandProcess process(command(more), [&] {
      redirect(0, "/dev/null", O_RDONLY);
      redirect(1, out.c_str(), O_WRONLY | O_CREAT | O_TRUNC);
      redirect(2, err.c_str(), O_WRONLY | O_CREAT | O_TRUNC);
    });
    after(process);
    process.interrupt(signal);
    const int status = process.wait();
    CAPTURE(contents(err));
    output_ += contents(out);
    return status;
  }
  int run_for(double seconds, const Words& more, int signal = SIGINT) {
    return run_until(more, signal, [&](const CommandProcess&) {
      std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    });
  }
  const std::string& output() const { return output_; }

  std::string path(const char* name) const { return (folder_.path() / name).string(); }
  std::vector<KeptLine> kept(const char* name = "kept") const {
    std::vector<KeptLine> lines;
    const std::string text = contents(path(name));
    for (std::string_view line : pumice::split_lines(text)) {
      if (line.starts_with("answered lines:")) continue;
      const size_t number = line.find(' ') + 1, rest = line.find(' ', number) + 1;
      lines.push_back({std::stoull(std::string(line.substr(number))), json::parse(line.substr(rest))});
    }
    return lines;
  }
  void write(const char* name, const std::string& text) const { folder_.write(name, text); }

private:
  TemporaryFolder folder_;
  std::string output_;
};

// More texts than are written at a time, most of them of so many tokens, with all that may depend on the
// tokens before.
std::string long_requests(int count, int tokens) {
  std::string lines;
  for (int i = 0; i < count; ++i) {
    const json line = {{"prompt", i % 2 ? "Once upon a time" : "The dog"},
                       {"count", i % 3 == 1 ? 30 : tokens},
                       {"samples", 1 + i % 2},
                       {"stop", {"a a a", i == 3 ? "the" : "zzz"}},
                       {"repeat_penalty", 1.1},
                       {"frequency_penalty", 0.2},
                       {"id", i}};
    lines += line.dump() + "\n";
  }
  return lines;
}

const Words drawing = {"--temp", "1", "--seed", "5", "--logprobs", "2", "--sequences", "3"};

std::vector<json> answers(const std::string& output) {
  std::vector<json> all;
  for (std::string_view line : pumice::split_lines(output)) all.push_back(json::parse(line));
  return all;
}

// The answer that goes on with what is kept.
void check_continues(const json& kept, const std::vector<json>& all) {
  const json& ids = kept["ids"];
  CHECK(std::ranges::any_of(all, [&](const json& each) {
    const json& answer = each["ids"];
    return each["seed"] == kept["seed"] && answer.size() >= ids.size() &&
           std::equal(ids.begin(), ids.end(), answer.begin());
  }));
}

} // namespace

TEST_CASE("a run that is interrupted again and again answers as one that is not" *
          doctest::test_suite("long")) {
  Requests requests(long_requests(7, 150));
  const CommandResult whole = requests.run(drawing);
  CAPTURE(whole.err);
  REQUIRE(whole.status == 0);
  const Words resuming = with(drawing, {"--resume", requests.path("kept")});
  size_t unfinished = 0;
  int status = interrupted;
  for (double seconds = 0.8; status == interrupted && seconds < 60; seconds *= 1.25) {
    status = requests.run_for(seconds, resuming);
    for (const KeptLine& line : requests.kept()) {
      for (const json& text : line.texts) unfinished += !text.contains("finish_reason");
    }
  }
  CHECK(status == 0);
  CHECK(unfinished > 0);
  CHECK(requests.output() == whole.out);
  CHECK(requests.kept().empty());
}

TEST_CASE("a text goes on with what it was, and with its seed") {
  // Nobody gives a seed, so that a text that began again would be another one.
  Requests requests(json{{"prompt", "Once"}, {"count", 5}}.dump() + "\n" +
                    json{{"prompt", "The dog"}, {"count", 450}, {"samples", 2}}.dump() + "\n");
  const Words resuming = {"--temp", "1", "--resume", requests.path("kept")};
  REQUIRE(requests.run_until(resuming, SIGTERM, [&](const CommandProcess& process) {
    while (contents(requests.path("out")).empty() && !process.ended())
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }) == 128 + SIGTERM);
  const std::vector<KeptLine> kept = requests.kept();
  REQUIRE(kept.size() == 1);
  CHECK(kept[0].number == 2);
  REQUIRE(kept[0].texts.size() == 2);
  const CommandResult rest = requests.run(resuming);
  CAPTURE(rest.err);
  REQUIRE(rest.status == 0);
  const std::vector<json> all = answers(rest.out);
  REQUIRE(all.size() == 2);
  for (const json& text : kept[0].texts) {
    CHECK(text["ids"].size() > 0);
    check_continues(text, all);
  }
}

TEST_CASE("what a run kept before it was killed goes on") {
  Requests requests(long_requests(14, 250)); // longer than the two seconds between what is kept
  const CommandResult whole = requests.run(drawing);
  REQUIRE(whole.status == 0);
  const Words resuming = with(drawing, {"--resume", requests.path("kept")});
  REQUIRE(requests.run_until(resuming, SIGKILL, [&](const CommandProcess& process) {
    while (requests.kept().empty() && !process.ended())
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }) == 128 + SIGKILL);
  const CommandResult rest = requests.run(resuming);
  CAPTURE(rest.err);
  CHECK(rest.status == 0);
  CHECK(requests.output() + rest.out == whole.out);
}

TEST_CASE("texts that a lost device has ended go on") {
  Requests requests(long_requests(7, 100));
  const Words own = with(drawing, {"--vulkan-loader", crashing_vulkan().string()});
  const Words resuming = with(own, {"--resume", requests.path("kept")});
  const CommandResult whole = requests.run(own, {"PUMICE_TEST_ADDRESSES=1"});
  CAPTURE(whole.err);
  REQUIRE(whole.status == 0);
  std::string output;
  bool unfinished = false;
  for (const char* submissions : {"40", "60"}) {
    const CommandResult lost = requests.run(
        resuming, {"PUMICE_TEST_ADDRESSES=1", std::string("PUMICE_TEST_SUBMISSIONS=") + submissions});
    CAPTURE(lost.err);
    CHECK(lost.status == 1);
    output += lost.out;
    unfinished = unfinished || !requests.kept().empty();
  }
  CHECK(unfinished);
  const CommandResult rest = requests.run(resuming, {"PUMICE_TEST_ADDRESSES=1"});
  CAPTURE(rest.err);
  CHECK(rest.status == 0);
  CHECK(output + rest.out == whole.out);
}

TEST_CASE("where bits are not the same, a text that a seed determines begins again, and another one goes on" *
          doctest::test_suite("long")) {
  Requests requests(json{{"prompt", "Once"}, {"count", 5}}.dump() + "\n" +
                    json{{"prompt", "The dog"}, {"count", 70}}.dump() + "\n");
  // With the kernels of GPUs.
  const Words gpu = {
      "--temp", "1", "--sequences", "1", "--no-tune", "--vulkan-loader", crashing_vulkan().string()};
  for (const bool seeded : {true, false}) {
    CAPTURE(seeded);
    const Words own = seeded ? with(gpu, {"--seed", "5", "--logprobs", "2"}) : gpu;
    const Words resuming = with(own, {"--resume", requests.path(seeded ? "seeded" : "drawn")});
    const CommandResult lost = requests.run(resuming, {"PUMICE_TEST_SUBMISSIONS=40"});
    CAPTURE(lost.err);
    CHECK(lost.status == 1);
    const std::vector<KeptLine> kept = requests.kept(seeded ? "seeded" : "drawn");
    REQUIRE(kept.size() == 1);
    CHECK(kept[0].texts[0]["ids"].size() > 8);
    const CommandResult rest = requests.run(resuming);
    CAPTURE(rest.err);
    REQUIRE(rest.status == 0);
    const bool begins_again =
        rest.err.find("would not have the same bits on this device") != std::string::npos;
    CHECK(begins_again == seeded);
    if (seeded) CHECK(lost.out + rest.out == requests.run(own).out);
    if (!seeded) check_continues(kept[0].texts[0], answers(rest.out));
  }
}

TEST_CASE("texts that were begun otherwise begin again" * doctest::test_suite("long")) {
  Requests requests(long_requests(28, 250));
  const std::string kept = requests.path("kept");
  const Words resuming = with(drawing, {"--resume", kept});
  REQUIRE(requests.run_until(resuming, SIGINT, [&](const CommandProcess& process) {
    while (requests.kept().empty() && !process.ended())
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }) == interrupted);
  const std::string before = contents(kept);
  const Words others[] = {{"--temp", "0.9", "--seed", "5", "--logprobs", "2", "--sequences", "3"},
                          {"--temp", "1", "--seed", "6", "--logprobs", "2", "--sequences", "3"},
                          with(drawing, {"--kv", "f16"}),
                          with(drawing, {"--stop-id", "400"})};
  for (const Words& other : others) {
    CAPTURE(other);
    requests.write("kept", before);
    const CommandResult rest = requests.run(with(other, {"--resume", kept}));
    CAPTURE(rest.err);
    CHECK(rest.status == 0);
    CHECK(rest.err.find("kept: it has texts that were begun with another model") != std::string::npos);
    const std::string whole = requests.run(other).out;
    CHECK(whole.ends_with(rest.out));
    CHECK(!rest.out.empty());
  }
}

TEST_CASE("a damaged file of --resume is named with its line, and one that was cut off goes on") {
  Requests requests(json{{"prompt", "Once"}, {"count", 5}}.dump() + "\n");
  const std::string kept = requests.path("kept");
  const Words resuming = {"--resume", kept};
  const std::string first = "answered lines:                    0 last one: 0000000000000000\n";
  const std::string rest = "1 [{\"sample\":0,\"made_with\":1,\"seed\":1,\"ids\":[5]}]";
  pumice::Checksum sum;
  sum.add(rest);
  char digits[17];
  std::snprintf(digits, sizeof digits, "%016llx", static_cast<unsigned long long>(sum.value()));
  const std::string second = std::string(digits) + " " + rest + "\n";
  const auto run = [&](const std::string& text) {
    requests.write("kept", text);
    return requests.run(resuming);
  };
  const CommandResult sound = run(first + second);
  CAPTURE(sound.err);
  CHECK(sound.status == 0);
  CHECK(sound.err.find("begun with another model") != std::string::npos);
  for (size_t cut = 1; cut < second.size(); cut += 7) {
    const CommandResult torn = run(first + second.substr(0, cut));
    CHECK(torn.status == 0);
    CHECK(torn.out == sound.out);
  }
  CHECK(fails_saying(run(""), {"kept: line 1: it does not say which lines"}) == "");
  std::string wrong = second;
  wrong[second.find("[5]") + 1] = '6';
  CHECK(fails_saying(run(first + wrong), {"kept: line 2: it is damaged"}) == "");
  CHECK(fails_saying(run(first + second + "\n"), {"kept: line 3: it is damaged"}) == "");
  CHECK(fails_saying(run(first.substr(0, 40)), {"kept: line 1: it does not say which lines"}) == "");
  CHECK(fails_saying(run("something else\n"), {"kept: line 1: it does not say which lines"}) == "");
}

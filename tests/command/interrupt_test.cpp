// Every subcommand, interrupted at random moments as Ctrl-C does: it ends soon, and nothing half-done is left
// behind.
#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <iterator>
#include <random>
#include <thread>

#include <nlohmann/json.hpp>
#include <sys/stat.h>

#include "gpu/cache_folder/tuning_file.h"
#include "io/formats/safetensors.h"
#include "support/command/command.h"
#include "support/command/command_process.h"
#include "support/command/every_command.h"
#include "support/files/fixtures.h"
#include "support/files/random_model.h"
#include "support/files/whisper_folder.h"

namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int interrupted = 130;
// A command ends within half a second. On a machine with other work, its end takes its time to be seen.
constexpr double soon = 2;

double since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

void pause(double seconds) {
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
}

std::string contents(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

size_t files_in(const fs::path& folder) {
  return static_cast<size_t>(std::distance(fs::directory_iterator(folder), {}));
}

// Whether a file is being written: before the work starts, one is made and removed again, to see whether it
// can be.
bool is_written(const fs::path& folder) {
  return std::ranges::any_of(fs::directory_iterator(folder), [](const fs::directory_entry& file) {
    std::error_code gone;
    return fs::file_size(file.path(), gone) > 0 && !gone;
  });
}

// Standard streams in files of a folder.
std::function<void()> streams(const EveryCommand& every) {
  return [in = every.input(), out = every.file("out"), err = every.file("err")] {
    redirect(0, in.c_str(), O_RDONLY);
    redirect(1, out.c_str(), O_WRONLY | O_CREAT | O_TRUNC);
    redirect(2, err.c_str(), O_WRONLY | O_CREAT | O_TRUNC);
  };
}

// Whether a file is one that the command may leave: `complete` is one that it wrote to its end.
bool is_whole(const std::string& command, const fs::path& file, const std::string& left,
              const std::string& complete) {
  // What was measured until then, with its times.
  if (command == "tune") return pumice::TuningFile::read(file).ok();
  return command == "run" || command == "generate" || left.size() == complete.size();
}

void interrupt_all(uint32_t seed, int moments) {
  CAPTURE(seed);
  std::mt19937 random(seed);
  const EveryCommand every;
  for (const EveryCommand::Command& command : every.commands()) {
    CAPTURE(command.name());
    const TemporaryFolder folder;
    const fs::path file = folder.path() / "written.png", part = folder.path() / "written.partial.png";
    const std::vector<std::string> arguments =
        command.outputs.empty() ? command.arguments : command.writing(command.outputs[0], file.string());
    // Where they exist, they are read first, and refused if they are something else.
    const bool is_read =
        !command.outputs.empty() && (command.outputs[0] == "--session" || command.outputs[0] == "--export");
    const auto start = Clock::now();
    REQUIRE(CommandProcess(arguments, streams(every)).wait() == 0);
    const double whole = since(start);
    const std::string complete = contents(file);
    for (int moment = 0; moment < moments; ++moment) {
      const double after = std::uniform_real_distribution<double>(0, whole)(random);
      CAPTURE(after);
      fs::remove(file);
      fs::remove(part);
      if (moment % 2 && !is_read) folder.write("written.png", std::string_view("was there"));
      CommandProcess process(arguments, streams(every));
      pause(after);
      const int signal = ending_signals[static_cast<size_t>(moment) % ending_signals.size()];
      CAPTURE(signal);
      process.interrupt(signal);
      const auto asked = Clock::now();
      const int status = process.wait();
      CHECK(since(asked) < soon);
      CHECK((status == 0 || status == 128 + signal)); // by the signal itself before the command watches it
      const std::string left = contents(file);
      CHECK((left.empty() || left == "was there" || is_whole(command.name(), file, left, complete)));
      CHECK(files_in(folder.path()) <= 1u + fs::exists(part)); // a part of a sound is kept beside the file
    }
  }
}

// A decoder that takes long for a prompt on any machine that runs tests.
void write_slow_model(const TemporaryFolder& folder) {
  write_random_model(folder, {{"model_type", "llama"},
                              {"vocab_size", 320},
                              {"hidden_size", 768},
                              {"intermediate_size", 3072},
                              {"num_hidden_layers", 6},
                              {"num_attention_heads", 12},
                              {"num_key_value_heads", 12},
                              {"max_position_embeddings", 4096},
                              {"rms_norm_eps", 1e-5},
                              {"hidden_act", "silu"},
                              {"tie_word_embeddings", true}});
}

std::string ids(size_t count) {
  std::string text = "1";
  for (size_t i = 1; i < count; ++i) text += "," + std::to_string(i % 300);
  return text;
}

} // namespace

TEST_CASE("every subcommand ends soon after Ctrl-C, at ten moments" * doctest::test_suite("long")) {
  interrupt_all(std::random_device()(), 10);
}

TEST_CASE("Ctrl-C ends reading a long prompt, and a second one ends at once") {
  const TemporaryFolder model;
  write_slow_model(model);
  const EveryCommand every;
  const std::vector<std::string> arguments = {
      "generate", model.path().string(), "--ids", ids(3500), "-n", "4", "--cache", every.file("cache")};
  CHECK(CommandProcess(
            {"generate", model.path().string(), "--ids", "1", "-n", "1", "--cache", every.file("cache")},
            streams(every))
            .wait() == 0); // compiles
  for (const bool twice : {false, true}) {
    CAPTURE(twice);
    CommandProcess process(arguments, streams(every));
    pause(2.5);
    const auto asked = Clock::now();
    process.interrupt();
    if (twice) {
      pause(0.05);
      process.interrupt();
    }
    CHECK(process.wait() == interrupted);
    CHECK(since(asked) < (twice ? 0.5 : soon));
  }
  CHECK(contents(every.file("out")).empty());
}

TEST_CASE("Ctrl-C ends waiting for standard input") {
  const EveryCommand every;
  const TemporaryFolder folder;
  const fs::path pipe = folder.path() / "pipe";
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  const std::string story = fixtures().story().string();
  const std::vector<std::vector<std::string>> commands = {{"tokenize", story},
                                                          {"run", story, "-"},
                                                          {"embed", every.file("bert")},
                                                          {"translate", every.file("marian")}};
  for (std::vector<std::string> arguments : commands) {
    CAPTURE(arguments[0]);
    CommandProcess process(arguments, [&every, &pipe] {
      streams(every)();
      redirect(0, pipe.c_str(), O_RDWR); // never ends
    });
    pause(1);
    const auto asked = Clock::now();
    process.interrupt();
    CHECK(process.wait() == interrupted);
    CHECK(since(asked) < soon);
  }
}

TEST_CASE("what a text has come to by Ctrl-C is printed and kept in its session") {
  const EveryCommand every;
  const std::string session = every.file("session");
  const std::vector<std::string> arguments = {"run",
                                              stories_model().string(),
                                              "Once upon a time",
                                              "-n",
                                              "100000",
                                              "--ignore-eos",
                                              "--context",
                                              "512",
                                              "--session",
                                              session,
                                              "--cache",
                                              every.file("cache")};
  CommandProcess process(arguments, streams(every));
  while (contents(every.file("out")).size() < 40) pause(0.01);
  process.interrupt();
  const int status = process.wait();
  CHECK((status == interrupted || status == 0)); // 0: the context was full
  const std::string text = contents(every.file("out"));
  CHECK(text.starts_with("Once upon a time"));
  const CommandResult again = pumice_command({"generate", stories_model().string(), "--session", session,
                                              "-n", "1", "--kv", "f16", "--cache", every.file("cache")});
  CAPTURE(again.err);
  CHECK(again.status == (status == 0 ? 1 : 0)); // a full context has no room for another token
}

TEST_CASE("a command that is asked to end leaves no unfinished file") {
  const TemporaryFolder model, folder;
  write_slow_model(model);
  const EveryCommand every;
  const fs::path file = folder.path() / "out.gguf";
  for (const int signal : ending_signals) {
    CAPTURE(signal);
    CommandProcess process(
        {"convert", model.path().string(), file.string(), "--type", "Q4_K", "--no-vocabulary"},
        streams(every));
    const auto start = Clock::now();
    while (!is_written(folder.path()) && since(start) < 20) pause(0.001);
    REQUIRE(is_written(folder.path()));
    process.interrupt(signal);
    CHECK(process.wait() == 128 + signal);
    CHECK(files_in(folder.path()) == 0);
  }
}

namespace {

// Interrupts a command later and later, until what it prints then satisfies `enough`. `brief` has less to do;
// it compiles the kernels first.
nlohmann::json json_when_interrupted(const EveryCommand& every, std::vector<std::string> brief,
                                     std::vector<std::string> arguments,
                                     const std::function<bool(const nlohmann::json&)>& enough) {
  CAPTURE(arguments[0]);
  for (std::vector<std::string>* each : {&brief, &arguments})
    each->insert(each->end(), {"--json", "--cache", every.file("cache")});
  REQUIRE(CommandProcess(brief, streams(every)).wait() == 0);
  nlohmann::json printed;
  for (double after = 1; after < 100; after *= 1.5) {
    CommandProcess process(arguments, streams(every));
    pause(after);
    process.interrupt();
    const auto asked = Clock::now();
    REQUIRE(process.wait() == interrupted);
    CHECK(since(asked) < soon);
    const std::string text = contents(every.file("out"));
    if (text.empty()) continue; // it had not begun
    printed = nlohmann::json::parse(text, nullptr, false);
    REQUIRE(printed.is_object());
    if (enough(printed)) return printed;
  }
  FAIL("nothing was printed");
  return printed;
}

} // namespace

TEST_CASE("what was measured, transcribed, scored and generated until Ctrl-C is printed" *
          doctest::test_suite("long")) {
  using nlohmann::json;
  const EveryCommand every;
  const std::string story = fixtures().story().string(), stories = stories_model().string();
  const std::vector<std::string> bench = {"bench", story, "-p", "8", "-n", "0", "-w", "0", "-r"};
  const auto with = [](std::vector<std::string> words, const std::vector<std::string>& more) {
    words.insert(words.end(), more.begin(), more.end());
    return words;
  };
  const json measured =
      json_when_interrupted(every, with(bench, {"1"}), with(bench, {"1000000"}),
                            [](const json& printed) { return !printed["results"].empty(); });
  CHECK(measured["partial"] == true);
  REQUIRE(measured["results"].size() == 1);
  CHECK(!measured["results"][0]["samples"].empty());
  CHECK(measured["results"][0]["median_seconds"] > 0);

  const WhisperFolder whisper;
  const TemporaryFolder folder;
  const std::string second = folder.write("second.wav", wav_bytes(wail(16000))).string();
  const std::string hour = folder.write("hour.wav", wav_bytes(wail(16000 * 60 * 60))).string();
  const std::vector<std::string> transcribe = {"transcribe", whisper.path().string(), "--language", "en"};
  const json spoken = json_when_interrupted(every, with(transcribe, {second}), with(transcribe, {hour}),
                                            [](const json& printed) { return !printed["segments"].empty(); });
  CHECK(spoken["partial"] == true);
  CHECK(spoken["language"] == "en");
  CHECK(spoken["segments"].back()["end"] < spoken["duration"]);

  std::string text;
  for (int i = 0; i < 100000; ++i) text += "Tom and the dog ran to the pond.\n";
  const std::string file = folder.write("text.txt", text).string();
  const std::vector<std::string> perplexity = {"perplexity", story, file, "--context", "64"};
  const json scored = json_when_interrupted(every, with(perplexity, {"--chunks", "1"}), perplexity,
                                            [](const json& printed) { return printed["chunks"] > 0; });
  CHECK(scored["partial"] == true);
  CHECK(scored["perplexity"] > 1);

  const std::vector<std::string> generate = {"generate", stories,        "--prompt",    "Once", "-n",
                                             "400",      "--ignore-eos", "--sequences", "2",    "--samples"};
  const json written =
      json_when_interrupted(every, with(generate, {"2"}), with(generate, {"1000"}),
                            [](const json& printed) { return !printed["sequences"][0]["ids"].empty(); });
  CHECK(written["sequences"].size() == 1000);
  CHECK(written["sequences"][0]["text"] != "");
  CHECK(written["sequences"].back()["finish_reason"] == "interrupted");
}

TEST_CASE("the predictions until Ctrl-C are a whole file of fewer windows") {
  const EveryCommand every;
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 3000; ++i) text += "Tom and the dog ran to the pond.\n";
  const std::string file = folder.write("text.txt", text).string(), story = fixtures().story().string();
  const fs::path base = folder.path() / "base";
  const std::vector<std::string> arguments = {"perplexity",  story,     file,
                                              "--context",   "64",      "--kl-divergence-base",
                                              base.string(), "--cache", every.file("cache")};
  std::vector<std::string> brief = arguments;
  brief.insert(brief.end(), {"--chunks", "3"});
  REQUIRE(CommandProcess(brief, streams(every)).wait() == 0);
  const std::string three = contents(base);
  int status = 0;
  for (double after = 0.5; after < 60 && status == 0; after *= 1.5) {
    fs::remove(base);
    CommandProcess process(arguments, streams(every));
    for (double waited = 0; waited < after || files_in(folder.path()) < 2; waited += 0.05) pause(0.05);
    process.interrupt();
    REQUIRE(process.wait() == interrupted);
    if (fs::exists(base)) status = interrupted; // a window was done
  }
  REQUIRE(status == interrupted);
  CHECK(contents(every.file("err")).find(base.string() + " has the first ") != std::string::npos);
  CHECK(files_in(folder.path()) == 2);
  uint32_t windows = 0;
  const std::string bytes = contents(base);
  std::memcpy(&windows, bytes.data() + 16, sizeof windows);
  CAPTURE(windows);
  CHECK(bytes.size() == 20 + (three.size() - 20) / 3 * windows);
  // Its rows are those of its windows: a model has no divergence from itself.
  const CommandResult itself = pumice_command({"perplexity", story, "--kl-divergence", "--kl-divergence-base",
                                               base.string(), "--json", "--cache", every.file("cache")});
  CAPTURE(itself.err);
  REQUIRE(itself.status == 0);
  const nlohmann::json found = nlohmann::json::parse(itself.out);
  CHECK(found["chunks"] == windows);
  CHECK(found["kl_divergence"]["value"].get<double>() < 1e-4);
}

TEST_CASE("the importance matrix until Ctrl-C is a whole file of fewer windows") {
  const EveryCommand every;
  const TemporaryFolder folder;
  std::string text;
  for (int i = 0; i < 3000; ++i) text += "Tom and the dog ran to the pond.\n";
  const std::string file = folder.write("text.txt", text).string(), story = fixtures().story().string();
  const fs::path matrix = folder.path() / "matrix.gguf";
  const std::vector<std::string> arguments = {"perplexity",    story,     file,
                                              "--context",     "64",      "--imatrix-out",
                                              matrix.string(), "--cache", every.file("cache")};
  for (double after = 0.5; after < 60 && !fs::exists(matrix); after *= 1.5) {
    CommandProcess process(arguments, streams(every));
    pause(after);
    process.interrupt();
    REQUIRE(process.wait() == interrupted);
  }
  REQUIRE(fs::exists(matrix));
  CHECK(contents(every.file("err")).find(matrix.string() + " has the first ") != std::string::npos);
  const CommandResult used = pumice_command({"convert", story, (folder.path() / "small.gguf").string(),
                                             "--type", "Q4_K_M", "--imatrix", matrix.string()});
  CAPTURE(used.err);
  CHECK(used.status == 0);
}

TEST_CASE("what was measured is printed even if the device does not end its step in time" *
          doctest::test_suite("long")) {
  const TemporaryFolder model;
  write_slow_model(model);
  const EveryCommand every;
  // The second test reads its prompt in one step, which takes longer than a command may after Ctrl-C.
  const auto bench = [&](const char* prompts) {
    return std::vector<std::string>{
        "bench", model.path().string(), "-p", prompts, "--chunk", "3000", "-n", "0", "-r", "1", "-w", "0"};
  };
  const nlohmann::json printed =
      json_when_interrupted(every, bench("1"), bench("1,3000"),
                            [](const nlohmann::json& each) { return !each["results"].empty(); });
  CHECK(printed["partial"] == true);
  REQUIRE(printed["results"].size() == 1);
  CHECK(printed["results"][0]["test"] == "pp1");
}

TEST_CASE("eval that is interrupted keeps the rows that it has") {
  const TemporaryFolder folder;
  const EveryCommand every;
  constexpr uint64_t rows = 400, tokens = 100;
  const std::vector<int64_t> ids(rows * tokens, 5);
  const pumice::SafetensorsFile::Entry entry = {
      "input_ids", "I64", {rows, tokens}, std::as_bytes(std::span(ids))};
  const std::string in = (folder.path() / "in.safetensors").string();
  REQUIRE(pumice::write_safetensors(in, std::span(&entry, 1)).ok());
  const fs::path out = folder.path() / "out.safetensors", partial = folder.path() / "out.partial.safetensors";
  // Until a moment is in the middle of the work on this machine.
  for (double after = 0.5; after < 40 && !fs::exists(partial); after *= 2) {
    CommandProcess process({"eval", fixtures().story().string(), "--inputs", in, "--outputs", out.string(),
                            "--output", "hidden_states.0"},
                           streams(every));
    pause(after);
    process.interrupt(SIGINT);
    CHECK(process.wait() == interrupted);
    CHECK(!fs::exists(out));
  }
  const auto kept = pumice::SafetensorsFile::open(partial);
  REQUIRE(kept.ok());
  const pumice::SafetensorsFile::Entry* states = kept->find("hidden_states.0");
  REQUIRE(states);
  CHECK(states->shape[0] > 0);
  CHECK(states->shape[0] < rows);
  CHECK(states->shape[1] == tokens);
  CHECK(contents(every.file("err")).find("out.partial.safetensors has the first ") != std::string::npos);
}

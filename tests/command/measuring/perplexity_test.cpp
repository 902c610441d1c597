#include <algorithm>
#include <cmath>
#include <cstring>
#include <fstream>
#include <sstream>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "model/vocabulary.h"
#include "support/command/command.h"
#include "support/files/fixtures.h"
#include "support/files/paths.h"
#include "support/model.h"
#include "support/vulkan/gpu.h"

using namespace pumice;
using nlohmann::json;

namespace {

const std::filesystem::path model_path = stories_model();

std::string some_text() {
  std::string text;
  for (int i = 0; i < 6; ++i) {
    text += "Once upon a time there was a girl named Lily. She had " + std::to_string(i) +
            " red balls. \"Look!\" she said.\nThe dog took one of them and ran to the pond.\n";
  }
  return text;
}

CommandResult perplexity(const std::string& text, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), {"perplexity", model_path.string(), text});
  arguments.push_back("--no-cache");
  return pumice_command(arguments);
}

json scores(const std::string& text, std::vector<std::string> arguments) {
  arguments.push_back("--json");
  const CommandResult result = perplexity(text, std::move(arguments));
  CAPTURE(result.err);
  REQUIRE(result.status == 0);
  return json::parse(result.out);
}

struct Expected {
  double perplexity = 0, error = 0;
  uint64_t count = 0;
};

// From all of the logits, in 64 bits.
Expected expected(const std::shared_ptr<const Model>& model, const std::string& text, uint32_t context) {
  const auto tokenizer = load_tokenizer(model->file());
  REQUIRE(tokenizer.ok());
  const std::vector<uint32_t> tokens = (*tokenizer)->encode(text, true);
  const uint32_t vocabulary = model->shape().vocabulary;
  std::vector<double> values;
  for (size_t start = 0; start + context <= tokens.size(); start += context) {
    std::vector<uint32_t> chunk(tokens.begin() + static_cast<ptrdiff_t>(start),
                                tokens.begin() + static_cast<ptrdiff_t>(start + context));
    chunk[0] = *(*tokenizer)->bos();
    const std::vector<float> logits = forward(model, chunk, 64);
    for (uint32_t i = context / 2; i + 1 < context; ++i) {
      const float* row = logits.data() + size_t{i} * vocabulary;
      double total = 0;
      for (uint32_t id = 0; id < vocabulary; ++id) total += std::exp(double{row[id]});
      values.push_back(std::log(total) - row[chunk[i + 1]]);
    }
  }
  const double count = static_cast<double>(values.size());
  double mean = 0, variance = 0;
  for (double value : values) mean += value / count;
  for (double value : values) variance += (value - mean) * (value - mean) / count;
  return {std::exp(mean), std::exp(mean) * std::sqrt(variance / (count - 1)), values.size()};
}

} // namespace

TEST_CASE("perplexity is the same as computed from the logits") {
  const TemporaryFolder folder;
  const std::string text = some_text();
  folder.write("text", text);
  const std::string path = (folder.path() / "text").string();
  const auto model = load_model(model_path);
  for (uint32_t context : {33u, 64u}) {
    CAPTURE(context);
    const Expected wanted = expected(model, text.substr(0, text.size() - 1), context);
    const json found = scores(path, {"--context", std::to_string(context)});
    CHECK(found["perplexity"].get<double>() == doctest::Approx(wanted.perplexity).epsilon(1e-5));
    CHECK(found["error"].get<double>() == doctest::Approx(wanted.error).epsilon(1e-4));
    CHECK(found["mean_negative_log_likelihood"].get<double>() ==
          doctest::Approx(std::log(wanted.perplexity)).epsilon(1e-5));
    CHECK(found["tokens_scored"] == wanted.count);
    CHECK(found["context"] == context);
    CHECK(!found["device"].get<std::string>().empty());
    // However the chunks are cut into steps.
    CHECK(scores(path, {"--context", std::to_string(context), "--chunk", "7"})["perplexity"] ==
          found["perplexity"]);
  }

  const json one = scores(path, {"--context", "40", "--chunks", "1"});
  CHECK(one["chunks"] == 1);
  CHECK(one["tokens_scored"] == 19);
  CHECK(scores(path, {"--context", "40", "--chunks", "1000"})["chunks"].get<int>() > 1);

  const CommandResult readable = perplexity(path, {"--context", "40", "--chunks", "1"});
  REQUIRE(readable.status == 0);
  CHECK(readable.out.find("perplexity ") == 0);
  CHECK(readable.out.find(" +/- ") != std::string::npos);
  CHECK(readable.out.find("19 tokens") != std::string::npos);
  CHECK(readable.err.find('\r') == std::string::npos); // no bar in a pipe
}

TEST_CASE("perplexity refuses texts and options that it cannot use") {
  const TemporaryFolder folder;
  folder.write("short", "Once upon a time");
  folder.write("empty", "");
  folder.write("broken", "Once \xff upon");
  const auto path = [&](const char* name) { return (folder.path() / name).string(); };
  CHECK(fails_saying(perplexity(path("short"), {}), {path("short"), "too short", "two windows of 512"}) ==
        "");
  CHECK(fails_saying(perplexity(path("empty"), {}), {path("empty")}) == "");
  CHECK(fails_saying(perplexity(path("missing"), {}), {path("missing")}) == "");
  CHECK(fails_saying(perplexity(path("broken"), {}), {path("broken"), "UTF-8", "0xFF"}) == "");
  CHECK(fails_saying(perplexity(path("short"), {"--context", "2"}), {"--context"}) == "");
  CHECK(fails_saying(perplexity(path("short"), {"--chunks", "0"}), {"--chunks"}) == "");
  std::string text;
  for (int i = 0; i < 40; ++i) text += some_text();
  folder.write("long", text);
  CHECK(fails_saying(perplexity(path("long"), {"--context", "513"}), {"513", "512"}) == "");
}

namespace {

double log_sum(const float* row, uint32_t vocabulary) {
  double total = 0;
  for (uint32_t id = 0; id < vocabulary; ++id) total += std::exp(double{row[id]});
  return std::log(total);
}

// A log-probability of a text's tokens from `first` on, each, by a plain pass.
std::vector<double> log_probabilities(const std::shared_ptr<const Model>& model,
                                      const std::vector<uint32_t>& tokens, size_t first) {
  const uint32_t vocabulary = model->shape().vocabulary;
  const std::vector<float> logits = forward(model, tokens, 64);
  std::vector<double> values;
  for (size_t i = first; i < tokens.size(); ++i) {
    const float* row = logits.data() + (i - 1) * vocabulary;
    values.push_back(row[tokens[i]] - log_sum(row, vocabulary));
  }
  return values;
}

// The answer whose tokens behind what all have in common are most probable on average.
size_t likeliest(const std::shared_ptr<const Model>& model, const std::vector<std::string>& texts) {
  const auto tokenizer = load_tokenizer(model->file());
  std::vector<std::vector<uint32_t>> all;
  for (const std::string& text : texts) all.push_back((*tokenizer)->encode(text, true));
  size_t common = 0;
  const auto same = [&](const auto& each) {
    return each.size() > common + 1 && each[common] == all[0][common];
  };
  while (std::ranges::all_of(all, same)) ++common;
  std::vector<double> means;
  for (const auto& each : all) {
    double sum = 0;
    for (double value : log_probabilities(model, each, common)) sum += value;
    means.push_back(sum / static_cast<double>(each.size() - common));
  }
  return static_cast<size_t>(std::ranges::max_element(means) - means.begin());
}

void append(std::string& bytes, const void* data, size_t size) {
  bytes.append(static_cast<const char*>(data), size);
}

void append(std::string& bytes, uint32_t number) {
  append(bytes, &number, sizeof number);
}

void append(std::string& bytes, const std::string& text) {
  append(bytes, static_cast<uint32_t>(text.size()));
  bytes += text;
}

} // namespace

TEST_CASE("a stride scores the last tokens of windows that overlap") {
  const TemporaryFolder folder;
  const std::string text = some_text();
  folder.write("text", text);
  const auto model = load_model(model_path);
  const auto tokenizer = load_tokenizer(model->file());
  const std::vector<uint32_t> tokens = (*tokenizer)->encode(text.substr(0, text.size() - 1), true);
  const uint32_t context = 40, stride = 10, length = context + stride / 2;
  double sum = 0;
  size_t count = 0, windows = 0;
  for (size_t start = 0; start < tokens.size() - length; start += stride, ++windows) {
    const auto begin = tokens.begin() + static_cast<ptrdiff_t>(start);
    for (double value : log_probabilities(model, {begin, begin + length}, length - stride)) {
      sum -= value;
      ++count;
    }
  }
  const json found = scores((folder.path() / "text").string(), {"--context", "40", "--stride", "10"});
  CHECK(found["tokens_scored"] == count);
  CHECK(found["chunks"] == windows);
  CHECK(found["mean_negative_log_likelihood"].get<double>() ==
        doctest::Approx(sum / static_cast<double>(count)).epsilon(1e-5));
  CHECK(fails_saying(perplexity((folder.path() / "text").string(), {"--context", "40", "--stride", "41"}),
                     {"--stride 41", "40"}) == "");
}

TEST_CASE("the divergence from a base model is that of the logits, through llama.cpp's file") {
  const TemporaryFolder folder;
  folder.write("text", some_text());
  const std::string text = (folder.path() / "text").string(), base = (folder.path() / "base").string();
  const std::filesystem::path exact_model = fixtures().story();
  const auto measure = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {"perplexity", exact_model.string(), "--no-cache", "--json"});
    const CommandResult result = pumice_command(more);
    CAPTURE(result.err);
    REQUIRE(result.status == 0);
    return json::parse(result.out);
  };
  const json whole = measure({text, "--context", "40", "--kl-divergence-base", base});
  CHECK(whole["perplexity"].get<double>() ==
        doctest::Approx(measure({text, "--context", "40"})["perplexity"].get<double>()).epsilon(1e-5));

  const auto model = load_model(exact_model);
  LoadOptions quantised;
  quantised.weights = TensorType::q4_0;
  const auto small = load_model(exact_model, quantised);
  const auto tokenizer = load_tokenizer(model->file());
  const uint32_t vocabulary = model->shape().vocabulary;
  std::stringstream file;
  file << std::ifstream(base, std::ios::binary).rdbuf();
  const std::string bytes = file.str();
  uint32_t sizes[3] = {};
  REQUIRE(bytes.substr(0, 8) == "_logits_");
  std::memcpy(sizes, bytes.data() + 8, sizeof sizes);
  CHECK(sizes[0] == 40);
  CHECK(sizes[1] == vocabulary);
  CHECK(sizes[2] == whole["chunks"]);
  std::vector<uint32_t> tokens(size_t{40} * sizes[2]);
  std::memcpy(tokens.data(), bytes.data() + 20, tokens.size() * 4);
  const size_t row = (vocabulary + 1) / 2 * 2 + 4;
  CHECK(bytes.size() == 20 + tokens.size() * 4 + sizes[2] * 19 * row * 2);
  double divergence = 0;
  size_t count = 0, same = 0;
  for (uint32_t n = 0; n < sizes[2]; ++n) {
    std::vector<uint32_t> window(tokens.begin() + n * 40, tokens.begin() + n * 40 + 40);
    window[0] = *(*tokenizer)->bos();
    const std::vector<float> exact = forward(model, window, 64), rounded = forward(small, window, 64);
    for (size_t i = 20; i < 39; ++i, ++count) {
      const float *p = exact.data() + i * vocabulary, *q = rounded.data() + i * vocabulary;
      const double p_sum = log_sum(p, vocabulary), q_sum = log_sum(q, vocabulary);
      for (uint32_t id = 0; id < vocabulary; ++id)
        divergence += std::exp(p[id] - p_sum) * ((p[id] - p_sum) - (q[id] - q_sum));
      same += std::max_element(p, p + vocabulary) - p == std::max_element(q, q + vocabulary) - q;
    }
  }
  const json found = measure({"--kl-divergence", "--kl-divergence-base", base, "--weights", "Q4_0"});
  CHECK(found["kl_divergence"]["value"].get<double>() ==
        doctest::Approx(divergence / static_cast<double>(count)).epsilon(0.01));
  CHECK(found["same_top"]["value"].get<double>() ==
        doctest::Approx(static_cast<double>(same) / static_cast<double>(count)).epsilon(0.03));
  CHECK(found["base_perplexity"]["value"].get<double>() ==
        doctest::Approx(whole["perplexity"].get<double>()).epsilon(1e-3));
  CHECK(found["tokens_scored"] == count);
  const CommandResult itself = pumice_command(
      {"perplexity", exact_model.string(), "--kl-divergence", "--kl-divergence-base", base, "--no-cache"});
  REQUIRE(itself.status == 0);
  CHECK(itself.out.find("same most probable token    100.000000") != std::string::npos);

  CHECK(fails_saying(pumice_command({"perplexity", exact_model.string(), "--kl-divergence"}),
                     {"--kl-divergence-base"}) == "");
  CHECK(fails_saying(pumice_command({"perplexity", exact_model.string(), "--kl-divergence",
                                     "--kl-divergence-base", text}),
                     {text, "--kl-divergence-base has written"}) == "");
  folder.write("cut", bytes.substr(0, bytes.size() - 1));
  CHECK(fails_saying(pumice_command({"perplexity", exact_model.string(), "--kl-divergence",
                                     "--kl-divergence-base", (folder.path() / "cut").string()}),
                     {"cut off"}) == "");
}

TEST_CASE("tasks are solved by the most probable answer") {
  const TemporaryFolder folder;
  const auto model = load_model(model_path);
  const std::string scene = "Once upon a time there was a dog. The dog";
  const std::vector<std::string> endings = {"stone blue of a", "was very happy and ran to play.", "the the",
                                            "eat sky because under"};
  std::vector<std::string> texts;
  for (const std::string& ending : endings) texts.push_back(scene + " " + ending);
  const size_t best = likeliest(model, texts);
  const auto task = [&](size_t right) {
    std::string lines = scene + "\n" + std::to_string(right) + "\n";
    for (const std::string& ending : endings) lines += ending + "\n";
    return lines;
  };
  folder.write("tasks", task(best) + task((best + 1) % 4) + task(best));
  const auto path = [&](const char* name) { return (folder.path() / name).string(); };
  const json found = scores(path("tasks"), {"--hellaswag"});
  CHECK(found["tasks"] == 3);
  CHECK(found["right"] == 2);
  CHECK(found["accuracy"].get<double>() == doctest::Approx(2.0 / 3));
  CHECK(found["low"].get<double>() == doctest::Approx(0.2077).epsilon(1e-3)); // Wilson's
  CHECK(found["high"].get<double>() == doctest::Approx(0.9385).epsilon(1e-3));
  CHECK(found["chance"] == 0.25);
  CHECK(scores(path("tasks"), {"--hellaswag", "--tasks", "1"})["tasks"] == 1);
  CHECK(perplexity(path("tasks"), {"--hellaswag"})
            .out.find("accuracy 66.67 %, 95 % interval 20.77 to 93.85 %") == 0);

  folder.write("names", "0,\"Lily gave Tom a ball, and _ was very happy to get the ball.\",Lily,Tom,1\n"
                        "1,\"Lily gave Tom a ball, and _ was very happy to get the ball.\",Lily,Tom,2\n");
  const json names = scores(path("names"), {"--winogrande"});
  CHECK(names["tasks"] == 2);
  CHECK(names["right"] == 1); // whichever the model takes

  std::string questions;
  append(questions, 1u);
  append(questions, 8u); // where the task begins
  append(questions, scene);
  append(questions, 4u);
  for (const std::string& ending : endings) append(questions, ending);
  for (size_t i = 0; i < 4; ++i) append(questions, static_cast<uint32_t>(i == best));
  append(questions, 0u);
  folder.write("questions", questions);
  CHECK(scores(path("questions"), {"--multiple-choice"})["right"] == 1);

  folder.write("five", scene + "\n1\na\nb\nc\n");
  CHECK(fails_saying(perplexity(path("five"), {"--hellaswag"}), {path("five"), "5 lines", "six"}) == "");
  folder.write("seven", task(0) + scene + "\n7\na\nb\nc\nd\n");
  CHECK(fails_saying(perplexity(path("seven"), {"--hellaswag"}), {"line 8", "'7'"}) == "");
  folder.write("gap", "0,no gap here,a,b,1\n");
  CHECK(fails_saying(perplexity(path("gap"), {"--winogrande"}), {"line 1", "_"}) == "");
  CHECK(fails_saying(perplexity(path("gap"), {"--multiple-choice"}), {path("gap"), "binary"}) == "");
  CHECK(fails_saying(perplexity(path("gap"), {"--tasks", "1"}), {"--tasks", "--hellaswag"}) == "");
}

TEST_CASE("--imatrix-out writes an importance matrix, which convert reads") {
  const TemporaryFolder folder;
  const std::string text = (folder.path() / "text.txt").string(), out = (folder.path() / "i.gguf").string();
  folder.write("text.txt", some_text());
  const json written = scores(text, {"--context", "64", "--imatrix-out", out});
  CHECK(written["path"] == out);
  CHECK(written["matrices"].get<size_t>() > 7);
  CHECK(written["tokens"].get<size_t>() % 64 == 0);
  const std::string target = (folder.path() / "small.gguf").string();
  const CommandResult converted =
      pumice_command({"convert", model_path.string(), target, "--type", "Q4_K_M", "--imatrix", out});
  CAPTURE(converted.err);
  CHECK(converted.status == 0);
  CHECK(fails_saying(perplexity(text, {"--imatrix-out", out, "--stride", "4"}), {"--stride"}) == "");
}

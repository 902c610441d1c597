#include <cmath>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "model/vocabulary.h"
#include "support/command/command.h"
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

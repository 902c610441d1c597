// `pumice eval` on batches: what it writes beside the logits, and that rows do not disturb each other.
#include <doctest/doctest.h>

#include "io/safetensors.h"
#include "support/command.h"
#include "support/fixtures.h"
#include "support/gpu.h"

using namespace pumice;

namespace {

std::vector<float> floats(const SafetensorsFile& file, const char* name) {
  const SafetensorsFile::Entry* entry = file.find(name);
  REQUIRE(entry);
  const auto values = SafetensorsFile::floats(*entry);
  REQUIRE(values.ok());
  return *values;
}

// Runs eval on a batch of rows; a token of -1 is padding.
SafetensorsFile eval(const std::filesystem::path& model, const std::vector<std::vector<int64_t>>& rows,
                     const TemporaryFolder& folder, const std::vector<std::string>& more) {
  std::vector<int64_t> ids, mask;
  for (const auto& row : rows) {
    for (int64_t id : row) {
      ids.push_back(std::max<int64_t>(id, 0));
      mask.push_back(id >= 0);
    }
  }
  const std::vector<uint64_t> shape = {rows.size(), rows[0].size()};
  const SafetensorsFile::Entry entries[] = {{"input_ids", "I64", shape, std::as_bytes(std::span(ids))},
                                            {"attention_mask", "I64", shape, std::as_bytes(std::span(mask))}};
  const std::string in = (folder.path() / "in.safetensors").string();
  const std::string out = (folder.path() / "out.safetensors").string();
  REQUIRE(write_safetensors(in, entries).ok());
  std::vector<std::string> arguments = {"eval", model.string(), "--inputs", in, "--outputs", out};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const CommandResult result = pumice_command(arguments);
  INFO(result.err);
  REQUIRE(result.status == 0);
  auto file = SafetensorsFile::open(out);
  REQUIRE(file.ok());
  return std::move(*file);
}

} // namespace

TEST_CASE("eval gives a layer's attention weights") {
  const auto root = fixtures();
  if (!root) {
    MESSAGE("skipped: no fixtures");
    return;
  }
  for (const char* name : {"llama-mha", "llama-gqa", "llama-mqa"}) {
    CAPTURE(name);
    const TemporaryFolder folder;
    const auto model = *root / "models" / name;
    const std::string out = (folder.path() / "out.safetensors").string();
    const CommandResult result =
        pumice_command({"eval", model.string(), "--inputs", (model / "expected.safetensors").string(),
                        "--outputs", out, "--output", "attentions.0", "--chunk", "7"});
    INFO(result.err);
    REQUIRE(result.status == 0);
    const auto actual = SafetensorsFile::open(out);
    const auto expected = SafetensorsFile::open(model / "expected.safetensors");
    REQUIRE(actual.ok());
    REQUIRE(expected.ok());
    CHECK(actual->find("attentions.0")->shape == expected->find("attentions.0")->shape);
    CHECK(relative_rms(floats(*actual, "attentions.0"), floats(*expected, "attentions.0")) <= 1e-4);
    CHECK(relative_rms(floats(*actual, "logits"), floats(*expected, "logits")) <= 1e-4);
  }
}

TEST_CASE("a row of a batch has the bits it has alone, wherever its padding is") {
  const auto root = fixtures();
  if (!root) {
    MESSAGE("skipped: no fixtures");
    return;
  }
  const auto model = *root / "models" / "llama-gqa";
  const std::vector<std::vector<int64_t>> rows = {
      {5, 6, 7, 8, 9, 10}, {-1, -1, 300, 2, 17, 4}, {44, 45, -1, -1, -1, -1}, {-1, 9, -1, 200, 1, -1}};
  const size_t columns = 6;
  // What each row gives alone, without its padding, put where the batch has it.
  std::vector<float> expected, expected_weights;
  size_t width = 0, heads = 0;
  for (const auto& row : rows) {
    std::vector<int64_t> tokens;
    std::vector<size_t> places;
    for (size_t column = 0; column < columns; ++column) {
      if (row[column] < 0) continue;
      tokens.push_back(row[column]);
      places.push_back(column);
    }
    const TemporaryFolder folder;
    const SafetensorsFile alone = eval(model, {tokens}, folder, {"--output", "attentions.1"});
    const std::vector<float> own = floats(alone, "logits"), own_weights = floats(alone, "attentions.1");
    width = own.size() / tokens.size();
    heads = own_weights.size() / tokens.size() / tokens.size();
    const size_t first = expected.size(), first_weight = expected_weights.size();
    expected.resize(first + columns * width);
    expected_weights.resize(first_weight + heads * columns * columns);
    for (size_t i = 0; i < tokens.size(); ++i) {
      std::copy_n(own.begin() + i * width, width, expected.begin() + first + places[i] * width);
      for (size_t head = 0; head < heads; ++head) {
        for (size_t j = 0; j < tokens.size(); ++j) {
          expected_weights[first_weight + (head * columns + places[i]) * columns + places[j]] =
              own_weights[(head * tokens.size() + i) * tokens.size() + j];
        }
      }
    }
  }
  for (const char* chunk : {"128", "5"}) {
    CAPTURE(chunk);
    const TemporaryFolder folder;
    const SafetensorsFile together =
        eval(model, rows, folder, {"--output", "attentions.1", "--chunk", chunk});
    CHECK(together.find("attentions.1")->shape ==
          std::vector<uint64_t>{rows.size(), heads, columns, columns});
    CHECK(floats(together, "logits") == expected);
    CHECK(floats(together, "attentions.1") == expected_weights);
  }
}

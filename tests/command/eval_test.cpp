// `pumice eval` on batches of every kind of model: what it writes, and that rows do not disturb each other.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdlib>

#include "io/formats/safetensors.h"
#include "support/command/command.h"
#include "support/files/fixtures.h"
#include "support/vulkan/gpu.h"

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

// Or what a decoder reads of its pictures, which is no output of its own.
bool is_input(const std::string& name) {
  return name == "pixel_values" || name == "input_features" || name == "audio_16khz" ||
         name == "image_features" || name == "audio_features" || name == "pixel_values_local";
}

// The reference has weights of queries that are padding too.
std::vector<float> without_padding(std::vector<float> weights, const std::vector<uint64_t>& shape,
                                   const std::vector<int64_t>& mask) {
  for (size_t i = 0; i < weights.size(); ++i) {
    const size_t query = i / shape[3] % shape[2], row = i / shape[3] / shape[2] / shape[1];
    if (!mask[row * shape[2] + query]) weights[i] = 0;
  }
  return weights;
}

// Everything that a reference has of a model, from the command.
void check_all(const std::filesystem::path& model, const SafetensorsFile& expected) {
  const TemporaryFolder folder;
  const std::string in = (model / "expected.safetensors").string(),
                    out = (folder.path() / "out.safetensors").string();
  std::vector<std::string> arguments = {"eval", model.string(), "--inputs", in, "--outputs", out};
  for (const SafetensorsFile::Entry& entry : expected.entries) {
    if (entry.dtype != "F32" || is_input(entry.name)) continue;
    arguments.insert(arguments.end(), {"--output", entry.name});
  }
  const CommandResult result = pumice_command(arguments);
  INFO(result.err);
  REQUIRE(result.status == 0);
  const auto actual = SafetensorsFile::open(out);
  REQUIRE(actual.ok());
  for (const SafetensorsFile::Entry& entry : expected.entries) {
    if (entry.dtype != "F32" || is_input(entry.name)) continue;
    CAPTURE(entry.name);
    REQUIRE(actual->find(entry.name));
    CHECK(actual->find(entry.name)->shape == entry.shape);
    std::vector<float> wanted = floats(expected, entry.name.c_str());
    if (entry.name.starts_with("attentions.") && expected.find("attention_mask")) {
      wanted =
          without_padding(wanted, entry.shape, *SafetensorsFile::integers(*expected.find("attention_mask")));
    }
    CHECK(relative_rms(floats(*actual, entry.name.c_str()), wanted) <= 1e-4);
  }
}

} // namespace

// For tools/worst_errors.py.
TEST_CASE("write all fixtures to $PUMICE_FIXTURES_TO" * doctest::skip()) {
  const char* folder = std::getenv("PUMICE_FIXTURES_TO");
  REQUIRE(folder);
  for (const std::string& name : fixtures().models())
    std::filesystem::copy(fixtures().model(name), std::filesystem::path(folder) / name,
                          std::filesystem::copy_options::recursive);
}

TEST_CASE("eval takes and gives the names of encoders and encoder-decoders") {
  for (const char* name :
       {"bert", "roberta", "distilbert", "vit", "transformer-postnorm", "transformer-prenorm", "marian",
        "marian-relu", "bart", "t5", "flan-t5", "whisper", "vit-gpt2", "beit", "deit-trocr"}) {
    CAPTURE(name);
    const auto expected = SafetensorsFile::open(fixtures().model(name) / "expected.safetensors");
    REQUIRE(expected.ok());
    check_all(fixtures().model(name), *expected);
  }
}

TEST_CASE("eval gives two names of one tensor: the last layer's output is the model's") {
  for (const char* name : {"bert", "vit", "whisper"}) {
    CAPTURE(name);
    const std::string prefix = std::string(name) == "whisper" ? "encoder_" : "";
    const std::filesystem::path model = fixtures().model(name);
    const TemporaryFolder folder;
    const std::string out = (folder.path() / "out.safetensors").string();
    const CommandResult result = pumice_command(
        {"eval", model.string(), "--inputs", (model / "expected.safetensors").string(), "--outputs", out,
         "--output", prefix + "hidden_states.2", "--output", prefix + "last_hidden_state"});
    INFO(result.err);
    REQUIRE(result.status == 0);
    const auto file = SafetensorsFile::open(out);
    REQUIRE(file.ok());
    CHECK(floats(*file, (prefix + "hidden_states.2").c_str()) ==
          floats(*file, (prefix + "last_hidden_state").c_str()));
  }
}

TEST_CASE("eval shows a decoder the pictures of its prompts, and the sounds") {
  for (const char* name :
       {"llava", "smolvlm", "gemma3-vision", "qwen2-5-vl", "qwen3-vl", "mistral3-vision", "internvl",
        "minicpm-v", "voxtral", "qwen2-audio", "gemma3n-audio", "deepseek-ocr2"}) {
    CAPTURE(name);
    const auto expected = SafetensorsFile::open(fixtures().model(name) / "expected.safetensors");
    REQUIRE(expected.ok());
    check_all(fixtures().model(name), *expected);
  }
}

TEST_CASE("eval makes features of sound") {
  const auto model = fixtures().model("whisper");
  const auto expected = SafetensorsFile::open(model / "expected.safetensors");
  REQUIRE(expected.ok());
  const TemporaryFolder folder;
  const std::string in = (folder.path() / "in.safetensors").string(), out = in + ".out";
  const std::vector<SafetensorsFile::Entry> inputs = {*expected->find("audio_16khz"),
                                                      *expected->find("decoder_input_ids")};
  REQUIRE(write_safetensors(in, inputs).ok());
  const CommandResult result = pumice_command(
      {"eval", model.string(), "--inputs", in, "--outputs", out, "--output", "input_features"});
  INFO(result.err);
  REQUIRE(result.status == 0);
  const auto actual = SafetensorsFile::open(out);
  REQUIRE(actual.ok());
  for (const char* name : {"logits", "encoder_last_hidden_state", "input_features"}) {
    CAPTURE(name);
    CHECK(actual->find(name)->shape == expected->find(name)->shape);
    CHECK(relative_rms(floats(*actual, name), floats(*expected, name)) <= 1e-4);
  }

  // Features that are given are written as they came; none that were not asked for.
  const std::string from_features = in + ".features", same = in + ".same";
  const std::vector<SafetensorsFile::Entry> given = {*actual->find("input_features"),
                                                     *expected->find("decoder_input_ids")};
  REQUIRE(write_safetensors(from_features, given).ok());
  REQUIRE(pumice_command({"eval", model.string(), "--inputs", from_features, "--outputs", same, "--output",
                          "input_features"})
              .status == 0);
  CHECK(floats(*SafetensorsFile::open(same), "input_features") == floats(*actual, "input_features"));
  REQUIRE(pumice_command({"eval", model.string(), "--inputs", from_features, "--outputs", same}).status == 0);
  CHECK_FALSE(SafetensorsFile::open(same)->find("input_features"));
  const auto vit = fixtures().model("vit");
  CHECK(
      fails_saying(pumice_command({"eval", vit.string(), "--inputs", (vit / "expected.safetensors").string(),
                                   "--outputs", same, "--output", "input_features"}),
                   {"--output input_features", "sound"}) == "");
}

FIXTURE_TEST_CASE("eval gives an encoder's rows the bits they have alone, wherever their padding is") {
  const auto model = fixtures().model("bert");
  const TemporaryFolder folder, other; // files that are open stay as they are
  const std::vector<std::string> more = {"--output", "attentions.1", "--output", "sentence_embedding_mean"};
  const SafetensorsFile alone = eval(model, {{5, 6, 7}}, folder, more);
  const SafetensorsFile batch =
      eval(model, {{9, 8, 7, 6, 5}, {-1, -1, -1, -1, -1}, {-1, 5, 6, -1, 7}}, other, more);
  const std::vector<float> own = floats(alone, "last_hidden_state"), all = floats(batch, "last_hidden_state");
  const std::vector<float> weights = floats(alone, "attentions.1"),
                           batch_weights = floats(batch, "attentions.1");
  const size_t width = own.size() / 3, heads = weights.size() / 9, places[] = {1, 2, 4};
  REQUIRE(all.size() == 3 * 5 * width);
  std::vector<float> expected(5 * width), expected_weights(heads * 25);
  for (size_t i = 0; i < 3; ++i) {
    std::copy_n(own.begin() + i * width, width, expected.begin() + places[i] * width);
    for (size_t head = 0; head < heads; ++head) {
      for (size_t j = 0; j < 3; ++j) {
        expected_weights[(head * 5 + places[i]) * 5 + places[j]] = weights[(head * 3 + i) * 3 + j];
      }
    }
  }
  CHECK(std::ranges::equal(std::span(all).subspan(10 * width), expected));
  CHECK(std::ranges::equal(std::span(batch_weights).subspan(2 * heads * 25), expected_weights));
  CHECK(std::ranges::count(std::span(all).subspan(5 * width, 5 * width), 0.0f) ==
        static_cast<ptrdiff_t>(5 * width));
  const std::vector<float> mean = floats(alone, "sentence_embedding_mean"),
                           means = floats(batch, "sentence_embedding_mean");
  CHECK(std::ranges::equal(std::span(means).subspan(2 * width), mean));
}

TEST_CASE("eval names what is wrong with an encoder's tensors") {
  const TemporaryFolder folder;
  const std::string in = (folder.path() / "in.safetensors").string(), out = in + ".out";
  const std::vector<int64_t> ids(200, 5), types(200, 2);
  const std::vector<float> pixels(3 * 32 * 32);
  const SafetensorsFile::Entry
      two = {"input_ids", "I64", {1, 2}, std::as_bytes(std::span(ids).first(2))},
      long_ids = {"input_ids", "I64", {1, 200}, std::as_bytes(std::span(ids))},
      bad_types = {"token_type_ids", "I64", {1, 2}, std::as_bytes(std::span(types).first(2))},
      wide = {"pixel_values", "F32", {1, 3, 16, 64}, std::as_bytes(std::span(pixels))},
      sound = {"audio_16khz", "F32", {3072}, std::as_bytes(std::span(pixels))},
      cube = {"audio_16khz", "F32", {1, 1, 3072}, std::as_bytes(std::span(pixels))},
      rows = {"decoder_input_ids", "I64", {2, 1}, std::as_bytes(std::span(ids).first(2))};
  const auto fails = [&](const char* model, const std::vector<SafetensorsFile::Entry>& entries,
                         const std::vector<std::string>& parts) {
    REQUIRE(write_safetensors(in, entries).ok());
    return fails_saying(
        pumice_command({"eval", fixtures().model(model).string(), "--inputs", in, "--outputs", out}), parts);
  };
  CHECK(fails("bert", {long_ids}, {"'input_ids'", "128", "200"}) == "");
  CHECK(fails("bert", {two, bad_types}, {"'token_type_ids'", "[0, 0]", "0 to 1", "2"}) == "");
  CHECK(fails("bert", {wide}, {"'input_ids'", "pixel_values"}) == "");
  CHECK(fails("vit", {wide}, {"'pixel_values'", "[batch, 3, 32, 32]", "[1, 3, 16, 64]"}) == "");
  CHECK(fails("vit", {two}, {"'pixel_values'", "input_ids"}) == "");
  CHECK(fails("whisper", {two}, {"'input_features'", "[batch, 80, 100]"}) == "");
  CHECK(fails("whisper", {sound}, {"'decoder_input_ids'"}) == "");
  CHECK(fails("whisper", {cube}, {"'audio_16khz'", "[batch, samples]", "[1, 1, 3072]"}) == "");
  CHECK(fails("bart", {two}, {"'decoder_input_ids'"}) == "");
  CHECK(fails("bart", {two, rows}, {"'decoder_input_ids'", "'input_ids'", "1", "2"}) == "");
}

FIXTURE_TEST_CASE("eval gives a layer's attention weights") {
  for (const char* name : {"llama-mha", "llama-gqa", "llama-mqa"}) {
    CAPTURE(name);
    const TemporaryFolder folder;
    const auto model = fixtures().model(name);
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

FIXTURE_TEST_CASE("a row of a batch has the bits it has alone, wherever its padding is") {
  const auto model = fixtures().model("llama-gqa");
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

TEST_CASE("eval takes the names of what it writes of texts and pictures in one space") {
  const std::string model = fixtures().model("clip").string();
  const auto given = SafetensorsFile::open(fixtures().model("clip/expected.safetensors"));
  REQUIRE(given.ok());
  const TemporaryFolder folder;
  const std::string in = (folder.path() / "in.safetensors").string();
  const std::string out = (folder.path() / "out.safetensors").string();
  const auto write = [&](const std::vector<std::string>& names) {
    std::vector<SafetensorsFile::Entry> entries;
    for (const std::string& name : names) entries.push_back(*given->find(name.c_str()));
    REQUIRE(write_safetensors(in, entries).ok());
  };
  const auto eval_with = [&](const std::string& name) {
    return pumice_command({"eval", model, "--inputs", in, "--outputs", out, "--output", name});
  };
  write({"input_ids", "pixel_values"});
  for (const char* name : {"text_embeds", "image_embeds", "logits_per_image"}) {
    CAPTURE(name);
    const CommandResult result = eval_with(name);
    INFO(result.err);
    REQUIRE(result.status == 0);
    CHECK(SafetensorsFile::open(out)->entries.size() == 3);
  }
  write({"pixel_values"});
  CHECK(eval_with("image_embeds").status == 0);
  CHECK(fails_saying(eval_with("logits_per_image"), {"--output logits_per_image", "'input_ids'", in}) == "");
  CHECK(fails_saying(eval_with("hidden_states.0"), {"--output hidden_states.0", "'input_ids'", in}) == "");
  write({"input_ids"});
  CHECK(fails_saying(eval_with("image_embeds"), {"--output image_embeds", "'pixel_values'", in}) == "");
}

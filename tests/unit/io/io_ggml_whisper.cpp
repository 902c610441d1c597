#include "io/formats/ggml_whisper.h"

#include <fstream>
#include <functional>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "support/command/messages.h"
#include "support/files/fixtures.h"
#include "support/files/ggml_whisper.h"
#include "text/tokenizer.h"

using namespace pumice;

namespace {

const std::string four(16, '\0'); // numbers

// What is said of a file of one tensor after `change`.
Result<GgmlWhisper> parse_changed(const std::function<void(GgmlWhisperBuilder&)>& change, size_t cut = 0) {
  GgmlWhisperBuilder builder;
  change(builder);
  std::string text = builder.build();
  text.resize(text.size() - cut);
  // The heap copy is exactly as long as the file, so that a sanitizer detects a read past its end.
  static std::vector<std::byte> bytes;
  bytes.assign(std::as_bytes(std::span(text)).begin(), std::as_bytes(std::span(text)).end());
  bytes.shrink_to_fit();
  return read_ggml_whisper(bytes, "ggml-test.bin");
}

void add_both(GgmlWhisperBuilder& builder) {
  builder.tensor("encoder.blocks.0.mlp.0.weight", {2, 2}, TensorType::f32, four);
  builder.tensor("decoder.blocks.0.mlp.0.weight", {2, 2}, TensorType::f32, four);
}

} // namespace

TEST_CASE("ggml: a file's tensors have Hugging Face's names and shapes") {
  const auto file = parse_changed([](GgmlWhisperBuilder& builder) {
    add_both(builder);
    builder.tensor("encoder.conv1.bias", {4, 1}, TensorType::f32, four);
    builder.tensor("decoder.blocks.12.cross_attn_ln.bias", {4}, TensorType::f32, four);
    builder.tensor("decoder.token_embedding.weight", {4, 2}, TensorType::f16, four);
  });
  REQUIRE_MESSAGE(file.ok(), says(file, {}));
  REQUIRE(file->tensors.size() == 5);
  CHECK(file->tensors[0].name == "model.encoder.layers.0.fc1.weight");
  CHECK(file->tensors[2].name == "model.encoder.conv1.bias");
  CHECK(file->tensors[2].shape == std::vector<uint64_t>{4});
  CHECK(file->tensors[3].name == "model.decoder.layers.12.encoder_attn_layer_norm.bias");
  CHECK(file->tensors[4].name == "model.decoder.embed_tokens.weight");
  CHECK(file->tensors[4].shape == std::vector<uint64_t>{4, 2}); // outermost first
  CHECK(file->tensors[4].type == TensorType::f16);
  CHECK(file->config["encoder_ffn_dim"] == 2);
  CHECK(file->config["d_model"] == 64);
  CHECK(file->config["is_multilingual"] == true);
  CHECK(file->config["preprocessor_config"]["chunk_length"] == 1);
  // 256 words, 2 marks, 5 languages, 6 instructions, 51 times.
  CHECK(file->tokens.special.size() == 64);
  CHECK(file->tokens.special[6] == "<|ru|>");
}

TEST_CASE("ggml: the sizes of Whisper's vocabularies") {
  const auto tokens = [](size_t words, uint32_t vocabulary) {
    GgmlWhisperBuilder builder;
    builder.words.resize(words, "x");
    builder.sizes[0] = vocabulary;
    builder.sizes[1] = 1500;
    add_both(builder);
    const std::string text = builder.build();
    const auto file = read_ggml_whisper(std::as_bytes(std::span(text)), "ggml-test.bin");
    REQUIRE_MESSAGE(file.ok(), says(file, {}));
    const auto id = [&](std::string_view name) {
      return words + static_cast<size_t>(std::ranges::find(file->tokens.special, name) -
                                         file->tokens.special.begin());
    };
    CHECK(words + file->tokens.special.size() == vocabulary);
    CHECK(id("<|30.00|>") == vocabulary - 1);
    CHECK(file->config["preprocessor_config"]["chunk_length"] == 30);
    return std::tuple(id("<|en|>"), id("<|su|>"), id("<|notimestamps|>"),
                      file->config["is_multilingual"].get<bool>());
  };
  CHECK(tokens(50257, 51865) == std::tuple(50259u, 50357u, 50363u, true));
  CHECK(tokens(50257, 51866) == std::tuple(50259u, 50357u, 50364u, true)); // with Cantonese
  CHECK(tokens(50256, 51864) == std::tuple(50258u, 50356u, 50362u, false));
}

TEST_CASE("ggml: files that are damaged or of other models are refused") {
  const auto refuses = [](const std::function<void(GgmlWhisperBuilder&)>& change,
                          std::initializer_list<std::string_view> parts, size_t cut = 0) {
    const auto file = parse_changed(
        [&](GgmlWhisperBuilder& builder) {
          add_both(builder);
          change(builder);
        },
        cut);
    return !file.ok() && !file.error().message.starts_with("ggml-test.bin: ") ? "no file's name"
                                                                              : says(file, parts);
  };
  using B = GgmlWhisperBuilder;
  CHECK(refuses([](B&) {}, {}) == "no error");
  for (const size_t cut : {1u, 20u, 60u, 200u, 2000u, 65760u}) {
    CAPTURE(cut);
    CHECK(refuses([](B&) {}, {"before the end of the file"}, cut) == "");
  }
  CHECK(refuses([](B& b) { b.sizes[4] = 0; }, {"n_audio_layer", "whisper.cpp"}) == "");
  CHECK(refuses([](B& b) { b.sizes[6] = 65; }, {"n_text_state", "64", "65"}) == "");
  CHECK(refuses([](B& b) { b.sizes[1] = 51; }, {"n_audio_ctx", "51"}) == "");
  CHECK(refuses([](B& b) { b.sizes[0] = 315; }, {"n_vocab", "315"}) == "");
  CHECK(refuses([](B& b) { b.sizes[0] = 500; }, {"n_vocab", "500"}) == "");
  CHECK(refuses([](B& b) { b.bins = 200; }, {"mel filters", "200"}) == "");
  CHECK(refuses([](B& b) { b.tensor("encoder.x.weight", {4}, TensorType::f32, four); },
                {"'encoder.x.weight'"}) == "");
  CHECK(refuses([](B& b) { b.tensor("encoder.blocks.0", {4}, TensorType::f32, four); },
                {"'encoder.blocks.0'"}) == "");
  CHECK(refuses([](B& b) { b.tensor("encoder.blocks.0.mlp.0.weight", {4}, TensorType::f32, four); },
                {"occurs twice"}) == "");
  CHECK(refuses(
            [](B& b) {
              b.tensor("encoder.blocks.0.mlp.2.weight", {1, 0}, TensorType::f32, "");
            },
            {"mlp.2", "[1, 0]"}) == "");
  const std::string block(34, '\0');
  CHECK(refuses(
            [&](B& b) {
              b.tensor("encoder.blocks.0.mlp.2.weight", {1, 32}, TensorType::q8_0, block);
            },
            {"mlp.2", "another version"}) == "");
  CHECK(refuses(
            [&](B& b) {
              b.tensor("encoder.blocks.0.mlp.2.weight", {2, 16}, TensorType::q8_0, block), b.type = 2007;
            },
            {"mlp.2", "[2, 16]", "Q8_0"}) == "");
  const auto alone = parse_changed([](B& b) { b.tensor("encoder.conv1.bias", {4}, TensorType::f32, four); });
  CHECK(says(alone, {"fc1"}) == "");
  CHECK(says(read_ggml_whisper({}, "ggml-test.bin"), {"ggml-test.bin", "magic"}) == "");
}

// tiktoken's form of GPT-2's vocabulary, beside its list of merges.
FIXTURE_TEST_CASE("byte-pair tokens by their ranks give the ids of the list of merges") {
  const auto path = fixtures().tokenizer("gpt2");
  const auto merged = Tokenizer::load(path / "tokenizer.json");
  REQUIRE(merged.ok());
  const uint32_t count = (*merged)->vocabulary_size();
  std::vector<std::string> texts;
  for (uint32_t id = 1; id < count; ++id) {
    // A piece's characters stand for bytes; those of printable ASCII for themselves.
    std::string bytes;
    const std::string_view piece = (*merged)->piece(id);
    for (size_t at = 0; at < piece.size();) {
      const auto lead = static_cast<unsigned char>(piece[at]);
      const uint32_t character =
          lead < 0x80 ? lead : (lead & 0x1Fu) << 6 | (static_cast<unsigned char>(piece[at + 1]) & 0x3Fu);
      at += lead < 0x80 ? 1 : 2;
      uint32_t byte = character;
      if (character >= 0x100) { // the others in order
        uint32_t left = character - 0x100;
        for (byte = 0; byte < 256; ++byte) {
          const bool prints = (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
          if (!prints && left-- == 0) break;
        }
      }
      bytes += static_cast<char>(byte);
    }
    texts.push_back(std::move(bytes));
  }
  Tokenizer::RankedVocabulary vocabulary;
  const std::vector<std::string_view> words(texts.begin(), texts.end());
  const std::vector<std::string> special = {"<|endoftext|>"};
  vocabulary.words = words;
  vocabulary.special = special;
  const auto ranked = Tokenizer::from_ranks(vocabulary);
  REQUIRE_MESSAGE(ranked.ok(), says(ranked, {}));
  std::ifstream in(path / "cases.json");
  const nlohmann::json cases = nlohmann::json::parse(in);
  REQUIRE(cases.size() > 50);
  for (const nlohmann::json& each : cases) {
    const auto text = each.at("text").get<std::string>();
    CAPTURE(text);
    std::vector<uint32_t> expected = each.at("ids_without_special");
    for (uint32_t& id : expected) id = id == 0 ? count - 1 : id - 1;
    CHECK((*ranked)->encode(text, false) == expected);
    CHECK((*ranked)->decode(expected, true) == each.at("decoded").get<std::string>());
  }
}

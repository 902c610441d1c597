// Pictures and sound that a program has in memory.
#include "support/embedding.h"
#include "support/fixtures.h"
#include "support/listener.h"
#include "support/temporary_folder.h"
#include "support/whisper_folder.h"
#include "support/word_folder.h"

namespace {

constexpr uint32_t edge = 32; // of the pictures that the fixtures read

std::vector<uint8_t> picture(uint32_t seed) {
  std::vector<uint8_t> pixels(size_t{edge} * edge * 3);
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>((i * i + seed) * 31);
  return pixels;
}

// What ViT's preparation makes of a picture that has its size.
std::vector<float> values_of(const std::vector<uint8_t>& pixels) {
  std::vector<float> values;
  for (size_t channel = 0; channel < 3; ++channel) {
    for (size_t i = channel; i < pixels.size(); i += 3) {
      values.push_back(static_cast<float>(pixels[i]) / 255 * 2 - 1);
    }
  }
  return values;
}

pumice_input input_of(const std::vector<uint8_t>& pixels) {
  pumice_input input = {sizeof input};
  input.pixels = pixels.data();
  input.width = input.height = edge;
  return input;
}

std::string caption(pumice_translator* translator, const pumice_input& input) {
  char text[1024] = "";
  size_t count = 0;
  pumice_error error;
  require_ok(pumice_translate_input(translator, &input, text, sizeof text, &count, &error), error);
  CHECK(count == std::string(text).size());
  return text;
}

} // namespace

TEST_CASE("a picture's pixels are prepared as its values are") {
  const DeviceHandle device = make_device();
  const ModelHandle model = load(device.get(), fixtures().model("vit").string());
  pumice_encoder_options options = {sizeof options};
  options.output = "last_hidden_state";
  pumice_encoder* made = nullptr;
  pumice_error error;
  require_ok(pumice_encoder_create(model.get(), &options, &made, &error), error);
  const EncoderHandle encoder(made);
  const auto encode = [&](const pumice_input& input) {
    size_t count = 0;
    require_ok(pumice_encode(made, &input, 1, nullptr, 0, &count, &error), error);
    std::vector<float> rows(count);
    require_ok(pumice_encode(made, &input, 1, rows.data(), count, &count, &error), error);
    return rows;
  };
  const std::vector<uint8_t> pixels = picture(1);
  const std::vector<float> values = values_of(pixels);
  pumice_input prepared = {sizeof prepared};
  prepared.values = values.data();
  const std::vector<float> expected = encode(prepared), rows = encode(input_of(pixels));
  REQUIRE(rows.size() == expected.size());
  for (size_t i = 0; i < rows.size(); ++i) CHECK(rows[i] == doctest::Approx(expected[i]).epsilon(1e-4));
  CHECK(encode(input_of(picture(2))) != rows);
  pumice_input small = input_of(pixels);
  small.width = 4; // is resized
  CHECK(encode(small).size() == rows.size());

  size_t count = 0;
  const auto refused = [&](pumice_input input, const char* words) {
    CHECK(pumice_encode(made, &input, 1, nullptr, 0, &count, &error) == PUMICE_INVALID_ARGUMENT);
    CAPTURE(error.message);
    CHECK(std::string(error.message).find(words) != std::string::npos);
  };
  small.width = 0;
  refused(small, "inputs[0] is a picture of 0 x 32 pixels");
  small.width = small.height = UINT32_MAX;
  refused(small, "inputs[0] is a picture of 4294967295");
  small.values = values.data();
  refused(small, "inputs[0] has several of");
  refused({sizeof(pumice_input)}, "inputs[0] has none of");
  refused({}, "inputs.struct_size is 0");
}

TEST_CASE("a picture becomes its caption") {
  const DeviceHandle device = make_device();
  const TemporaryFolder folder;
  write_word_folder(folder, "vit-gpt2");
  const ModelHandle model = load(device.get(), folder.path().string());
  pumice_translator_options options = {sizeof options};
  options.output_tokens = 16;
  pumice_translator* made = nullptr;
  pumice_error error;
  require_ok(pumice_translator_create(model.get(), &options, &made, &error), error);
  const TranslatorHandle translator(made);
  const std::vector<uint8_t> pixels = picture(1);
  const std::vector<float> values = values_of(pixels);
  pumice_input prepared = {sizeof prepared};
  prepared.values = values.data();
  const std::string text = caption(made, input_of(pixels));
  CHECK_FALSE(text.empty());
  CHECK(caption(made, prepared) == text);
  CHECK(caption(made, input_of(picture(77))) != text);
  CHECK(pumice_translate(made, "a text", nullptr, 0, nullptr, &error) == PUMICE_INVALID_ARGUMENT);
}

TEST_CASE("speech is written down, segment by segment") {
  const DeviceHandle device = make_device();
  const WhisperFolder folder;
  const ModelHandle model = load(device.get(), folder.path().string());
  pumice_transcriber_options options = {sizeof options};
  options.no_fallback = true;
  options.language = "en";
  options.max_tokens = 20;
  pumice_transcriber* made = nullptr;
  pumice_error error;
  require_ok(pumice_transcriber_create(model.get(), &options, &made, &error), error);
  const TranscriberHandle transcriber(made);
  const auto hear = [&](const std::vector<float>& samples, uint32_t rate) {
    Listener listener;
    require_ok(
        pumice_transcribe(made, samples.data(), samples.size(), rate, Listener::hear, &listener, &error),
        error);
    return listener.segments;
  };
  const std::vector<float> wave = sound(40000, 16000); // windows are one second long
  const auto segments = hear(wave, 0);
  REQUIRE(segments.size() > 1);
  uint64_t time = 0;
  for (const Listener::Segment& segment : segments) {
    CHECK(segment.start >= time);
    CHECK(segment.end >= segment.start);
    CHECK(segment.end <= 2'500'000);
    CHECK_FALSE(segment.tokens.empty());
    time = segment.start;
  }
  CHECK(hear(wave, 16000) == segments);
  CHECK_FALSE(hear(sound(20000, 8000), 8000).empty()); // of another rate

  Listener listener;
  listener.cancels = made;
  CHECK(pumice_transcribe(made, wave.data(), wave.size(), 0, Listener::hear, &listener, &error) ==
        PUMICE_CANCELLED);
  CHECK(listener.nested == PUMICE_NOT_READY);
  CHECK(listener.segments.size() < segments.size());
  CHECK(hear(wave, 0) == segments);

  const auto refused = [&](pumice_status status, const char* words) {
    CHECK(status == PUMICE_INVALID_ARGUMENT);
    CAPTURE(error.message);
    CHECK(std::string(error.message).find(words) != std::string::npos);
  };
  refused(pumice_transcribe(made, nullptr, 9, 0, Listener::hear, &listener, &error), "samples is NULL");
  refused(pumice_transcribe(made, wave.data(), 0, 0, Listener::hear, &listener, &error), "count is 0");
  refused(pumice_transcribe(made, wave.data(), 9, 0, nullptr, &listener, &error), "on_segment is NULL");
  refused(pumice_transcribe(made, wave.data(), 9, 1u << 30, Listener::hear, &listener, &error),
          "rate is 1073741824");
  // Several windows at once, with words.
  options.windows = 3;
  options.words = true;
  options.prompt = "Ada";
  require_ok(pumice_transcriber_create(model.get(), &options, &made, &error), error);
  const TranscriberHandle together(made);
  Listener words;
  require_ok(pumice_transcribe(made, wave.data(), wave.size(), 0, Listener::hear, &words, &error), error);
  CHECK_FALSE(words.segments.empty());
  CHECK(words.words > 0);
  options.windows = 257;
  refused(pumice_transcriber_create(model.get(), &options, &made, &error), "windows is 257");
  options.windows = 0;
  options.words = false;
  options.prompt = nullptr;

  const ModelHandle other = load(device.get());
  // Destroyed while it calls: it ends, and calls no more.
  require_ok(pumice_transcriber_create(model.get(), &options, &made, &error), error);
  listener = {};
  listener.destroys = made;
  CHECK(pumice_transcribe(made, wave.data(), wave.size(), 0, Listener::hear, &listener, &error) ==
        PUMICE_CANCELLED);
  CHECK(listener.segments.size() == 1);

  pumice_transcriber* none = nullptr;
  CHECK(pumice_transcriber_create(other.get(), nullptr, &none, &error) == PUMICE_UNSUPPORTED);
  CHECK(none == nullptr);
}

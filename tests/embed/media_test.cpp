// Pictures and sound that a program has in memory.
#include <cmath>

#include "support/command/answers.h"
#include "support/command/listener.h"
#include "support/files/fixtures.h"
#include "support/files/temporary_folder.h"
#include "support/files/whisper_folder.h"
#include "support/files/word_folder.h"
#include "support/translators.h"

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
    require_ok(pumice_encoder_encode(made, &input, 1, nullptr, 0, &count, &error), error);
    std::vector<float> rows(count);
    require_ok(pumice_encoder_encode(made, &input, 1, rows.data(), count, &count, &error), error);
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
  // As a program's frames are: four bytes a pixel, and rows with something behind them.
  for (const pumice_pixel_order order : {PUMICE_PIXELS_RGBA, PUMICE_PIXELS_BGRA}) {
    constexpr size_t row_bytes = 4 * edge + 20;
    std::vector<uint8_t> frame(row_bytes * edge, 77);
    for (size_t i = 0; i < size_t{edge} * edge; ++i) {
      uint8_t* const pixel = &frame[i / edge * row_bytes + i % edge * 4];
      for (size_t c = 0; c < 3; ++c) pixel[order == PUMICE_PIXELS_BGRA ? 2 - c : c] = pixels[3 * i + c];
    }
    pumice_input given = input_of(frame);
    given.order = order;
    given.row_bytes = row_bytes;
    CHECK(encode(given) == rows);
  }
  pumice_input small = input_of(pixels);
  small.width = 4; // is resized
  CHECK(encode(small).size() == rows.size());

  size_t count = 0;
  const auto refused = [&](pumice_input input, const char* words) {
    CHECK(pumice_encoder_encode(made, &input, 1, nullptr, 0, &count, &error) == PUMICE_INVALID_ARGUMENT);
    CAPTURE(error.message);
    CHECK(std::string(error.message).find(words) != std::string::npos);
  };
  small.width = 0;
  refused(small, "inputs[0] is a picture of 0 x 32 pixels");
  pumice_input wrong_rows = input_of(pixels);
  wrong_rows.row_bytes = 3 * edge - 1;
  refused(wrong_rows, "inputs[0].row_bytes is 95: a row of 32 pixels has 96");
  wrong_rows.row_bytes = SIZE_MAX / 2;
  refused(wrong_rows, "no memory holds 32 such rows");
  pumice_input wrong_order = input_of(pixels);
  wrong_order.order = static_cast<pumice_pixel_order>(3);
  refused(wrong_order, "inputs[0].order is 3: expected one of pumice_pixel_order");
  small.width = small.height = UINT32_MAX;
  refused(small, "inputs[0] is a picture of 4294967295");
  small.values = values.data();
  refused(small, "inputs[0] has several of");
  refused({sizeof(pumice_input)}, "inputs[0] has none of");
  std::vector<float> no_numbers = values;
  no_numbers[3] = NAN;
  pumice_input broken = {sizeof broken};
  broken.values = no_numbers.data();
  refused(broken, "inputs[0].values[3] is nan");
  refused({}, "inputs.struct_size is 0");
}

namespace {

// Rows of one vector for each input.
std::vector<float> encode(pumice_model* model, const char* output, const std::vector<pumice_input>& inputs) {
  pumice_encoder_options options = {sizeof options};
  options.output = output;
  options.inputs = static_cast<uint32_t>(inputs.size());
  options.tokens = 256;
  pumice_encoder* made = nullptr;
  pumice_error error;
  require_ok(pumice_encoder_create(model, &options, &made, &error), error);
  const EncoderHandle encoder(made);
  std::vector<float> rows(inputs.size() * pumice_encoder_columns(made));
  size_t count = 0;
  require_ok(
      pumice_encoder_encode(made, inputs.data(), inputs.size(), rows.data(), rows.size(), &count, &error),
      error);
  CHECK(count == rows.size());
  return rows;
}

} // namespace

FIXTURE_TEST_CASE("texts and pictures of one model become vectors of one space") {
  const DeviceHandle device = make_device();
  for (const char* name : {"clip", "siglip"}) {
    CAPTURE(name);
    const std::string path = fixtures().model(name).string();
    const ModelHandle texts = load(device.get(), path);
    const pumice_source source = {.struct_size = sizeof source, .path = path.c_str()};
    pumice_load_options options = {sizeof options};
    options.pictures = true;
    pumice_model* made = nullptr;
    pumice_error error;
    require_ok(pumice_model_load(device.get(), &source, &options, &made, &error), error);
    const ModelHandle pictures(made);
    pumice_model_info info = {sizeof info};
    require_ok(pumice_model_get_info(texts.get(), &info, &error), error);
    CHECK(info.has_pictures);
    CHECK(info.input_values == 0);

    const Answers answers(fixtures().model(name) / "expected.safetensors");
    std::vector<std::vector<uint32_t>> ids;
    for (size_t i = 0; i < answers.shapes.at("input_ids")[0]; ++i) ids.push_back(answers.ids("input_ids", i));
    std::vector<pumice_input> words, pixels;
    for (const std::vector<uint32_t>& each : ids) {
      words.push_back({sizeof(pumice_input)});
      words.back().tokens = each.data();
      words.back().token_count = each.size();
    }
    for (size_t i = 0; i < answers.shapes.at("pixel_values")[0]; ++i) {
      pixels.push_back({sizeof(pumice_input)});
      pixels.back().values = answers.row("pixel_values", i).data();
    }
    const std::vector<float> text_rows = encode(texts.get(), "text_embeds", words);
    const std::vector<float> picture_rows = encode(pictures.get(), "image_embeds", pixels);
    const size_t columns = text_rows.size() / words.size();
    const std::vector<float>& expected = answers.floats.at("logits_per_image");
    for (size_t picture = 0; picture < pixels.size(); ++picture) {
      for (size_t text = 0; text < words.size(); ++text) {
        double cosine = 0;
        for (size_t i = 0; i < columns; ++i)
          cosine += double{picture_rows[picture * columns + i]} * text_rows[text * columns + i];
        CHECK(info.similarity_scale * cosine + info.similarity_bias ==
              doctest::Approx(expected[picture * words.size() + text]).epsilon(1e-3));
      }
    }
  }
}

TEST_CASE("a model without pictures says so") {
  const DeviceHandle device = make_device();
  const pumice_source source = {.struct_size = sizeof source, .path = stories.c_str()};
  pumice_load_options options = {sizeof options};
  options.pictures = true;
  pumice_model* made = nullptr;
  pumice_error error;
  CHECK(pumice_model_load(device.get(), &source, &options, &made, &error) == PUMICE_UNSUPPORTED);
  CHECK(std::string(error.message).find("reads no pictures") != std::string::npos);
  CHECK(made == nullptr);
}

TEST_CASE("a picture becomes its caption") {
  const DeviceHandle device = make_device();
  const TemporaryFolder folder;
  write_word_folder(folder, "vit-gpt2");
  const ModelHandle model = load(device.get(), folder.path().string());
  const CaptionerHandle captioner = make_captioner(model.get(), 0, 16);
  pumice_captioner* const made = captioner.get();
  const std::vector<uint8_t> pixels = picture(1);
  const std::vector<float> values = values_of(pixels);
  pumice_input prepared = {sizeof prepared};
  prepared.values = values.data();
  const std::string text = write(made, input_of(pixels));
  CHECK_FALSE(text.empty());
  CHECK(write(made, prepared) == text);
  CHECK(write(made, input_of(picture(77))) != text);
  pumice_input wrong = {sizeof wrong};
  wrong.text = "a text";
  pumice_error error;
  CHECK(pumice_captioner_caption(made, &wrong, 1, &error) == PUMICE_INVALID_ARGUMENT);
  pumice_translator* none = nullptr;
  CHECK(pumice_translator_create(model.get(), nullptr, &none, &error) == PUMICE_UNSUPPORTED);
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
    require_ok(pumice_transcriber_transcribe(made, samples.data(), samples.size(), rate, Listener::hear,
                                             &listener, &error),
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
  CHECK(pumice_transcriber_transcribe(made, wave.data(), wave.size(), 0, Listener::hear, &listener, &error) ==
        PUMICE_CANCELLED);
  CHECK(listener.nested == PUMICE_NOT_READY);
  CHECK(listener.segments.size() < segments.size());
  CHECK(hear(wave, 0) == segments);

  const auto refused = [&](pumice_status status, const char* words) {
    CHECK(status == PUMICE_INVALID_ARGUMENT);
    CAPTURE(error.message);
    CHECK(std::string(error.message).find(words) != std::string::npos);
  };
  refused(pumice_transcriber_transcribe(made, nullptr, 9, 0, Listener::hear, &listener, &error),
          "samples is NULL");
  refused(pumice_transcriber_transcribe(made, wave.data(), 0, 0, Listener::hear, &listener, &error),
          "count is 0");
  refused(pumice_transcriber_transcribe(made, wave.data(), 9, 0, nullptr, &listener, &error),
          "on_segment is NULL");
  refused(pumice_transcriber_transcribe(made, wave.data(), 9, 1u << 30, Listener::hear, &listener, &error),
          "rate is 1073741824");
  // Several windows at once, with words.
  options.windows = 3;
  options.words = true;
  options.prompt = "Ada";
  require_ok(pumice_transcriber_create(model.get(), &options, &made, &error), error);
  const TranscriberHandle together(made);
  Listener words;
  require_ok(pumice_transcriber_transcribe(made, wave.data(), wave.size(), 0, Listener::hear, &words, &error),
             error);
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
  CHECK(pumice_transcriber_transcribe(made, wave.data(), wave.size(), 0, Listener::hear, &listener, &error) ==
        PUMICE_CANCELLED);
  CHECK(listener.segments.size() == 1);

  pumice_transcriber* none = nullptr;
  CHECK(pumice_transcriber_create(other.get(), nullptr, &none, &error) == PUMICE_UNSUPPORTED);
  CHECK(none == nullptr);
}

TEST_CASE("speech is one of a program's commands") {
  const DeviceHandle device = make_device();
  const WhisperFolder folder;
  const ModelHandle model = load(device.get(), folder.path().string());
  const char* const commands[] = {"open the gate", "stop"};
  pumice_form form = {sizeof form};
  form.choices = commands;
  form.choice_count = 2;
  pumice_transcriber_options options = {sizeof options};
  options.language = "en";
  options.form = &form;
  pumice_transcriber* made = nullptr;
  pumice_error error;
  require_ok(pumice_transcriber_create(model.get(), &options, &made, &error), error);
  const TranscriberHandle transcriber(made);
  const std::vector<float> wave = sound(16000, 16000);
  Listener whole, sliced;
  require_ok(pumice_transcriber_transcribe(made, wave.data(), wave.size(), 0, Listener::hear, &whole, &error),
             error);
  REQUIRE(whole.segments.size() == 1);
  const std::string& text = whole.segments[0].text;
  CHECK((text.ends_with("open the gate") || text.ends_with("stop")));
  require_ok(pumice_transcriber_begin(made, wave.data(), wave.size(), 0, Listener::hear, &sliced, &error),
             error);
  pumice_slice slice = {sizeof slice};
  do {
    require_ok(pumice_work_advance(pumice_transcriber_work(made), 500, nullptr, &slice, &error), error);
  } while (slice.active);
  CHECK(sliced.segments == whole.segments);

  form.choice_count = 0;
  CHECK(pumice_transcriber_create(model.get(), &options, &made, &error) == PUMICE_INVALID_ARGUMENT);
  CHECK(std::string(error.message).find("options.form") == 0);
}

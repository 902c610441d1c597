// Warm-up and smaller steps of what is made in the background, and kernels that are not left for later.
#include <array>
#include <thread>

#include "support/command/listener.h"
#include "support/files/bert_folder.h"
#include "support/files/whisper_folder.h"
#include "support/translators.h"
#include "support/vision_player.h"

using namespace picture_tests;

namespace {

// What was made, and how many steps of making there were.
struct Made {
  pumice_created created = {sizeof created};
  uint64_t steps = 0;
};

Made make(pumice_model* model, const pumice_creation_options& options) {
  pumice_creation* started = nullptr;
  pumice_error error;
  require_ok(pumice_creation_start(model, &options, &started, &error), error);
  const CreationHandle owner(started);
  while (!pumice_creation_poll(started, nullptr, nullptr)) std::this_thread::yield();
  Made made;
  pumice_creation_poll(started, nullptr, &made.steps);
  require_ok(pumice_creation_finish(started, &made.created, &error), error);
  return made;
}

// Slices that were known to have finished before the first one.
uint64_t warmed_up(pumice_work* work) {
  pumice_slice slice = {sizeof slice};
  pumice_error error;
  require_ok(pumice_work_advance(work, 1e3f, nullptr, &slice, &error), error);
  return slice.finished;
}

} // namespace

TEST_CASE("what is made in the background has run before, in slices, if that was asked for") {
  const DeviceHandle device = make_device();
  const ModelHandle model = load(device.get(), dates);
  const pumice_translator_options translation = {.struct_size = sizeof translation};
  pumice_creation_options options = {sizeof options};
  options.translator = &translation;
  options.chunk = 16;
  const TranslatorHandle cold(make(model.get(), options).created.translator);
  options.warm_up = 1;
  const TranslatorHandle warm(make(model.get(), options).created.translator);
  std::string text;
  pumice_error error;
  CHECK(read(warm.get(), text, &error) == PUMICE_NOT_READY); // what it has run is nobody's
  for (const TranslatorHandle* each : {&cold, &warm}) {
    CHECK((warmed_up(pumice_translator_work(each->get())) > 0) == (each == &warm));
    CHECK(write(each->get(), "le 3 mars 2021") == "2021-03-03");
    begin(each->get(), "May 4, 1999");
    advance_to_the_end(each->get(), 300);
    CHECK(read(each->get()) == "1999-05-04");
  }
}

TEST_CASE("an encoder that has run before gives the same, in steps of the size that was asked for") {
  const DeviceHandle device = make_device();
  const TemporaryFolder folder;
  REQUIRE(BertFolder().write(folder));
  const ModelHandle model = load(device.get(), folder.path().string());
  const pumice_embedder_options embedding = {.struct_size = sizeof embedding, .max_tokens = 8};
  const std::array<const char*, 3> texts = {"hello world", "the quick brown fox", "hello"};
  const auto vectors = [&](pumice_embedder* embedder) {
    std::vector<float> all(texts.size() * pumice_embedder_columns(embedder));
    pumice_error error;
    require_ok(pumice_embedder_embed(embedder, texts.data(), texts.size(), all.data(), nullptr, &error),
               error);
    return all;
  };
  pumice_creation_options options = {sizeof options};
  options.embedder = &embedding;
  const EmbedderHandle usual(make(model.get(), options).created.embedder);
  const std::vector<float> expected = vectors(usual.get());
  options.warm_up = 1;
  for (const uint32_t chunk : {0u, 1u, 7u}) {
    CAPTURE(chunk);
    options.chunk = chunk;
    const EmbedderHandle embedder(make(model.get(), options).created.embedder);
    CHECK(warmed_up(pumice_embedder_work(embedder.get())) > 0);
    CHECK(vectors(embedder.get()) == expected);
    pumice_error error;
    require_ok(pumice_embedder_begin(embedder.get(), texts.data(), texts.size(), nullptr, &error), error);
    const uint32_t slices = run_slices([&](pumice_slice* slice, pumice_error* failure) {
      return pumice_work_advance(pumice_embedder_work(embedder.get()), 1e6f, nullptr, slice, failure);
    });
    // Of at most 8 tokens in a step, each text has its own.
    CHECK((slices >= texts.size()) == (chunk > 0));
  }

  // An encoder's step is as long as its longest input.
  const pumice_encoder_options encoding = {.struct_size = sizeof encoding};
  options = {sizeof options};
  options.encoder = &encoding;
  options.chunk = 4;
  const EncoderHandle encoder(make(model.get(), options).created.encoder);
  std::vector<float> row(pumice_encoder_columns(encoder.get()));
  pumice_error error;
  for (const uint32_t tokens : {4u, 5u}) {
    const std::vector<uint32_t> ids(tokens, 1);
    pumice_input input = {sizeof input};
    input.tokens = ids.data();
    input.token_count = tokens;
    CHECK(pumice_encoder_encode(encoder.get(), &input, 1, row.data(), row.size(), nullptr, &error) ==
          (tokens == 4 ? PUMICE_OK : PUMICE_INVALID_ARGUMENT));
  }
}

TEST_CASE("kernels of second passes and of prompts with pictures are made in the background, too") {
  // Each on a device of its own, which has no kernels yet.
  pumice_translator_options translation = {.struct_size = sizeof translation};
  pumice_creation_options options = {sizeof options};
  options.translator = &translation;
  const uint64_t alone = [&] {
    const DeviceHandle first = make_device();
    const ModelHandle model = load(first.get(), dates);
    const Made made = make(model.get(), options);
    const TranslatorHandle owner(made.created.translator);
    return made.steps;
  }();
  const DeviceHandle device = make_device();
  const ModelHandle model = load(device.get(), dates);
  translation.alignment = true;
  options.chunk = 7;
  const Made aligned = make(model.get(), options);
  const TranslatorHandle translator(aligned.created.translator);
  CHECK(aligned.steps > alone);
  CHECK(write(translator.get(), "le 3 mars 2021") == "2021-03-03");

  const WhisperFolder speech;
  pumice_transcriber_options transcription = {.struct_size = sizeof transcription, .language = "en"};
  transcription.max_tokens = 20;
  transcription.no_fallback = true;
  std::array<uint64_t, 2> steps;
  std::array<Listener, 2> heard;
  const std::vector<float> wave = sound(20000, 16000);
  for (const bool words : {false, true}) {
    transcription.words = words;
    options = {sizeof options};
    options.transcriber = &transcription;
    options.warm_up = 1;
    const DeviceHandle own = make_device();
    const ModelHandle hears = load(own.get(), speech.path().string());
    const Made made = make(hears.get(), options);
    const TranscriberHandle transcriber(made.created.transcriber);
    steps[words] = made.steps;
    pumice_error error;
    CHECK(warmed_up(pumice_transcriber_work(transcriber.get())) > 0);
    require_ok(pumice_transcriber_transcribe(transcriber.get(), wave.data(), wave.size(), 0, Listener::hear,
                                             &heard[words], &error),
               error);
  }
  CHECK(steps[1] > steps[0]);
  CHECK(heard[1].segments == heard[0].segments);
  CHECK(heard[1].words > 0);
}

TEST_CASE("a captioner of a decoder that sees is made with its decoder") {
  for (const VisionModel& fixture : {smolvlm(), qwen2_5_vl()}) {
    CAPTURE(fixture.name);
    const VisionPlayer player(fixture);
    pumice_writing_options writing = {sizeof writing};
    writing.max_tokens = 6;
    pumice_captioner_options options = {sizeof options};
    options.prompt = "<image>w20";
    options.writing = &writing;
    const DeviceHandle device = make_device(); // which has no kernels yet
    pumice_load_options loading = {sizeof loading};
    loading.vision = 1;
    const ModelHandle model = load(device.get(), player.folder.path().string(), loading);
    pumice_captioner* made = nullptr;
    pumice_error error;
    require_ok(pumice_captioner_create(player.model.get(), &options, &made, &error), error);
    const CaptionerHandle at_once(made);
    const Image& image = fixture.pictures[0];
    pumice_input picture = {sizeof picture};
    picture.pixels = image.pixels.data();
    picture.width = image.width;
    picture.height = image.height;
    const std::string expected = write(at_once.get(), picture);

    pumice_creation_options creation = {sizeof creation};
    creation.captioner = &options;
    creation.threads = 2;
    creation.chunk = 7;
    for (const uint32_t warm_up : {0u, 1u}) {
      creation.warm_up = warm_up;
      const Made background = make(model.get(), creation);
      const CaptionerHandle captioner(background.created.captioner);
      CHECK((background.steps > 20) == (warm_up == 0)); // of the encoder and of the decoder, once
      CHECK(write(captioner.get(), picture) == expected);
      begin(captioner.get(), picture);
      advance_to_the_end(captioner.get(), 300);
      CHECK(read(captioner.get()) == expected);
    }
  }
}

TEST_CASE("what was made is kept for a structure that has room for it") {
  const DeviceHandle device = make_device();
  const ModelHandle model = load(device.get(), dates);
  const pumice_translator_options translation = {.struct_size = sizeof translation};
  pumice_creation_options options = {sizeof options};
  options.translator = &translation;
  pumice_creation* started = nullptr;
  pumice_error error;
  require_ok(pumice_creation_start(model.get(), &options, &started, &error), error);
  const CreationHandle owner(started);
  pumice_created created = {offsetof(pumice_created, translator)};
  CHECK(pumice_creation_finish(started, &created, &error) == PUMICE_INVALID_ARGUMENT);
  CHECK(std::string(error.message).find("room for the translator") != std::string::npos);
  created.struct_size = offsetof(pumice_created, captioner);
  require_ok(pumice_creation_finish(started, &created, &error), error);
  const TranslatorHandle translator(created.translator);
  CHECK(write(translator.get(), "le 3 mars 2021") == "2021-03-03");
}

// As faults_test.cpp, for encoders, translators and transcribers.
#include "support/command/listener.h"
#include "support/files/bert_folder.h"
#include "support/files/whisper_folder.h"
#include "support/translators.h"
#include "support/vulkan/fault_subject.h"

namespace {

using Owner = FaultyProgram::Owner;

// An encoder of the program, and what it makes of a text.
struct Embedding : FaultSubject {
  EncoderHandle encoder;
  bool begun = false; // in slices

  static constexpr pumice_input input = {sizeof(pumice_input), "the little dog ran to the park", nullptr, 0,
                                         nullptr};

  using FaultSubject::FaultSubject;
  pumice_status create(pumice_error* error) override {
    pumice_encoder* made = nullptr;
    const pumice_status status = pumice_encoder_create(program_.model.get(), nullptr, &made, error);
    encoder.reset(made);
    return status;
  }
  void destroy() override {
    encoder.reset();
    begun = false;
  }
  pumice_status run(std::vector<float>& values, pumice_error* error) {
    values.assign(BertFolder::hidden, 0);
    return pumice_encoder_encode(encoder.get(), &input, 1, values.data(), values.size(), nullptr, error);
  }
  // Begins where it has not, and goes on where it had come to.
  pumice_status run_in_slices(std::vector<float>& values, pumice_error* error) {
    pumice_status status = PUMICE_OK;
    if (!begun) status = pumice_encoder_begin(encoder.get(), &input, 1, error);
    if (status != PUMICE_OK) return status;
    begun = true;
    pumice_slice slice = {sizeof slice};
    for (int number = 0; number == 0 || slice.active; ++number) {
      status =
          pumice_work_advance(pumice_encoder_work(encoder.get()), program_.budget_us, nullptr, &slice, error);
      if (status != PUMICE_OK) return status;
      if (number % 2) program_.wait_for_device();
    }
    values.assign(BertFolder::hidden, 0);
    status = pumice_encoder_read(encoder.get(), values.data(), values.size(), nullptr, error);
    begun = status != PUMICE_OK;
    return status;
  }
};

FaultPhase coming_back(FaultyVulkan& vulkan, Embedding& embedding, const std::vector<float>& expected) {
  FaultPhase phase =
      running("an encoder's coming back after an error", embedding, &Embedding::run, expected, 4);
  phase.before = [&vulkan, &embedding] {
    pumice_error error;
    std::vector<float> values;
    vulkan.fail_next("vkQueueSubmit", VK_ERROR_OUT_OF_HOST_MEMORY);
    CHECK(embedding.run(values, &error) == PUMICE_OUT_OF_MEMORY);
    vulkan.rest();
  };
  return phase;
}

// A translator of the program, with beams, and what it makes of a text.
struct Translation : FaultSubject {
  uint32_t beams;
  TranslatorHandle translator;
  const char* date = "the third of may, 1987";
  bool begun = false; // in slices

  Translation(FaultyProgram& program, uint32_t most_beams)
      : FaultSubject(program, dates), beams(most_beams) {}
  pumice_status create(pumice_error* error) override {
    pumice_writing_options writing = {sizeof writing};
    writing.beams = beams;
    pumice_translator_options options = {sizeof options};
    options.writing = &writing;
    pumice_translator* made = nullptr;
    const pumice_status status = pumice_translator_create(program_.model.get(), &options, &made, error);
    translator.reset(made);
    return status;
  }
  void destroy() override {
    translator.reset();
    begun = false;
  }
  pumice_status run(std::string& text, pumice_error* error) {
    const pumice_status status = pumice_translator_translate(translator.get(), &date, 1, error);
    return status == PUMICE_OK ? read(translator.get(), text, error) : status;
  }
  // Begins where it has not, and goes on where it had come to.
  pumice_status run_in_slices(std::string& text, pumice_error* error) {
    pumice_status status = PUMICE_OK;
    if (!begun) status = pumice_translator_begin(translator.get(), &date, 1, error);
    if (status != PUMICE_OK) return status;
    begun = true;
    pumice_slice slice = {sizeof slice};
    for (int number = 0; number == 0 || slice.active; ++number) {
      status = pumice_work_advance(pumice_translator_work(translator.get()), program_.budget_us, nullptr,
                                   &slice, error);
      if (status != PUMICE_OK) return status;
      if (number % 2) program_.wait_for_device();
    }
    status = read(translator.get(), text, error);
    begun = false;
    return status;
  }
};

// A transcriber of the program, and what it hears in a sound.
struct Transcription : FaultSubject {
  using Segments = std::vector<Listener::Segment>;

  TranscriberHandle transcriber;
  std::vector<float> wave = sound(20000, 16000); // more than a window

  using FaultSubject::FaultSubject;
  pumice_status create(pumice_error* error) override {
    pumice_transcriber_options options = {sizeof options};
    options.no_fallback = true;
    options.max_tokens = 6;
    pumice_transcriber* made = nullptr;
    const pumice_status status = pumice_transcriber_create(program_.model.get(), &options, &made, error);
    transcriber.reset(made);
    return status;
  }
  void destroy() override { transcriber.reset(); }
  pumice_status run(Segments& segments, pumice_error* error) {
    Listener listener;
    const pumice_status status = pumice_transcriber_transcribe(transcriber.get(), wave.data(), wave.size(), 0,
                                                               Listener::hear, &listener, error);
    segments = std::move(listener.segments);
    return status;
  }
  pumice_status run_in_slices(Segments& segments, pumice_error* error) {
    Listener listener;
    pumice_status status = pumice_transcriber_begin(transcriber.get(), wave.data(), wave.size(), 0,
                                                    Listener::hear, &listener, error);
    pumice_slice slice = {sizeof slice, true};
    for (int number = 0; status == PUMICE_OK && slice.active; ++number) {
      status = pumice_work_advance(pumice_transcriber_work(transcriber.get()), 20 * program_.budget_us,
                                   nullptr, &slice, error);
      if (number % 2) program_.wait_for_device();
    }
    segments = std::move(listener.segments);
    return status;
  }
};

FaultCount inject_into_encoder(FaultyVulkan& vulkan, const TemporaryFolder& model, bool validate,
                               const FaultEffort& effort = {}) {
  const TemporaryFolder cache;
  FaultyProgram program(Owner::pumice, validate);
  program.cache_folder = cache.path().string();
  Embedding embedding(program, model.path().string());
  FaultCount count = inject(vulkan, creating("an encoder", embedding, 3), effort);
  pumice_error error;
  std::vector<float> expected;
  require_ok(embedding.run(expected, &error), error);
  count += inject(vulkan, running("encoding, at once", embedding, &Embedding::run, expected), effort);
  count += inject(vulkan, coming_back(vulkan, embedding, expected), effort);
  count +=
      inject(vulkan, running("encoding, in slices", embedding, &Embedding::run_in_slices, expected), effort);
  return count;
}

} // namespace

TEST_CASE("faults while an encoder is made and used" * doctest::test_suite("long")) {
  const TemporaryFolder model;
  REQUIRE(BertFolder().write(model));
  FaultyVulkan vulkan;
  vulkan.split_memory(true);
  check_count(inject_into_encoder(vulkan, model, false), 50);
}

TEST_CASE("faults while a translator is made and used" * doctest::test_suite("long")) {
  FaultyVulkan vulkan;
  vulkan.split_memory(true);
  FaultCount count;
  for (const uint32_t beams : {1u, 4u}) {
    FaultyProgram program(Owner::pumice, false);
    const std::string with = " with " + std::to_string(beams) + " beams";
    Translation translation(program, beams);
    translation.open_all();
    pumice_error error;
    std::string expected;
    require_ok(translation.run(expected, &error), error);
    CHECK(expected == "1987-05-03");
    if (beams == 1) count += inject(vulkan, creating("a translator", translation, 2));
    count += inject(vulkan, running("translating" + with, translation, &Translation::run, expected));
    count += inject(
        vulkan, running("translating in slices" + with, translation, &Translation::run_in_slices, expected));
  }
  check_count(count, 50);
}

TEST_CASE("faults while a transcriber is used" * doctest::test_suite("long")) {
  const WhisperFolder model;
  FaultyVulkan vulkan;
  vulkan.split_memory(true);
  FaultyProgram program(Owner::pumice, false);
  Transcription transcription(program, model.path().string());
  transcription.open_all();
  pumice_error error;
  Transcription::Segments expected;
  require_ok(transcription.run(expected, &error), error);
  REQUIRE(expected.size() > 1);
  FaultCount count = inject(vulkan, running("transcribing", transcription, &Transcription::run, expected, 8));
  count += inject(
      vulkan, running("transcribing in slices", transcription, &Transcription::run_in_slices, expected, 8));
  check_count(count, 20);
}

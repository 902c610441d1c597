// As faults_test.cpp, for encoders, batches, translators and transcribers.
#include <map>

#include "support/bert_folder.h"
#include "support/fault_phase.h"
#include "support/listener.h"
#include "support/program.h"
#include "support/whisper_folder.h"

namespace {

using Owner = FaultyProgram::Owner;

// An encoder of the program, and what it makes of a text.
struct Embedding {
  FaultyProgram& program;
  std::string path;
  EncoderHandle encoder;
  bool begun = false; // in slices

  static constexpr pumice_input input = {sizeof(pumice_input), "the little dog ran to the park", nullptr, 0,
                                         nullptr};

  void open_world() {
    pumice_error error;
    encoder.reset();
    program.model.reset();
    require_ok(program.open_device(&error), error);
    require_ok(program.load(&error, path), error);
  }
  pumice_status create(pumice_error* error) {
    pumice_encoder* made = nullptr;
    const pumice_status status = pumice_encoder_create(program.model.get(), nullptr, &made, error);
    encoder.reset(made);
    return status;
  }
  void recover(pumice_status status) {
    pumice_error error;
    begun = begun && status != PUMICE_DEVICE_LOST;
    if (status != PUMICE_DEVICE_LOST) return;
    open_world();
    require_ok(create(&error), error);
  }
  pumice_status run(std::vector<float>& values, pumice_error* error) {
    values.assign(BertFolder::hidden, 0);
    return pumice_encode(encoder.get(), &input, 1, values.data(), values.size(), nullptr, error);
  }
  // Begins where it has not, and goes on where it had come to.
  pumice_status run_in_slices(std::vector<float>& values, pumice_error* error) {
    pumice_status status = PUMICE_OK;
    if (!begun) status = pumice_encode_begin(encoder.get(), &input, 1, error);
    if (status != PUMICE_OK) return status;
    begun = true;
    pumice_slice slice = {sizeof slice};
    for (int number = 0; number == 0 || slice.active; ++number) {
      status = pumice_encode_advance(encoder.get(), program.budget_us, nullptr, &slice, error);
      if (status != PUMICE_OK) return status;
      if (number % 2) program.wait_for_device();
    }
    values.assign(BertFolder::hidden, 0);
    status = pumice_encode_read(encoder.get(), values.data(), values.size(), nullptr, error);
    begun = status != PUMICE_OK;
    return status;
  }
};

FaultPhase creating_an_encoder(Embedding& embedding) {
  FaultPhase phase{"creating an encoder", {}, {}, {}};
  phase.before = [&embedding] { embedding.open_world(); };
  phase.during = [&embedding](pumice_error* error) { return embedding.create(error); };
  phase.after = [&embedding](pumice_status status) {
    pumice_error error;
    if (status == PUMICE_DEVICE_LOST) embedding.open_world();
    if (status != PUMICE_OK) require_ok(embedding.create(&error), error);
  };
  phase.most_calls = 3;
  return phase;
}

FaultPhase coming_back(FaultyVulkan& vulkan, Embedding& embedding, const std::vector<float>& expected) {
  FaultPhase phase{"an encoder's coming back after an error", {}, {}, {}};
  phase.before = [&vulkan, &embedding] {
    pumice_error error;
    std::vector<float> values;
    vulkan.fail_next("vkQueueSubmit", VK_ERROR_OUT_OF_HOST_MEMORY);
    CHECK(embedding.run(values, &error) == PUMICE_OUT_OF_MEMORY);
    vulkan.rest();
  };
  phase.during = [&embedding](pumice_error* error) {
    std::vector<float> values;
    return embedding.run(values, error);
  };
  phase.after = [&embedding, &expected](pumice_status status) {
    pumice_error error;
    std::vector<float> values;
    embedding.recover(status);
    require_ok(embedding.run(values, &error), error);
    CHECK(values == expected);
  };
  phase.most_calls = 4;
  return phase;
}

FaultPhase encoding(Embedding& embedding, std::string name, auto run, const std::vector<float>& expected) {
  FaultPhase phase{std::move(name), {}, {}, {}};
  phase.before = [] {};
  phase.during = [&embedding, run](pumice_error* error) {
    std::vector<float> values;
    return (embedding.*run)(values, error);
  };
  phase.after = [&embedding, run, &expected](pumice_status status) {
    pumice_error error;
    std::vector<float> values;
    embedding.recover(status);
    require_ok((embedding.*run)(values, &error), error);
    CHECK(values == expected);
  };
  return phase;
}

// A translator of the program, with beams, and what it makes of a text.
struct Translation {
  FaultyProgram& program;
  uint32_t beams;
  TranslatorHandle translator;
  bool begun = false; // in slices

  void open_world() {
    pumice_error error;
    translator.reset();
    program.model.reset();
    require_ok(program.open_device(&error), error);
    require_ok(program.load(&error, dates), error);
  }
  pumice_status create(pumice_error* error) {
    pumice_translator_options options = {sizeof options};
    options.beams = beams;
    pumice_translator* made = nullptr;
    const pumice_status status = pumice_translator_create(program.model.get(), &options, &made, error);
    translator.reset(made);
    return status;
  }
  void recover(pumice_status status) {
    if (status != PUMICE_DEVICE_LOST) return;
    pumice_error error;
    begun = false;
    open_world();
    require_ok(create(&error), error);
  }
  pumice_status run(std::string& text, pumice_error* error) {
    char buffer[64] = "";
    const pumice_status status =
        pumice_translate(translator.get(), "the third of may, 1987", buffer, sizeof buffer, nullptr, error);
    text = buffer;
    return status;
  }
  // Begins where it has not, and goes on where it had come to.
  pumice_status run_in_slices(std::string& text, pumice_error* error) {
    pumice_input input = {sizeof input};
    input.text = "the third of may, 1987";
    pumice_status status = PUMICE_OK;
    if (!begun) status = pumice_translate_begin(translator.get(), &input, error);
    if (status != PUMICE_OK) return status;
    begun = true;
    pumice_slice slice = {sizeof slice};
    for (int number = 0; number == 0 || slice.active; ++number) {
      status = pumice_translate_advance(translator.get(), program.budget_us, nullptr, &slice, error);
      if (status != PUMICE_OK) return status;
      if (number % 2) program.wait_for_device();
    }
    char buffer[64] = "";
    status = pumice_translate_read(translator.get(), buffer, sizeof buffer, nullptr, error);
    text = buffer;
    begun = false;
    return status;
  }
};

FaultPhase creating_a_translator(Translation& translation) {
  FaultPhase phase{"creating a translator", {}, {}, {}};
  phase.before = [&translation] { translation.open_world(); };
  phase.during = [&translation](pumice_error* error) { return translation.create(error); };
  phase.after = [&translation](pumice_status status) {
    pumice_error error;
    if (status == PUMICE_DEVICE_LOST) translation.open_world();
    if (status != PUMICE_OK) require_ok(translation.create(&error), error);
  };
  phase.most_calls = 2;
  return phase;
}

FaultPhase translating(Translation& translation, const std::string& how, auto run,
                       const std::string& expected) {
  const std::string name = "translating" + how + " with " + std::to_string(translation.beams) + " beams";
  FaultPhase phase{name, {}, {}, {}};
  phase.before = [] {};
  phase.during = [&translation, run](pumice_error* error) {
    std::string text;
    return (translation.*run)(text, error);
  };
  phase.after = [&translation, run, &expected](pumice_status status) {
    pumice_error error;
    std::string text;
    translation.recover(status);
    require_ok((translation.*run)(text, &error), error);
    CHECK(text == expected);
  };
  phase.most_calls = 12;
  return phase;
}

// A transcriber of the program, and what it hears in a sound.
struct Transcription {
  using Segments = std::vector<Listener::Segment>;

  FaultyProgram& program;
  std::string path;
  TranscriberHandle transcriber;
  std::vector<float> wave = sound(20000, 16000); // more than a window

  void open_world() {
    pumice_error error;
    transcriber.reset();
    program.model.reset();
    require_ok(program.open_device(&error), error);
    require_ok(program.load(&error, path), error);
  }
  pumice_status create(pumice_error* error) {
    pumice_transcriber_options options = {sizeof options};
    options.max_tokens = 6;
    pumice_transcriber* made = nullptr;
    const pumice_status status = pumice_transcriber_create(program.model.get(), &options, &made, error);
    transcriber.reset(made);
    return status;
  }
  void recover(pumice_status status) {
    if (status != PUMICE_DEVICE_LOST) return;
    pumice_error error;
    open_world();
    require_ok(create(&error), error);
  }
  pumice_status run(Segments& segments, pumice_error* error) {
    Listener listener;
    const pumice_status status =
        pumice_transcribe(transcriber.get(), wave.data(), wave.size(), 0, Listener::hear, &listener, error);
    segments = std::move(listener.segments);
    return status;
  }
  pumice_status run_in_slices(Segments& segments, pumice_error* error) {
    Listener listener;
    pumice_status status = pumice_transcribe_begin(transcriber.get(), wave.data(), wave.size(), 0,
                                                   Listener::hear, &listener, error);
    pumice_slice slice = {sizeof slice, true};
    for (int number = 0; status == PUMICE_OK && slice.active; ++number) {
      status = pumice_transcribe_advance(transcriber.get(), 20 * program.budget_us, nullptr, &slice, error);
      if (number % 2) program.wait_for_device();
    }
    segments = std::move(listener.segments);
    return status;
  }
};

FaultPhase transcribing(Transcription& transcription, const std::string& name, auto run,
                        const Transcription::Segments& expected) {
  FaultPhase phase{name, {}, {}, {}};
  phase.before = [] {};
  phase.during = [&transcription, run](pumice_error* error) {
    Transcription::Segments segments;
    return (transcription.*run)(segments, error);
  };
  phase.after = [&transcription, run, &expected](pumice_status status) {
    pumice_error error;
    Transcription::Segments segments;
    transcription.recover(status);
    require_ok((transcription.*run)(segments, &error), error);
    CHECK(segments == expected);
  };
  phase.most_calls = 8;
  return phase;
}

// A batch of the program's, and what two characters say in it.
struct Speaking {
  FaultyProgram& program;
  std::unique_ptr<pumice_batch, Destroy<pumice_batch_destroy>> batch;

  void open_world() {
    pumice_error error;
    batch.reset();
    program.model.reset();
    require_ok(program.open_device(&error), error);
    require_ok(program.load(&error), error);
  }
  pumice_status create(pumice_error* error) {
    pumice_batch_options options = {sizeof options};
    options.texts = 2;
    options.context = 64;
    options.chunk = 8;
    pumice_batch* made = nullptr;
    const pumice_status status = pumice_batch_create(program.model.get(), &options, &made, error);
    batch.reset(made);
    return status;
  }
  void recover(pumice_status status) {
    if (status != PUMICE_DEVICE_LOST) return;
    pumice_error error;
    open_world();
    require_ok(create(&error), error);
  }
  pumice_status run(std::vector<std::string>& texts, pumice_error* error) {
    std::map<uint32_t, std::string> said;
    for (const char* prompt : {"Once upon a time there was a big dog. The dog", "One day, a little fox"}) {
      pumice_request request = {sizeof request};
      request.text = prompt;
      request.max_tokens = 6;
      uint32_t text = 0;
      const pumice_status status = pumice_batch_add(batch.get(), &request, &text, error);
      if (status != PUMICE_OK) return clear(status);
      said[text] = "";
    }
    for (bool active = true; active;) {
      const pumice_status status = pumice_batch_step(batch.get(), &active, error);
      if (status != PUMICE_OK) return clear(status);
    }
    while (const pumice_event* event = pumice_batch_poll(batch.get())) said[event->text_id] += event->text;
    texts.clear();
    for (const auto& [text, words] : said) texts.push_back(words);
    return PUMICE_OK;
  }
  // What there was has ended.
  pumice_status clear(pumice_status status) {
    pumice_batch_cancel(batch.get());
    bool active = true;
    (void)pumice_batch_step(batch.get(), &active, nullptr);
    CHECK_FALSE(active);
    while (pumice_batch_poll(batch.get())) {
    }
    return status;
  }
};

FaultPhase creating_a_batch(Speaking& speaking) {
  FaultPhase phase{"creating a batch", {}, {}, {}};
  phase.before = [&speaking] { speaking.open_world(); };
  phase.during = [&speaking](pumice_error* error) { return speaking.create(error); };
  phase.after = [&speaking](pumice_status status) {
    pumice_error error;
    if (status == PUMICE_DEVICE_LOST) speaking.open_world();
    if (status != PUMICE_OK) require_ok(speaking.create(&error), error);
  };
  phase.most_calls = 2;
  return phase;
}

FaultPhase speaking_together(Speaking& speaking, const std::vector<std::string>& expected) {
  FaultPhase phase{"two texts in the same steps", {}, {}, {}};
  phase.before = [] {};
  phase.during = [&speaking](pumice_error* error) {
    std::vector<std::string> texts;
    return speaking.run(texts, error);
  };
  phase.after = [&speaking, &expected](pumice_status status) {
    pumice_error error;
    std::vector<std::string> texts;
    speaking.recover(status);
    require_ok(speaking.run(texts, &error), error);
    CHECK(texts == expected);
  };
  phase.most_calls = 12;
  return phase;
}

FaultCount inject_into_encoder(FaultyVulkan& vulkan, const TemporaryFolder& model, bool validate,
                               const FaultEffort& effort = {}) {
  const TemporaryFolder cache;
  FaultyProgram program(Owner::pumice, validate);
  program.cache_folder = cache.path().string();
  Embedding embedding{program, model.path().string(), {}};
  FaultCount count = inject(vulkan, creating_an_encoder(embedding), effort);
  pumice_error error;
  std::vector<float> expected;
  require_ok(embedding.run(expected, &error), error);
  count += inject(vulkan, encoding(embedding, "encoding, at once", &Embedding::run, expected), effort);
  count += inject(vulkan, coming_back(vulkan, embedding, expected), effort);
  count +=
      inject(vulkan, encoding(embedding, "encoding, in slices", &Embedding::run_in_slices, expected), effort);
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

TEST_CASE("faults while a batch is made and used" * doctest::test_suite("long")) {
  FaultyVulkan vulkan;
  vulkan.split_memory(true);
  FaultyProgram program(Owner::pumice, false);
  Speaking speaking{program, {}};
  speaking.open_world();
  pumice_error error;
  std::vector<std::string> expected;
  require_ok(speaking.create(&error), error);
  require_ok(speaking.run(expected, &error), error);
  FaultCount count = inject(vulkan, creating_a_batch(speaking));
  count += inject(vulkan, speaking_together(speaking, expected));
  check_count(count, 50);
}

TEST_CASE("faults while a translator is made and used" * doctest::test_suite("long")) {
  FaultyVulkan vulkan;
  vulkan.split_memory(true);
  FaultCount count;
  for (const uint32_t beams : {1u, 4u}) {
    FaultyProgram program(Owner::pumice, false);
    Translation translation{program, beams, {}};
    translation.open_world();
    pumice_error error;
    std::string expected;
    require_ok(translation.create(&error), error);
    require_ok(translation.run(expected, &error), error);
    CHECK(expected == "1987-05-03");
    if (beams == 1) count += inject(vulkan, creating_a_translator(translation));
    count += inject(vulkan, translating(translation, "", &Translation::run, expected));
    count += inject(vulkan, translating(translation, " in slices", &Translation::run_in_slices, expected));
  }
  check_count(count, 50);
}

TEST_CASE("faults while a transcriber is used" * doctest::test_suite("long")) {
  const WhisperFolder model;
  FaultyVulkan vulkan;
  vulkan.split_memory(true);
  FaultyProgram program(Owner::pumice, false);
  Transcription transcription{program, model.path().string(), {}};
  transcription.open_world();
  pumice_error error;
  Transcription::Segments expected;
  require_ok(transcription.create(&error), error);
  require_ok(transcription.run(expected, &error), error);
  REQUIRE(expected.size() > 1);
  FaultCount count =
      inject(vulkan, transcribing(transcription, "transcribing", &Transcription::run, expected));
  count += inject(
      vulkan, transcribing(transcription, "transcribing in slices", &Transcription::run_in_slices, expected));
  check_count(count, 20);
}

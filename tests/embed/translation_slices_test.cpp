// Translating and transcribing in slices of time.
#include <array>

#include "gpu/vulkan_table.h"
#include "support/command/listener.h"
#include "support/embedding.h"
#include "support/files/fixtures.h"
#include "support/files/temporary_folder.h"
#include "support/files/whisper_folder.h"
#include "support/files/word_folder.h"
#include "support/translators.h"
#include "support/vulkan/external_vulkan.h"

namespace {

constexpr const char* date = "the third of may, 1987";
constexpr std::array budgets = {1.0f, 10.0f, 100.0f, 1000.0f, 1e4f, 1e5f, 1e6f};

template <class Writer, class Input>
void check_budgets(Writer* writer, const Input& input, const std::string& expected) {
  CHECK(write(writer, input) == expected);
  std::vector<uint32_t> slices;
  for (const float budget : budgets) {
    CAPTURE(budget);
    begin(writer, input);
    slices.push_back(advance_to_the_end(writer, budget));
    CHECK(read(writer) == expected);
  }
  MESSAGE(slices.front() << " slices of 1 us, " << slices.back() << " of 1 s");
  CHECK(slices.front() > 10 * slices.back());
  CHECK(write(writer, input) == expected);
}

// A program that renders, and Pumice on its device.
struct Renderer {
  ExternalVulkan vulkan{*pumice::open_vulkan_loader(), true};
  DeviceHandle device = [this] {
    const pumice_vulkan handles = vulkan.vulkan();
    pumice_device_options options = {sizeof options};
    options.vulkan = &handles;
    return make_device(options);
  }();
};

} // namespace

TEST_CASE("slices of any size give the translation of whole steps") {
  const DeviceHandle device = make_device();
  const ModelHandle model = load(device.get(), dates);
  for (const uint32_t beams : {1u, 4u}) {
    CAPTURE(beams);
    check_budgets(make_translator(model.get(), beams).get(), date, "1987-05-03");
  }
}

TEST_CASE("slices of any size give a picture's caption") {
  const DeviceHandle device = make_device();
  const TemporaryFolder folder;
  write_word_folder(folder, "vit-gpt2");
  const ModelHandle model = load(device.get(), folder.path().string());
  const CaptionerHandle captioner = make_captioner(model.get(), 0, 16);
  std::vector<uint8_t> pixels(size_t{32} * 32 * 3);
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>(i * i * 31);
  pumice_input input = {sizeof input};
  input.pixels = pixels.data();
  input.width = input.height = 32;
  const std::string caption = write(captioner.get(), input);
  REQUIRE_FALSE(caption.empty());
  check_budgets(captioner.get(), input, caption);
}

TEST_CASE("a translation can be read once it is complete, and not while another one is under way") {
  const DeviceHandle device = make_device();
  const ModelHandle model = load(device.get(), dates);
  const TranslatorHandle owner = make_translator(model.get(), 2);
  pumice_translator* const translator = owner.get();
  pumice_error error;
  pumice_slice slice = {sizeof slice};
  const auto not_ready = [&] {
    const pumice_translation* translation = nullptr;
    CHECK(pumice_translator_result(translator, 0, &translation, &error) == PUMICE_NOT_READY);
  };
  not_ready();
  require_ok(pumice_work_advance(pumice_translator_work(translator), 100, nullptr, &slice, &error), error);
  CHECK_FALSE(slice.active);
  CHECK(slice.dispatches == 0);

  // Another one ends what is under way.
  begin(translator, date);
  not_ready();
  require_ok(pumice_work_advance(pumice_translator_work(translator), 1e6f, nullptr, &slice, &error), error);
  CHECK(slice.active);
  CHECK(slice.dispatches > 0);
  begin(translator, "le 3 mars 2021");
  advance_to_the_end(translator, 500);
  CHECK(read(translator) == "2021-03-03");
  CHECK(read(translator) == "2021-03-03"); // stays
  begin(translator, date);
  require_ok(pumice_work_advance(pumice_translator_work(translator), 1, nullptr, &slice, &error), error);
  CHECK(write(translator, "May 4, 1999") == "1999-05-04");
  CHECK(read(translator) == "1999-05-04");

  // An input that is refused changes nothing.
  begin(translator, date);
  const char* none = nullptr;
  CHECK(pumice_translator_begin(translator, &none, 1, &error) == PUMICE_INVALID_ARGUMENT);
  CHECK(pumice_translator_begin(translator, nullptr, 1, &error) == PUMICE_INVALID_ARGUMENT);
  CHECK(pumice_work_advance(pumice_translator_work(translator), 0, nullptr, &slice, &error) ==
        PUMICE_INVALID_ARGUMENT);
  CHECK(pumice_work_record(pumice_translator_work(translator), nullptr, 9, &slice, &error) ==
        PUMICE_INVALID_ARGUMENT);
  advance_to_the_end(translator, 500);
  CHECK(read(translator) == "1987-05-03");
}

TEST_CASE("what is translated in slices can be cancelled anywhere") {
  const DeviceHandle device = make_device();
  const ModelHandle model = load(device.get(), dates);
  for (const uint32_t beams : {1u, 3u}) {
    const TranslatorHandle translator = make_translator(model.get(), beams);
    begin(translator.get(), date);
    const uint32_t slices = advance_to_the_end(translator.get(), 50);
    REQUIRE(slices > 8);
    pumice_error error;
    pumice_slice slice = {sizeof slice};
    for (uint32_t after = 0; after < slices; after += slices / 8) {
      CAPTURE(after);
      begin(translator.get(), date);
      for (uint32_t i = 0; i < after; ++i) {
        require_ok(pumice_work_advance(pumice_translator_work(translator.get()), 50, nullptr, &slice, &error),
                   error);
      }
      pumice_work_cancel(pumice_translator_work(translator.get()));
      CHECK(pumice_work_advance(pumice_translator_work(translator.get()), 50, nullptr, &slice, &error) ==
            PUMICE_CANCELLED);
      require_ok(pumice_work_advance(pumice_translator_work(translator.get()), 50, nullptr, &slice, &error),
                 error);
      CHECK_FALSE(slice.active);
      std::string none;
      CHECK(read(translator.get(), none, &error) == PUMICE_NOT_READY);
    }
    pumice_work_cancel(pumice_translator_work(translator.get())); // with nothing to cancel
    begin(translator.get(), date);
    advance_to_the_end(translator.get(), 1000);
    CHECK(read(translator.get()) == "1987-05-03");
  }
}

TEST_CASE("a translation is recorded into command buffers of the program, and discarded with them") {
  Renderer program;
  const ModelHandle model = load(program.device.get(), dates);
  for (const uint32_t beams : {1u, 4u}) {
    CAPTURE(beams);
    const TranslatorHandle translator = make_translator(model.get(), beams);
    begin(translator.get(), date);
    pumice_error error;
    pumice_slice slice = {sizeof slice};
    int discarded = 0;
    for (int frame = 0; frame == 0 || slice.active; ++frame) {
      REQUIRE(frame < 5000);
      const VkCommandBuffer commands = program.vulkan.begin();
      require_ok(pumice_work_record(pumice_translator_work(translator.get()), commands, 200, &slice, &error),
                 error);
      if ((frame == 0 || frame == 4 || frame == 15) && slice.dispatches > 0) {
        const char* other = "May 4, 1999";
        CHECK(pumice_translator_begin(translator.get(), &other, 1, &error) == PUMICE_NOT_READY);
        CHECK(pumice_translator_translate(translator.get(), &other, 1, &error) == PUMICE_NOT_READY);
        require_ok(pumice_work_discard(pumice_translator_work(translator.get()), &error), error);
        ++discarded;
      } else {
        program.vulkan.run();
      }
    }
    CHECK(discarded >= 2);
    CHECK(read(translator.get()) == "1987-05-03");
  }
}

TEST_CASE("slices of any size give the segments of a sound that whole steps give") {
  const DeviceHandle device = make_device();
  const WhisperFolder folder;
  const ModelHandle model = load(device.get(), folder.path().string());
  const std::vector<float> wave = sound(20000, 16000); // more than a window
  for (const uint32_t beams : {1u, 2u}) {
    CAPTURE(beams);
    const TranscriberHandle transcriber = make_transcriber(model.get(), beams);
    pumice_error error;
    Listener whole;
    require_ok(pumice_transcriber_transcribe(transcriber.get(), wave.data(), wave.size(), 0, Listener::hear,
                                             &whole, &error),
               error);
    REQUIRE(whole.segments.size() > 1);
    for (const float budget : budgets) {
      CAPTURE(budget);
      Listener sliced;
      std::vector<float> samples = wave;
      require_ok(pumice_transcriber_begin(transcriber.get(), samples.data(), samples.size(), 0,
                                          Listener::hear, &sliced, &error),
                 error);
      samples.assign(samples.size(), 0); // were copied
      run_slices([&](pumice_slice* slice, pumice_error* why) {
        return pumice_work_advance(pumice_transcriber_work(transcriber.get()), budget, nullptr, slice, why);
      });
      CHECK(sliced.segments == whole.segments);
    }
  }
}

TEST_CASE("a sound that is transcribed in slices can be cancelled, replaced and recorded by the program") {
  Renderer program;
  const WhisperFolder folder;
  const ModelHandle model = load(program.device.get(), folder.path().string());
  const TranscriberHandle owner = make_transcriber(model.get(), 1);
  pumice_transcriber* const transcriber = owner.get();
  const std::vector<float> wave = sound(40000, 16000);
  pumice_error error;
  pumice_slice slice = {sizeof slice};
  Listener whole;
  require_ok(
      pumice_transcriber_transcribe(transcriber, wave.data(), wave.size(), 0, Listener::hear, &whole, &error),
      error);
  REQUIRE(whole.segments.size() > 1);
  const auto begin_hearing = [&](Listener& listener) {
    require_ok(
        pumice_transcriber_begin(transcriber, wave.data(), wave.size(), 0, Listener::hear, &listener, &error),
        error);
  };
  const auto advance = [&](pumice_slice* to, pumice_error* why) {
    return pumice_work_advance(pumice_transcriber_work(transcriber), 1000, nullptr, to, why);
  };

  // From within the function that it calls.
  Listener stopping;
  stopping.cancels = transcriber;
  begin_hearing(stopping);
  pumice_status status = PUMICE_OK;
  do {
    status = advance(&slice, &error);
  } while (status == PUMICE_OK && slice.active);
  CHECK(status == PUMICE_CANCELLED);
  CHECK(stopping.nested == PUMICE_NOT_READY);
  CHECK_FALSE(stopping.segments.empty());
  CHECK(stopping.segments.size() < whole.segments.size());
  require_ok(advance(&slice, &error), error);
  CHECK_FALSE(slice.active);

  Listener replaced, heard;
  begin_hearing(replaced);
  require_ok(advance(&slice, &error), error);
  begin_hearing(heard);
  run_slices(advance);
  CHECK(replaced.segments.empty());
  CHECK(heard.segments == whole.segments);

  Listener recorded;
  begin_hearing(recorded);
  for (int frame = 0; frame == 0 || slice.active; ++frame) {
    REQUIRE(frame < 5000);
    const VkCommandBuffer commands = program.vulkan.begin();
    require_ok(pumice_work_record(pumice_transcriber_work(transcriber), commands, 1000, &slice, &error),
               error);
    if ((frame == 1 || frame == 9 || frame == 40) && slice.dispatches > 0) {
      Listener other;
      CHECK(pumice_transcriber_begin(transcriber, wave.data(), wave.size(), 0, Listener::hear, &other,
                                     &error) == PUMICE_NOT_READY);
      require_ok(pumice_work_discard(pumice_transcriber_work(transcriber), &error), error);
    } else {
      program.vulkan.run();
    }
  }
  CHECK(recorded.segments == whole.segments);
}

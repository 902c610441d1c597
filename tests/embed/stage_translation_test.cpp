// Translators and transcribers over the stages of a model: whole steps, and slices of time.
#include <fstream>
#include <thread>

#include "gpu/vulkan_table.h"
#include "support/command/listener.h"
#include "support/files/temporary_folder.h"
#include "support/files/whisper_folder.h"
#include "support/files/word_folder.h"
#include "support/translators.h"
#include "support/vulkan/device_stages.h"
#include "support/vulkan/external_vulkan.h"

namespace {

using Lines = std::vector<std::string>;

// The dates model has three encoder layers and two decoder layers.
const Layers cuts[] = {{3, 2}, {1, 4}, {4, 1}, {2, 1, 2}};

Lines some_dates(size_t count) {
  std::ifstream file(dates_model() / "held_out.tsv");
  Lines lines;
  for (std::string line; lines.size() < count && std::getline(file, line);) {
    lines.push_back(line.substr(0, line.find('\t')));
  }
  REQUIRE(lines.size() == count);
  return lines;
}

// Each stage but the last on a device of its own.
struct Staged {
  std::vector<DeviceHandle> others;
  ModelHandle model;

  Staged(pumice_device* device, const Layers& layers, const std::string& path) {
    std::vector<pumice_device*> devices;
    for (size_t i = 1; i < layers.size(); ++i) devices.push_back(others.emplace_back(make_device()).get());
    devices.push_back(device);
    model = load_stages(devices, layers, path);
  }
};

std::string translate(pumice_translator* translator, const std::string& line) {
  return write(translator, line.c_str());
}

std::string translate_in_slices(pumice_translator* translator, const std::string& line, float budget,
                                uint32_t* slices = nullptr) {
  begin(translator, line.c_str());
  const uint32_t count = advance_to_the_end(translator, budget);
  if (slices) *slices = count;
  return read(translator);
}

} // namespace

TEST_CASE("translators over stages write what those of one device write, in whole steps and in slices") {
  const DeviceHandle device = make_device();
  const ModelHandle whole = load(device.get(), dates);
  const Lines lines = some_dates(7);
  for (const uint32_t beams : {1u, 4u}) {
    CAPTURE(beams);
    Lines expected;
    const TranslatorHandle alone = make_translator(whole.get(), beams);
    for (const std::string& line : lines) expected.push_back(translate(alone.get(), line));
    for (const Layers& layers : cuts) {
      CAPTURE(layers.size());
      CAPTURE(layers.front());
      const Staged staged(device.get(), layers, dates);
      // A fresh one has nothing of another input that it could read by mistake.
      for (size_t i = 0; i < 2; ++i) {
        const TranslatorHandle fresh = make_translator(staged.model.get(), beams);
        CHECK(translate(fresh.get(), lines[i]) == expected[i]);
        const TranslatorHandle sliced = make_translator(staged.model.get(), beams);
        CHECK(translate_in_slices(sliced.get(), lines[i], 500) == expected[i]);
      }
      const TranslatorHandle translator = make_translator(staged.model.get(), beams);
      for (size_t i = 0; i < lines.size(); ++i) {
        CAPTURE(lines[i]);
        CHECK(translate(translator.get(), lines[i]) == expected[i]);
        const float budget = i % 3 == 0 ? 1.0f : i % 3 == 1 ? 300.0f : 1e6f;
        CHECK(translate_in_slices(translator.get(), lines[i], budget) == expected[i]);
      }
    }
  }
}

TEST_CASE("translators over the same stages, each used by a thread of its own") {
  const DeviceHandle device = make_device();
  const Staged staged(device.get(), {2, 1, 2}, dates);
  const Lines lines = some_dates(6);
  Lines expected;
  const TranslatorHandle first = make_translator(staged.model.get(), 1);
  for (const std::string& line : lines) expected.push_back(translate(first.get(), line));
  std::vector<TranslatorHandle> translators;
  for (int i = 0; i < 4; ++i) translators.push_back(make_translator(staged.model.get(), 1));
  std::vector<Lines> written(translators.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < translators.size(); ++i) {
    threads.emplace_back([&, i] {
      pumice_translator* const own = translators[i].get();
      pumice_error error;
      std::string text;
      for (const std::string& line : lines) {
        const char* const given = line.c_str();
        pumice_slice slice = {sizeof slice};
        if (i % 2 == 0) {
          if (pumice_translator_begin(own, &given, 1, &error) != PUMICE_OK) return;
          do {
            if (pumice_work_advance(pumice_translator_work(own), 500, nullptr, &slice, &error) != PUMICE_OK)
              return;
          } while (slice.active);
        } else if (pumice_translator_translate(own, &given, 1, &error) != PUMICE_OK) {
          return;
        }
        if (read(own, text, &error) != PUMICE_OK) return;
        written[i].push_back(text);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Lines& each : written) CHECK(each == expected);
}

TEST_CASE("a translation in slices over stages is cancelled, replaced, recorded and discarded") {
  ExternalVulkan vulkan(*pumice::open_vulkan_loader(), true);
  const pumice_vulkan handles = vulkan.vulkan();
  pumice_device_options options = {sizeof options};
  options.vulkan = &handles;
  const DeviceHandle device = make_device(options);
  const std::string date = "the third of may, 1987";
  for (const uint32_t beams : {1u, 4u}) {
    CAPTURE(beams);
    const Staged staged(device.get(), {3, 2}, dates);
    const TranslatorHandle owner = make_translator(staged.model.get(), beams);
    pumice_translator* const translator = owner.get();
    uint32_t slices = 0;
    for (int round = 0; round < 2; ++round) { // costs are learned
      CHECK(translate_in_slices(translator, date, 100, &slices) == "1987-05-03");
    }
    REQUIRE(slices > 16);
    pumice_error error;
    pumice_slice slice = {sizeof slice};
    for (uint32_t after = 0; after < slices / 2; after += slices / 8) {
      CAPTURE(after);
      begin(translator, date.c_str());
      for (uint32_t i = 0; i < after;) {
        require_ok(pumice_work_advance(pumice_translator_work(translator), 100, nullptr, &slice, &error),
                   error);
        i += slice.dispatches > 0;
      }
      if (after % 2) {
        pumice_work_cancel(pumice_translator_work(translator));
        CHECK(pumice_work_advance(pumice_translator_work(translator), 100, nullptr, &slice, &error) ==
              PUMICE_CANCELLED);
        require_ok(pumice_work_advance(pumice_translator_work(translator), 100, nullptr, &slice, &error),
                   error);
        CHECK_FALSE(slice.active);
        std::string none;
        CHECK(read(translator, none, &error) == PUMICE_NOT_READY);
      } else {
        CHECK(translate_in_slices(translator, "le 3 mars 2021", 1000) == "2021-03-03");
      }
    }
    begin(translator, date.c_str());
    int discarded = 0;
    for (int frame = 0; frame == 0 || slice.active; ++frame) {
      REQUIRE(frame < 20000);
      const VkCommandBuffer commands = vulkan.begin();
      require_ok(pumice_work_record(pumice_translator_work(translator), commands, 200, &slice, &error),
                 error);
      if (slice.dispatches > 0 && discarded < 3 && frame >= 30 * discarded) {
        require_ok(pumice_work_discard(pumice_translator_work(translator), &error), error);
        ++discarded;
      } else {
        vulkan.run();
      }
    }
    CHECK(discarded == 3);
    CHECK(read(translator) == "1987-05-03");
  }
}

TEST_CASE("captions over stages: pictures go to the first one") {
  const DeviceHandle device = make_device();
  const TemporaryFolder folder;
  write_word_folder(folder, "vit-gpt2");
  const std::string path = folder.path().string();
  const ModelHandle whole = load(device.get(), path);
  const Staged staged(device.get(), {0, 0}, path);
  std::vector<uint8_t> pixels(size_t{32} * 32 * 3);
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<uint8_t>(i * i * 31);
  pumice_input input = {sizeof input};
  input.pixels = pixels.data();
  input.width = input.height = 32;
  const auto caption_of = [&](pumice_model* model, bool in_slices) {
    const CaptionerHandle captioner = make_captioner(model, 0, 16);
    if (!in_slices) return write(captioner.get(), input);
    begin(captioner.get(), input);
    advance_to_the_end(captioner.get(), 300);
    return read(captioner.get());
  };
  const std::string expected = caption_of(whole.get(), false);
  CHECK_FALSE(expected.empty());
  CHECK(caption_of(staged.model.get(), false) == expected);
  CHECK(caption_of(staged.model.get(), true) == expected);
}

TEST_CASE("transcribers over stages hear what those of one device hear, in whole steps and in slices") {
  const DeviceHandle device = make_device();
  const WhisperFolder folder;
  const std::string path = folder.path().string();
  const ModelHandle whole = load(device.get(), path);
  const std::vector<float> wave = sound(20000, 16000); // more than a window
  for (const uint32_t beams : {1u, 2u}) {
    CAPTURE(beams);
    const auto heard = [&](pumice_transcriber* transcriber, float budget) {
      pumice_error error;
      Listener listener;
      if (budget == 0) {
        require_ok(pumice_transcriber_transcribe(transcriber, wave.data(), wave.size(), 0, Listener::hear,
                                                 &listener, &error),
                   error);
        return listener.segments;
      }
      require_ok(pumice_transcriber_begin(transcriber, wave.data(), wave.size(), 0, Listener::hear, &listener,
                                          &error),
                 error);
      run_slices([&](pumice_slice* slice, pumice_error* why) {
        return pumice_work_advance(pumice_transcriber_work(transcriber), budget, nullptr, slice, why);
      });
      return listener.segments;
    };
    const auto expected = heard(make_transcriber(whole.get(), beams).get(), 0);
    REQUIRE(expected.size() > 1);
    const Staged staged(device.get(), {0, 0}, path);
    const TranscriberHandle transcriber = make_transcriber(staged.model.get(), beams);
    for (const float budget : {0.0f, 1.0f, 1000.0f, 1e6f, 0.0f}) {
      CAPTURE(budget);
      CHECK(heard(transcriber.get(), budget) == expected);
    }
  }
}

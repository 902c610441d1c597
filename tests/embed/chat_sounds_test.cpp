// Sounds in a chat of the C interface, of models that hear.
#include <algorithm>
#include <cmath>
#include <limits>

#include <nlohmann/json.hpp>

#include "support/files/vision_folder.h"
#include "support/vision_player.h"

using namespace pumice;
using namespace picture_tests;

namespace {

struct HearingModel {
  VisionModel model;
  std::vector<size_t> samples; // of the sounds of its prompt
};

pumice_sound sound_of(const std::vector<float>& samples, uint32_t rate = 0) {
  pumice_sound sound = {sizeof sound};
  sound.samples = samples.data();
  sound.count = samples.size();
  sound.rate = rate;
  return sound;
}

pumice_status add(pumice_chat* chat, const char* content, const std::vector<pumice_sound>& sounds,
                  pumice_error& error) {
  pumice_message message = {sizeof message};
  message.role = "user";
  message.content = content;
  message.sounds = sounds.data();
  message.sound_count = sounds.size();
  return pumice_chat_add(chat, &message, &error);
}

std::vector<float> tone(size_t count) {
  std::vector<float> samples(count);
  for (size_t i = 0; i < count; ++i) samples[i] = 0.5f * std::sin(0.05f * static_cast<float>(i % 100'000));
  return samples;
}

bool contains(const pumice_error& error, const char* part) {
  return std::string(error.message).find(part) != std::string::npos;
}

} // namespace

TEST_CASE("a chat's answer to a prompt with sounds is the reference's, at once and in slices") {
  for (const HearingModel& each :
       {HearingModel{voxtral(), {38400}}, HearingModel{qwen2_audio(), {11200, 19200}}}) {
    CAPTURE(std::string(each.model.name));
    const VisionPlayer player(each.model);
    const Answers answers(fixtures().model(each.model.name) / "expected.safetensors");
    const std::string prompt = text_of_prompt(answers, each.model);
    const std::vector<uint32_t> expected = answers.ids("generated_ids", 0);
    const std::vector<float>& audio = answers.floats.at("audio_16khz");
    std::vector<std::vector<float>> samples;
    std::vector<pumice_sound> sounds;
    for (const size_t count : each.samples) {
      samples.emplace_back(audio.begin(), audio.begin() + static_cast<ptrdiff_t>(count));
      sounds.push_back(sound_of(samples.back(), sounds.empty() ? 16000 : 0));
    }
    const auto answer = [&](uint32_t at_a_time, float budget) {
      const SessionHandle session = player.open_session(at_a_time);
      const ChatHandle chat = player.make_chat(prompt.c_str());
      pumice_error error;
      require_ok(add(chat.get(), "w9", sounds, error), error);
      return player.answer(session.get(), chat.get(), budget, static_cast<uint32_t>(expected.size()));
    };
    CHECK(answer(1, 0) == expected);
    CHECK(answer(3, 0) == expected);
    CHECK(answer(2, 500) == expected);
  }
}

TEST_CASE("a chat that is read needs its sounds again, and what is no sound is refused") {
  const VisionPlayer player(voxtral());
  const std::vector<float> samples = tone(20000), other = tone(30000);
  const ChatHandle chat = player.make_chat(), read = player.make_chat();
  pumice_error error;
  require_ok(add(chat.get(), "w20", {sound_of(samples)}, error), error);
  const std::string written = text_of(pumice_chat_write, chat.get());
  const nlohmann::json part = nlohmann::json::parse(written)["messages"][0]["content"][0];
  CHECK(part["type"] == "audio");
  const SessionHandle session = player.open_session(1);
  const std::vector<uint32_t> answered = player.answer(session.get(), chat.get());
  require_ok(pumice_chat_read(read.get(), written.c_str(), &error), error);
  CHECK(player.begin(session.get(), read.get(), error) == PUMICE_NOT_FOUND);
  CHECK(contains(error, "pumice_chat_add_sound"));
  const pumice_sound sound = sound_of(samples);
  require_ok(pumice_chat_add_sound(read.get(), &sound, &error), error);
  CHECK(player.answer(session.get(), read.get()) == answered);
  const ChatHandle another = player.make_chat();
  require_ok(add(another.get(), "w20", {sound_of(other)}, error), error);
  CHECK(player.answer(session.get(), another.get()) != answered);

  const auto refused = [&](const pumice_sound& given, const char* part_of_message,
                           pumice_status status = PUMICE_INVALID_ARGUMENT) {
    CAPTURE(part_of_message);
    const ChatHandle own = player.make_chat();
    CHECK(add(own.get(), "w20", {given}, error) == status);
    CAPTURE(std::string(error.message));
    CHECK(contains(error, part_of_message));
    CHECK(pumice_chat_count(own.get()) == 0);
  };
  std::vector<float> broken = samples;
  broken[7] = std::numeric_limits<float>::quiet_NaN();
  refused(sound_of(broken), "message.sounds[0].samples[7]");
  refused(sound_of({}), "message.sounds[0].count is 0");
  refused(sound_of(samples, 1'000'000), "message.sounds[0].rate is 1000000");
  refused(sound_of(std::vector<float>(size_t{241} * 32000)), "at most 480");
  pumice_sound nowhere = sound_of(samples);
  nowhere.samples = nullptr;
  refused(nowhere, "message.sounds[0].samples is NULL");

  // Each sense is refused by the model that lacks it, by its name.
  CHECK(picture_tests::add(chat.get(), "w20", {patterned_picture(8, 8)}, error) == PUMICE_UNSUPPORTED);
  CHECK(contains(error, "reads text and sounds"));
  const ModelHandle reader = load(player.device.get());
  const ChatHandle deaf = ::make_chat(reader.get(), "{{ messages[0].content }}");
  CHECK(add(deaf.get(), "w20", {sound}, error) == PUMICE_UNSUPPORTED);
  CHECK(contains(error, "does not hear"));
}

TEST_CASE("the spectrum of a long sound ends within a slice") {
  const VisionPlayer player(voxtral());
  const std::vector<float> samples = tone(size_t{32000} * 18);
  const ChatHandle chat = player.make_chat();
  pumice_error error;
  require_ok(add(chat.get(), "w20", {sound_of(samples)}, error), error);
  const SessionHandle session = player.open_session(1);
  require_ok(player.begin(session.get(), chat.get(), error), error);
  pumice_slice slice = {sizeof slice};
  for (int i = 0; i < 3; ++i) {
    require_ok(pumice_work_advance(pumice_session_work(session.get()), 100, nullptr, &slice, &error), error);
    CHECK(slice.active);
    CHECK(slice.dispatches == 0); // 3,600 frames take the host longer
  }
  pumice_work_cancel(pumice_session_work(session.get()));
  CHECK(pumice_work_advance(pumice_session_work(session.get()), 100, nullptr, &slice, &error) ==
        PUMICE_CANCELLED);

  // The same of what writes down speech, which then takes another sound.
  pumice_transcriber* made = nullptr;
  pumice_transcriber_options transcriber_options = {sizeof transcriber_options};
  transcriber_options.max_tokens = 4;
  require_ok(pumice_transcriber_create(player.model.get(), &transcriber_options, &made, &error), error);
  const std::unique_ptr<pumice_transcriber, Destroy<pumice_transcriber_destroy>> transcriber(made);
  const auto heard = [](void* user, const pumice_segment* segment) {
    auto& tokens = *static_cast<std::vector<uint32_t>*>(user);
    tokens.insert(tokens.end(), segment->tokens, segment->tokens + segment->token_count);
  };
  std::vector<uint32_t> none, whole, sliced;
  require_ok(pumice_transcriber_begin(made, samples.data(), samples.size(), 0, heard, &none, &error), error);
  pumice_work* const work = pumice_transcriber_work(made);
  require_ok(pumice_work_advance(work, 100, nullptr, &slice, &error), error);
  CHECK(slice.active);
  CHECK(slice.dispatches == 0);
  pumice_work_cancel(work);
  CHECK(pumice_work_advance(work, 100, nullptr, &slice, &error) == PUMICE_CANCELLED);
  const auto begin = [&](std::vector<uint32_t>& to) {
    return pumice_transcriber_begin(made, samples.data(), 40000, 0, heard, &to, &error);
  };
  require_ok(begin(sliced), error);
  do {
    require_ok(pumice_work_advance(work, 500, nullptr, &slice, &error), error);
  } while (slice.active);
  require_ok(pumice_transcriber_transcribe(made, samples.data(), 40000, 0, heard, &whole, &error), error);
  CHECK(none.empty());
  CHECK(!whole.empty());
  CHECK(sliced == whole);
}

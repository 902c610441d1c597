// Pictures in a chat, of models that each prepare them in a way of their own: Qwen's models read each in its
// own size, SmolVLM and InternVL cut it into tiles, in Gemma 3 a picture's rows see each other, and Mistral's
// are in lines.
#include <algorithm>

#include <nlohmann/json.hpp>

#include "support/files/vision_folder.h"
#include "support/in_turn.h"
#include "support/picture_pair.h"
#include "support/vision_player.h"

using namespace pumice;
using namespace picture_tests;
using nlohmann::json;

namespace {

// A long run has all.
std::vector<VisionModel> vision_models() {
  std::vector<VisionModel> models = {qwen2_5_vl(), smolvlm(), gemma3_vision(), qwen_vl("qwen3-vl"),
                                     mistral3_vision()};
  if (every_case()) models.push_back(internvl());
  models.push_back(deepseek_ocr2());
  return models;
}

// Two that a chat shows one after the other.
const Image& first_picture() {
  static const Image image = patterned_picture(29, 61);
  return image;
}
const Image& second_picture() {
  static const Image image = patterned_picture(12, 80);
  return image;
}

} // namespace

TEST_CASE("a chat's answer to a prompt with pictures is the reference's") {
  for (const VisionModel& fixture : vision_models()) {
    CAPTURE(std::string(fixture.name));
    VisionPlayer player(fixture);
    const Answers answers(fixtures().model(fixture.name) / "expected.safetensors");
    const std::string prompt = text_of_prompt(answers, fixture);
    const std::vector<uint32_t> expected = answers.ids("generated_ids", 0);
    const auto count = static_cast<uint32_t>(expected.size());
    const auto answer = [&](uint32_t at_a_time, float budget) {
      const SessionHandle session = player.open_session(at_a_time);
      const ChatHandle chat = player.make_chat(prompt.c_str());
      add(chat.get(), "w9", fixture.pictures);
      return player.answer(session.get(), chat.get(), budget, count);
    };
    CHECK(answer(1, 0) == expected);
    CHECK(answer(3, 0) == expected);
    CHECK(answer(1, 1) == expected);
    CHECK(answer(2, 500) == expected);

    // The settings with those of the other processors, as newer folders have them.
    const std::filesystem::path older = player.folder.path() / "preprocessor_config.json";
    player.folder.write("processor_config.json",
                        json{{"image_processor", json::parse(file_text(older))}}.dump());
    player.folder.write("preprocessor_config.json", std::string_view("is not read"));
    player.load();
    CHECK(answer(1, 0) == expected);
    std::filesystem::remove(older);
    player.load();
    CHECK(answer(2, 0) == expected);
  }
}

TEST_CASE("pictures of different sizes in a chat are answered as the runtime answers them") {
  for (const VisionModel& fixture : vision_models()) {
    CAPTURE(std::string(fixture.name));
    const VisionPlayer player(fixture);
    const std::vector<Image> images = {first_picture(), patterned_picture(15, 44), second_picture()};
    const std::vector<uint32_t> expected = player.expected(images, {4, 0, 0, 0, 226, 28, 6});
    const auto answer = [&](uint32_t at_a_time, float budget) {
      const SessionHandle session = player.open_session(at_a_time);
      const ChatHandle chat = player.make_chat();
      add(chat.get(), "w226 w28", images);
      return player.answer(session.get(), chat.get(), budget);
    };
    for (const uint32_t at_a_time : {1u, 2u, 3u, 5u}) {
      CAPTURE(at_a_time);
      CHECK(answer(at_a_time, 0) == expected);
    }
    for (const float budget : {1.0f, 500.0f}) {
      CAPTURE(budget);
      CHECK(answer(2, budget) == expected);
    }
    // Each of them matters, and so does their order; one model says the same word whatever it is shown.
    if (std::string(fixture.name) == "deepseek-ocr2") continue;
    CHECK(player.expected({images[2], images[1], images[0]}, {4, 0, 0, 0, 226, 28, 6}) != expected);
  }
}

TEST_CASE("a chat goes on after a picture, with another one, and with text alone") {
  for (const VisionModel& fixture : vision_models()) {
    CAPTURE(std::string(fixture.name));
    const VisionPlayer player(fixture);
    const Image &first = first_picture(), &second = second_picture();
    for (const float budget : {0.0f, 500.0f}) {
      CAPTURE(budget);
      const SessionHandle session = player.open_session(1);
      const ChatHandle chat = player.make_chat();
      std::vector<uint32_t> words = {4, 0, 226, 28, 6};
      add(chat.get(), "w226 w28", {first});
      const std::vector<uint32_t> answer = player.expected({first}, words);
      CHECK(player.answer(session.get(), chat.get(), budget) == answer);
      // The template writes an answer's words again, as the chat keeps it.
      const auto goes_on = [&](const std::vector<uint32_t>& before, std::initializer_list<uint32_t> more) {
        REQUIRE(std::ranges::max(before) < fixture.first); // a special token is no text
        words.insert(words.end(), before.begin(), before.end());
        words.insert(words.end(), more);
      };
      goes_on(answer, {4, 0, 247, 28, 6});
      add(chat.get(), "w247 w28", {second});
      const std::vector<uint32_t> next = player.expected({first, second}, words);
      CHECK(player.answer(session.get(), chat.get(), budget) == next);
      goes_on(next, {4, 22, 6});
      add(chat.get(), "w22", {});
      CHECK(player.answer(session.get(), chat.get(), budget) == player.expected({first, second}, words));
    }
  }
}

namespace {

// Goes on with a conversation of a session that need not see.
std::vector<uint32_t> go_on(pumice_session* session, const char* text) {
  pumice_request request = {sizeof request};
  request.text = text;
  request.max_tokens = 8;
  request.ignore_end = true;
  return generated_story(session, request).tokens;
}

// Of the text that a session has answered last: how many tokens of the prompt were not computed again.
uint32_t reused_by(const VisionPlayer& player, pumice_session* session, pumice_chat* chat,
                   std::vector<uint32_t>& tokens) {
  pumice_error error;
  require_ok(player.begin(session, chat, error), error);
  require_ok(pumice_session_run(session, &error), error);
  uint32_t reused = 0;
  Story story;
  while (const pumice_event* event = pumice_session_poll(session)) {
    reused = std::max(reused, event->reused);
    add_event(*event, story);
  }
  tokens = story.tokens;
  return reused;
}

} // namespace

TEST_CASE("a conversation with each model's pictures is saved, and goes on in a session that sees none") {
  for (const VisionModel& fixture : vision_models()) {
    CAPTURE(std::string(fixture.name));
    const VisionPlayer player(fixture);
    const Image &first = first_picture(), &second = second_picture();
    const std::string file = (player.folder.path() / "state").string();
    pumice_error error;
    const SessionHandle session = player.open_session(1);
    const ChatHandle chat = player.make_chat();
    add(chat.get(), "w226 w28", {first, second});
    player.answer(session.get(), chat.get());
    require_ok(pumice_session_save(session.get(), file.c_str(), &error), error);
    const std::vector<uint32_t> saved = tokens_of(session.get());

    // The next answer in a chat that is read, whose pictures are looked at again.
    const ChatHandle read = player.make_chat();
    require_ok(pumice_chat_read(read.get(), text_of(pumice_chat_write, chat.get()).c_str(), &error), error);
    for (const Image* image : {&first, &second}) {
      const pumice_picture picture = picture_of(*image);
      require_ok(pumice_chat_add_picture(read.get(), &picture, &error), error);
    }
    for (pumice_chat* each : {chat.get(), read.get()}) add(each, "w22", {});
    const SessionHandle seeing = player.open_session(1);
    require_ok(pumice_session_restore(seeing.get(), file.c_str(), &error), error);
    CHECK(tokens_of(seeing.get()) == saved);
    std::vector<uint32_t> expected, found;
    const uint32_t reused = reused_by(player, session.get(), chat.get(), expected);
    CHECK(reused_by(player, seeing.get(), read.get(), found) == reused);
    CHECK(found == expected);

    // Without the chat and without a tower; the rows go along once more.
    const SessionHandle whole = player.open_session(1), blind = player.open_session(0);
    require_ok(pumice_session_restore(whole.get(), file.c_str(), &error), error);
    require_ok(pumice_session_restore(blind.get(), file.c_str(), &error), error);
    require_ok(pumice_session_save(blind.get(), file.c_str(), &error), error);
    const std::vector<uint32_t> rest = go_on(whole.get(), "w22 w23");
    CHECK(go_on(blind.get(), "w22 w23") == rest);
    // In a batch, from a file and from memory.
    pumice_batch_options options = {sizeof options};
    options.texts = 2;
    options.cache = PUMICE_CACHE_F32;
    const BatchHandle batch = make_batch(player.model.get(), options);
    pumice_request request = {sizeof request};
    request.text = "w22 w23";
    request.max_tokens = 8;
    request.ignore_end = true;
    std::vector<std::byte> bytes;
    for (const bool again : {false, true}) {
      uint32_t text = 0;
      require_ok(again ? pumice_batch_read(batch.get(), bytes.data(), bytes.size(), &request, &text, &error)
                       : pumice_batch_restore(batch.get(), file.c_str(), &request, &text, &error),
                 error);
      const auto append = [](void* user, const void* piece, size_t count) {
        auto& all = *static_cast<std::vector<std::byte>*>(user);
        all.insert(all.end(), static_cast<const std::byte*>(piece),
                   static_cast<const std::byte*>(piece) + count);
        return true;
      };
      for (bool active = true; active;) require_ok(pumice_batch_step(batch.get(), &active, &error), error);
      if (!again) require_ok(pumice_batch_write(batch.get(), text, append, &bytes, &error), error);
      Story story;
      while (const pumice_event* event = pumice_batch_poll(batch.get())) add_event(*event, story);
      const std::vector<uint32_t> more = again ? go_on(whole.get(), "w22 w23") : rest;
      CHECK(story.tokens == more);
    }
  }
}

TEST_CASE("a chat with each model's pictures is written, read again, forgotten and paused") {
  for (const VisionModel& fixture : vision_models()) {
    CAPTURE(std::string(fixture.name));
    const VisionPlayer player(fixture);
    const Image &first = first_picture(), &second = second_picture();
    const std::vector<uint32_t> both = player.expected({first, second}, {4, 0, 0, 226, 28, 6});
    const SessionHandle session = player.open_session(1);
    const ChatHandle chat = player.make_chat();
    add(chat.get(), "w226 w28", {first, second});
    const std::string saved = text_of(pumice_chat_write, chat.get());
    const ChatHandle read = player.make_chat();
    pumice_error error;
    require_ok(pumice_chat_read(read.get(), saved.c_str(), &error), error);
    for (const Image* image : {&second, &first}) {
      CHECK(player.begin(session.get(), read.get(), error) == PUMICE_NOT_FOUND);
      const pumice_picture picture = picture_of(*image);
      require_ok(pumice_chat_add_picture(read.get(), &picture, &error), error);
    }
    // Paused while it looks at what is not the first part of them.
    require_ok(player.begin(session.get(), read.get(), error), error);
    for (int slice = 0; slice < 100; ++slice)
      require_ok(pumice_work_advance(pumice_session_work(session.get()), 1, nullptr, nullptr, &error), error);
    require_ok(pumice_session_suspend(session.get(), &error), error);
    require_ok(pumice_session_resume(session.get(), player.model.get(), &error), error);
    CHECK(player.finish(session.get(), 300) == both);

    // Cancelled, and asked again.
    require_ok(player.begin(session.get(), chat.get(), error), error);
    require_ok(pumice_work_advance(pumice_session_work(session.get()), 1, nullptr, nullptr, &error), error);
    pumice_work_cancel(pumice_session_work(session.get()));
    CHECK(pumice_session_run(session.get(), &error) == PUMICE_CANCELLED);
    CHECK(player.answer(session.get(), chat.get()) == both);
    // The oldest turn takes its pictures along.
    add(chat.get(), "w247 w28", {first});
    require_ok(pumice_chat_forget(chat.get(), nullptr, &error), error);
    CHECK(player.answer(session.get(), chat.get()) == player.expected({first}, {4, 0, 247, 28, 6}));
  }
}

TEST_CASE("a context that is too short for all tiles of a picture is full") {
  const VisionPlayer player(smolvlm());
  const ChatHandle chat = player.make_chat();
  add(chat.get(), "w20", {first_picture()});
  pumice_session_options options = {sizeof options};
  options.cache = PUMICE_CACHE_F32;
  options.pictures = 1;
  pumice_error error;
  // Of 6 tiles and the whole, 4 rows each, with 2 tokens before each and one at the end, and 3 words.
  for (const uint32_t context : {46u, 47u}) {
    CAPTURE(context);
    options.context = context;
    const SessionHandle session = make_session(player.model.get(), options);
    CHECK(player.begin(session.get(), chat.get(), error, 1) ==
          (context == 46 ? PUMICE_CONTEXT_FULL : PUMICE_OK));
  }
}

TEST_CASE("an encoder alone has no use for a picture in tiles or in patches") {
  const VisionPlayer in_patches(qwen2_5_vl()), in_tiles(smolvlm());
  const auto create = [](pumice_model* model, pumice_encoder*& made, pumice_error& error) {
    pumice_encoder_options options = {sizeof options};
    options.output = "last_hidden_state";
    return pumice_encoder_create(model, &options, &made, &error);
  };
  pumice_load_options options = {sizeof options};
  options.pictures = true;
  pumice_error error;
  pumice_encoder* made = nullptr;
  const ModelHandle patches = in_patches.load_with(options);
  CHECK(create(patches.get(), made, error) == PUMICE_UNSUPPORTED);
  CHECK(std::string(error.message).find("show them in a chat") != std::string::npos);

  const ModelHandle tiles = in_tiles.load_with(options);
  require_ok(create(tiles.get(), made, error), error);
  const EncoderHandle encoder(made);
  const Image image = patterned_picture(27, 27);
  pumice_input input = {sizeof input};
  input.pixels = image.pixels.data();
  input.width = input.height = 27;
  CHECK(pumice_encoder_encode(encoder.get(), &input, 1, nullptr, 0, nullptr, &error) == PUMICE_UNSUPPORTED);
  CHECK(std::string(error.message).find("inputs[0]") != std::string::npos);
  CHECK(std::string(error.message).find("pumice_chat_add_picture") != std::string::npos);
  // Its values are those of one tile, of 4 x 4 patches.
  const std::vector<float> values(3 * 27 * 27, 0.5f);
  input = {sizeof input};
  input.values = values.data();
  size_t count = 0;
  require_ok(pumice_encoder_encode(encoder.get(), &input, 1, nullptr, 0, &count, &error), error);
  CHECK(count == 16 * pumice_encoder_columns(encoder.get()));
}

TEST_CASE("a picture that is too thin for patches is refused") {
  const VisionPlayer player(qwen2_5_vl());
  const ChatHandle chat = player.make_chat();
  pumice_error error;
  CHECK(add(chat.get(), "w20", {patterned_picture(1, 300)}, error) == PUMICE_INVALID_ARGUMENT);
  CHECK(std::string(error.message).find("200 times") != std::string::npos);
  CHECK(pumice_chat_count(chat.get()) == 0);
}

TEST_CASE("a GGUF model and its mmproj file answer a chat with pictures as their folder does") {
  const PicturePair pair(smolvlm());
  const DeviceHandle& device = shared_device();
  const auto load = [&](const std::string& path, const std::string& mmproj, pumice_error& error) {
    pumice_source source = {sizeof source}, beside = {sizeof beside};
    source.path = path.c_str();
    beside.path = mmproj.c_str();
    pumice_load_options options = {sizeof options};
    options.vision = 1;
    if (!mmproj.empty()) options.mmproj = &beside;
    pumice_model* made = nullptr;
    (void)pumice_model_load(device.get(), &source, &options, &made, &error);
    return ModelHandle(made);
  };
  const auto answer = [&](const std::string& path, const std::string& mmproj) {
    pumice_error error;
    const ModelHandle model = load(path, mmproj, error);
    REQUIRE_MESSAGE(model, error.message);
    pumice_model_info info = {sizeof info};
    require_ok(pumice_model_get_info(model.get(), &info, &error), error);
    CHECK(info.has_pictures);
    pumice_session_options options = {sizeof options};
    options.cache = PUMICE_CACHE_F32;
    options.pictures = 2;
    const SessionHandle session = make_session(model.get(), options);
    const ChatHandle chat = make_chat(model.get(), nullptr);
    add(chat.get(), "what?", {first_picture(), second_picture()});
    pumice_request request = {sizeof request};
    request.chat = chat.get();
    request.max_tokens = 12;
    request.ignore_end = true;
    require_ok(pumice_session_generate(session.get(), &request, &error), error);
    require_ok(pumice_session_run(session.get(), &error), error);
    Story story;
    take_events(session.get(), story);
    return story.tokens;
  };
  const std::vector<uint32_t> expected = answer(pair.folder.path().string(), "");
  CHECK(expected.size() == 12);
  CHECK(answer(pair.text, pair.mmproj) == expected);
  const auto refused = [&](const std::string& path, const std::string& mmproj) {
    pumice_error error;
    CHECK(!load(path, mmproj, error));
    return std::string(error.message);
  };
  CHECK(refused(pair.text, "").find("options.mmproj") != std::string::npos);
  CHECK(refused(pair.text, pair.text).find("expected 'clip'") != std::string::npos);
  CHECK(refused(pair.folder.path().string(), pair.mmproj).find("expected a GGUF file") != std::string::npos);

  // The memory of both.
  pumice_source source = {sizeof source}, beside = {sizeof beside};
  source.path = pair.text.c_str();
  beside.path = pair.mmproj.c_str();
  pumice_load_options options = {sizeof options};
  options.vision = 1;
  options.mmproj = &beside;
  pumice_session_options session = {sizeof session};
  session.pictures = 1;
  const auto weights = [&] {
    pumice_memory_estimate estimate = {sizeof estimate};
    pumice_error error;
    require_ok(pumice_session_estimate_memory(device.get(), &source, &options, &session, &estimate, &error),
               error);
    return estimate.weights;
  };
  const uint64_t together = weights();
  options.vision = 0;
  session.pictures = 0;
  CHECK(weights() < together);
}

// Pictures of different sizes in a chat, of a model that reads each in its own.
#include "generate/session.h"
#include "media/patches.h"
#include "support/embedding.h"
#include "support/picture_answers.h"
#include "support/session.h"

using namespace pumice;
using namespace picture_tests;

namespace {

using ChatHandle = std::unique_ptr<pumice_chat, Destroy<pumice_chat_destroy>>;

constexpr uint32_t answer_tokens = 6;

// The fixture with words for its tokens, and a template that shows pictures before the words of a message.
void write_qwen_folder(const TemporaryFolder& folder) {
  write_seeing_folder(folder, "qwen2-5-vl",
                      {{310, "<|vision_start|>"}, {311, "<|vision_end|>"}, {319, "<|image_pad|>"}});
  folder.write(
      "chat_template.jinja",
      "{% for m in messages %}{{ 'w4 ' if m.role == 'user' else 'w6 ' }}"
      "{% for p in m.content | selectattr('type', 'equalto', 'image') %}"
      "<|vision_start|><|image_pad|><|vision_end|> {% endfor %}"
      "{% for p in m.content | selectattr('type', 'equalto', 'text') %}{{ p.text + ' ' }}{% endfor %}"
      "{% endfor %}{% if add_generation_prompt %}w6{% endif %}");
}

// A program with a model that sees.
struct Player {
  TemporaryFolder folder;
  DeviceHandle device = make_device();
  ModelHandle model;

  Player() {
    write_qwen_folder(folder);
    const std::string path = folder.path().string();
    pumice_source source = {sizeof source};
    source.path = path.c_str();
    pumice_load_options options = {sizeof options};
    options.sees = 1;
    pumice_model* made = nullptr;
    pumice_error error;
    require_ok(pumice_model_load(device.get(), &source, &options, &made, &error), error);
    model.reset(made);
  }

  SessionHandle open_session(uint32_t pictures) const {
    pumice_session_options options = {sizeof options};
    options.chunk = 8;
    options.cache = PUMICE_CACHE_F32;
    options.pictures = pictures;
    return make_session(model.get(), options);
  }

  ChatHandle make_chat() const {
    pumice_chat_options options = {sizeof options};
    pumice_chat* chat = nullptr;
    pumice_error error;
    require_ok(pumice_chat_create(model.get(), &options, &chat, &error), error);
    return ChatHandle(chat);
  }

  // With a budget, in slices.
  Story answer(pumice_session* session, pumice_chat* chat, float budget = 0) const {
    pumice_request request = {sizeof request};
    request.chat = chat;
    request.max_tokens = answer_tokens;
    request.ignore_end = true;
    pumice_error error;
    require_ok(pumice_generate(session, &request, &error), error);
    Story story;
    pumice_slice slice = {sizeof slice};
    slice.active = budget > 0;
    while (slice.active) {
      require_ok(pumice_advance(session, budget, nullptr, &slice, &error), error);
      take_events(session, story);
    }
    if (budget == 0) require_ok(pumice_run(session, &error), error);
    take_events(session, story);
    return story;
  }

  // What the runtime makes of such a prompt: 0 stands for the next picture.
  std::vector<uint32_t> expected(const std::vector<Image>& images, const std::vector<uint32_t>& words) const {
    const auto loaded = load_model(folder.path());
    const PictureTokens& shape = *loaded->shape().pictures;
    const auto encoder = make_encoder(load_pictures(folder.path()), PictureTokens::features, 1);
    const auto preparation = require(read_patch_preparation(folder.path(), encoder->shape().cutting()));
    std::vector<std::vector<float>> rows;
    std::vector<PatchGrid> grids;
    for (const Image& image : images) {
      PatchedPicture cut = require(cut_patches(image, preparation, "a picture"));
      EncoderInput input;
      input.values = std::move(cut.values);
      input.grid = cut.grid;
      encode(*encoder, std::span(&input, 1));
      rows.push_back(rows_of_picture(shape, encoder->shape(), cut.grid,
                                     read(*encoder, PictureTokens::features, 0),
                                     encoder->columns(PictureTokens::features)));
      grids.push_back(cut.grid);
    }
    std::vector<uint32_t> tokens;
    for (const uint32_t word : words) {
      if (word > 0) {
        tokens.push_back(word);
      } else {
        tokens.insert(tokens.end(), {310, shape.token, 311});
      }
    }
    const PicturePrompt prompt = require(with_pictures(shape, tokens, rows, "the prompt", grids));
    SessionOptions options;
    options.size.cache = CacheType::f32;
    options.size.chunk = 8;
    const auto own = require(Session::create(loaded, options));
    REQUIRE(own->set_prompt(prompt.tokens, {}, {}, prompt.given).ok());
    return take(*own, answer_tokens);
  }
};

void add(pumice_chat* chat, const char* role, const std::string& content, const std::vector<Image>& images) {
  std::vector<pumice_picture> pictures;
  for (const Image& image : images) {
    pumice_picture& picture = pictures.emplace_back();
    picture = {sizeof picture};
    picture.pixels = image.pixels.data();
    picture.width = image.width;
    picture.height = image.height;
  }
  pumice_message message = {sizeof message};
  message.role = role;
  message.content = content.c_str();
  message.pictures = pictures.data();
  message.picture_count = pictures.size();
  pumice_error error;
  require_ok(pumice_chat_add(chat, &message, &error), error);
}

} // namespace

TEST_CASE("pictures of different sizes in a chat are answered as the runtime answers them") {
  const Player player;
  const std::vector<Image> images = {patterned_picture(29, 61), patterned_picture(17, 33),
                                     patterned_picture(40, 20)};
  const std::vector<uint32_t> expected = player.expected(images, {4, 0, 0, 0, 20, 21, 6});
  for (const uint32_t at_a_time : {1u, 2u, 3u}) {
    CAPTURE(at_a_time);
    const SessionHandle session = player.open_session(at_a_time);
    const ChatHandle chat = player.make_chat();
    add(chat.get(), "user", "w20 w21", images);
    CHECK(player.answer(session.get(), chat.get()).tokens == expected);
  }
  for (const float budget : {1.0f, 500.0f}) {
    CAPTURE(budget);
    const SessionHandle session = player.open_session(2);
    const ChatHandle chat = player.make_chat();
    add(chat.get(), "user", "w20 w21", images);
    CHECK(player.answer(session.get(), chat.get(), budget).tokens == expected);
  }
}

TEST_CASE("a chat goes on after a picture, with another one, and with text alone") {
  const Player player;
  const Image first = patterned_picture(29, 61), second = patterned_picture(17, 33);
  for (const float budget : {0.0f, 500.0f}) {
    CAPTURE(budget);
    const SessionHandle session = player.open_session(1);
    const ChatHandle chat = player.make_chat();
    std::vector<uint32_t> words = {4, 0, 20, 6};
    add(chat.get(), "user", "w20", {first});
    const std::vector<uint32_t> answer = player.expected({first}, words);
    CHECK(player.answer(session.get(), chat.get(), budget).tokens == answer);
    // The template writes an answer's words anew, as the chat keeps it.
    const auto goes_on = [&](const std::vector<uint32_t>& before, std::initializer_list<uint32_t> more) {
      words.insert(words.end(), before.begin(), before.end());
      words.insert(words.end(), more);
    };
    goes_on(answer, {4, 0, 21, 6});
    add(chat.get(), "user", "w21", {second});
    const std::vector<uint32_t> next = player.expected({first, second}, words);
    const Story story = player.answer(session.get(), chat.get(), budget);
    CHECK(story.tokens == next);
    goes_on(next, {4, 22, 6});
    add(chat.get(), "user", "w22", {});
    CHECK(player.answer(session.get(), chat.get(), budget).tokens == player.expected({first, second}, words));
  }
}

TEST_CASE("a picture that is too thin is refused, and an encoder alone has no use for patches") {
  const Player player;
  const ChatHandle chat = player.make_chat();
  const Image thin = patterned_picture(1, 300);
  pumice_picture picture = {sizeof picture};
  picture.pixels = thin.pixels.data();
  picture.width = thin.width;
  picture.height = thin.height;
  pumice_message message = {sizeof message};
  message.role = "user";
  message.content = "w20";
  message.pictures = &picture;
  message.picture_count = 1;
  pumice_error error;
  CHECK(pumice_chat_add(chat.get(), &message, &error) == PUMICE_INVALID_ARGUMENT);
  CHECK(std::string(error.message).find("200 times") != std::string::npos);
  CHECK(pumice_chat_count(chat.get()) == 0);

  const std::string path = player.folder.path().string();
  pumice_source source = {sizeof source};
  source.path = path.c_str();
  pumice_load_options options = {sizeof options};
  options.pictures = true;
  pumice_model* made = nullptr;
  require_ok(pumice_model_load(player.device.get(), &source, &options, &made, &error), error);
  const ModelHandle tower(made);
  pumice_encoder_options encoder_options = {sizeof encoder_options};
  pumice_encoder* encoder = nullptr;
  CHECK(pumice_encoder_create(tower.get(), &encoder_options, &encoder, &error) == PUMICE_UNSUPPORTED);
  CHECK(std::string(error.message).find("show them in a chat") != std::string::npos);
}

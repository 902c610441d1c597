// Pictures in a chat: given as pixels or as files, looked at in slices, and then read where the template has
// them.
#include <nlohmann/json.hpp>

#include "generate/picture_prompt.h"
#include "generate/session.h"
#include "media/preprocess.h"
#include "step/encoder.h"
#include "step/picture_rows.h"
#include "support/command/chats.h"
#include "support/files/vision_folder.h"
#include "support/model.h"
#include "support/picture_answers.h"
#include "support/require.h"
#include "text/formats/base64.h"

using namespace pumice;
using nlohmann::json;

namespace {

constexpr uint32_t answer_tokens = 6;

pumice_status add(pumice_chat* chat, const char* content, const std::vector<pumice_picture>& pictures,
                  pumice_error& error) {
  pumice_message message = {sizeof message};
  message.role = "user";
  message.content = content;
  message.pictures = pictures.data();
  message.picture_count = pictures.size();
  return pumice_chat_add(chat, &message, &error);
}

void add(pumice_chat* chat, const char* content, const std::vector<pumice_picture>& pictures) {
  pumice_error error;
  require_ok(add(chat, content, pictures, error), error);
}

std::string written(const pumice_chat* chat) {
  return text_of(pumice_chat_write, chat);
}

// A program with a model that sees.
struct Player {
  TemporaryFolder folder;
  const DeviceHandle& device = shared_device();
  ModelHandle model;
  SessionHandle session;

  explicit Player(uint32_t pictures = 1) {
    write_vision_folder(folder);
    model = load_with_vision(device.get());
    session = open_session(pictures);
  }

  ModelHandle load_with_vision(pumice_device* on) const {
    pumice_load_options options = {sizeof options};
    options.vision = 1;
    return load(on, folder.path().string(), options);
  }

  pumice_session_options session_options(uint32_t pictures) const {
    pumice_session_options options = {sizeof options};
    options.chunk = 8;
    options.cache = PUMICE_CACHE_F32;
    options.pictures = pictures;
    return options;
  }
  SessionHandle open_session(uint32_t pictures) const {
    return make_session(model.get(), session_options(pictures));
  }

  pumice_status begin(pumice_session* own, pumice_chat* chat, pumice_error& error) const {
    pumice_request request = {sizeof request};
    request.chat = chat;
    request.max_tokens = answer_tokens;
    request.ignore_end = true;
    return pumice_session_generate(own, &request, &error);
  }

  // Slices of a budget; with 0, to the end at once.
  Story finish(pumice_session* own, float budget = 0) const {
    pumice_error error;
    Story story;
    pumice_slice slice = {sizeof slice};
    slice.active = budget > 0;
    uint64_t finished = 0;
    while (slice.active) {
      require_ok(pumice_work_advance(pumice_session_work(own), budget, nullptr, &slice, &error), error);
      CHECK(slice.finished >= finished);
      finished = slice.finished;
      take_events(own, story);
    }
    if (budget == 0) require_ok(pumice_session_run(own, &error), error);
    take_events(own, story);
    return story;
  }
  Story answer(pumice_chat* chat, float budget = 0) const {
    pumice_error error;
    require_ok(begin(session.get(), chat, error), error);
    return finish(session.get(), budget);
  }

  // What the runtime makes of the same pictures, each behind the word that begins a question.
  std::vector<uint32_t> expected(const std::vector<Image>& images,
                                 const std::vector<uint32_t>& question) const {
    const auto loaded = load_model(folder.path());
    LoadOptions of_tower;
    of_tower.tower = Tower::pictures;
    const auto tower = require(Model::load(folder.path(), test_context(), {}, of_tower));
    EncoderOptions options;
    options.readable = {PictureTokens::features};
    const auto encoder = require(Encoder::create(tower, options));
    const std::vector<uint32_t>& size = tower->shape().encoder->input_shape;
    const auto preparation = require(read_image_preparation(folder.path(), size[1], size[2]));
    const PictureTokens& shape = *loaded->shape().pictures;
    std::vector<std::vector<float>> rows;
    std::vector<uint32_t> tokens = {4};
    for (const Image& image : images) {
      EncoderInput input;
      input.values = require(prepare(image, preparation, "a picture"));
      const std::vector<InputRange> ranges = require(encoder->encode(std::span(&input, 1)));
      for (const InputRange& range : ranges) encoder->release(range);
      rows.push_back(rows_of_picture(shape, encoder->shape(), {},
                                     require(encoder->read(PictureTokens::features, 0)),
                                     encoder->columns(PictureTokens::features)));
      tokens.push_back(shape.token);
    }
    tokens.insert(tokens.end(), question.begin(), question.end());
    tokens.push_back(6);
    return picture_tests::answer_to(loaded, require(with_pictures(shape, tokens, rows, "the prompt")),
                                    answer_tokens);
  }
};

std::vector<std::byte> png_of(const Image& image) {
  return require(png_bytes(image));
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

} // namespace

TEST_CASE("pictures of a chat are answered as the runtime answers them, from pixels and from files") {
  const Player player(2);
  const std::vector<Image> images = {small_picture(1), small_picture(77), small_picture(5)};
  const std::vector<std::byte> file = png_of(images[0]);
  const ChatHandle pixels = make_chat(player.model.get()), files = make_chat(player.model.get());
  add(pixels.get(), "w20 w21", {picture_of(images[0])});
  add(files.get(), "w20 w21", {picture_of(file)});
  const std::vector<uint32_t> one = player.expected({images[0]}, {20, 21});
  CHECK(player.answer(pixels.get()).tokens == one);
  CHECK(player.answer(files.get()).tokens == one);
  // The checksum of a file is that of its bytes.
  CHECK(written(pixels.get()) != written(files.get()));
  const json message = json::parse(written(files.get()))["messages"][0];
  CHECK(message["content"][0]["type"] == "image");
  CHECK(message["content"][1] == json::parse(R"({"type": "text", "text": "w20 w21"})"));

  // Three, two of them in a step; one of another size, and one twice.
  const ChatHandle several = make_chat(player.model.get());
  add(several.get(), "w20",
      {picture_of(images[0]), picture_of(images[1]), picture_of(images[2]), picture_of(images[0])});
  CHECK(player.answer(several.get()).tokens ==
        player.expected({images[0], images[1], images[2], images[0]}, {20}));
  Image wide{70, 5, std::vector<uint8_t>(70 * 5 * 3, 90)};
  wide.pixels[100] = 3;
  const ChatHandle other = make_chat(player.model.get());
  add(other.get(), "w20", {picture_of(wide)});
  CHECK(player.answer(other.get()).tokens == player.expected({wide}, {20}));
}

TEST_CASE("looking at pictures is cut into slices, and is done once") {
  const Player player;
  const std::vector<Image> images = {small_picture(1), small_picture(77)};
  const std::vector<uint32_t> expected = player.expected(images, {20});
  pumice_error error;
  for (const float budget : {1.0f, 500.0f, 1e6f}) {
    CAPTURE(budget);
    const ChatHandle chat = make_chat(player.model.get());
    add(chat.get(), "w20", {picture_of(images[0]), picture_of(images[1])});
    const SessionHandle session = player.open_session(1); // which has read nothing
    require_ok(player.begin(session.get(), chat.get(), error), error);
    // The first call of the smallest budget has one launch: the tower's steps are cut, too.
    pumice_slice slice = {sizeof slice};
    do { // the pictures are prepared first, which may take several calls
      require_ok(pumice_work_advance(pumice_session_work(session.get()), budget, nullptr, &slice, &error),
                 error);
      CHECK(slice.active);
    } while (slice.dispatches == 0);
    if (budget == 1.0f) CHECK(slice.dispatches == 1);
    CHECK(pumice_chat_count(chat.get()) == 1);
    CHECK(add(chat.get(), "w20", {}, error) == PUMICE_NOT_READY);
    CHECK(player.finish(session.get(), budget).tokens == expected);
    CHECK(pumice_chat_count(chat.get()) == 2);
  }
  // The rows are there for another session, and one that sees nothing.
  const ChatHandle chat = make_chat(player.model.get());
  add(chat.get(), "w20", {picture_of(images[0]), picture_of(images[1])});
  CHECK(player.answer(chat.get()).tokens == expected);
  require_ok(pumice_chat_remove(chat.get(), 1, 1, &error), error);
  CHECK(player.answer(chat.get()).tokens == expected);
  require_ok(pumice_chat_remove(chat.get(), 1, 1, &error), error);
  const SessionHandle blind = player.open_session(0);
  require_ok(player.begin(blind.get(), chat.get(), error), error);
  CHECK(player.finish(blind.get()).tokens == expected);

  // A batch takes them, too.
  require_ok(pumice_chat_remove(chat.get(), 1, 1, &error), error);
  pumice_batch_options options = {sizeof options};
  options.texts = 2;
  options.chunk = 8;
  options.cache = PUMICE_CACHE_F32;
  const BatchHandle batch = make_batch(player.model.get(), options);
  pumice_request request = {sizeof request};
  request.chat = chat.get();
  request.max_tokens = answer_tokens;
  request.ignore_end = true;
  uint32_t text = 0;
  require_ok(pumice_batch_add(batch.get(), &request, &text, &error), error);
  for (bool active = true; active;) require_ok(pumice_batch_step(batch.get(), &active, &error), error);
  Story story;
  while (const pumice_event* event = pumice_batch_poll(batch.get())) add_event(*event, story);
  CHECK(story.tokens == expected);
  const ChatHandle unseen = make_chat(player.model.get());
  add(unseen.get(), "w20", {picture_of(images[0])});
  request.chat = unseen.get();
  CHECK(pumice_batch_add(batch.get(), &request, &text, &error) == PUMICE_UNSUPPORTED);
  CHECK(contains(error.message, "no session has looked at"));
}

TEST_CASE("a large picture is prepared in the slices of the text that shows it") {
  const Player player;
  const Image large = patterned_picture(1080, 1920);
  pumice_error error;
  const ChatHandle chat = make_chat(player.model.get());
  add(chat.get(), "w20", {picture_of(large)});
  require_ok(player.begin(player.session.get(), chat.get(), error), error);
  pumice_slice slice = {sizeof slice};
  int before = 0; // calls before the device has anything to do
  for (;; ++before) {
    require_ok(pumice_work_advance(pumice_session_work(player.session.get()), 100, nullptr, &slice, &error),
               error);
    REQUIRE(slice.active);
    if (slice.dispatches > 0) break;
  }
  CHECK(before >= 5);
  CHECK(player.finish(player.session.get(), 500).tokens == player.expected({large}, {20}));
}

TEST_CASE("looking is cancelled, goes on over a pause, and ends for another text") {
  Player player;
  const Image image = small_picture(1);
  const std::vector<uint32_t> expected = player.expected({image}, {20});
  pumice_session* session = player.session.get();
  pumice_error error;
  ChatHandle chat;
  const auto begun = [&] {
    chat = make_chat(player.model.get());
    add(chat.get(), "w20", {picture_of(image)});
    require_ok(player.begin(session, chat.get(), error), error);
    require_ok(pumice_work_advance(pumice_session_work(session), 1, nullptr, nullptr, &error), error);
  };
  for (const bool slices : {false, true}) {
    CAPTURE(slices);
    begun();
    pumice_work_cancel(pumice_session_work(session));
    CHECK((slices ? pumice_work_advance(pumice_session_work(session), 1, nullptr, nullptr, &error)
                  : pumice_session_run(session, &error)) == PUMICE_CANCELLED);
    Story story;
    take_events(session, story);
    CHECK(story.finish_reason == PUMICE_FINISH_CANCELLED);
    CHECK(pumice_chat_count(chat.get()) == 1); // nothing came
    CHECK(player.answer(chat.get()).tokens == expected);
  }
  // Cancelled before any of it.
  chat = make_chat(player.model.get());
  add(chat.get(), "w20", {picture_of(image)});
  require_ok(player.begin(session, chat.get(), error), error);
  pumice_work_cancel(pumice_session_work(session));
  CHECK(pumice_work_advance(pumice_session_work(session), 1, nullptr, nullptr, &error) == PUMICE_CANCELLED);
  CHECK(player.answer(chat.get(), 500).tokens == expected);

  begun();
  const uint64_t before = allocated(player.device.get());
  require_ok(pumice_session_suspend(session, &error), error);
  const uint64_t suspended = allocated(player.device.get());
  CHECK(suspended < before);
  CHECK(pumice_work_advance(pumice_session_work(session), 1, nullptr, nullptr, &error) == PUMICE_NOT_READY);
  require_ok(pumice_session_resume(session, player.model.get(), &error), error);
  CHECK(allocated(player.device.get()) > suspended);
  CHECK(player.finish(session, 300).tokens == expected);
  // An answer, over a pause.
  require_ok(pumice_chat_remove(chat.get(), 1, 1, &error), error);
  require_ok(player.begin(session, chat.get(), error), error);
  Story story;
  while (story.tokens.size() < 2) {
    require_ok(pumice_work_advance(pumice_session_work(session), 300, nullptr, nullptr, &error), error);
    take_events(session, story);
  }
  require_ok(pumice_session_suspend(session, &error), error);
  const ModelHandle blind = load(player.device.get(), player.folder.path().string());
  CHECK(pumice_session_resume(session, blind.get(), &error) == PUMICE_INVALID_ARGUMENT);
  CHECK(contains(error.message, "options.vision"));
  require_ok(pumice_session_resume(session, player.model.get(), &error), error);
  const Story rest = player.finish(session, 300);
  story.tokens.insert(story.tokens.end(), rest.tokens.begin(), rest.tokens.end());
  CHECK(story.tokens == expected);

  begun();
  begin(session, "w20 w21", 2); // adds to the conversation that was there before
  CHECK(player.finish(session).tokens.size() == 2);
  CHECK(player.answer(chat.get()).tokens == expected);
  begun();
  const SessionHandle fork = [&] {
    pumice_session* made = nullptr;
    require_ok(pumice_session_fork(session, nullptr, &made, &error), error);
    return SessionHandle(made);
  }();
  CHECK(player.finish(session).tokens == expected);
  const ChatHandle again = make_chat(player.model.get());
  add(again.get(), "w20", {picture_of(image)});
  require_ok(player.begin(fork.get(), again.get(), error), error);
  CHECK(player.finish(fork.get(), 300).tokens == expected);
  begun();
  const auto ignore = [](void*, const void*, size_t) { return true; };
  require_ok(pumice_session_write(session, ignore, nullptr, &error), error); // what was there before
  CHECK(pumice_chat_count(chat.get()) == 1);
  add(chat.get(), "w21", {}); // nobody answers it any more
  begun();
  chat.reset(); // the answer goes on without it
  CHECK(player.finish(session).tokens == expected);
  begun();
  player.session.reset();
  add(chat.get(), "w21", {});
}

TEST_CASE("a conversation with pictures is read again once its pictures are there") {
  const Player player;
  const Image image = small_picture(1);
  const ChatHandle chat = make_chat(player.model.get());
  add(chat.get(), "w20", {picture_of(image)});
  const std::string saved = written(chat.get());
  const ChatHandle read = make_chat(player.model.get());
  pumice_error error;
  require_ok(pumice_chat_read(read.get(), saved.c_str(), &error), error);
  CHECK(player.begin(player.session.get(), read.get(), error) == PUMICE_NOT_FOUND);
  CHECK(contains(error.message, "messages[0]"));
  CHECK(contains(error.message, "pumice_chat_add_picture"));
  const pumice_picture picture = picture_of(image);
  require_ok(pumice_chat_add_picture(read.get(), &picture, &error), error);
  CHECK(player.answer(read.get()).tokens == player.answer(chat.get()).tokens);
  // What is forgotten of a chat takes its pictures along.
  require_ok(pumice_chat_remove(read.get(), 0, 2, &error), error);
  require_ok(pumice_chat_read(read.get(), saved.c_str(), &error), error);
  CHECK(player.begin(player.session.get(), read.get(), error) == PUMICE_NOT_FOUND);
}

namespace {

std::string data_url(const std::vector<std::byte>& file) {
  return "data:image/png;base64," +
         text::encode_base64({reinterpret_cast<const char*>(file.data()), file.size()});
}

json message_with(const std::vector<json>& parts) {
  return {{"role", "user"}, {"content", parts}};
}

std::string conversation(const std::vector<json>& messages) {
  return json({{"messages", messages}}).dump();
}

const json question = {{"type", "text"}, {"text", "w20"}};

json by_url(const json& url) {
  return {{"type", "image_url"}, {"image_url", {{"url", url}}}};
}

} // namespace

TEST_CASE("messages that are read may have their pictures in themselves") {
  const Player player;
  const Image image = small_picture(1);
  const std::vector<std::byte> file = png_of(image);
  const std::vector<uint32_t> expected = player.expected({image}, {20});
  const json input = {{"type", "input_image"}, {"image_url", data_url(file)}};
  pumice_error error;
  for (const json& part : {by_url(data_url(file)), input}) {
    const ChatHandle chat = make_chat(player.model.get());
    const std::string text = conversation({message_with({part, question})});
    require_ok(pumice_chat_read(chat.get(), text.c_str(), &error), error);
    const json named = json::parse(written(chat.get()))["messages"][0]["content"][0];
    CHECK(named["type"] == "image");
    CHECK(named.contains("checksum"));
    CHECK(player.answer(chat.get()).tokens == expected);
  }

  // Nothing is fetched, and after an error the chat is as it was.
  const ChatHandle chat = make_chat(player.model.get());
  add(chat.get(), "w21", {});
  const std::string before = written(chat.get());
  const auto refused = [&](const json& part, pumice_status status, std::string_view words) {
    const json good = by_url(data_url(png_of(small_picture(9))));
    const std::string text = conversation({message_with({good, question}), message_with({question, part})});
    CHECK(pumice_chat_read(chat.get(), text.c_str(), &error) == status);
    CAPTURE(error.message);
    CHECK(contains(error.message, "json: messages[1].content[1].image_url"));
    CHECK(contains(error.message, words));
    CHECK(written(chat.get()) == before);
  };
  for (const char* url : {"https://example.com/a.png", "file:///etc/passwd", "", "data:image/png,abc"})
    refused(by_url(url), PUMICE_INVALID_ARGUMENT, ".image_url.url: only data URLs");
  refused(by_url(5), PUMICE_INVALID_ARGUMENT, ".image_url.url: expected a string");
  refused({{"type", "image_url"}}, PUMICE_INVALID_ARGUMENT, ".image_url: expected a string");
  refused({{"type", "image_url"}, {"image_url", 1}}, PUMICE_INVALID_ARGUMENT, "expected a string");
  for (const char* data : {"$$$$", "", "AAAAA", "====", "AA==AA=="})
    refused(by_url(std::string("data:image/png;base64,") + data), PUMICE_INVALID_ARGUMENT, "base64");
  refused(by_url("data:text/plain;base64,aGVsbG8="), PUMICE_INVALID_FILE, "PNG");
  refused(by_url("data:image/gif;base64,R0lGODlhIGFuZCBtb3Jl"), PUMICE_UNSUPPORTED, "GIF");
  refused(by_url(data_url({file.begin(), file.end() - 20})), PUMICE_INVALID_FILE, "");
  // The good picture of those messages is not here either.
  ChatHandle other = make_chat(player.model.get());
  add(other.get(), "w20", {picture_of(png_of(small_picture(9)))});
  require_ok(pumice_chat_read(chat.get(), written(other.get()).c_str(), &error), error);
  CHECK(player.begin(player.session.get(), chat.get(), error) == PUMICE_NOT_FOUND);

  const ModelHandle reader = load(player.device.get(), (pretrained_folder() / "chat-2m.gguf").string());
  const ChatHandle talk = make_chat(reader.get());
  const std::string text = conversation({message_with({by_url(data_url(file))})});
  CHECK(pumice_chat_read(talk.get(), text.c_str(), &error) == PUMICE_UNSUPPORTED);
  CHECK(contains(error.message, "json: messages[0].content[0].image_url.url"));
  CHECK(contains(error.message, "does not see"));
}

TEST_CASE("a chat that keeps its pictures has them in its JSON, and names them as before when it is read") {
  const Player player;
  const Image image = small_picture(1);
  const std::vector<std::byte> file = png_of(small_picture(77));
  pumice_chat_options options = {sizeof options};
  options.keep_pictures = 1;
  const ChatHandle keeping = make_chat(player.model.get(), options), plain = make_chat(player.model.get());
  for (const ChatHandle* chat : {&keeping, &plain})
    add(chat->get(), "w20", {picture_of(image), picture_of(file)});
  const std::string saved = written(keeping.get());
  CHECK(contains(saved, data_url(file)));
  CHECK(written(keeping.get()) == saved);
  CHECK_FALSE(contains(written(plain.get()), "base64"));
  const std::vector<uint32_t> expected = player.answer(keeping.get()).tokens;

  pumice_error error;
  const ChatHandle read = make_chat(player.model.get()), again = make_chat(player.model.get(), options);
  require_ok(pumice_chat_read(read.get(), saved.c_str(), &error), error);
  CHECK(written(read.get()) == written(plain.get())); // the checksums of pixels and of the file
  CHECK(player.answer(read.get()).tokens == expected);
  require_ok(pumice_chat_read(again.get(), saved.c_str(), &error), error);
  CHECK(written(again.get()) == saved);

  // A checksum that is not the picture's is none.
  json lying = json::parse(saved);
  json& parts = lying["messages"][0]["content"];
  std::swap(parts[0]["checksum"], parts[1]["checksum"]);
  require_ok(pumice_chat_read(again.get(), lying.dump().c_str(), &error), error);
  CHECK(player.answer(again.get()).tokens == expected);

  options.keep_pictures = 2;
  pumice_chat* none = nullptr;
  CHECK(pumice_chat_create(player.model.get(), &options, &none, &error) == PUMICE_INVALID_ARGUMENT);
  CHECK(contains(error.message, "options.keep_pictures is 2"));
}

TEST_CASE("a picture that is none, and a model that does not see, are errors with a name") {
  const Player player;
  const ChatHandle chat = make_chat(player.model.get());
  pumice_error error;
  const Image image = small_picture(1);
  const auto refused = [&](const pumice_picture& picture, pumice_status status, std::string_view words) {
    CHECK(add(chat.get(), "w20", {picture_of(image), picture}, error) == status);
    CAPTURE(error.message);
    CHECK(contains(error.message, words));
    CHECK(contains(error.message, "message.pictures"));
    CHECK(pumice_chat_count(chat.get()) == 0);
  };
  pumice_picture picture = {sizeof picture};
  refused(picture, PUMICE_INVALID_ARGUMENT, "message.pictures[1] has none of pixels and file");
  picture = picture_of(image);
  picture.width = 0;
  refused(picture, PUMICE_INVALID_ARGUMENT, "message.pictures[1] is a picture of 0 x 32 pixels");
  picture.width = 100'000;
  picture.height = 1;
  refused(picture, PUMICE_INVALID_ARGUMENT, "100000 x 1");
  std::vector<std::byte> file = png_of(image);
  picture.file = file.data();
  refused(picture, PUMICE_INVALID_ARGUMENT, "both of pixels and file");
  picture = picture_of(file);
  picture.file_bytes -= 9;
  refused(picture, PUMICE_INVALID_FILE, "message.pictures[1]");
  picture.file_bytes = 0;
  refused(picture, PUMICE_INVALID_FILE, "message.pictures[1]");
  picture = {sizeof picture};
  picture.file = "GIF89a and more";
  picture.file_bytes = 15;
  refused(picture, PUMICE_UNSUPPORTED, "PNG or JPEG");
  picture = picture_of(image);
  picture.struct_size = 1;
  CHECK(add(chat.get(), "w20", {picture}, error) == PUMICE_INVALID_ARGUMENT);
  CHECK(contains(error.message, "message.pictures.struct_size is 1"));
  pumice_message message = {sizeof message};
  message.role = "user";
  message.picture_count = 1;
  CHECK(pumice_chat_add(chat.get(), &message, &error) == PUMICE_INVALID_ARGUMENT);
  CHECK(contains(error.message, "message.pictures is NULL"));

  // A session that does not look, a model without its tower, a template without a place, a full context.
  const SessionHandle blind = player.open_session(0);
  add(chat.get(), "w20", {picture_of(image)});
  CHECK(player.begin(blind.get(), chat.get(), error) == PUMICE_UNSUPPORTED);
  CHECK(contains(error.message, "options.pictures"));
  const ModelHandle half = load(player.device.get(), player.folder.path().string());
  pumice_session_options options = player.session_options(1);
  pumice_session* none = nullptr;
  CHECK(pumice_session_create(half.get(), &options, &none, &error) == PUMICE_INVALID_ARGUMENT);
  CHECK(contains(error.message, "options.vision"));
  options.pictures = 65;
  CHECK(pumice_session_create(player.model.get(), &options, &none, &error) == PUMICE_INVALID_ARGUMENT);
  CHECK(contains(error.message, "options.pictures is 65"));
  options = player.session_options(1);
  options.context = 18; // 16 rows of the picture and three words
  const SessionHandle small = make_session(player.model.get(), options);
  CHECK(player.begin(small.get(), chat.get(), error) == PUMICE_CONTEXT_FULL);
  const ChatHandle placeless = make_chat(player.model.get(), "w4 {{ messages | length }} w6");
  add(placeless.get(), "w20", {picture_of(image)});
  CHECK(player.begin(player.session.get(), placeless.get(), error) == PUMICE_INVALID_ARGUMENT);
  CHECK(contains(error.message, "token 319"));

  // A model that reads text only.
  const ModelHandle reader = load(player.device.get(), (pretrained_folder() / "chat-2m.gguf").string());
  const ChatHandle talk = make_chat(reader.get());
  CHECK(add(talk.get(), "Hello", {picture_of(image)}, error) == PUMICE_UNSUPPORTED);
  CHECK(contains(error.message, "message.pictures[0]"));
  CHECK(contains(error.message, "does not see"));
  pumice_source source = {sizeof source};
  source.path = stories.c_str();
  pumice_load_options load_options = {sizeof load_options};
  load_options.vision = 1;
  pumice_model* made = nullptr;
  CHECK(pumice_model_load(player.device.get(), &source, &load_options, &made, &error) == PUMICE_UNSUPPORTED);
  CHECK(contains(error.message, "options.vision"));
  load_options.pictures = true;
  CHECK(pumice_model_load(player.device.get(), &source, &load_options, &made, &error) ==
        PUMICE_INVALID_ARGUMENT);
  load_options.vision = 2;
  CHECK(pumice_model_load(player.device.get(), &source, &load_options, &made, &error) ==
        PUMICE_INVALID_ARGUMENT);
  CHECK(contains(error.message, "options.vision is 2"));
}

TEST_CASE("the memory of a model that sees is known beforehand") {
  const Player none;
  const DeviceHandle device = make_device();
  const std::string path = none.folder.path().string();
  pumice_source source = {sizeof source};
  source.path = path.c_str();
  pumice_load_options load_options = {sizeof load_options};
  load_options.vision = 1;
  for (const uint32_t pictures : {0u, 1u, 3u}) {
    CAPTURE(pictures);
    pumice_session_options options = none.session_options(pictures);
    pumice_memory_estimate estimate = {sizeof estimate};
    pumice_error error;
    require_ok(
        pumice_session_estimate_memory(device.get(), &source, &load_options, &options, &estimate, &error),
        error);
    const ModelHandle model = none.load_with_vision(device.get());
    pumice_model_info info = {sizeof info};
    require_ok(pumice_model_get_info(model.get(), &info, &error), error);
    CHECK(info.weight_bytes == estimate.weights);
    const SessionHandle session = make_session(model.get(), options);
    // Slices take theirs when they first run.
    const uint64_t all = estimate.weights + estimate.cache + estimate.scratch;
    CHECK(allocated(device.get()) <= all);
    CHECK(allocated(device.get()) + 32'000 > all);
    CHECK(estimate.fits);
  }
}

#pragma once

#include <memory>
#include <string>
#include <vector>

#include "generate/prepared_picture.h"
#include "model/picture_preparation.h"
#include "support/command/chats.h"
#include "support/vision_models.h"

namespace picture_tests {

inline pumice_status add(pumice_chat* chat, const std::string& content, const std::vector<Image>& images,
                         pumice_error& error) {
  std::vector<pumice_picture> pictures;
  for (const Image& image : images) pictures.push_back(picture_of(image));
  pumice_message message = {sizeof message};
  message.role = "user";
  message.content = content.c_str();
  message.pictures = pictures.data();
  message.picture_count = pictures.size();
  return pumice_chat_add(chat, &message, &error);
}

// A question that shows pictures.
inline void add(pumice_chat* chat, const std::string& content, const std::vector<Image>& images) {
  pumice_error error;
  require_ok(add(chat, content, images, error), error);
}

// A program with a model that sees.
struct VisionPlayer {
  static constexpr uint32_t answer_tokens = 6;

  VisionModel fixture;
  TemporaryFolder folder;
  const DeviceHandle& device = shared_device();
  ModelHandle model;

  explicit VisionPlayer(VisionModel of) : fixture(std::move(of)) {
    write_vision_folder(folder, fixture);
    load();
  }

  // Again, after changes to the folder.
  void load() {
    pumice_load_options options = {sizeof options};
    options.vision = 1;
    model = load_with(options);
  }
  ModelHandle load_with(const pumice_load_options& options) const {
    return ::load(device.get(), folder.path().string(), options);
  }

  SessionHandle open_session(uint32_t pictures) const {
    pumice_session_options options = {sizeof options};
    options.chunk = 8;
    options.cache = PUMICE_CACHE_F32;
    options.pictures = pictures;
    return make_session(model.get(), options);
  }

  ChatHandle make_chat(const char* template_text = nullptr) const {
    return ::make_chat(model.get(), template_text);
  }

  pumice_status begin(pumice_session* session, pumice_chat* chat, pumice_error& error,
                      uint32_t count = answer_tokens) const {
    pumice_request request = {sizeof request};
    request.chat = chat;
    request.max_tokens = count;
    request.ignore_end = true;
    return pumice_session_generate(session, &request, &error);
  }

  // With a budget, in slices.
  std::vector<uint32_t> finish(pumice_session* session, float budget) const {
    pumice_error error;
    Story story;
    pumice_slice slice = {sizeof slice};
    slice.active = budget > 0;
    while (slice.active) {
      require_ok(pumice_work_advance(pumice_session_work(session), budget, nullptr, &slice, &error), error);
      take_events(session, story);
    }
    if (budget == 0) require_ok(pumice_session_run(session, &error), error);
    take_events(session, story);
    return story.tokens;
  }
  std::vector<uint32_t> answer(pumice_session* session, pumice_chat* chat, float budget = 0,
                               uint32_t count = answer_tokens) const {
    pumice_error error;
    require_ok(begin(session, chat, error, count), error);
    return finish(session, budget);
  }

  // What the runtime makes of such a prompt: 0 stands for the next picture.
  std::vector<uint32_t> expected(const std::vector<Image>& images, const std::vector<uint32_t>& words) const {
    const auto loaded = load_model(folder.path());
    const PictureTokens& shape = *loaded->shape().pictures;
    const auto tower = load_pictures(folder.path());
    const ImagePreparation preparation =
        require(picture_preparation(loaded->file(), *tower->shape().encoder));
    PictureRows encoder = require(PictureRows::create(tower, shape));
    std::vector<std::vector<float>> rows;
    std::vector<PatchGrid> grids;
    std::vector<std::vector<uint32_t>> shown;
    for (const Image& image : images) {
      const PreparedPicture picture = require(prepare_for_prompt(image, preparation, "a picture"));
      for (std::vector<float>& each : require(encoder.rows(picture.inputs))) rows.push_back(std::move(each));
      for (const EncoderInput& input : picture.inputs) grids.push_back(input.grid);
      shown.push_back(fixture.shown(picture.grid));
    }
    std::vector<uint32_t> tokens;
    size_t next = 0;
    for (const uint32_t word : words) {
      if (word > 0) {
        tokens.push_back(word);
      } else {
        tokens.insert(tokens.end(), shown.at(next).begin(), shown.at(next).end());
        ++next;
      }
    }
    return answer_to(loaded, require(with_pictures(shape, tokens, rows, "the prompt", grids)), answer_tokens);
  }
};

} // namespace picture_tests

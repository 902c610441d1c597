#include "chat/chat_pictures.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "commands/mmproj.h"
#include "io/checksum.h"
#include "io/mapped_file.h"
#include "terminal/terminal.h"
#include "text/chat/message_pictures.h"

namespace pumice::command {

namespace {

using nlohmann::ordered_json;

constexpr const char* prompt_name = "the prompt that the chat template makes";

Result<std::string> checksum_of(const std::filesystem::path& path) {
  PUMICE_TRY(const MappedFile file, MappedFile::open(path));
  Checksum sum;
  sum.add(file.bytes());
  return fmt::format("{:016x}", sum.value());
}

// A conversation that is loaded elsewhere finds the file.
std::string absolute_path(const std::string& file) {
  std::error_code failed;
  const std::filesystem::path path = std::filesystem::absolute(path_of(file), failed);
  return failed ? file : path_text(path);
}

} // namespace

Result<ChatPictures> ChatPictures::open(const ModelFile& model, const ModelShape& shape) {
  ChatPictures result;
  result.model_ = model.path();
  result.tower_path_ = tower_path(model);
  result.shape_ = shape.pictures;
  if (!shape.pictures) return result;
  PUMICE_TRY(const std::unique_ptr<ModelDefinition> tower, open_model_definition(model, Tower::pictures));
  PUMICE_TRY(result.reader_, PictureInput::open(model, *tower->shape().encoder));
  return result;
}

Result<ordered_json> ChatPictures::show(const std::string& file) {
  if (!shape_) {
    return Error{Code::unsupported, fmt::format("{} does not see: it reads text only. Choose a model that "
                                                "does, such as LLaVA, SmolVLM, Gemma 3 or Qwen 2.5-VL; of "
                                                "a GGUF model that does, --mmproj names the file that reads "
                                                "pictures",
                                                model_)};
  }
  PUMICE_TRY(std::string checksum, checksum_of(path_of(file)));
  if (!read_.contains(checksum)) {
    PUMICE_TRY(PromptPicture pixels, reader_->read_for_prompt(file));
    read_[checksum].pixels = std::move(pixels);
  }
  return ordered_json{{"type", "image"}, {"path", absolute_path(file)}, {"checksum", std::move(checksum)}};
}

Status ChatPictures::show_all(ordered_json& messages) {
  return for_each_picture(messages, [&](size_t message, ordered_json& part) -> Status {
    const auto named = [&](const Error& error) {
      return Error{error.code, fmt::format("\"messages\"[{}]: {}", message, error.message)};
    };
    const ordered_json path = part.value("path", ordered_json());
    const ordered_json before = part.value("checksum", ordered_json());
    if (!path.is_string()) {
      return named({Code::invalid_file, "a picture needs a \"path\", the name of its file"});
    }
    Result<ordered_json> shown = show(path.get<std::string>());
    if (!shown.ok()) return named(shown.error());
    if (before.is_string() && before != (*shown)["checksum"])
      print_note(
          fmt::format("{} is another picture than when the conversation was saved", path.get<std::string>()));
    part.update(*shown);
    return {};
  });
}

std::vector<PictureGrid> ChatPictures::grids(const ordered_json& messages) const {
  std::vector<PictureGrid> all;
  const auto add = [&](size_t, const ordered_json& part) -> Status {
    const auto found = read_.find(part.value("checksum", ""));
    all.push_back(found == read_.end() ? PictureGrid() : found->second.pixels.grid);
    return {};
  };
  (void)for_each_picture(messages, add);
  return all;
}

// Of all that the messages' pictures consist of.
std::vector<PatchGrid> ChatPictures::patch_grids(const ordered_json& messages) const {
  std::vector<PatchGrid> all;
  const auto add = [&](size_t, const ordered_json& part) -> Status {
    const auto found = read_.find(part.value("checksum", ""));
    const std::vector<PatchGrid> own =
        found == read_.end() ? std::vector<PatchGrid>(1) : grids_of(found->second.pixels.inputs);
    all.insert(all.end(), own.begin(), own.end());
    return {};
  };
  (void)for_each_picture(messages, add);
  return all;
}

PicturePlaces ChatPictures::places(const ordered_json& messages) const {
  if (!shape_) return {};
  return picture_places(shape_->markup, grids(messages));
}

Result<size_t> ChatPictures::length(const ChatPrompt& prompt, const ordered_json& messages) const {
  const std::vector<PatchGrid> pictures = patch_grids(messages);
  if (!shape_) return prompt.ids.size();
  if (!pictures.empty() && std::ranges::count(prompt.ids, shape_->token) == 0) {
    return Error{Code::invalid_argument,
                 fmt::format("{}: its chat template writes no token {} for a picture, which is where this "
                             "model sees it: name another template with --template",
                             model_, shape_->token)};
  }
  return length_with_pictures(*shape_, prompt.ids, pictures, prompt_name);
}

Status ChatPictures::load_tower(const OpenedDevice& device, const LoadOptions& load) {
  if (!shape_ || tower_) return {};
  PUMICE_TRY(tower_, PictureRows::create(tower_path_, *shape_, device, load));
  return {};
}

Result<PicturePrompt> ChatPictures::prompt(const ChatPrompt& prompt, const ordered_json& messages,
                                           const OpenedDevice& device, const LoadOptions& load) {
  if (!shape_) return PicturePrompt{prompt.ids, {}};
  std::vector<std::vector<float>> rows;
  const auto add = [&](size_t, const ordered_json& part) -> Status {
    Picture& picture = read_[part["checksum"].get<std::string>()];
    if (picture.rows.empty()) {
      PUMICE_CHECK(load_tower(device, load));
      PUMICE_TRY(picture.rows, tower_->rows(picture.pixels.inputs));
      for (EncoderInput& input : picture.pixels.inputs) input.values = {};
    }
    rows.insert(rows.end(), picture.rows.begin(), picture.rows.end());
    return {};
  };
  PUMICE_CHECK(for_each_picture(messages, add));
  if (rows.empty()) return PicturePrompt{prompt.ids, {}};
  return with_pictures(*shape_, prompt.ids, rows, prompt_name, patch_grids(messages));
}

} // namespace pumice::command

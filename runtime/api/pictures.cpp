#include "api/pictures.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "api/call.h"
#include "api/sight.h"
#include "generate/prompt_picture.h"
#include "io/checksum.h"
#include "model/picture_preparation.h"
#include "text/chat/message_pictures.h"

namespace pumice::api {

namespace {

using nlohmann::ordered_json;

constexpr const char* not_here =
    "shows a picture that the chat does not have: give it with pumice_chat_add_picture";

std::string text_of(const Checksum& sum) {
  return fmt::format("{:016x}", sum.value());
}

// Of a file, the checksum is that of its bytes, which `pumice chat` writes as well.
std::string checksum_of(const pumice_picture& given) {
  Checksum sum;
  if (given.file) {
    sum.add(std::span(static_cast<const std::byte*>(given.file), given.file_bytes));
    return text_of(sum);
  }
  sum.add(uint64_t{given.width});
  sum.add(uint64_t{given.height});
  sum.add(std::as_bytes(std::span(given.pixels, size_t{given.width} * given.height * 3)));
  return text_of(sum);
}

// The checksum that a part names; empty: none.
std::string checksum_in(const ordered_json& part) {
  const auto found = part.find("checksum");
  return found != part.end() && found->is_string() ? found->get<std::string>() : "";
}

Status check_picture(const pumice_picture& given, const std::string& name) {
  if ((given.file != nullptr) == (given.pixels != nullptr)) {
    return Error{Code::invalid_argument, fmt::format("{} has {} of pixels and file: set one of them", name,
                                                     given.file ? "both" : "none")};
  }
  if (given.file) return check_array(given.file, given.file_bytes, 1, name + ".file");
  return check_image_size(given.width, given.height, name);
}

} // namespace

Status check_image_size(uint32_t width, uint32_t height, const std::string& name) {
  const uint64_t pixels = uint64_t{width} * height;
  if (pixels > 0 && pixels <= max_image_pixels && std::max(width, height) <= max_image_edge) return {};
  return Error{Code::invalid_argument,
               fmt::format("{} is a picture of {} x {} pixels: expected 1 to {}, and edges of at most {}",
                           name, width, height, max_image_pixels, max_image_edge)};
}

Result<Image> image_of_pixels(const uint8_t* pixels, uint32_t width, uint32_t height,
                              const std::string& name) {
  PUMICE_CHECK(check_image_size(width, height, name));
  Image image{width, height, {}};
  image.pixels.assign(pixels, pixels + size_t{width} * height * 3);
  return image;
}

Result<Image> read_picture(const pumice_picture& given, const std::string& name) {
  PUMICE_CHECK(check_picture(given, name));
  if (!given.file) return image_of_pixels(given.pixels, given.width, given.height, name);
  return parse_image({static_cast<const std::byte*>(given.file), given.file_bytes}, name);
}

std::vector<PatchGrid> grids_of(const PictureParts& parts) {
  std::vector<PatchGrid> grids;
  for (const std::shared_ptr<PicturePart>& each : parts) grids.push_back(each->grid);
  return grids;
}

Result<ChatPictures> ChatPictures::open(const ModelFile& file, const ModelShape& shape) {
  ChatPictures result;
  result.model_ = file.path();
  if (!shape.pictures) return result;
  result.markup_ = shape.pictures->markup;
  PUMICE_TRY(const std::unique_ptr<ModelDefinition> tower, open_model_definition(file, Tower::pictures));
  const EncoderShape encoder = *tower->shape().encoder;
  if (encoder.input_shape[0] != 3) return result; // channels
  const uint32_t most = encoder.patch_groups ? patches_in_session(encoder) : 0;
  PUMICE_TRY(result.preparation_, picture_preparation(file, encoder, most));
  return result;
}

Result<ordered_json> ChatPictures::show(const pumice_picture& given, const std::string& name) {
  if (!preparation_) {
    return Error{
        Code::unsupported,
        fmt::format("{}: {} reads no coloured pictures: choose a model that does, such as LLaVA or Gemma 3",
                    name, model_)};
  }
  PUMICE_CHECK(check_picture(given, name));
  std::string checksum = checksum_of(given);
  if (!pictures_.contains(checksum)) {
    PUMICE_TRY(const Image image, read_picture(given, name));
    PUMICE_TRY(PromptPicture prepared, prepare_for_prompt(image, *preparation_, name));
    ChatPicture picture{prepared.grid, {}};
    for (EncoderInput& input : prepared.inputs) {
      const PatchGrid grid = input.grid;
      picture.parts.push_back(std::make_shared<PicturePart>(PicturePart{std::move(input), grid, {}}));
    }
    pictures_[checksum] = std::move(picture);
  }
  return ordered_json{{"type", "image"}, {"checksum", std::move(checksum)}};
}

Result<PictureParts> ChatPictures::shown_by(const ordered_json& messages) const {
  PictureParts shown;
  PUMICE_CHECK(for_each_picture(messages, [&](size_t message, const ordered_json& part) -> Status {
    const auto found = pictures_.find(checksum_in(part));
    if (found == pictures_.end())
      return Error{Code::not_found, fmt::format("messages[{}] {}", message, not_here)};
    const PictureParts& parts = found->second.parts;
    shown.insert(shown.end(), parts.begin(), parts.end());
    return {};
  }));
  return shown;
}

PicturePlaces ChatPictures::places(const ordered_json& messages) const {
  if (!preparation_) return {};
  std::vector<PictureGrid> grids;
  (void)for_each_picture(messages, [&](size_t, const ordered_json& part) {
    const auto found = pictures_.find(checksum_in(part));
    grids.push_back(found == pictures_.end() ? PictureGrid() : found->second.grid);
    return Status();
  });
  return picture_places(markup_, grids);
}

void ChatPictures::forget(const ordered_json& messages, const ordered_json& others) {
  std::set<std::string> kept;
  (void)for_each_picture(others, [&](size_t, const ordered_json& part) {
    kept.insert(checksum_in(part));
    return Status();
  });
  (void)for_each_picture(messages, [&](size_t, const ordered_json& part) {
    if (const std::string checksum = checksum_in(part); !kept.contains(checksum)) pictures_.erase(checksum);
    return Status();
  });
}

} // namespace pumice::api

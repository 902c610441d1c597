#include "task/chat_media.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "generate/prepared_picture.h"
#include "io/checksum.h"
#include "media/image.h"
#include "model/picture_preparation.h"
#include "text/chat/message_pictures.h"
#include "text/formats/base64.h"
#include "text/formats/data_url.h"

namespace pumice {

namespace {

using nlohmann::ordered_json;

// A file of some kilobytes can have as many as an image may: messages with several are to stay within what a
// machine has.
constexpr uint64_t most_pixels_in_urls = 4 * max_image_pixels;

// The checksum that a part names; empty: none.
std::string checksum_in(const ordered_json& part) {
  const auto found = part.find("checksum");
  return found != part.end() && found->is_string() ? found->get<std::string>() : "";
}

std::string checksum_of(const Image& image) {
  Checksum sum;
  sum.add(uint64_t{image.width});
  sum.add(uint64_t{image.height});
  sum.add(std::as_bytes(std::span(image.pixels)));
  return fmt::format("{:016x}", sum.value());
}

ordered_json part_of(const std::string& checksum, const char* type = "image") {
  return {{"type", type}, {"checksum", checksum}};
}

} // namespace

void PreparingMedium::advance() {
  const auto more = [this](auto& each) {
    if (!each.advance()) values = each.take();
  };
  std::visit(more, work);
}

bool MediumPart::prepare(std::chrono::steady_clock::time_point until) {
  if (!preparing) return true;
  while (preparing->values.empty()) {
    if (std::chrono::steady_clock::now() >= until) return false;
    preparing->advance();
  }
  input.values = std::move(preparing->values[number]);
  input.grid = grid;
  preparing.reset();
  return true;
}

std::vector<PatchGrid> grids_of(const MediumParts& parts) {
  std::vector<PatchGrid> grids;
  for (const std::shared_ptr<MediumPart>& each : parts) grids.push_back(each->grid);
  return grids;
}

Result<ChatMedia> ChatMedia::open(const ModelFile& file, const ModelShape& shape, uint32_t most_patches) {
  ChatMedia result;
  result.model_ = file.path();
  if (!shape.pictures) return result;
  result.markup_ = shape.pictures->markup;
  PUMICE_TRY(const std::unique_ptr<ModelDefinition> tower, open_model_definition(file, Tower::pictures));
  if (shape.pictures->sounds) {
    PUMICE_TRY(result.sound_, sound_preparation(file.mmproj() ? *file.mmproj() : file, tower->shape()));
    return result;
  }
  const EncoderShape encoder = *tower->shape().encoder;
  if (encoder.input_shape[0] != 3) return result; // channels
  PUMICE_TRY(
      result.preparation_,
      picture_preparation(file, encoder, encoder.patch_groups ? std::min(most_patches, encoder.context) : 0));
  return result;
}

Status ChatMedia::check_vision() const {
  if (has_vision()) return {};
  return Error{Code::unsupported, fmt::format("{} does not see: it reads text {}. Choose a model that "
                                              "does, such as LLaVA, SmolVLM, Gemma 3 or Qwen 2.5-VL",
                                              model_, hears() ? "and sounds" : "only")};
}

Result<ordered_json> ChatMedia::show(std::span<const std::byte> file, const std::string& name) {
  uint64_t pixels_left = max_image_pixels;
  return show(file, name, pixels_left, "");
}

Result<ordered_json> ChatMedia::show(std::span<const std::byte> file, const std::string& name,
                                     uint64_t& pixels_left, const std::string& of_pixels) {
  PUMICE_CHECK(check_vision());
  Checksum sum;
  sum.add(file);
  std::string checksum = fmt::format("{:016x}", sum.value());
  if (media_.contains(checksum)) return part_of(checksum);
  PUMICE_TRY(Image image, parse_image(file, name, std::min(pixels_left, max_image_pixels)));
  pixels_left -= uint64_t{image.width} * image.height;
  if (!of_pixels.empty() && of_pixels == checksum_of(image)) checksum = of_pixels;
  PUMICE_TRY(ordered_json part, keep(checksum, std::move(image), name));
  Medium& picture = media_.at(checksum);
  if (picture.pixels) {
    picture.file.assign(file.begin(), file.end());
    picture.pixels.reset();
  }
  return part;
}

Result<ordered_json> ChatMedia::show(Image image, const std::string& name) {
  PUMICE_CHECK(check_vision());
  std::string checksum = checksum_of(image); // before it is moved
  return keep(std::move(checksum), std::move(image), name);
}

Status ChatMedia::show_urls(ordered_json& messages, const std::string& name) {
  std::vector<std::string> taken;
  uint64_t pixels_left = most_pixels_in_urls;
  const auto take = [&](ordered_json& part, const PictureUrl& picture, const std::string& place) -> Status {
    if (const Status vision = check_vision(); !vision.ok())
      return Error{vision.error().code, fmt::format("{}: {}", place, vision.error().message)};
    const Result<std::string> bytes = text::parse_data_url(picture.url);
    if (!bytes.ok()) return Error{bytes.error().code, fmt::format("{}: {}", place, bytes.error().message)};
    const size_t before = media_.size();
    PUMICE_TRY(part, show(std::as_bytes(std::span(*bytes)), place, pixels_left, checksum_in(part)));
    if (media_.size() > before) taken.push_back(checksum_in(part));
    return {};
  };
  for (size_t i = 0; i < messages.size(); ++i) {
    const auto content = messages[i].find("content");
    if (content == messages[i].end() || !content->is_array()) continue;
    for (size_t j = 0; j < content->size(); ++j) {
      ordered_json& part = (*content)[j];
      const std::optional<PictureUrl> picture = picture_url_in(part);
      if (!picture) continue;
      const std::string place = fmt::format("{}[{}].content[{}]{}", name, i, j, picture->member);
      if (const Status status = take(part, *picture, place); !status.ok()) {
        for (const std::string& checksum : taken) media_.erase(checksum);
        return status;
      }
    }
  }
  return {};
}

Result<ordered_json> ChatMedia::with_urls(ordered_json messages) {
  PUMICE_CHECK(for_each_medium(messages, [&](size_t, ordered_json& part) -> Status {
    const auto found = media_.find(checksum_in(part));
    if (found == media_.end() || part.contains("path")) return {};
    Medium& picture = found->second;
    if (picture.pixels) {
      PUMICE_TRY(picture.file, png_bytes(*picture.pixels));
      picture.pixels.reset();
    }
    if (picture.file.empty()) return {};
    const std::string_view bytes(reinterpret_cast<const char*>(picture.file.data()), picture.file.size());
    part = {{"type", "image_url"},
            {"image_url",
             {{"url", fmt::format("data:image/{};base64,{}", bytes.starts_with("\xff\xd8") ? "jpeg" : "png",
                                  text::encode_base64(bytes))}}},
            {"checksum", found->first}};
    return {};
  }));
  return messages;
}

Status ChatMedia::check_hearing() const {
  if (hears()) return {};
  return Error{Code::unsupported, fmt::format("{} does not hear: it reads text {}. Choose a model that does, "
                                              "such as Voxtral or Qwen2-Audio",
                                              model_, has_vision() ? "and pictures" : "only")};
}

Result<ordered_json> ChatMedia::play(std::vector<float> samples, const std::string& name) {
  PUMICE_CHECK(check_hearing());
  Checksum sum;
  sum.add(std::as_bytes(std::span(samples)));
  const std::string checksum = fmt::format("{:016x}", sum.value());
  if (!media_.contains(checksum)) {
    PUMICE_TRY(PreparingSound begun, begin_sound(std::move(samples), *sound_, name));
    const auto preparing = std::make_shared<PreparingMedium>(PreparingMedium{std::move(begun.spectrum)});
    Medium sound{begun.sound.grid, {}};
    for (EncoderInput& input : begun.sound.inputs) {
      sound.parts.push_back(std::make_shared<MediumPart>(
          MediumPart{input.grid, preparing, sound.parts.size(), std::move(input)}));
    }
    media_[checksum] = std::move(sound);
  }
  return part_of(checksum, "audio");
}

Result<ordered_json> ChatMedia::keep(std::string checksum, Image image, const std::string& name) {
  if (!media_.contains(checksum)) {
    PUMICE_TRY(const PicturePlan plan, plan_for_prompt({image.height, image.width}, *preparation_, name));
    const auto pixels = std::make_shared<const Image>(std::move(image));
    const auto preparing =
        std::make_shared<PreparingMedium>(PreparingMedium{GradualPreparation(pixels, *preparation_, plan)});
    Medium picture{grid_of(plan, *preparation_), {}};
    if (keeps_files_) picture.pixels = pixels;
    for (size_t number = 0; number < plan.parts.size(); ++number)
      picture.parts.push_back(
          std::make_shared<MediumPart>(MediumPart{plan.parts[number].grid, preparing, number}));
    media_[checksum] = std::move(picture);
  }
  return part_of(checksum);
}

Result<MediumParts> ChatMedia::shown_by(const ordered_json& messages) const {
  MediumParts shown;
  PUMICE_CHECK(for_each_medium(messages, [&](size_t message, const ordered_json& part) -> Status {
    const auto found = media_.find(checksum_in(part));
    if (found == media_.end())
      return Error{
          Code::not_found,
          fmt::format("messages[{}] shows a picture or a sound that the chat does not have", message)};
    const MediumParts& parts = found->second.parts;
    shown.insert(shown.end(), parts.begin(), parts.end());
    return {};
  }));
  return shown;
}

PicturePlaces ChatMedia::places(const ordered_json& messages) const {
  if (!preparation_ && !sound_) return {};
  std::vector<PictureGrid> grids;
  (void)for_each_medium(messages, [&](size_t, const ordered_json& part) {
    const auto found = media_.find(checksum_in(part));
    grids.push_back(found == media_.end() ? PictureGrid() : found->second.grid);
    return Status();
  });
  return picture_places(markup_, grids);
}

void ChatMedia::forget(const ordered_json& messages, const ordered_json& others) {
  std::set<std::string> kept;
  (void)for_each_medium(others, [&](size_t, const ordered_json& part) {
    kept.insert(checksum_in(part));
    return Status();
  });
  (void)for_each_medium(messages, [&](size_t, const ordered_json& part) {
    if (const std::string checksum = checksum_in(part); !kept.contains(checksum)) media_.erase(checksum);
    return Status();
  });
}

} // namespace pumice

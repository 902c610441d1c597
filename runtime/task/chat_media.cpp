#include "task/chat_media.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "generate/prepared_picture.h"
#include "io/checksum.h"
#include "media/image.h"
#include "model/picture_preparation.h"
#include "text/chat/message_pictures.h"

namespace pumice {

namespace {

using nlohmann::ordered_json;

// The checksum that a part names; empty: none.
std::string checksum_in(const ordered_json& part) {
  const auto found = part.find("checksum");
  return found != part.end() && found->is_string() ? found->get<std::string>() : "";
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
  PUMICE_CHECK(check_vision());
  Checksum sum;
  sum.add(file);
  std::string checksum = fmt::format("{:016x}", sum.value());
  if (media_.contains(checksum)) return part_of(checksum);
  PUMICE_TRY(Image image, parse_image(file, name));
  return keep(std::move(checksum), std::move(image), name);
}

Result<ordered_json> ChatMedia::show(Image image, const std::string& name) {
  PUMICE_CHECK(check_vision());
  Checksum sum;
  sum.add(uint64_t{image.width});
  sum.add(uint64_t{image.height});
  sum.add(std::as_bytes(std::span(image.pixels)));
  return keep(fmt::format("{:016x}", sum.value()), std::move(image), name);
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
    const auto preparing = std::make_shared<PreparingMedium>(PreparingMedium{
        GradualPreparation(std::make_shared<const Image>(std::move(image)), *preparation_, plan)});
    Medium picture{grid_of(plan, *preparation_), {}};
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

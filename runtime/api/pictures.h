#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "api/pumice.h"
#include "media/preprocess.h"
#include "model/model.h"
#include "step/encoder.h"
#include "text/chat/picture_markup.h"

namespace pumice::api {

// What the model's tower reads of a picture, all of it or a tile, and once the tower has run, what the
// decoder does.
struct PicturePart {
  EncoderInput input; // until there are rows
  PatchGrid grid;     // of its patches, if the model reads pictures of any size
  std::vector<float> rows;

  bool seen() const { return !rows.empty(); }
};

using PictureParts = std::vector<std::shared_ptr<PicturePart>>;

struct ChatPicture {
  PictureGrid grid; // how it is cut
  PictureParts parts;
};

// The pictures of a chat, which its messages name by their checksums: {"type": "image", "checksum": "..."}.
class ChatPictures {
public:
  // Of a model that sees or does not.
  static Result<ChatPictures> open(const ModelFile& file, const ModelShape& shape);

  // Prepares a picture of the application's, unless it is here already. Returns the part of a message that
  // shows it. `name` names it in errors.
  Result<nlohmann::ordered_json> show(const pumice_picture& given, const std::string& name);
  // The parts of those that messages show, in their order. An error names a message whose picture is not
  // here.
  Result<PictureParts> shown_by(const nlohmann::ordered_json& messages) const;
  // What stands in the prompt where messages show pictures.
  PicturePlaces places(const nlohmann::ordered_json& messages) const;
  // Forgets the pictures that these messages show and the others do not.
  void forget(const nlohmann::ordered_json& messages, const nlohmann::ordered_json& others);

private:
  std::string model_;
  std::optional<ImagePreparation> preparation_; // of a model that sees
  PictureMarkup markup_;
  std::map<std::string, ChatPicture> pictures_; // by checksum
};

// Those of their patches.
std::vector<PatchGrid> grids_of(const PictureParts& parts);

// An error if a picture of this size is empty or too large.
Status check_image_size(uint32_t width, uint32_t height, const std::string& name);
// A picture of the application's pixels: red, green and blue of each, row by row.
Result<Image> image_of_pixels(const uint8_t* pixels, uint32_t width, uint32_t height,
                              const std::string& name);
// A picture of the application's, whichever way it is given.
Result<Image> read_picture(const pumice_picture& given, const std::string& name);

} // namespace pumice::api

#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include <nlohmann/json.hpp>

#include "media/gradual_preparation.h"
#include "model/architecture.h"
#include "speech/prepared_sound.h"
#include "step/encoder.h"
#include "text/chat/picture_markup.h"

namespace pumice {

// A picture or a sound whose parts are being prepared, and then their values.
struct PreparingMedium {
  std::variant<GradualPreparation, HostLogMel> work;
  std::vector<std::vector<float>> values = {};

  // Does a little more of the work, for as long as there are no values.
  void advance();
};

// What the model's tower reads of a picture, all of it or a tile, or of a sound, a window of it; and once the
// tower has run, what the decoder does.
struct MediumPart {
  PatchGrid grid;                             // of its patches, if the model reads pictures of any size
  std::shared_ptr<PreparingMedium> preparing; // null: the input is there
  size_t number = 0;                          // among the parts of its picture or sound
  EncoderInput input = {};                    // its values from prepare() on, until there are rows
  std::vector<float> rows = {};

  // Prepares its input, and those of the other parts. False: there is more to do at this time.
  bool prepare(std::chrono::steady_clock::time_point until = std::chrono::steady_clock::time_point::max());
  bool encoded() const { return !rows.empty(); }
};

using MediumParts = std::vector<std::shared_ptr<MediumPart>>;

// The pictures of a chat, or of a model that hears its sounds, which messages name by their checksums:
// {"type": "image", "checksum": "..."}, or "audio".
class ChatMedia {
public:
  // Of a model that sees or hears, or does not. `most_patches`: as picture_preparation() has it.
  static Result<ChatMedia> open(const ModelFile& file, const ModelShape& shape, uint32_t most_patches = 0);

  bool has_vision() const { return preparation_.has_value(); }
  bool hears() const { return sound_.has_value(); }
  const std::optional<SoundPreparation>& sound() const { return sound_; }
  Status check_vision() const; // unsupported for a model that does not see
  // Takes a picture, unless it is here already; MediumPart::prepare() prepares it. Returns the part of a
  // message that shows it. `name` names it in errors: unsupported for a model that does not see; what is
  // wrong with the picture.
  Result<nlohmann::ordered_json> show(std::span<const std::byte> file, const std::string& name);
  Result<nlohmann::ordered_json> show(Image image, const std::string& name);
  // Takes the pictures that parts of messages have in themselves (picture_url_in()). Each part becomes what
  // show() returns. After an error, none of them is here that was not before; `name` is that of the messages.
  Status show_urls(nlohmann::ordered_json& messages, const std::string& name);
  // Keeps the files, or the pixels, of pictures that are shown from now on.
  void keep_files() { keeps_files_ = true; }
  // Messages whose pictures are parts that have them in themselves, where they were kept and have no path:
  // show_urls() takes them, under the same checksums.
  Result<nlohmann::ordered_json> with_urls(nlohmann::ordered_json messages);
  Status check_hearing() const; // unsupported for a model that does not hear
  // The same of a sound, whose samples have the rate of sound().
  Result<nlohmann::ordered_json> play(std::vector<float> samples, const std::string& name);

  // The parts of those that messages show, in their order. An error names a message whose picture or sound
  // is not here.
  Result<MediumParts> shown_by(const nlohmann::ordered_json& messages) const;
  // What stands in the prompt where messages show them.
  PicturePlaces places(const nlohmann::ordered_json& messages) const;
  // Forgets those that these messages show and the others do not.
  void forget(const nlohmann::ordered_json& messages, const nlohmann::ordered_json& others);

private:
  struct Medium {
    PictureGrid grid; // how it is cut
    MediumParts parts;
    // Of a picture that is kept: one of these.
    std::vector<std::byte> file = {};
    std::shared_ptr<const Image> pixels = {};
  };
  // `of_pixels`: a checksum that the picture has if it is that of its pixels; else it is that of its file.
  Result<nlohmann::ordered_json> show(std::span<const std::byte> file, const std::string& name,
                                      uint64_t& pixels_left, const std::string& of_pixels);
  Result<nlohmann::ordered_json> keep(std::string checksum, Image image, const std::string& name);

  std::string model_;
  std::optional<ImagePreparation> preparation_; // of a model that sees
  std::optional<SoundPreparation> sound_;       // of one that hears
  PictureMarkup markup_;
  std::map<std::string, Medium> media_; // by checksum
  bool keeps_files_ = false;
};

// Those of their patches.
std::vector<PatchGrid> grids_of(const MediumParts& parts);

} // namespace pumice

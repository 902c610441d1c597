#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "generate/picture_prompt.h"
#include "input/picture_input.h"
#include "input/picture_rows.h"
#include "text/chat/chat_prompt.h"

namespace pumice::command {

// The pictures of a conversation. A message shows one with a part of its content:
//   {"type": "image", "path": FILE, "checksum": "..."}
// whose checksum is that of the file's bytes. Their rows are made when a prompt first needs them.
class ChatPictures {
public:
  // Of a model that sees or does not.
  static Result<ChatPictures> open(const ModelFile& model, const ModelShape& shape);

  // Reads a picture; the part that shows it. Errors: unsupported for a model that does not see; what is wrong
  // with the file.
  Result<nlohmann::ordered_json> show(const std::string& file);
  // Reads the pictures of messages from a file again, and completes the parts that show them.
  Status show_all(nlohmann::ordered_json& messages);
  // Forgets what was read.
  void forget() { read_.clear(); }

  // What stands in the prompt's text where a template shows the messages' pictures.
  PicturePlaces places(const nlohmann::ordered_json& messages) const;
  // The tokens of a prompt with the rows of its messages' pictures. An error if the template has no place for
  // them.
  Result<size_t> length(const ChatPrompt& prompt, const nlohmann::ordered_json& messages) const;
  // Runs the model's tower for pictures that are new; loads it before the first.
  Result<PicturePrompt> prompt(const ChatPrompt& prompt, const nlohmann::ordered_json& messages,
                               const OpenedDevice& device, const LoadOptions& load);
  // Loads the tower, if there is one, before something else takes the memory that it needs.
  Status load_tower(const OpenedDevice& device, const LoadOptions& load);

private:
  struct Picture {
    PromptPicture pixels;                 // its inputs have no values once there are rows
    std::vector<std::vector<float>> rows; // of each of them
  };
  std::vector<PictureGrid> grids(const nlohmann::ordered_json& messages) const;
  std::vector<PatchGrid> patch_grids(const nlohmann::ordered_json& messages) const;

  std::string model_, tower_path_;
  std::optional<PictureTokens> shape_; // of a model that sees
  std::optional<PictureInput> reader_;
  std::optional<PictureRows> tower_;
  std::map<std::string, Picture> read_; // by checksum
};

} // namespace pumice::command

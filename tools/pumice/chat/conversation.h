#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "generate/session.h"
#include "loading/open_device.h"
#include "options/form_options.h"
#include "options/options.h"
#include "step/picture_rows.h"
#include "task/chat.h"

namespace pumice::command {

// How a conversation is answered; it may change between two questions.
struct ChatSettings {
  std::string thinking = "show";  // or hide, off
  uint32_t count = 0;             // most tokens of an answer; 0: until it or the context ends
  std::vector<std::string> stops; // strings that end an answer
  bool json = false;              // answers are printed as JSON objects
  bool shift = true; // what is behind forgotten turns is kept, see SessionOptions::shift_positions
  SamplingOptions sampling;
  FormSource form; // of answers
  std::string tool_choice = "auto";
  std::string prefill; // what answers begin with
};

// What was said, and the model's session that has read it.
class Conversation {
public:
  // Whether to forget the oldest turns, when the context has no room for more: the sentence says so.
  using AskToForget = std::function<bool(const std::string& sentence)>;

  // `tower`: the file that the encoder of pictures is loaded from.
  Conversation(ChatSettings settings, ModelChat chat, std::string tower);

  // Reads a picture, which is a part of the next question:
  //   {"type": "image", "path": FILE, "checksum": "..."}
  Status show(const std::string& picture);
  // The same of a sound, {"type": "audio", ...}.
  Status play(const std::string& sound);
  // The context holds a question: says so before a model is loaded.
  Status check(const std::string& question, uint32_t context);
  // `adapters`: as --lora names them.
  Status open(OpenedModel model, const DeviceOptions& device, const SizeOptions& size,
              const std::vector<std::string>& adapters);

  // Each prints an answer as it comes. Without one, nothing has changed: what was asked is not a part of the
  // conversation, and what was forgotten is back. Ctrl-C ends an answer, and what came of it is kept;
  // `cancelled` if nothing came.
  Status ask(const std::string& question, const AskToForget& forget);
  Status regenerate(const AskToForget& forget); // the last question again, whose answer is forgotten
  // Takes the last question with its answer out of the conversation. Its pictures are those of the next one.
  Result<std::string> take_last_question();

  // Begins again, with what the system message says.
  Status reset();
  Status set_system(const std::string& text);
  // Variables for the template, a JSON object. invalid_argument for anything else.
  Status set_variables(const std::string& json);

  Status save(const std::filesystem::path& path);
  // Takes the place of what was said. Pictures and sounds are read again. Returns the number of messages.
  Result<size_t> load(const std::filesystem::path& path);

  ChatSettings& settings() { return settings_; }
  // Of the last answer.
  const std::string& figures() const { return figures_; }
  const std::string& thinking() const { return thinking_; }
  // Of the conversation, in lines.
  std::string statistics() const;
  uint32_t vocabulary() const { return session_->model()->shape().vocabulary; }
  const OpenedDevice& device() const { return *device_; }

private:
  Chat& chat() { return talk_.chat(); }
  Result<nlohmann::ordered_json> read_picture(const std::string& file);
  Result<nlohmann::ordered_json> read_sound(const std::string& file);
  Status read_media(nlohmann::ordered_json& messages);
  nlohmann::ordered_json question_message(const std::string& text) const;
  void set_thinking();
  Status prepare();
  Result<ModelChat::Prompt> prompt_with_room(const AskToForget& forget);
  Status load_tower();
  Status encode(const MediumParts& parts);
  Status answer(const AskToForget& forget);
  Status answer_prompt(const ModelChat::Prompt& prompt);
  void print_answer(const ChatAnswer& answer, size_t prompt_tokens, const char* finish_reason) const;

  ChatSettings settings_;
  ModelChat talk_;
  std::string tower_path_;
  std::optional<PictureRows> tower_;                               // loaded before the first picture
  nlohmann::ordered_json shown_ = nlohmann::ordered_json::array(); // parts of the next question
  std::string system_;
  LoadOptions load_;
  LazyFormVocabulary forms_;
  AnswerOptions wanted() const { return {form_, settings_.tool_choice}; }
  FormSource form_; // of answers, read from its file
  bool prepared_ = false;
  std::optional<OpenedDevice> device_;
  std::unique_ptr<Session> session_;
  SamplingParams sampling_; // of the last answer
  size_t context_used_ = 0;
  uint64_t read_ = 0, reused_ = 0, answered_ = 0; // tokens so far
  std::string figures_, thinking_;
};

} // namespace pumice::command

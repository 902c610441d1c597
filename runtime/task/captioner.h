#pragma once

#include <ctime>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "form/form.h"
#include "generate/prepared_picture.h"
#include "generate/resumable_generation.h"
#include "model/architecture.h"
#include "speech/prepared_sound.h"
#include "task/writing.h"
#include "text/chat/chat.h"

namespace pumice {

// Of a decoder that reads pictures in its prompt and has no chat template.
inline constexpr const char* usual_caption_prompt = "USER: <image>\nDescribe this picture. ASSISTANT:";

struct CaptionerOptions {
  WritingOptions writing;
  // Of a decoder that reads pictures in its prompt, what it continues; "<image>" is the picture, and
  // "<audio>" the sound of one that hears. None: what the model's chat template makes of a picture and a
  // question, or without one the usual prompt. Of an encoder with a decoder, what the latter begins with,
  // after its start token: of Donut a task in its place ("<s_cord-v2>"). None: what the model's settings say.
  // Of an encoder that reads a text after its picture, that text, or a task ("<OCR>"), with what it is about.
  std::optional<std::string> prompt;
  std::tm now = {};     // for templates that write the date
  FormSource form = {}; // of the text
};

// What a captioner does, by its options and the model's files. Known before the model is loaded.
struct CaptionerSettings {
  GenerationOptions generation;
  EncoderDecoderOptions session; // of an encoder with a decoder
  ImagePreparation preparation;
  std::optional<SoundPreparation> sound; // of a decoder that hears, in place of pictures
  // A text is as long as its sound: as many tokens as that has rows, and some more, unless the options say.
  bool writes_down = false;
  std::string prompt;                 // of a decoder alone, unless there is a chat
  std::vector<uint32_t> picture_text; // of an encoder that reads a text after its picture
  // Of a decoder that writes markup (Donut's, Florence-2's): what is no text. Other special tokens are the
  // markup.
  std::vector<uint32_t> marks;
  std::optional<Chat> chat; // whose template makes the prompt
  TextForm form;            // of what a decoder alone writes; of others the generation has a rule
  OptionNames names;
};

// `shape`: of a model with an encoder of pictures and a decoder, or of a decoder that reads pictures in its
// prompt, which has no beams: invalid_argument.
Result<CaptionerSettings> read_captioner_settings(const ModelFile& file, const ModelShape& shape,
                                                  std::shared_ptr<const Tokenizer> tokenizer,
                                                  const CaptionerOptions& options,
                                                  const OptionNames& names = {});

// Writes about pictures, in slices of time or all at once, with the same result. Used by one thread at a
// time, except cancel().
class Captioner : public Work {
public:
  // `tower`: of a decoder that reads pictures in its prompt, the encoder of these; otherwise null.
  static Result<std::unique_ptr<Captioner>> create(std::shared_ptr<const Model> model,
                                                   std::shared_ptr<const Model> tower,
                                                   std::shared_ptr<const Tokenizer> tokenizer,
                                                   CaptionerSettings settings, const Making& making = {});

  const CaptionerSettings& settings() const { return settings_; }
  // Pictures that run at a time.
  virtual size_t at_a_time() const = 0;

  // Takes pictures, see prepare_for_prompt(), and computes nothing yet. Ends what is under way.
  virtual Status begin(std::vector<PreparedPicture> pictures) = 0;
  // To the end; or in slices.
  virtual Status run() = 0;

  // The texts of each picture, best first. `not_ready` if they are not complete.
  Result<std::vector<std::vector<WrittenText>>> texts();

  // Tells that there is more for texts_so_far(), while run() or slice() works.
  void on_text(std::function<void()> heard) { heard_ = std::move(heard); }
  // The same as far as they have come, also after an error: of a picture none that has no text yet.
  std::vector<std::vector<WrittenText>> texts_so_far() const { return texts_of(written_so_far()); }

protected:
  Captioner(std::shared_ptr<const Tokenizer> tokenizer, CaptionerSettings settings)
      : tokenizer_(std::move(tokenizer)), settings_(std::move(settings)) {}
  virtual Result<std::span<const std::vector<Hypothesis>>> written() = 0;
  virtual std::span<const std::vector<Hypothesis>> written_so_far() const = 0; // of the first pictures
  void tell_more() const {
    if (heard_) heard_();
  }

  const std::shared_ptr<const Tokenizer> tokenizer_;
  const CaptionerSettings settings_;

private:
  std::vector<std::vector<WrittenText>> texts_of(std::span<const std::vector<Hypothesis>> written) const;

  std::function<void()> heard_;
};

// Of a decoder that reads pictures in its prompt.
Result<std::unique_ptr<Captioner>> create_prompted_captioner(std::shared_ptr<const Model> model,
                                                             std::shared_ptr<const Model> tower,
                                                             std::shared_ptr<const Tokenizer> tokenizer,
                                                             CaptionerSettings settings,
                                                             const Making& making);

} // namespace pumice

#include "task/captioner.h"

#include <algorithm>

#include <fmt/format.h>

#include "generate/form_rule.h"
#include "model/picture_preparation.h"
#include "model/vocabulary.h"
#include "text/unicode/unicode.h"

namespace pumice {

namespace {

constexpr const char *question = "Describe this picture.", *sound_question = "Describe this sound.";
constexpr uint32_t usual_tokens = 256; // of a decoder whose settings have no maximum

// What the model's chat template makes of a picture and a question; nothing if it has none.
Result<std::optional<Chat>> chat_about_picture(const ModelFile& file, const PictureTokens& shape,
                                               std::shared_ptr<const Tokenizer> tokenizer,
                                               const std::tm& now) {
  PUMICE_TRY(const ChatTemplates templates, ChatTemplates::of(file));
  if (templates.empty()) return std::optional<Chat>();
  PUMICE_TRY(ChatTemplate chosen, templates.choose("", false));
  std::vector<uint32_t> ends = end_tokens(file, tokenizer.get());
  Chat chat(std::move(chosen), std::move(tokenizer), std::move(ends), now);
  const std::string asked = shape.sounds ? sound_question : question;
  PUMICE_CHECK(chat.add(
      {{"role", "user"},
       {"content", {{{"type", shape.sounds ? "audio" : "image"}}, {{"type", "text"}, {"text", asked}}}}}));
  return std::optional(std::move(chat));
}

// Of an encoder with a decoder.
Status keep_to_form(const FormSource& form, std::shared_ptr<const Tokenizer> tokenizer,
                    const std::string& path, GenerationOptions& generation) {
  const size_t forced = generation.config.forced_first.has_value();
  PUMICE_TRY(FormRule rule, FormRule::create(form, std::move(tokenizer), generation.config, path));
  generation.rule = [rule, forced](size_t, std::span<float> scores, std::span<const uint32_t> text) {
    return text.size() < forced ? Status() : rule.apply(scores, text.subspan(forced));
  };
  return {};
}

// Whether the decoder begins with a task in the place of its start token, and writes markup, as Donut's does.
// Only the encoder's type tells, as in transformers.
Result<bool> begins_with_task(const ModelFile& file) {
  PUMICE_TRY(const Fields encoder, file.fields().object_or_empty("encoder"));
  PUMICE_TRY(const std::string type, encoder.string_or("model_type", ""));
  return type.find("donut") != type.npos;
}

// Sets what the decoder begins with; `after_start`: after its start token.
Status begin_with(const std::string& prompt, bool after_start, const Tokenizer& tokenizer,
                  uint32_t vocabulary, GenerationConfig& config) {
  std::vector<uint32_t> tokens = tokenizer.encode(prompt, false);
  if (tokens.empty() || std::ranges::max(tokens) >= vocabulary) {
    return Error{Code::invalid_argument,
                 fmt::format("the prompt '{}' is no text of the model's vocabulary", prompt)};
  }
  if (after_start && !config.prompt.empty() && tokens[0] != config.prompt[0])
    tokens.insert(tokens.begin(), config.prompt[0]);
  if (tokens.size() > 1) config.forced_first.reset(); // it is for the second token
  config.prompt = std::move(tokens);
  return {};
}

// What stands for a prompt that is a task: what the model was trained to be asked.
Result<std::string> task_words(const EncoderShape& shape, const std::string& prompt,
                               const OptionNames& names) {
  constexpr std::string_view place = "{input}";
  for (const auto& [task, words] : shape.tasks) {
    const size_t at = prompt.find(task);
    if (at == prompt.npos) continue;
    std::string text(words);
    const size_t input = text.find(place);
    if (input != text.npos) {
      const std::string about = prompt.substr(0, at) + prompt.substr(at + task.size());
      return text.replace(input, place.size(), text::trimmed(about));
    }
    if (prompt == task) return text;
    return Error{Code::invalid_argument,
                 fmt::format("{}: the task {} stands alone; found '{}'", names.prompt, task, prompt)};
  }
  return prompt;
}

// What an encoder reads after a picture: a text from its beginning to its end.
Result<std::vector<uint32_t>> text_after_picture(const ModelFile& file, const EncoderShape& shape,
                                                 const Tokenizer& tokenizer, const CaptionerOptions& options,
                                                 const OptionNames& names) {
  const std::string usual(shape.tasks.empty() ? "" : shape.tasks.front().first);
  PUMICE_TRY(const std::string words, task_words(shape, options.prompt.value_or(usual), names));
  std::vector<uint32_t> tokens = tokenizer.encode(words, false);
  const std::vector<uint32_t> begin = tokens_of(TokenRole::begin, file, &tokenizer),
                              end = tokens_of(TokenRole::end, file, &tokenizer);
  if (!begin.empty()) tokens.insert(tokens.begin(), begin.front());
  if (!end.empty()) tokens.push_back(end.front());
  if (shape.picture_rows + tokens.size() <= shape.context) return tokens;
  return Error{Code::invalid_argument,
               fmt::format("{}: a text of {} tokens follows a picture of {} rows, and the model reads {} at "
                           "most together",
                           names.prompt, tokens.size(), shape.picture_rows, shape.context)};
}

// The special tokens that are no markup.
std::vector<uint32_t> marks_of(const ModelFile& file, const Tokenizer& tokenizer) {
  std::vector<uint32_t> all;
  for (const TokenRole role : {TokenRole::begin, TokenRole::end, TokenRole::unknown, TokenRole::padding,
                               TokenRole::separator, TokenRole::mask}) {
    const std::vector<uint32_t> tokens = tokens_of(role, file, &tokenizer);
    all.insert(all.end(), tokens.begin(), tokens.end());
  }
  return all;
}

// An encoder of pictures with a decoder.
class PictureWriter final : public Captioner {
public:
  PictureWriter(std::shared_ptr<const Tokenizer> tokenizer, CaptionerSettings settings,
                std::unique_ptr<ResumableGeneration> generation)
      : Captioner(std::move(tokenizer), std::move(settings)), generation_(std::move(generation)) {}

  size_t at_a_time() const override { return settings_.session.inputs; }
  Status begin(std::vector<PreparedPicture> pictures) override {
    finished_.clear(); // what was written before is not of these pictures, whatever fails
    PUMICE_CHECK(generation_->stop());
    std::vector<EncoderInput> inputs;
    for (PreparedPicture& each : pictures) {
      inputs.push_back(std::move(each.inputs.at(0)));
      inputs.back().tokens = settings_.picture_text;
    }
    finished_.assign(inputs.size(), {});
    GenerationOptions generation = settings_.generation;
    generation.on_texts = [this](size_t picture, const std::vector<Hypothesis>& texts) {
      finished_[picture] = texts;
      tell_more();
    };
    return generation_->start(std::move(inputs), std::move(generation));
  }
  Status run() override { return generation_->run(); }
  Result<SliceResult> slice(const SliceRequest& request) override { return generation_->slice(request); }
  Status discard() override { return generation_->discard(); }
  void cancel() override { generation_->cancel(); }

private:
  Result<std::span<const std::vector<Hypothesis>>> written() override { return generation_->texts(); }
  std::span<const std::vector<Hypothesis>> written_so_far() const override { return finished_; }

  std::unique_ptr<ResumableGeneration> generation_;
  std::vector<std::vector<Hypothesis>> finished_; // of begin(); empty: not yet
};

} // namespace

Result<CaptionerSettings> read_captioner_settings(const ModelFile& file, const ModelShape& shape,
                                                  std::shared_ptr<const Tokenizer> tokenizer,
                                                  const CaptionerOptions& options, const OptionNames& names) {
  CaptionerSettings settings;
  settings.names = names;
  PUMICE_TRY(GenerationConfig config, read_generation_config(file, shape.vocabulary));
  PUMICE_TRY(settings.generation, generation_options(options.writing, std::move(config), names));
  GenerationOptions& generation = settings.generation;
  if (!shape.pictures) {
    PUMICE_TRY(const bool task, begins_with_task(file));
    const bool reads_text = shape.encoder->picture_rows > 0;
    if (reads_text) {
      PUMICE_TRY(settings.picture_text, text_after_picture(file, *shape.encoder, *tokenizer, options, names));
    } else if (options.prompt) {
      PUMICE_CHECK(begin_with(*options.prompt, !task, *tokenizer, shape.vocabulary, generation.config));
    }
    if (task || reads_text) settings.marks = marks_of(file, *tokenizer);
    if (has_form(options.form)) PUMICE_CHECK(keep_to_form(options.form, tokenizer, file.path(), generation));
    PUMICE_TRY(settings.preparation, picture_preparation(file, *shape.encoder));
    const uint32_t positions =
        reads_text ? shape.encoder->picture_rows + static_cast<uint32_t>(settings.picture_text.size())
                   : shape.encoder->context;
    settings.session = writer_options(options.writing, generation.config, shape, positions);
    return settings;
  }
  if (options.writing.beams.given()) {
    return Error{Code::invalid_argument, fmt::format("{}: it reads the picture in its prompt: leave {} out",
                                                     file.path(), names.beams)};
  }
  PUMICE_TRY(const std::unique_ptr<ModelDefinition> tower, open_model_definition(file, Tower::pictures));
  if (shape.pictures->sounds) {
    PUMICE_TRY(settings.sound, sound_preparation(file.mmproj() ? *file.mmproj() : file, tower->shape()));
  } else {
    PUMICE_TRY(settings.preparation, picture_preparation(file, *tower->shape().encoder));
  }
  if (has_form(options.form)) {
    PUMICE_TRY(settings.form.form, Form::create(options.form, std::make_shared<FormVocabulary>(*tokenizer)));
  }
  const std::string& usual = shape.pictures->question;
  settings.prompt = options.prompt.value_or(usual.empty() ? usual_caption_prompt : usual);
  if (!options.prompt && !shape.pictures->markup.place.empty()) {
    PUMICE_TRY(settings.chat, chat_about_picture(file, *shape.pictures, std::move(tokenizer), options.now));
  }
  if (settings.chat)
    generation.config.ends.assign(settings.chat->ends().begin(), settings.chat->ends().end());
  if (generation.config.max_tokens == 0) generation.config.max_tokens = usual_tokens;
  generation.sampling.stop_tokens = generation.config.ends;
  return settings;
}

Result<std::unique_ptr<Captioner>> Captioner::create(std::shared_ptr<const Model> model,
                                                     std::shared_ptr<const Model> tower,
                                                     std::shared_ptr<const Tokenizer> tokenizer,
                                                     CaptionerSettings settings, const Making& making) {
  if (tower) {
    return create_prompted_captioner(std::move(model), std::move(tower), std::move(tokenizer),
                                     std::move(settings), making);
  }
  PUMICE_TRY(std::unique_ptr<ResumableGeneration> generation,
             ResumableGeneration::create(std::move(model), settings.session, settings.generation, making));
  return std::unique_ptr<Captioner>(
      std::make_unique<PictureWriter>(std::move(tokenizer), std::move(settings), std::move(generation)));
}

std::vector<std::vector<WrittenText>>
Captioner::texts_of(std::span<const std::vector<Hypothesis>> written) const {
  std::vector<std::vector<WrittenText>> texts;
  for (const std::vector<Hypothesis>& each : written) {
    texts.push_back(written_texts(each, settings_.generation.config, *tokenizer_));
    if (settings_.marks.empty()) continue;
    for (WrittenText& text : texts.back()) {
      std::vector<uint32_t> said = text.tokens;
      std::erase_if(said, [&](uint32_t token) { return std::ranges::count(settings_.marks, token) > 0; });
      text.text = tokenizer_->decode(said, true);
    }
  }
  return texts;
}

Result<std::vector<std::vector<WrittenText>>> Captioner::texts() {
  PUMICE_TRY(const std::span<const std::vector<Hypothesis>> all, written());
  return texts_of(all);
}

} // namespace pumice

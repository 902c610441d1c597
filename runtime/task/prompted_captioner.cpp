#include <algorithm>
#include <atomic>

#include "generate/picture_prompt.h"
#include "generate/session.h"
#include "step/picture_rows.h"
#include "step/work/resumable_encoder.h"
#include "task/captioner.h"

namespace pumice {

namespace {

// A decoder whose prompt has rows of pictures, which the model's tower makes.
class PromptedCaptioner final : public Captioner {
public:
  PromptedCaptioner(std::shared_ptr<const Model> model, std::shared_ptr<const Model> tower,
                    std::shared_ptr<const Tokenizer> tokenizer, CaptionerSettings settings, bool prepared)
      : Captioner(std::move(tokenizer), std::move(settings)), model_(std::move(model)),
        tower_(std::move(tower)), tile_tower_(tower_->for_tiles()), shape_(*model_->shape().pictures),
        prepared_(prepared) {}

  Status make(const Making& making);

  size_t at_a_time() const override { return 1; }
  Status begin(std::vector<PreparedPicture> pictures) override;
  Status run() override;
  Result<SliceResult> slice(const SliceRequest& request) override { return ended(next_slice(request)); }
  Status discard() override;
  void cancel() override { cancelled_ = true; }

private:
  // What is done with a picture: the tower encodes each of its inputs, then the decoder writes.
  enum class State { none, encodes, decodes, done };
  struct Shown {
    PreparedPicture picture;
    std::vector<uint32_t> words;          // around it
    std::vector<std::vector<float>> rows; // of those inputs that were seen
  };

  Result<std::vector<uint32_t>> words_around(const PictureGrid& grid) const;
  Status make_encoder(uint32_t positions, const Making& making);
  Status make_tile_encoder(const Making& making);
  Status make_session(const Making& making);
  Result<PreparedPicture> blank() const;
  uint32_t most_tokens(const Shown& shown) const;
  Status next();
  Shown& current() { return shown_[written_.size()]; }
  EncoderInput& next_input() { return current().picture.inputs[current().rows.size()]; }
  ResumableEncoder& next_encoder() {
    return tile_encoder_ && next_input().grid.count() > 0 ? *tile_encoder_ : *encoder_;
  }
  Status take_rows();
  Status take_tokens();
  template <class T>
  T ended(T result);
  Result<SliceResult> next_slice(const SliceRequest& request);
  Result<std::span<const std::vector<Hypothesis>>> written() override;
  std::span<const std::vector<Hypothesis>> written_so_far() const override { return written_; }

  const std::shared_ptr<const Model> model_, tower_, tile_tower_; // the last one as Model::for_tiles() has it
  const PictureTokens shape_;
  const bool prepared_; // kernels are compiled before they run
  uint32_t chunk_ = 0;  // most tokens of a step of the decoder; 0: as usual
  std::unique_ptr<ResumableEncoder> encoder_, tile_encoder_; // the second one if there is a tile_tower_
  std::unique_ptr<Session> session_;
  std::atomic<bool> cancelled_ = false;
  State state_ = State::none;
  std::vector<Shown> shown_; // by begin()
  std::vector<std::vector<Hypothesis>> written_;
  float sum_ = 0; // of the current text's log-probabilities
};

std::vector<PatchGrid> grids_of(const PreparedPicture& picture) {
  std::vector<PatchGrid> all;
  for (const EncoderInput& input : picture.inputs) all.push_back(input.grid);
  return all;
}

Result<std::vector<uint32_t>> PromptedCaptioner::words_around(const PictureGrid& grid) const {
  PicturePlaces places = picture_places(shape_.markup, std::span(&grid, 1));
  if (settings_.chat) {
    PUMICE_TRY(ChatPrompt prompt, settings_.chat->prompt(places));
    return std::move(prompt.ids);
  }
  // Whatever the model's own mark is; sounds also without what stands around them.
  for (const std::string& mark : {shape_.sounds ? shape_.markup.picture : std::string(),
                                  std::string(shape_.sounds ? "<audio>" : "<image>")}) {
    if (!places.place.empty() && !mark.empty() && settings_.prompt.find(places.place) == std::string::npos)
      places.place = mark;
  }
  PUMICE_TRY(const std::string text, show_pictures(settings_.prompt, places, settings_.names.prompt));
  return tokenizer_->encode(text, true);
}

// A picture of a usual size, or a second of silence.
Result<PreparedPicture> PromptedCaptioner::blank() const {
  const std::string name = "what is blank";
  if (settings_.sound) {
    const std::vector<float> silence(settings_.sound->spectrum.sample_rate);
    return prepare_sound(silence, *settings_.sound, name);
  }
  constexpr uint32_t edge = 448;
  return prepare_for_prompt({edge, edge, std::vector<uint8_t>(size_t{edge} * edge * 3)},
                            settings_.preparation, name);
}

Status PromptedCaptioner::make(const Making& making) {
  chunk_ = making.chunk;
  PUMICE_CHECK(make_tile_encoder(making.prepared && making.all ? making : Making{}));
  // There is always an encoder, so that slices with nothing to do signal their semaphores.
  if (!making.prepared || !making.all)
    return shape_.of_any_size() ? make_encoder(shape_.merge * shape_.merge, {}) : make_encoder(0, making);
  // Whatever is larger later needs few other kernels.
  PUMICE_TRY(PreparedPicture picture, blank());
  PUMICE_TRY(std::vector<uint32_t> words, words_around(picture.grid));
  uint64_t patches = 0;
  for (const PatchGrid& grid : grids_of(picture)) patches = std::max<uint64_t>(patches, grid.count());
  shown_.push_back({std::move(picture), std::move(words), {}});
  const Status made = make_session(making);
  shown_.clear();
  PUMICE_CHECK(made);
  return make_encoder(shape_.of_any_size() ? static_cast<uint32_t>(patches) : 0, making);
}

// For pictures of any size: an encoder for one of so many patches.
Status PromptedCaptioner::make_encoder(uint32_t positions, const Making& making) {
  if (encoder_ && positions <= encoder_->encoder().longest()) return {};
  EncoderOptions options;
  options.readable = {PictureTokens::features};
  options.tokens = std::min(positions, tower_->shape().encoder->context);
  encoder_.reset(); // its memory is free for the next one
  PUMICE_TRY(encoder_, ResumableEncoder::create(tower_, std::move(options), making));
  return {};
}

Status PromptedCaptioner::make_tile_encoder(const Making& making) {
  if (!tile_tower_) return {};
  EncoderOptions options;
  options.readable = {PictureTokens::features};
  PUMICE_TRY(tile_encoder_, ResumableEncoder::create(tile_tower_, std::move(options), making));
  return {};
}

// A row stands for more time than a token takes.
uint32_t PromptedCaptioner::most_tokens(const Shown& shown) const {
  constexpr size_t least_tokens = 64;
  if (!settings_.writes_down) return settings_.generation.config.max_tokens;
  size_t rows = 0;
  for (const EncoderInput& input : shown.picture.inputs) rows += static_cast<size_t>(input.grid.count());
  return static_cast<uint32_t>(rows + least_tokens);
}

// One with a context that fits the longest prompt and its answer.
Status PromptedCaptioner::make_session(const Making& making) {
  if (shown_.empty()) return {};
  size_t longest = 0;
  for (const Shown& each : shown_) {
    PUMICE_TRY(const size_t length,
               length_with_pictures(shape_, each.words, grids_of(each.picture), settings_.names.prompt));
    longest = std::max(longest, length + most_tokens(each) + 1);
  }
  const auto needed = static_cast<uint32_t>(std::min<uint64_t>(model_->shape().context, longest));
  if (session_ && session_->size().context >= needed) return {};
  session_.reset(); // its memory is free for the next one
  SessionOptions options;
  options.size.context = needed;
  if (chunk_) options.size.chunk = chunk_;
  if (making.prepared) options.preparation = making.warm_up ? Preparation::warmed_up : Preparation::compiled;
  options.compiling_threads = making.threads;
  PUMICE_TRY(session_, Session::create(model_, options, making.progress));
  return {};
}

Status PromptedCaptioner::begin(std::vector<PreparedPicture> pictures) {
  state_ = State::none;
  shown_.clear();
  written_.clear(); // it is not of these pictures, whatever fails
  for (const auto& each : {&encoder_, &tile_encoder_})
    if (*each) PUMICE_CHECK((*each)->stop());
  if (session_) PUMICE_CHECK(session_->end_text());
  cancelled_ = false;
  for (PreparedPicture& each : pictures) {
    PUMICE_TRY(std::vector<uint32_t> words, words_around(each.grid));
    shown_.push_back({std::move(each), std::move(words), {}});
  }
  PUMICE_CHECK(make_session({.prepared = prepared_}));
  return next();
}

// Begins what comes next of the current picture, or of the one after it.
Status PromptedCaptioner::next() {
  state_ = State::none;
  if (written_.size() == shown_.size()) {
    state_ = State::done;
    return {};
  }
  Shown& shown = current();
  if (shown.rows.size() < shown.picture.inputs.size()) {
    const EncoderInput& input = next_input();
    if (shape_.of_any_size())
      PUMICE_CHECK(make_encoder(static_cast<uint32_t>(std::min<uint64_t>(input.grid.count(), UINT32_MAX)),
                                {.prepared = prepared_}));
    PUMICE_CHECK(next_encoder().begin({input}));
    state_ = State::encodes;
    return {};
  }
  PUMICE_TRY(PicturePrompt prompt,
             with_pictures(shape_, shown.words, shown.rows, settings_.names.prompt, grids_of(shown.picture)));
  PUMICE_CHECK(
      session_->begin({std::move(prompt.tokens), true, most_tokens(shown), settings_.generation.sampling,
                       std::move(prompt.embeddings), settings_.form}));
  written_.emplace_back(1);
  sum_ = 0;
  state_ = State::decodes;
  return {};
}

Status PromptedCaptioner::take_rows() {
  ResumableEncoder& encoder = next_encoder();
  PUMICE_TRY(std::vector<float> rows, encoder.read());
  EncoderInput& input = next_input();
  input.values = {};
  current().rows.push_back(
      rows_of_picture(shape_, *tower_->shape().encoder, input.grid, std::move(rows), encoder.columns()));
  return next();
}

// And goes on to the next picture at the end of the text.
Status PromptedCaptioner::take_tokens() {
  Hypothesis& text = written_.back().front();
  while (const std::optional<BatchToken> token = session_->take()) {
    text.tokens.push_back(token->token);
    sum_ += token->log_probabilities.log_probability;
  }
  tell_more();
  if (session_->active()) return {};
  text.score = score_of(sum_, text.tokens.size(), settings_.generation.config);
  return next();
}

// An error ends what is under way.
template <class T>
T PromptedCaptioner::ended(T result) {
  if (!result.ok()) state_ = State::none;
  return result;
}

Status PromptedCaptioner::run() {
  while (state_ == State::encodes || state_ == State::decodes) {
    if (cancelled_) return ended(Status(Error{Code::cancelled, "writing was cancelled"}));
    if (state_ == State::encodes) {
      PUMICE_CHECK(ended(next_encoder().run({next_input()})));
      PUMICE_CHECK(ended(take_rows()));
    } else {
      PUMICE_CHECK(ended(session_->step()));
      PUMICE_CHECK(ended(take_tokens()));
    }
  }
  return {};
}

Result<SliceResult> PromptedCaptioner::next_slice(const SliceRequest& request) {
  if (cancelled_ && (state_ == State::encodes || state_ == State::decodes)) {
    if (state_ == State::encodes) PUMICE_CHECK(next_encoder().stop());
    PUMICE_CHECK(session_->end_text());
    return Error{Code::cancelled, "writing was cancelled"};
  }
  SliceResult result;
  if (state_ == State::encodes) {
    PUMICE_TRY(result, next_encoder().slice(request));
    if (!result.active) PUMICE_CHECK(take_rows());
  } else if (state_ == State::decodes) {
    PUMICE_TRY(result, session_->slice(request));
    PUMICE_CHECK(take_tokens());
  } else if (encoder_) {
    PUMICE_TRY(result, encoder_->slice(request)); // of nothing: its semaphores are signalled
  }
  result.active = state_ == State::encodes || state_ == State::decodes;
  return result;
}

Status PromptedCaptioner::discard() {
  for (const auto& each : {&encoder_, &tile_encoder_})
    if (*each) PUMICE_CHECK(ended((*each)->discard()));
  return session_ ? ended(session_->discard()) : Status();
}

Result<std::span<const std::vector<Hypothesis>>> PromptedCaptioner::written() {
  if (state_ == State::done) return std::span<const std::vector<Hypothesis>>(written_);
  return Error{Code::not_ready, "no picture has been run to its end: there is no text to read"};
}

} // namespace

Result<std::unique_ptr<Captioner>> create_prompted_captioner(std::shared_ptr<const Model> model,
                                                             std::shared_ptr<const Model> tower,
                                                             std::shared_ptr<const Tokenizer> tokenizer,
                                                             CaptionerSettings settings,
                                                             const Making& making) {
  auto captioner = std::make_unique<PromptedCaptioner>(
      std::move(model), std::move(tower), std::move(tokenizer), std::move(settings), making.prepared);
  PUMICE_CHECK(captioner->make(making));
  return std::unique_ptr<Captioner>(std::move(captioner));
}

} // namespace pumice

#pragma once

#include <memory>
#include <optional>

#include "base/progress.h"
#include "step/work/resumable_batch.h"

namespace pumice {

// How to continue a conversation.
struct GenerationRequest {
  std::vector<uint32_t> tokens;     // added to the conversation
  bool new_conversation = false;    // replace the whole conversation
  uint32_t max_tokens = UINT32_MAX; // most tokens to generate
  SamplingParams sampling;
  // Of those tokens that are rows of pictures, as SequenceRequest has them.
  SharedEmbeddings embeddings = {};
  TextForm form = {}; // of what is generated
  // From this text on; none given: that of the one before. What was read with another one is read again.
  std::optional<AdapterChoice> adapter = {};
};

// A conversation: its tokens and its KV cache. It generates in whole steps, some of them ahead of the host,
// or in slices of time; both give the same tokens. It can give its device memory back and take it again, and
// it survives the loss of its device: its tokens are in the host's memory, and everything else can be made
// from them. Tokens whose keys and values are in the cache are not computed again. A token that was received
// is already a part of the conversation.
class Session : public BatchWork {
public:
  // `progress` counts kernels that are compiled, and may stop that.
  static Result<std::unique_ptr<Session>> create(std::shared_ptr<const Model> model, SessionOptions options,
                                                 const Progress& progress = {});

  // Begins a text. It runs until it ends or another begin(). Computes nothing yet. The conversation with the
  // new tokens must leave at least one position of the context free.
  Status begin(GenerationRequest request);
  bool active() const override { return active_; } // a text has begun and has not ended
  // Generates the next token, or ends the text.
  Status step();
  // Ends the text where it is, and waits for its steps. Its tokens that were not taken are forgotten.
  // `not_ready` while a recorded slice has not finished.
  Status end_text();
  // Ends the text where the conversation has so many tokens; later ones that came already are forgotten. Does
  // not wait.
  void end_at(size_t tokens);

  // Begins a text and submits the steps for `tokens`, the last of which samples the first token. prefill()
  // adds the tokens to the conversation; set_prompt() replaces the conversation by them. With a callback,
  // they wait for the device; the text ends if the callback returns false.
  Status prefill(std::span<const uint32_t> tokens, const SamplingParams& sampling,
                 const Progress& progress = {}, TextForm form = {});
  Status set_prompt(std::span<const uint32_t> tokens, const SamplingParams& sampling,
                    const Progress& progress = {}, SharedEmbeddings embeddings = {}, TextForm form = {});
  // Returns the next token. If the text has ended, begins another one.
  Result<uint32_t> next();

  std::span<const uint32_t> tokens() const { return *tokens_; }
  const SharedEmbeddings& embeddings() const { return embeddings_; } // the rows of its pictures
  // Forgets everything said so far, and the cache.
  Status reset();
  // Ends the text. The next one has this adapter, if the session was made with room for it; a text's begin()
  // tells.
  Status set_adapter(AdapterChoice adapter);
  const AdapterChoice& adapter() const { return adapter_; }

  // Saves the conversation with its keys and values to a file, and restores it, into any session of the same
  // model and cache type whose context it fits. Both end the current text. A file that is damaged or does not
  // fit is an error, and the conversation stays as it was. The rows of its pictures are saved too.
  // An adapter is not saved, and neither are keys and values that were computed with one: they are computed
  // again, with the adapter of the session that restores the conversation.
  Status save(const std::filesystem::path& path);
  Status restore(const std::filesystem::path& path);
  // The same elsewhere than in a file.
  Status save(const StateSink& sink);
  Status restore(MappedFile file);
  // Gives this session the conversation of another one, whose keys and values are copied on the device. Both
  // have the same model, on the same device, and the same cache type. The text of this session ends; the
  // other one goes on.
  Status copy(Session& other);
  // Gives a batch the keys and values of the conversation, in the same way. Both go on.
  Status copy_to(ResumableBatch& batch);
  // How probable each of these is as what follows the conversation, which stays as it is; a text that is
  // being generated goes on. At most `together` of them are computed in the same steps. Takes memory beside
  // the session's own, which stays until suspend(): the keys and values of so many continuations after the
  // conversation, and what a step needs. Not for conversations that show pictures.
  Result<ContinuationScores> score(std::span<const std::vector<uint32_t>> continuations, uint32_t together);
  // Moves keys and values to the host's memory and frees all device memory. Until resume(), other calls
  // return `not_ready`.
  Status suspend();
  // Makes everything again, on the same model, which may be loaded on another device.
  Status resume(std::shared_ptr<const Model> model);

  const std::shared_ptr<const Model>& model() const { return model_; }
  // Do not call these and size() while it is suspended, or after an error.
  Runner& runner() { return object_->runner(); }
  bool full() const { return tokens().size() >= size().context; }
  // Tokens of the text's prompt that were in the cache already. Known with its first token, and after
  // prefill() and set_prompt().
  uint32_t reused() const { return reused_.value_or(0); }
  // The host's seconds for submitting decoding steps, and the number of those steps.
  double host_seconds() const { return object_->host_seconds(); }
  uint64_t decode_steps() const { return object_->repeated_steps(); }
  const Batch::DraftCounts& drafts() const { return object_->drafts(); }
  uint32_t steps_per_submit() const { return object_->steps_per_submit(); } // as Batch has it

  Status ready() override;

private:
  Session(std::shared_ptr<const Model> model, SessionOptions options)
      : BatchWork(std::move(model), std::move(options), "run the text to its end") {}
  Status make_object(const Progress& progress) override;
  Status fill(Slice& slice) override;
  Result<bool> end() override;
  void receive(const BatchToken& token) override;
  Status read_prompt(const Progress& progress);
  Status go_on();
  Status stop();
  Status stop_text();
  void note_reused(uint32_t reused);
  Conversation conversation() const { return {*tokens_, sampling_, embeddings_}; }
  Status restore(Conversation conversation);
  Result<std::vector<std::byte>> saved_bytes();
  Status make_scorer(size_t longest, uint32_t sequences);

  std::unique_ptr<ContinuationScorer> scorer_; // null until score()
  bool suspended_ = false;
  std::vector<std::byte> saved_; // while it is suspended
  // The conversation. The batch adds the tokens that it samples.
  std::shared_ptr<std::vector<uint32_t>> tokens_ = std::make_shared<std::vector<uint32_t>>();
  SamplingParams sampling_;
  SharedEmbeddings embeddings_; // the rows of its pictures
  TextForm form_;               // of the text
  AdapterChoice adapter_;
  size_t form_begin_ = 0; // tokens of the conversation before it
  size_t limit_ = 0;      // tokens of the conversation at which the text ends
  bool active_ = false;
  std::optional<uint32_t> sequence_; // in the batch, that the conversation is
  std::optional<uint32_t> reused_;
};

} // namespace pumice

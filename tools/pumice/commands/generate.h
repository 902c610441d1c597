#pragma once

#include <algorithm>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "chat/session_file.h"
#include "input/kept_text.h"
#include "input/waiting_lines.h"
#include "kernel/sampling/sampling.h"
#include "loading/open_device.h"
#include "options/adapter_options.h"
#include "options/beam_options.h"
#include "options/form_options.h"
#include "options/options.h"
#include "output/json_output.h"
#include "step/encoder.h"
#include "step/prompt_embeddings.h"
#include "text/chat/chat.h"
#include "text/tokenizer.h"

// The parts of `pumice generate` that decoders and encoder-decoders share.
namespace pumice::command {

// --count -1: until the text ends or the context is full.
inline constexpr uint32_t no_token_limit = UINT32_MAX;

struct GenerateOptions {
  std::string model;
  std::vector<std::string> ids; // only one of ids, texts, prompts, files, requests and inputs is given
  std::vector<std::string> texts, prompts;
  std::vector<std::string> files;
  std::string requests;
  bool skip_bad = false; // requests
  std::string variables; // of the template for requests with messages, as JSON
  std::string resume;
  std::string inputs;
  std::string mmproj;
  std::string outputs;
  uint32_t count = 12;
  CLI::Option* count_option = nullptr;
  uint32_t samples = 1;
  uint32_t sequences = 16;
  uint32_t batch_tokens = 0;
  std::vector<uint32_t> stop_ids;
  std::vector<std::string> stops;
  bool ignore_end = false;
  bool json = false;
  bool json_lines = false;
  uint32_t log_probabilities = 0; // 0: none
  SessionFile session;
  DeviceOptions device;
  SizeOptions size;
  SamplingOptions sampling;
  FormSource form;
  BeamOptions beams;
  std::vector<std::string> adapters; // as --lora names them
};

using MaybeTokenizer = Result<std::shared_ptr<const Tokenizer>>;

// What a model with an encoder wrote.
struct Answer {
  std::vector<uint32_t> ids;
  std::string text;
  std::optional<uint32_t> end; // the token that ended it, not in `ids`
  float score = 0;
};

// A prompt and its continuation.
struct Text {
  std::string source; // for messages
  std::vector<uint32_t> prompt;
  EncoderInput input;               // of models with an encoder: a row of --inputs, in place of a prompt
  SharedEmbeddings embeddings = {}; // rows of pictures in the prompt
  Json id;                          // of the request
  uint64_t line = 0;                // of the request
  size_t index = 0;                 // of the prompt
  uint32_t sample = 0;              // among the texts of the prompt
  uint32_t samples = 1;             // number of those
  uint32_t count = 0;               // most new tokens
  std::vector<std::string> stops;
  SamplingParams sampling = {};
  FormSource form = {};
  std::shared_ptr<Form> made_form = {};                  // of `form`
  std::optional<std::vector<std::string>> adapters = {}; // of the request; none: those of the options
  AdapterChoice adapter = {};                            // the same
  std::optional<uint64_t> seed = {};                     // of its first sample, if the request has one
  std::optional<KeptText> kept = {};                     // of an earlier run, until it is begun
  uint64_t made_with = 0;                                // see KeptText; once it is begun

  std::vector<uint32_t> ids = {};
  std::string text = {}; // of `ids`, up to a stop string; only with a tokenizer
  std::vector<TokenLogProbabilities> log_probabilities = {}; // one for each of `ids`, if --logprobs is given
  std::vector<Answer> hypotheses = {};                       // of beam search: all texts, best first
  std::optional<uint32_t> end = {};                          // the token that ended it, not in `ids`
  const char* finish_reason = nullptr;                       // null: it has not ended

  std::vector<Line> bad_before = {}; // requests that cannot be used, behind the text before it
  size_t missing_before = 0;         // all such requests there, with those of which was told already
};

// The texts that the options ask for, each prompt as many times as it has samples. Requests are read as they
// arrive, all other prompts at once.
class TextSource {
public:
  using Check = std::function<Status(const Text&)>;
  // `count`: most new tokens where a request does not say. `check`: whether the model can use a text.
  // `adapters`: null where there can be none.
  TextSource(const GenerateOptions& options, const MaybeTokenizer& tokenizer, uint32_t count, Check check,
             NamedAdapters* adapters = nullptr);

  // Reads the prompts of --ids, --prompt, --file, and the tensor prompt_ids of --inputs.
  Status open();
  // Adds a prompt that comes from elsewhere. Only its source, prompt and input count.
  Status add(Text prompt);
  bool has_texts() const { return requests_ || !given_.empty(); }
  size_t given() const { return given_.size(); } // texts that were there at once
  // The texts that have arrived, some thousands at most. With `wait`, at least one unless ended() or there is
  // a request that cannot be used.
  Result<std::vector<Text>> next(bool wait);
  size_t enough() const; // texts that wait at a time
  // Whether next() has returned all texts.
  bool ended() const { return given_.empty() && (!requests_ || requests_->ended()); }
  // Tells of requests that cannot be used (WaitingLines::reject): of these, or of those behind the last text.
  Status reject(const std::vector<Line>& bad) const;
  Status reject_last();
  // Requests behind the last text that could not be used.
  size_t missing() const { return missing_ + bad_.size(); }

private:
  Text make_text(std::string source) const;
  Status add_samples(Text prompt, std::vector<Text>& texts, const std::optional<RequestPlace>& place = {});
  Status add_request(const Line& line, std::vector<Text>& texts);
  Result<bool> place_request(Line& line);
  Status complete(SamplingParams& sampling);
  Status read_chat(const nlohmann::ordered_json& chat, Text& text);
  Status read_prompts();
  Status read_tensors();

  const GenerateOptions& options_;
  const MaybeTokenizer& tokenizer_;
  uint32_t count_;
  Check check_;
  NamedAdapters* adapters_;
  uint64_t seed_; // of each prompt's first text
  std::optional<std::vector<uint32_t>> dry_breakers_;
  std::optional<Chat> chat_; // of requests with messages, once there is one
  nlohmann::ordered_json variables_ = nlohmann::ordered_json::object(); // where such a request has none
  std::vector<Text> given_;
  std::optional<WaitingLines> requests_;
  std::optional<FormMaker> forms_; // made with the first form
  std::vector<Line> bad_;          // requests behind the last text that cannot be used
  size_t missing_ = 0;             // those there of which was told
  size_t index_ = 0;               // of the next prompt
  // Texts of each prompt so far, however it was given. The k-th one gets the k-th seed after the first. The
  // key is a hash: there may be many long prompts.
  std::map<size_t, uint64_t> texts_of_prompt_;
};

// Prints texts in their order.
class TextPrinter {
public:
  // `several`: inputs, so that lines of --n-best begin with the number of theirs.
  TextPrinter(const GenerateOptions& options, const OpenedDevice& device, const MaybeTokenizer& tokenizer,
              bool several = false)
      : options_(options), device_(device), tokenizer_(tokenizer), several_(several) {}

  // Whether each text is printed by itself, rather than all in one JSON object at the end.
  bool as_they_come() const { return as_lines() || !options_.json; }
  void print(const Text& text) const;
  // Prints what comes at the end. `complete`: not ended by Ctrl-C.
  void finish(const std::deque<Text>& texts, bool complete) const;

private:
  bool as_lines() const { return options_.json_lines || !options_.requests.empty(); }
  void print_text(const Text& text) const;
  Json json_of(const Text& text) const;
  Json json_of(const Answer& each) const;
  std::string line_of(const std::vector<uint32_t>& ids, const std::string& text) const;

  const GenerateOptions& options_;
  const OpenedDevice& device_;
  const MaybeTokenizer& tokenizer_;
  bool several_;
};

// Texts on their way from the source to the printer. Texts that are neither needed for a file nor for one
// JSON object are forgotten when they are printed.
class TextQueue {
public:
  TextQueue(const GenerateOptions& options, TextSource& source, TextPrinter& printer)
      : source_(source), printer_(printer), resume_(options.resume),
        keeps_all_(!printer.as_they_come() || !options.outputs.empty() || options.session.given()) {}

  // Takes the texts that have arrived. With `wait`, at least one unless there are no more. An error of the
  // source is returned when `wait` is set: what came before it is to be completed first.
  Status take(bool wait);
  // The next texts that were not begun, in order. They stay where they are until they are printed.
  size_t waiting() const { return texts_.size() - begun_; }
  Text& waiting(size_t i) { return texts_[begun_ + i]; }
  void begin(size_t count) { begun_ += count; }
  bool all_arrived() const { return source_.ended() && !failed_; }
  Text& add(Text text) { return texts_.emplace_back(std::move(text)); }

  // With --resume, the texts of a request are printed together: a line is answered as a whole.
  bool can_print() const;
  // Prints the texts that have ended and all before them.
  void print();
  // Whether there is something of a text.
  bool has_results() const {
    return std::ranges::any_of(texts_,
                               [](const Text& text) { return text.finish_reason || !text.ids.empty(); });
  }
  // The end of the work; after Ctrl-C or an error, texts that have begun are printed as far as they came,
  // unless they are kept for a later run.
  void finish(bool complete);
  // Keeps what the texts have come to that were not printed, if there is --resume: now, or if it is time for
  // that again.
  Status keep();
  Status keep_in_time();
  const std::deque<Text>& texts() const { return texts_; } // all of them if they are needed
  // Requests behind the last text that could not be used.
  size_t missing() const { return source_.missing(); }

private:
  Status reject_last();

  TextSource& source_;
  TextPrinter& printer_;
  std::string resume_; // the file; empty: none
  bool keeps_all_;
  std::deque<Text> texts_;
  size_t begun_ = 0, printed_ = 0; // of texts_
  Stopwatch since_kept_;
  double keeping_seconds_ = 0; // how long it took
  std::optional<Error> failed_;
};

// Writes `generated_ids` [texts, tokens], including the token that ended each text, and padded with the
// model's padding token, if --outputs is given. A request that cannot be used has padding alone. `complete`:
// all texts have ended; else those that have are written to a file beside it, and a note says so.
Status write_generated(const GenerateOptions& options, const TextQueue& queue, const ModelFile& model,
                       bool complete);

// `pumice generate` for models without an encoder, and for those with one.
Status generate_in_batches(const GenerateOptions& options, OpenedModel opened,
                           const MaybeTokenizer& tokenizer);
Status generate_from_inputs(const GenerateOptions& options, OpenedModel opened,
                            const MaybeTokenizer& tokenizer);

} // namespace pumice::command

#include <algorithm>
#include <bit>
#include <iterator>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "commands/generate.h"
#include "io/checksum.h"
#include "loading/draft_model.h"
#include "loading/picture_tower.h"
#include "model/vocabulary.h"
#include "options/prompt.h"
#include "step/batch_groups.h"
#include "step/prompt_embeddings.h"
#include "task/evaluation/model_inputs.h"
#include "task/evaluation/picture_prompts.h"
#include "task/generated_text.h"
#include "task/model_kind.h"
#include "terminal/terminal.h"
#include "terminal/version.h"

// `pumice generate` for models without an encoder.
namespace pumice::command {

namespace {

// A text that is being written, as the batch gives its tokens.
struct Writing {
  Text* text = nullptr;
  GeneratedText arriving;

  void add(const BatchToken& token, bool log_probabilities) {
    if (token.finish_reason == FinishReason::stop) {
      text->end = token.token;
    } else {
      text->ids.push_back(token.token);
      if (log_probabilities) text->log_probabilities.push_back(token.log_probabilities);
      text->text += arriving.push(token.token);
    }
    if (arriving.stopped()) {
      text->finish_reason = "stop string";
    } else if (token.finish_reason != FinishReason::none) {
      text->finish_reason = token.finish_reason == FinishReason::stop     ? "stop token"
                            : token.finish_reason == FinishReason::length ? "count"
                                                                          : "context";
    }
  }
  void add(const KeptText& kept) {
    const bool log_probabilities = !kept.log_probabilities.empty();
    for (size_t i = 0; i < kept.ids.size(); ++i) {
      BatchToken token;
      token.token = kept.ids[i];
      if (log_probabilities) token.log_probabilities = kept.log_probabilities[i];
      add(token, log_probabilities);
    }
    text->end = kept.end;
    for (const char* reason : {"stop string", "stop token", "count", "context"}) {
      if (kept.finish_reason == reason) text->finish_reason = reason;
    }
  }
  // At the end of the text.
  void flush() { text->text += arriving.finish(); }
};

// Adds what the tokens of all texts of a command follow from, beside their own prompts and options.
void add_command(Checksum& sum, const GenerateOptions& options, const OpenedDevice& device,
                 const Model& model) {
  const SessionSize size = session_size(options.size, model.shape());
  sum.add(version_text());
  for (const OpenedDevice& each : device.before) sum.add(each.name() + each.driver());
  sum.add(device.name() + device.driver());
  sum.add(options.device.kernel_variant);
  sum.add(model.identity());
  for (const std::string& use : options.adapters) sum.add("--lora " + use);
  sum.add(uint64_t{size.context});
  sum.add(static_cast<uint64_t>(size.cache));
}

// Adds what the tokens of a text follow from. A seed that nobody gave is a new one in each run, and a text
// that goes on has that of the first.
void add_text(Checksum& sum, const Text& text, bool seed_given) {
  const auto add_ids = [&sum](const std::vector<uint32_t>& ids) {
    sum.add(uint64_t{ids.size()});
    sum.add(std::as_bytes(std::span(ids)));
  };
  add_ids(text.prompt);
  sum.add(uint64_t{text.count});
  sum.add(uint64_t{text.stops.size()});
  for (const std::string& stop : text.stops) {
    sum.add(uint64_t{stop.size()});
    sum.add(stop);
  }
  const SamplingParams& sampling = text.sampling;
#define OPTION(field, ...) sum.add(std::as_bytes(std::span(&sampling.field, 1)));
#include "kernel/sampling_options.def"
  sum.add(uint64_t{sampling.logit_biases.size()});
  for (const LogitBias& each : sampling.logit_biases)
    add_ids({each.token, std::bit_cast<uint32_t>(each.bias)});
  add_ids(sampling.stop_tokens);
  sum.add(uint64_t{sampling.log_probabilities});
  for (const std::string& choice : text.form.choices) sum.add("choice " + choice);
  for (const std::string* source : {&text.form.regex, &text.form.json_schema, &text.form.grammar}) {
    if (!source->empty()) sum.add(*source);
  }
  for (const std::string& use : text.adapters.value_or(std::vector<std::string>())) sum.add("lora " + use);
  sum.add(uint64_t{text.adapters.has_value()});
  sum.add(uint64_t{seed_given});
  if (seed_given) sum.add(sampling.seed);
}

// Continues texts in the steps of a batch, as they arrive.
class BatchGenerator {
public:
  BatchGenerator(const GenerateOptions& options, const OpenedDevice& device, const MaybeTokenizer& tokenizer,
                 TextQueue& queue, const NamedAdapters& adapters, std::shared_ptr<const Model> model,
                 std::shared_ptr<const Model> draft_model)
      : options_(options), tokenizer_(tokenizer), queue_(queue), adapters_(adapters),
        model_(std::move(model)), draft_model_(std::move(draft_model)),
        size_(session_size(options.size, model_->shape())), stop_ids_(options.stop_ids) {
    add_command(made_with_, options, device, *model_);
    const auto is_cpu = [](const OpenedDevice& each) { return each.capabilities().is_cpu(); };
    same_bits_ = is_cpu(device) && std::ranges::all_of(device.before, is_cpu);
    if (options.ignore_end) return;
    const auto ends = end_tokens(model_->file(), tokenizer.ok() ? tokenizer->get() : nullptr);
    stop_ids_.insert(stop_ids_.end(), ends.begin(), ends.end());
  }

  // Until all texts have ended.
  Status run() {
    PUMICE_CHECK(queue_.take(true));
    if (options_.session.given()) PUMICE_CHECK(open_session());
    for (;;) {
      PUMICE_CHECK(begin_texts());
      if (writings_.empty()) {
        bar_.erase();
        queue_.print();
        if (queue_.waiting()) continue;
        PUMICE_CHECK(queue_.take(true));
        if (queue_.waiting() == 0) return save();
      } else {
        PUMICE_CHECK(step());
        PUMICE_CHECK(queue_.take(false));
      }
    }
  }

  // After Ctrl-C, the texts that are being written end where they are.
  void stop() {
    bar_.erase();
    for (auto& [id, writing] : writings_) writing.flush();
  }

private:
  // With one more, so that a text ends by its count before the context is full.
  uint64_t positions_of(const Text& text) const {
    return std::min<uint64_t>(text.prompt.size() + uint64_t{text.count} + 1, size_.context);
  }

  // Each sequence has a cache of its own, so a batch of several gets no larger context than it can use. While
  // other texts may come, it gets some room for them.
  SessionSize batch_size() {
    SessionSize size = size_;
    const size_t texts = queue_.waiting();
    const bool all = queue_.all_arrived();
    if (all && texts < 2) return size;
    uint64_t longest = 0;
    for (size_t i = 0; i < texts; ++i) longest = std::max(longest, positions_of(queue_.waiting(i)));
    constexpr uint64_t least_room = 256;
    if (!all) longest = std::bit_ceil(std::max(longest, least_room));
    size.sequences =
        static_cast<uint32_t>(all ? std::min<size_t>(options_.sequences, texts) : options_.sequences);
    size.chunk = std::max(size.chunk, size.sequences);
    size.pages = cache_pages(options_.size);
    const uint64_t needed = std::max<uint64_t>(longest, size.sequences);
    if (!options_.size.context)
      size.context = static_cast<uint32_t>(std::min<uint64_t>(size.context, needed));
    return size;
  }

  Status make_batch() {
    SessionOptions options;
    options.size = batch_size();
    options.draft_model = draft_model_;
    options.max_stall_seconds = options_.size.max_stall_ms * 1e-3;
    options.adapters = adapters_.room(options.size.sequences);
    batch_.reset(); // its memory is free for the next one
    PUMICE_TRY(batch_, BatchGroups::create(model_, options));
    return {};
  }

  // Loads the session file into the only slot of the batch. Without a prompt, its tokens become the prompt.
  Status open_session() {
    PUMICE_CHECK(make_batch());
    if (!options_.session.exists()) return {};
    PUMICE_TRY(const pumice::Conversation conversation,
               batch_->first().load(path_of(options_.session.path), 0));
    if (queue_.waiting()) return {};
    Text text;
    text.source = options_.session.path;
    text.prompt = conversation.tokens;
    text.count = options_.count;
    text.stops = options_.stops;
    text.sampling = options_.sampling.resolved();
    queue_.add(std::move(text));
    return {};
  }

  Status save() {
    if (!options_.session.given() || queue_.texts().empty()) return {};
    const Text& text = queue_.texts().front();
    pumice::Conversation conversation{text.prompt, text.sampling};
    conversation.tokens.insert(conversation.tokens.end(), text.ids.begin(), text.ids.end());
    return batch_->first().save(path_of(options_.session.path), 0, conversation);
  }

  // Adds the waiting texts to the batch. One that needs a longer context than it has waits until it is empty.
  Status begin_texts() {
    for (; queue_.waiting(); queue_.begin(1)) {
      Text& text = queue_.waiting(0);
      text.sampling.log_probabilities = options_.log_probabilities;
      std::vector<uint32_t>& stops = text.sampling.stop_tokens; // a chat's own, and those of all texts
      std::ranges::copy_if(stop_ids_, std::back_inserter(stops),
                           [&](uint32_t id) { return std::ranges::count(stops, id) == 0; });
      if (text.count == 0) {
        text.finish_reason = "count";
        continue;
      }
      if (!batch_ || positions_of(text) > batch_->context()) {
        if (!writings_.empty()) return {};
        PUMICE_CHECK(make_batch());
      }
      Writing writing{&text, {tokenizer_.ok() ? *tokenizer_ : nullptr, text.prompt, text.stops}};
      go_on(writing);
      if (text.finish_reason) { // in an earlier run
        writing.flush();
        continue;
      }
      const auto written = static_cast<uint32_t>(text.ids.size());
      std::vector<uint32_t> tokens = text.prompt;
      tokens.insert(tokens.end(), text.ids.begin(), text.ids.end());
      PUMICE_TRY(const uint32_t id, batch_->add({std::move(tokens),
                                                 text.sampling,
                                                 text.count - written,
                                                 {},
                                                 text.embeddings,
                                                 {},
                                                 {text.made_form},
                                                 text.prompt.size(),
                                                 text.adapter}));
      writings_.emplace(id, std::move(writing));
      total_ += positions_of(text);
    }
    return {};
  }

  // Gives a text what it came to in an earlier run, if this one would have come to the same.
  void go_on(Writing& writing) {
    Text& text = *writing.text;
    const std::optional<KeptText> kept = std::exchange(text.kept, {});
    if (options_.resume.empty()) return;
    Checksum sum = made_with_;
    add_text(sum, text, seed_given(text));
    text.made_with = sum.value();
    if (!kept) return;
    if (kept->made_with != text.made_with || !can_go_on(*kept, text)) {
      tell_restart("it has texts that were begun with another model, device, version or other options");
    } else if (kept->finish_reason.empty() && !same_bits_ && is_determined(text)) {
      tell_restart("it has texts whose rest would not have the same bits on this device");
    } else {
      text.sampling.seed = kept->seed;
      writing.add(*kept);
    }
  }

  // Whether the request says which text it gets, rather than leaving it to chance.
  bool is_determined(const Text& text) const { return text.sampling.temperature <= 0 || seed_given(text); }
  bool seed_given(const Text& text) const { return text.seed || options_.sampling.seed; }

  void tell_restart(const char* why) {
    if (std::exchange(told_, true)) return;
    bar_.erase();
    print_note(fmt::format("{}: {}: they begin again", options_.resume, why));
  }

  // What the program itself has kept always can.
  bool can_go_on(const KeptText& kept, const Text& text) const {
    const uint64_t room = positions_of(text) - text.prompt.size();
    const size_t log_probabilities = text.sampling.log_probabilities ? kept.ids.size() : 0;
    return kept.ids.size() + (kept.finish_reason.empty() ? 1 : 0) <= std::min<uint64_t>(text.count, room) &&
           kept.log_probabilities.size() == log_probabilities &&
           std::ranges::all_of(kept.ids, [&](uint32_t id) { return id < model_->shape().vocabulary; });
  }

  Status step() {
    uint64_t done = done_;
    for (const auto& [id, writing] : writings_)
      done += writing.text->prompt.size() - batch_->unread(id) + writing.text->ids.size();
    if (!bar_.update(std::min(done, total_), total_)) return interruption();
    PUMICE_TRY(const std::span<const BatchToken> tokens, batch_->step());
    if (!saved_ && !tokens.empty()) saved_.emplace();
    std::vector<uint32_t> stopped;
    for (const BatchToken& each : tokens) {
      const auto found = writings_.find(each.sequence);
      if (found == writings_.end()) continue;
      Writing& writing = found->second;
      writing.add(each, options_.log_probabilities > 0);
      if (!writing.text->finish_reason) continue;
      writing.flush();
      done_ += positions_of(*writing.text);
      if (each.finish_reason == FinishReason::none) stopped.push_back(each.sequence);
      writings_.erase(found);
    }
    for (uint32_t id : stopped) PUMICE_CHECK(batch_->stop(id));
    if (queue_.can_print()) {
      bar_.erase();
      queue_.print();
    }
    return queue_.keep_in_time();
  }

  const GenerateOptions& options_;
  const MaybeTokenizer& tokenizer_;
  TextQueue& queue_;
  const NamedAdapters& adapters_;
  std::shared_ptr<const Model> model_, draft_model_;
  SessionSize size_; // at most
  std::vector<uint32_t> stop_ids_;
  Checksum made_with_; // of what is the same for all texts
  bool told_ = false;  // that texts begin again
  // Whether tokens that were sampled one after the other give the same logits when they are read together.
  bool same_bits_ = false;
  std::unique_ptr<BatchGroups> batch_;
  std::map<uint32_t, Writing> writings_; // by the id of the sequence
  std::optional<SavedWork> saved_;       // what the texts have come to until Ctrl-C
  ProgressBar bar_{"generating"};
  uint64_t total_ = 0, done_ = 0; // positions; done_ is of the texts that have ended
};

Status add_to(TextSource& source, const PicturePrompts& prompts, PictureRows& encoder) {
  PUMICE_TRY(std::vector<PicturePrompt> all, prompts.encode(encoder));
  for (PicturePrompt& prompt : all) {
    Text text;
    text.source = prompts.prompts().source;
    text.prompt = std::move(prompt.tokens);
    text.embeddings = std::move(prompt.embeddings);
    PUMICE_CHECK(source.add(std::move(text)));
  }
  return {};
}

// Whether --inputs has prompts for a model that reads pictures.
Result<bool> has_picture_prompts(const GenerateOptions& options, const ModelShape& shape) {
  if (!shape.pictures || options.inputs.empty()) return false;
  PUMICE_TRY(const SafetensorsFile tensors, SafetensorsFile::open(path_of(options.inputs)));
  return tensors.find("input_ids") != nullptr;
}

Status check_prompts(const GenerateOptions& options, const TextSource& source) {
  if (!source.has_texts() && !options.session.exists()) {
    return Error{Code::invalid_argument,
                 "there is no prompt: give one as an argument, or with --prompt, --file, --ids, --inputs or "
                 "--requests"};
  }
  if (!options.session.given()) return {};
  if (!options.requests.empty()) {
    return Error{Code::invalid_argument,
                 "--session keeps one conversation: it cannot be used with --requests"};
  }
  if (source.given() > 1) {
    return Error{
        Code::invalid_argument,
        fmt::format("--session keeps one conversation, but {} texts were asked for", source.given())};
  }
  return {};
}

} // namespace

Status generate_in_batches(const GenerateOptions& options, OpenedModel opened,
                           const MaybeTokenizer& tokenizer) {
  const ModelShape shape = opened.definition->shape();
  if (options.beams.given()) {
    return wrong_kind(options.model, shape, "--beams is only for models with an encoder and a decoder");
  }
  const uint32_t context = session_size(options.size, shape).context;
  PUMICE_TRY(NamedAdapters adapters, NamedAdapters::load(options.adapters, opened));
  TextSource source(
      options, tokenizer, options.count,
      [&](const Text& text) -> Status {
        std::vector<uint32_t> tokens = text.prompt;
        if (text.embeddings) std::erase_if(tokens, is_prompt_row);
        PUMICE_CHECK(check_ids(tokens, shape.vocabulary, text.source));
        return check_fits(text.prompt.size(), context, text.source);
      },
      &adapters);
  PUMICE_TRY(const bool with_pictures, has_picture_prompts(options, shape));
  std::optional<PicturePrompts> pictures;
  if (with_pictures) {
    PUMICE_TRY(const SafetensorsFile tensors, SafetensorsFile::open(path_of(options.inputs)));
    PUMICE_TRY(pictures, PicturePrompts::read(tensors, options.inputs, opened.file, shape));
  } else {
    PUMICE_CHECK(source.open());
    PUMICE_CHECK(check_prompts(options, source));
  }
  PUMICE_TRY(OpenedDevice device, open_device(options.device));
  if (pictures) {
    PUMICE_TRY(PictureRows encoder,
               load_picture_tower(tower_path(opened.file), *shape.pictures, device, options.size.load));
    PUMICE_CHECK(add_to(source, *pictures, encoder));
    PUMICE_CHECK(check_prompts(options, source));
  }
  PUMICE_TRY(std::shared_ptr<const Model> model,
             load_model(std::move(opened), device, options.size.load, &options.size));
  PUMICE_TRY(std::shared_ptr<const Model> draft_model, load_draft_model(options.size, device, *model));
  TextPrinter printer(options, device, tokenizer);
  TextQueue queue(options, source, printer);
  BatchGenerator generator(options, device, tokenizer, queue, adapters, model, std::move(draft_model));
  const Status status = generator.run();
  if (!status.ok()) generator.stop();
  if (status.ok() || queue.has_results()) queue.finish(status.ok());
  if (!status.ok()) {
    if (const Status written = write_generated(options, queue, model->file(), false); !written.ok())
      print_error(written.error().text());
  }
  const Status kept = queue.keep();
  if (!status.ok() && !kept.ok()) print_error(kept.error().text());
  PUMICE_CHECK(status);
  PUMICE_CHECK(kept);
  PUMICE_CHECK(write_generated(options, queue, model->file(), true));
  return device.save_pipelines();
}

} // namespace pumice::command

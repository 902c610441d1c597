#include "commands/generate.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>

#include "chat/chosen_template.h"
#include "commands/requests.h"
#include "input/input_stream.h"
#include "io/json_text.h"
#include "options/prompt.h"
#include "process/replicas.h"
#include "task/evaluation/model_inputs.h"

// The prompts of `pumice generate`.
namespace pumice::command {

namespace {

// "--ids", or "--ids 2" if there are several prompts.
std::string numbered(const char* option, size_t index, size_t count) {
  return count > 1 ? fmt::format("{} {}", option, index + 1) : option;
}

// At most so many lines are read ahead.
constexpr size_t most_requests = 1024;

// How often unfinished texts are kept: so much is lost if the process is killed. Of the time, it may take a
// hundredth.
constexpr double keeping_period = 2;
constexpr double keeping_share = 0.01;

// What stands in the place of the answer to a request that cannot be used: with its id, if it has one.
std::string error_row(const Line& line, const Error& error) {
  Json row = Json::object();
  const Result<nlohmann::ordered_json> request = parse_ordered_json(line.text, "");
  if (request.ok() && request->is_object() && request->contains("id")) row["id"] = (*request)["id"];
  row["line"] = line.number;
  row["error"] = error.text();
  return json_text(row);
}

// Whether a last message is what an answer begins with.
bool begins_answer(const nlohmann::ordered_json& message) {
  return message.value("role", "") == "assistant" && !message.contains("tool_calls") &&
         message.contains("content") && message["content"].is_string();
}

std::optional<KeptText> kept_text_of(const Text& text) {
  if (text.ids.empty() && !text.finish_reason) return text.kept;
  return KeptText{text.sample,
                  text.made_with,
                  text.sampling.seed,
                  text.ids,
                  text.log_probabilities,
                  text.end,
                  text.finish_reason ? text.finish_reason : ""};
}

} // namespace

TextSource::TextSource(const GenerateOptions& options, const MaybeTokenizer& tokenizer, uint32_t count,
                       Check check, NamedAdapters* adapters)
    : options_(options), tokenizer_(tokenizer), count_(count), check_(std::move(check)), adapters_(adapters),
      seed_(options.sampling.resolved().seed) {}

Status TextSource::open() {
  if (!options_.requests.empty()) {
    TextOptions lines;
    lines.file = options_.requests;
    lines.skip_bad = options_.skip_bad;
    lines.resume = options_.resume;
    if (!options_.variables.empty()) {
      PUMICE_TRY(variables_, parse_variables(options_.variables));
    }
    requests_.emplace(lines);
    requests_->prepare_with([this](Line& line) { return place_request(line); });
    requests_->answer_bad_with(error_row);
    return {};
  }
  return options_.inputs.empty() ? read_prompts() : read_tensors();
}

// A prompt that is continued as the options say.
Text TextSource::make_text(std::string source) const {
  Text text;
  text.source = std::move(source);
  text.samples = options_.samples;
  text.count = count_;
  text.stops = options_.stops;
  text.sampling = options_.sampling.params;
  text.form = options_.form;
  return text;
}

Status TextSource::add(Text prompt) {
  Text text = make_text(std::move(prompt.source));
  text.prompt = std::move(prompt.prompt);
  text.input = std::move(prompt.input);
  text.embeddings = std::move(prompt.embeddings);
  return add_samples(std::move(text), given_);
}

// Looks for the tokens that end repetitions once.
Status TextSource::complete(SamplingParams& sampling) {
  if (sampling.dry_multiplier <= 0 || !tokenizer_.ok()) return {};
  if (!dry_breakers_) {
    SamplingOptions options = options_.sampling;
    options.params.dry_multiplier = sampling.dry_multiplier;
    PUMICE_TRY(const SamplingParams found, options.resolved(**tokenizer_));
    dry_breakers_ = found.dry_breakers;
  }
  sampling.dry_breakers = *dry_breakers_;
  return {};
}

Status TextSource::add_samples(Text prompt, std::vector<Text>& texts,
                               const std::optional<RequestPlace>& place) {
  if (!prompt.stops.empty() && !tokenizer_.ok()) return tokenizer_.error();
  PUMICE_CHECK(check_(prompt));
  PUMICE_CHECK(complete(prompt.sampling));
  if (has_form(prompt.form)) {
    PUMICE_CHECK(check_form(prompt.form, options_.ignore_end));
    if (!tokenizer_.ok()) return tokenizer_.error();
    if (!forms_) forms_.emplace(*tokenizer_);
    Result<std::shared_ptr<Form>> form = forms_->make(prompt.form);
    if (!form.ok()) return Error{form.error().code, prompt.source + ": " + form.error().message};
    prompt.made_form = *std::move(form);
  }
  if (adapters_) {
    prompt.adapter = adapters_->usual();
    if (prompt.adapters) {
      Result<AdapterChoice> chosen = adapters_->choose(*prompt.adapters);
      if (!chosen.ok()) return Error{chosen.error().code, prompt.source + ": " + chosen.error().message};
      prompt.adapter = *std::move(chosen);
    }
  } else if (prompt.adapters) {
    return Error{Code::unsupported, prompt.source + ": field 'lora' is only for models without an encoder"};
  }
  const auto bytes = std::as_bytes(std::span(prompt.prompt));
  const size_t hash =
      std::hash<std::string_view>()({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
  uint64_t next = 0;
  if (place) {
    next = place->seed;
  } else if (prompt.seed) {
    next = *prompt.seed;
  } else {
    next = seed_ + texts_of_prompt_[hash];
    texts_of_prompt_[hash] += prompt.samples;
  }
  prompt.index = place ? place->index : index_++;
  for (uint32_t sample = 0; sample < prompt.samples; ++sample) {
    Text& text = texts.emplace_back(sample + 1 < prompt.samples ? prompt : std::move(prompt));
    text.sample = sample;
    text.sampling.seed = next++;
  }
  return {};
}

// The prompt that the model's chat template makes of messages, and what ends its answer.
Status TextSource::read_chat(const nlohmann::ordered_json& chat, Text& text) {
  if (!tokenizer_.ok()) return tokenizer_.error();
  if (!chat_) {
    PUMICE_TRY(ChatTemplate chosen, choose_template(options_.model, "", false));
    chat_.emplace(std::move(chosen), *tokenizer_, std::vector<uint32_t>(), local_time());
  }
  const auto variables = chat.find("chat_template_kwargs");
  chat_->set_variables(variables == chat.end() ? variables_ : *variables);
  PUMICE_CHECK(chat_->set_messages(chat["messages"]));
  std::string begun;
  if (const nlohmann::ordered_json& last = chat_->messages().back(); begins_answer(last)) {
    begun = last["content"];
    chat_->remove(chat_->messages().size() - 1, 1);
  }
  PUMICE_TRY(ChatPrompt prompt, chat_->prompt({}, std::move(begun)));
  text.prompt = std::move(prompt.ids);
  if (!options_.ignore_end) text.sampling.stop_tokens.assign(chat_->ends().begin(), chat_->ends().end());
  return {};
}

Status TextSource::add_request(const Line& line, std::vector<Text>& texts) {
  if (line.text.find_first_not_of(" \t") == std::string::npos) return {};
  PUMICE_TRY(Request request, read_request(line.text, requests_->name(line), options_.sampling.params));
  Text text = make_text(request.source);
  text.line = line.number;
  text.sampling = std::move(request.sampling);
  if (!request.chat.is_null()) {
    if (const Status status = read_chat(request.chat, text); !status.ok())
      return Error{status.error().code, fmt::format("{}: {}", request.source, status.error().message)};
  } else if (request.prompt) {
    if (!tokenizer_.ok()) return tokenizer_.error();
    PUMICE_TRY(text.prompt, encode_prompt(**tokenizer_, *request.prompt, request.source));
  } else {
    text.prompt = std::move(request.ids);
  }
  text.id = std::move(request.id);
  text.samples = request.samples.value_or(text.samples);
  text.count = request.count.value_or(text.count);
  text.stops = request.stops.value_or(text.stops);
  text.seed = request.seed;
  if (request.form) text.form = std::move(*request.form);
  text.adapters = std::move(request.adapters);
  const size_t first = texts.size();
  PUMICE_CHECK(add_samples(std::move(text), texts, line.place));
  for (KeptText& each : read_kept_line(line.kept)) {
    if (each.sample < texts.size() - first) texts[first + each.sample].kept = std::move(each);
  }
  return {};
}

// For the copy of the model that gets the request. Blank lines are none.
Result<bool> TextSource::place_request(Line& line) {
  std::vector<Text> texts;
  PUMICE_CHECK(add_request(line, texts));
  if (texts.empty()) return false;
  line.place = RequestPlace{texts.front().index, texts.front().sampling.seed};
  return true;
}

// Where there are several copies of the model, the others need some, too.
size_t TextSource::enough() const {
  return is_replica() ? options_.sequences : most_requests;
}

Result<std::vector<Text>> TextSource::next(bool wait) {
  std::vector<Text> texts = std::exchange(given_, {});
  const size_t told_later = bad_.size();
  while (requests_ && texts.empty() && bad_.size() == told_later && !requests_->ended()) {
    PUMICE_TRY(std::vector<Line> lines, requests_->next(enough(), wait));
    if (lines.empty()) break; // the end, or nothing yet
    for (Line& line : lines) {
      const size_t first = texts.size();
      const Status status = line.error ? Status(*line.error) : add_request(line, texts);
      if (!status.ok()) {
        texts.erase(texts.begin() + static_cast<ptrdiff_t>(first), texts.end());
        line.error = status.error();
        bad_.push_back(std::move(line));
      } else if (texts.size() > first) {
        texts[first].missing_before = std::exchange(missing_, 0) + bad_.size();
        texts[first].bad_before = std::exchange(bad_, {});
      }
    }
  }
  return texts;
}

Status TextSource::reject(const std::vector<Line>& bad) const {
  for (const Line& line : bad) PUMICE_CHECK(requests_->reject(line, *line.error));
  return {};
}

Status TextSource::reject_last() {
  const std::vector<Line> bad = std::exchange(bad_, {});
  missing_ += bad.size();
  return reject(bad);
}

Status TextSource::read_tensors() {
  const std::string& path = options_.inputs;
  PUMICE_TRY(SafetensorsFile file, SafetensorsFile::open(path_of(path)));
  // The attention_mask of a file with input_ids is for those.
  const bool others = !file.find("prompt_mask") && !file.find("input_ids");
  PUMICE_TRY(TokenBatch prompts,
             read_tokens(file, path, "prompt_ids", others ? "attention_mask" : "prompt_mask", UINT32_MAX));
  for (size_t row = 0; row < prompts.ids.size(); ++row) {
    Text text;
    text.source = prompts.ids.size() > 1 ? fmt::format("{}: row {}", prompts.source, row) : prompts.source;
    text.prompt = std::move(prompts.ids[row]);
    PUMICE_CHECK(add(std::move(text)));
  }
  return {};
}

Status TextSource::read_prompts() {
  Text text;
  for (const std::string& ids : options_.ids) {
    text.source = numbered("--ids", given_.size() / options_.samples, options_.ids.size());
    PUMICE_TRY(text.prompt, parse_ids(ids, text.source));
    PUMICE_CHECK(add(text));
  }
  const bool reads_text = !options_.texts.empty() || !options_.prompts.empty() || !options_.files.empty();
  if (reads_text && !tokenizer_.ok()) return tokenizer_.error();
  for (const auto& [name, prompts] :
       {std::pair("PROMPT", &options_.texts), std::pair("--prompt", &options_.prompts)}) {
    for (const std::string& prompt : *prompts) {
      text.source = numbered(name, given_.size() / options_.samples, prompts->size());
      PUMICE_TRY(text.prompt, encode_prompt(**tokenizer_, prompt, text.source));
      PUMICE_CHECK(add(text));
    }
  }
  for (const std::string& file : options_.files) {
    text.source = input_name(file);
    PUMICE_TRY(const std::string prompt, read_text(file));
    PUMICE_TRY(text.prompt, encode_prompt(**tokenizer_, prompt, text.source));
    PUMICE_CHECK(add(text));
  }
  return {};
}

Status TextQueue::take(bool wait) {
  const size_t enough = source_.enough(); // texts that wait
  if (failed_) return wait ? Status(*failed_) : Status();
  do {
    if (source_.ended() || waiting() >= enough) return {};
    Result<std::vector<Text>> more = source_.next(wait);
    if (!more.ok()) {
      if (wait) return std::move(more).error();
      failed_ = std::move(more).error();
      return {};
    }
    for (Text& text : *more) texts_.push_back(std::move(text));
    PUMICE_CHECK(reject_last());
  } while (wait && waiting() == 0);
  return {};
}

// Tells of requests that cannot be used where their turn has come.
Status TextQueue::reject_last() {
  return printed_ == texts_.size() ? source_.reject_last() : Status();
}

bool TextQueue::can_print() const {
  if (!printer_.as_they_come() || printed_ == texts_.size() || !texts_[printed_].finish_reason) return false;
  if (resume_.empty() || texts_[printed_].sample > 0) return true;
  const auto first = texts_.begin() + static_cast<std::ptrdiff_t>(printed_);
  return std::all_of(first, first + texts_[printed_].samples,
                     [](const Text& text) { return text.finish_reason != nullptr; });
}

void TextQueue::print() {
  while (can_print()) {
    (void)source_.reject(
        std::exchange(texts_[printed_].bad_before, {})); // an error comes with the next lines
    printer_.print(texts_[printed_]);
    if (keeps_all_) {
      ++printed_;
    } else {
      texts_.pop_front();
      --begun_;
    }
  }
  (void)reject_last();
}

void TextQueue::finish(bool complete) {
  print();
  for (size_t i = printed_; printer_.as_they_come() && resume_.empty() && i < begun_; ++i) {
    if (texts_[i].ids.empty()) continue;
    (void)source_.reject(std::exchange(texts_[i].bad_before, {}));
    printer_.print(texts_[i]);
  }
  printer_.finish(texts_, complete);
}

Status TextQueue::keep() {
  if (resume_.empty()) return {};
  const Stopwatch watch;
  UnfinishedLines lines;
  for (size_t i = printed_; i < begun_;) {
    const uint64_t line = texts_[i].line;
    std::vector<KeptText> texts;
    for (; i < texts_.size() && texts_[i].line == line; ++i) {
      if (std::optional<KeptText> kept = kept_text_of(texts_[i])) texts.push_back(std::move(*kept));
    }
    if (!texts.empty()) lines[line] = kept_line(texts);
  }
  PUMICE_CHECK(keep_unfinished(lines));
  keeping_seconds_ = watch.seconds();
  since_kept_ = {};
  return {};
}

Status TextQueue::keep_in_time() {
  if (since_kept_.seconds() < std::max(keeping_period, keeping_seconds_ / keeping_share)) return {};
  return keep();
}

} // namespace pumice::command

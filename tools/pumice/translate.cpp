#include <algorithm>
#include <charconv>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "attention_picture.h"
#include "model/vocabulary.h"
#include "model_kind.h"
#include "open_device.h"
#include "prompt.h"
#include "subcommand.h"
#include "terminal.h"
#include "waiting_lines.h"
#include "writing.h"

namespace pumice::command {

namespace {

struct TranslateOptions {
  std::string model;
  TextOptions texts;
  std::string task;
  std::optional<std::string> prefix;
  std::string target;
  AttentionOptions attention;
  WritingOptions writing;
};

// A text and its tokens for the encoder. A blank text has no tokens and is answered by an empty one.
struct Source {
  std::string text;
  EncoderInput input;
  bool cut = false;
  std::vector<Hypothesis> written = {}; // empty: not answered yet
  uint64_t number = 0;                  // of the line

  bool blank() const { return input.tokens.empty(); }
};

// The prefix of each text, which T5 models expect. Also applies the other settings of the task to `config`.
Result<std::string> read_prefix(const ModelFile& file, const TranslateOptions& options,
                                GenerationConfig& config) {
  const Fields fields = file.fields();
  PUMICE_TRY(const Fields tasks, fields.object_or_empty("task_specific_params"));
  if (options.task.empty()) {
    const nlohmann::json* own = fields.find("prefix");
    return options.prefix ? *options.prefix : own && own->is_string() ? own->get<std::string>() : "";
  }
  if (!tasks.has(options.task)) {
    std::vector<std::string> names;
    if (const nlohmann::json* all = fields.find("task_specific_params")) {
      for (const auto& [name, value] : all->items()) names.push_back(name);
    }
    return Error{Code::not_found,
                 names.empty()
                     ? fmt::format("--task {}: the settings of {} define no tasks: leave --task out",
                                   options.task, file.path())
                     : fmt::format("--task {}: {} has no such task; its tasks are {}", options.task,
                                   file.path(), fmt::join(names, ", "))};
  }
  PUMICE_TRY(const Fields task, tasks.object(options.task));
  PUMICE_TRY(config.beams, task.u32_or("num_beams", 1, 1024, config.beams));
  PUMICE_TRY(config.length_penalty, task.f32_or("length_penalty", config.length_penalty));
  PUMICE_TRY(config.no_repeat_ngram, task.u32_or("no_repeat_ngram_size", config.no_repeat_ngram));
  PUMICE_TRY(const bool early,
             task.boolean_or("early_stopping", config.early_stopping == EarlyStopping::yes));
  if (task.has("early_stopping")) config.early_stopping = early ? EarlyStopping::yes : EarlyStopping::no;
  // In the settings, lengths include the decoder's prompt.
  const auto begun = static_cast<uint32_t>(config.prompt.size());
  PUMICE_TRY(const uint32_t longest, task.u32_or("max_length", config.max_tokens + begun));
  PUMICE_TRY(const uint32_t shortest, task.u32_or("min_length", config.min_tokens + begun));
  config.max_tokens = longest - std::min(longest, begun);
  config.min_tokens = shortest - std::min(shortest, begun);
  PUMICE_TRY(const std::string prefix, task.string_or("prefix", ""));
  return options.prefix.value_or(prefix);
}

// The token that a translation into this language begins with. `name` is the token, the token without the
// underscores that M2M100 has around it, or an id.
Result<uint32_t> find_language(const Tokenizer& tokenizer, const std::string& name, uint32_t vocabulary) {
  for (const std::string& spelled : {name, "__" + name + "__"}) {
    if (const std::optional<uint32_t> id = tokenizer.find(spelled)) return *id;
  }
  uint32_t id = 0;
  const char* end = name.data() + name.size();
  const auto [rest, error] = std::from_chars(name.data(), end, id);
  if (error == std::errc() && rest == end && id < vocabulary) return id;
  return Error{
      Code::not_found,
      fmt::format("--target-language: the model has no token '{}' for a language. Names are, for example, "
                  "deu_Latn (NLLB), de_DE (mBART) or de (M2M100); an id from 0 to {} works too",
                  name, vocabulary - 1)};
}

Result<GenerationOptions> generation_options(const ModelFile& file, const TranslateOptions& options,
                                             const ModelShape& shape, const Tokenizer& tokenizer,
                                             std::string& prefix) {
  PUMICE_TRY(GenerationConfig config, read_generation_config(file, shape.vocabulary));
  PUMICE_TRY(prefix, read_prefix(file, options, config));
  if (!options.target.empty()) {
    PUMICE_TRY(config.forced_first, find_language(tokenizer, options.target, shape.vocabulary));
  }
  return writing_options(options.writing, std::move(config));
}

class Translator {
public:
  Translator(const TranslateOptions& options, std::shared_ptr<const Tokenizer> tokenizer)
      : options_(options), tokenizer_(std::move(tokenizer)) {}

  Status open(ModelFile file, const ModelShape& shape) {
    PUMICE_TRY(generation_, generation_options(file, options_, shape, *tokenizer_, prefix_));
    const EncoderShape& encoder = *shape.encoder;
    longest_ = encoder.context;
    if (encoder.any_length) longest_ = std::max(longest_, batch_tokens(options_.writing.batch_tokens));
    PUMICE_TRY(device_, open_device(options_.writing.device));
    PUMICE_TRY(model_, load_model(std::move(file), device_, options_.writing.load));
    PUMICE_TRY(writer_, create_writer(model_, options_.writing, generation_.config, longest_));
    return {};
  }

  size_t texts_at_a_time() const { return inputs_at_a_time(options_.writing, generation_.config); }

  // Prints the answer to each line when those to the lines before it are there.
  Status answer(const std::vector<Line>& lines, const WaitingLines& from) {
    std::vector<Source> sources;
    const Status status = read(lines, from, sources);
    std::vector<EncoderInput> inputs;
    std::vector<size_t> asked; // the source of each input
    for (size_t i = 0; i < sources.size(); ++i) {
      if (sources[i].blank()) continue;
      inputs.push_back(sources[i].input);
      asked.push_back(i);
    }
    GenerationOptions generation = generation_;
    std::optional<StreamDecoder> stream;
    if (streams(lines)) {
      stream.emplace(tokenizer_);
      generation.on_token = [&](size_t, uint32_t token) {
        if (!std::ranges::count(generation_.config.ends, token)) print_result(stream->push(token));
      };
    }
    size_t printed = 0;
    generation.on_texts = [&](size_t input, const std::vector<Hypothesis>& texts) {
      sources[asked[input]].written = texts;
      if (!stream) printed = print_ready(sources, printed);
    };
    const ComputeWatch stopwatch;
    PUMICE_TRY(const std::vector<std::vector<Hypothesis>> written, writer_->generate(inputs, generation));
    figures_.add(written, stopwatch.seconds());
    if (stream) {
      print_result(stream->flush() + "\n");
    } else {
      print_ready(sources, printed);
    }
    PUMICE_CHECK(status);
    return options_.attention.given() ? draw(sources.front()) : Status();
  }

  Status finish() const {
    figures_.print(device_);
    return device_.save_pipelines();
  }

private:
  bool streams(const std::vector<Line>& lines) const {
    return lines.size() == 1 && generation_.config.beams == 1 && !options_.writing.json &&
           stdout_is_terminal();
  }

  // Reads lines up to the first one that cannot be used, and returns its error.
  Status read(const std::vector<Line>& lines, const WaitingLines& from, std::vector<Source>& sources) const {
    for (const Line& line : lines) {
      Result<Source> source = read(line.text, from.name(line));
      if (source.ok()) {
        source->number = line.number;
        sources.push_back(*std::move(source));
      } else {
        PUMICE_CHECK(from.reject(std::move(source).error()));
      }
    }
    return {};
  }

  Result<Source> read(const std::string& text, const std::string& name) const {
    Source source{text, {}};
    if (text.find_first_not_of(" \t\r\n") == std::string::npos) return source;
    const std::string whole = prefix_ + text;
    std::vector<uint32_t>& tokens = source.input.tokens;
    tokens = tokenizer_->encode(whole, true);
    source.cut = tokens.size() > longest_;
    if (source.cut) {
      print_note(fmt::format("{}: the text has {} tokens, and {} can read {} at once: the end of the text is "
                             "left out",
                             name, tokens.size(), options_.model, longest_));
      tokens = tokenizer_->encode_limited(whole, longest_).ids;
    }
    if (!tokens.empty()) PUMICE_CHECK(check_ids(tokens, model_->shape().encoder->vocabulary, name));
    return source;
  }

  // Prints the answers from `next` on up to the first one that is not there. Returns its index.
  size_t print_ready(const std::vector<Source>& sources, size_t next) const {
    for (; next < sources.size() && (sources[next].blank() || !sources[next].written.empty()); ++next) {
      print(sources[next]);
    }
    return next;
  }

  // What lines of --n-best begin with: the number of the text, unless there is only one.
  std::string owner(const Source& source) const {
    return options_.texts.texts.size() == 1 ? "" : std::to_string(source.number);
  }

  void print(const Source& source) const {
    const std::vector<Hypothesis>& texts = source.blank() ? nothing_ : source.written;
    if (!options_.writing.json) {
      print_result(source.blank() ? "\n" : lines_of(texts, generation_, *tokenizer_, owner(source)));
      return;
    }
    Json json = {{"source", source.text}};
    if (source.cut) json["truncated"] = true;
    add_written(json, texts, generation_, *tokenizer_);
    print_json(json);
  }

  Status draw(const Source& source) const {
    if (source.blank()) {
      return Error{Code::invalid_argument, "--attention: the text is empty: there is nothing to show"};
    }
    AttendedText text{source.input, generation_.config.prompt, source.written.front().tokens, {}, {}};
    text.input_labels = token_labels(*tokenizer_, text.input.tokens);
    text.output_labels = token_labels(*tokenizer_, text.output);
    return write_attention(model_, options_.attention, text);
  }

  const TranslateOptions& options_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::string prefix_;
  GenerationOptions generation_;
  uint32_t longest_ = 0; // maximum number of tokens of a text
  OpenedDevice device_;
  std::shared_ptr<const Model> model_;
  std::unique_ptr<EncoderDecoder> writer_;
  WritingFigures figures_;
  const std::vector<Hypothesis> nothing_ = {{}};
};

// An attention map shows one text, so there must be exactly one.
Status check_single(WaitingLines& from, std::vector<Line>& lines) {
  for (;;) {
    PUMICE_TRY(const std::vector<Line> more, from.next(2));
    if (more.empty()) break;
    lines.insert(lines.end(), more.begin(), more.end());
    if (lines.size() > 1) break;
  }
  if (lines.size() == 1) return {};
  return Error{Code::invalid_argument, fmt::format("--attention shows one text, but {} given",
                                                   lines.empty() ? "none was" : "several were")};
}

Status translate(const TranslateOptions& options) {
  PUMICE_TRY(ModelFile file, ModelFile::open(path_of(options.model)));
  PUMICE_TRY(std::unique_ptr<ModelDefinition> definition, open_model_definition(file));
  const ModelShape shape = definition->shape();
  if (!shape.has_decoder() || !shape.encoder || shape.encoder->kind != InputKind::tokens) {
    return wrong_subcommand(options.model, shape);
  }
  PUMICE_CHECK(check_attention(options.attention, shape));
  PUMICE_CHECK(check_biases(options.writing.sampling, shape.vocabulary));
  PUMICE_TRY(std::shared_ptr<const Tokenizer> tokenizer, load_tokenizer(file));
  WaitingLines from(options.texts);
  std::vector<Line> lines;
  if (options.attention.given()) PUMICE_CHECK(check_single(from, lines));

  Translator translator(options, std::move(tokenizer));
  PUMICE_CHECK(translator.open(std::move(file), shape));
  while (!interrupted()) {
    if (!options.attention.given()) {
      PUMICE_TRY(lines, from.next(translator.texts_at_a_time()));
    }
    if (lines.empty()) break;
    PUMICE_CHECK(translator.answer(lines, from));
    lines.clear();
    if (options.attention.given()) break;
  }
  PUMICE_CHECK(translator.finish());
  if (interrupted()) return interruption();
  return {};
}

} // namespace

Subcommand add_translate(CLI::App& app) {
  CLI::App* sub = app.add_subcommand("translate", "Turn a text into another, such as its translation.");
  auto options = std::make_shared<TranslateOptions>();
  sub->add_option("MODEL", options->model,
                  "A Hugging Face folder or a GGUF file. The model has an encoder and a decoder, such as "
                  "Marian, BART or T5")
      ->required()
      ->type_name("");
  add_text_options(
      *sub, options->texts, "TEXT",
      "The texts; without TEXT, the lines of standard input. Each result is printed on a line of its own, as "
      "soon as it is ready. A text that is too long for the model is cut, with a note");
  sub->add_option(
         "--task", options->task,
         "A task of the model, such as translation_en_to_de. The model's settings define it, as T5's do")
      ->type_name("NAME")
      ->group("Text");
  sub->add_option("--prefix", options->prefix,
                  "Put this before each text (default: the task's). Without a task, it comes from the "
                  "model's settings")
      ->type_name("TEXT")
      ->group("Text");
  sub->add_option(
         "--target-language,--forced-first", options->target,
         "The language to translate into. It is for models of many languages, and is the first token of the "
         "translation, or that token's id, such as deu_Latn (NLLB), de_DE (mBART) or de (M2M100)")
      ->type_name("TOKEN")
      ->group("Text");
  sub->add_flag(
         "--json", options->writing.json,
         "Print one JSON object for each text. Its fields: source, text, tokens; truncated if the text "
         "was cut; score with beam search; hypotheses with --n-best")
      ->group("Text");
  add_attention_options(*sub, options->attention);
  add_writing_options(*sub, options->writing);
  sub->footer(example("pumice translate models/pretrained/dates \"le 3 mars 2021\" --attention dates.png"));
  return {sub, [options] { return translate(*options); }, {{"MODEL", "--file"}, {"--attention"}}};
}

} // namespace pumice::command

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "input/document.h"
#include "input/waiting_lines.h"
#include "loading/glossary.h"
#include "loading/open_device.h"
#include "loading/translation_languages.h"
#include "model/vocabulary.h"
#include "options/prompt.h"
#include "options/subcommand.h"
#include "output/attention_picture.h"
#include "process/processes.h"
#include "process/replicas.h"
#include "task/model_kind.h"
#include "terminal/terminal.h"
#include "terminal/writing.h"

namespace pumice::command {

namespace {

struct TranslateOptions {
  std::string model;
  TextOptions texts;
  std::string task;
  std::optional<std::string> prefix;
  bool sentences = false;
  std::string glossary; // a file; empty: none
  LanguageOptions languages;
  AttentionOptions attention;
  WritingOptions writing;
};

// Enough that texts with and without the terms grow side by side, if --beams does not say otherwise.
constexpr uint32_t beams_for_terms = 8;

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

Result<GenerationOptions> generation_options(const ModelFile& file, const TranslateOptions& options,
                                             const ModelShape& shape, const Tokenizer& tokenizer,
                                             std::string& prefix,
                                             std::optional<TranslationLanguages>& languages) {
  PUMICE_TRY(GenerationConfig config, read_generation_config(file, shape.vocabulary));
  PUMICE_TRY(prefix, read_prefix(file, options, config));
  PUMICE_TRY(languages, TranslationLanguages::choose(options.languages, tokenizer, shape.vocabulary, config));
  if (!options.glossary.empty()) config.beams = std::max(config.beams, beams_for_terms);
  PUMICE_TRY(GenerationOptions generation, writing_options(options.writing, std::move(config)));
  if (!options.glossary.empty() && generation.config.beams < 2) {
    return Error{Code::invalid_argument,
                 "--glossary finds a place for its terms with beams: leave --temp and --beams 1 out, or ask "
                 "for at least --beams 2"};
  }
  return generation;
}

class Translator {
public:
  Translator(const TranslateOptions& options, std::shared_ptr<const Tokenizer> tokenizer)
      : options_(options), tokenizer_(std::move(tokenizer)) {}

  Status open(ModelFile file, const ModelShape& shape) {
    PUMICE_TRY(generation_, generation_options(file, options_, shape, *tokenizer_, prefix_, languages_));
    if (!options_.glossary.empty()) {
      PUMICE_TRY(glossary_, Glossary::read(options_.glossary, *tokenizer_, shape.vocabulary));
    }
    const EncoderShape& encoder = *shape.encoder;
    longest_ = encoder.context;
    if (encoder.any_length) longest_ = std::max(longest_, batch_tokens(options_.writing.batch_tokens));
    PUMICE_TRY(device_, open_device(options_.writing.device));
    PUMICE_TRY(model_, load_model(std::move(file), device_, options_.writing.load));
    PUMICE_TRY(writer_, create_writer(model_, options_.writing, generation_.config, longest_));
    if (options_.attention.alignment) {
      aligner_.emplace(model_, tokenizer_, alignment_layer(options_.attention, model_->shape()),
                       options_.attention.head, generation_.config.prompt, count_words(prefix_));
    }
    return {};
  }

  // Lines that are read before they are answered, if they have arrived: enough that those of similar length
  // can run together.
  size_t lines_at_a_time() const {
    return options_.attention.given() ? 1 : 32 * inputs_at_a_time(options_.writing, generation_.config);
  }

  // Prints the answer to each line when those to the lines before it are there.
  Status answer(const std::vector<Line>& lines, const WaitingLines& from) {
    std::vector<Source> sources;
    const Status status = read(lines, from, sources);
    const std::vector<Asked> asked = by_length(sources);
    std::vector<EncoderInput> inputs;
    for (const Asked& each : asked) inputs.push_back(sources[each.source].sentences[each.sentence].input);
    GenerationOptions generation = generation_;
    for (const Asked& each : asked) {
      if (!glossary_) break;
      generation.terms.push_back(glossary_->terms_in(sources[each.source].sentences[each.sentence].text));
    }
    std::optional<StreamDecoder> stream;
    if (streams(lines) && inputs.size() == 1) {
      stream.emplace(tokenizer_);
      generation.on_token = [&](size_t, uint32_t token) {
        if (!std::ranges::count(generation_.config.ends, token)) print_result(stream->push(token));
      };
    }
    size_t printed = 0;
    generation.on_texts = [&](size_t input, const std::vector<Hypothesis>& texts) {
      Source& source = sources[asked[input].source];
      source.sentences[asked[input].sentence].written = texts;
      if (glossary_ && !term_state(generation.terms[input], texts.front().tokens).complete) {
        print_note(
            fmt::format("text {}: the translation lacks a term of the glossary, because it may have no "
                        "more than {} tokens: raise --count",
                        source.number, texts.front().tokens.size()));
      }
      if (stream) return;
      progress_.erase();
      printed = print_ready(sources, printed);
      if (lines.size() > 1) progress_.update(answered_ + printed, answered_ + sources.size());
    };
    const ComputeWatch stopwatch;
    PUMICE_TRY(const std::vector<std::vector<Hypothesis>> written, writer_->generate(inputs, generation));
    figures_.add(written, stopwatch.seconds());
    answered_ += sources.size();
    progress_.erase();
    if (stream) {
      print_result(stream->flush() + "\n");
    } else {
      print_ready(sources, printed);
    }
    PUMICE_CHECK(alignment_);
    PUMICE_CHECK(status);
    return options_.attention.given() ? draw(sources.front()) : Status();
  }

  Status finish() const {
    figures_.print(device_);
    return device_.save_pipelines();
  }

private:
  bool streams(const std::vector<Line>& lines) const {
    return lines.size() == 1 && generation_.config.beams == 1 && !options_.writing.json && !aligner_ &&
           stdout_is_terminal() && !is_replica();
  }

  // A sentence of the lines that are answered together.
  struct Asked {
    size_t source = 0, sentence = 0;
  };

  // All sentences, the shortest first, so that those that run together end together.
  static std::vector<Asked> by_length(const std::vector<Source>& sources) {
    std::vector<Asked> asked;
    for (size_t i = 0; i < sources.size(); ++i) {
      for (size_t j = 0; j < sources[i].sentences.size(); ++j) asked.push_back({i, j});
    }
    const auto length = [&](const Asked& each) {
      return sources[each.source].sentences[each.sentence].input.tokens.size();
    };
    std::ranges::stable_sort(asked, {}, length);
    return asked;
  }

  // Reads lines up to the first one that cannot be used, and returns its error.
  Status read(const std::vector<Line>& lines, const WaitingLines& from, std::vector<Source>& sources) const {
    for (const Line& line : lines) {
      Source source{line.text, line.number};
      const Status status = read(source, from.name(line));
      if (status.ok()) {
        sources.push_back(std::move(source));
      } else {
        PUMICE_CHECK(from.reject(line, status.error()));
      }
    }
    return {};
  }

  Status read(Source& source, const std::string& name) const {
    source.sentences = sentences_of(source.text, options_.sentences);
    for (Sentence& sentence : source.sentences) {
      const std::string whole = prefix_ + sentence.text;
      std::vector<uint32_t>& tokens = sentence.input.tokens;
      tokens = tokenizer_->encode(whole, true);
      if (tokens.size() > longest_) {
        source.cut = true;
        print_note(fmt::format("{}: the {} has {} tokens, and {} can read {} at once: its end is left out{}",
                               name, options_.sentences ? "sentence" : "text", tokens.size(), options_.model,
                               longest_,
                               options_.sentences ? "" : "; --sentences cuts texts into sentences"));
        tokens = tokenizer_->encode_limited(whole, longest_).ids;
      }
      languages_->mark(tokens, longest_);
      if (!tokens.empty()) PUMICE_CHECK(check_ids(tokens, model_->shape().encoder->vocabulary, name));
    }
    std::erase_if(source.sentences, [](const Sentence& each) { return each.input.tokens.empty(); });
    return {};
  }

  // Prints the answers from `next` on up to the first one that is not there. Returns its index.
  size_t print_ready(const std::vector<Source>& sources, size_t next) {
    for (; next < sources.size() && sources[next].answered(); ++next) {
      print(sources[next]);
      (void)end_line(sources[next].number); // an error comes with the next lines, too
    }
    return next;
  }

  // What lines of --n-best begin with: the number of the text, unless there is only one.
  std::string owner(const Source& source) const {
    return options_.texts.texts.size() == 1 ? "" : std::to_string(source.number);
  }

  void print(const Source& source) {
    std::vector<WrittenText> texts = joined(source, generation_.config, *tokenizer_);
    if (aligner_ && alignment_.ok()) alignment_ = align(source, texts);
    if (!options_.writing.json) {
      print_result(source.blank() ? "\n" : lines_of(texts, generation_, owner(source)));
      return;
    }
    Json json = {{"source", source.text}};
    if (source.cut) json["truncated"] = true;
    add_written(json, texts, generation_);
    if (options_.sentences) {
      json["sentences"] = Json::array();
      for (const Sentence& each : source.sentences) {
        Json own = {{"source", each.text}};
        add_written(own, written_texts(each.written, generation_.config, *tokenizer_), generation_);
        json["sentences"].push_back(std::move(own));
      }
    }
    print_json(json);
  }

  // Links the words of a text's translations to its own.
  Status align(const Source& source, std::vector<WrittenText>& texts) {
    for (size_t n = 0; n < texts.size(); ++n) {
      std::vector<WordLink>& links = texts[n].links.emplace();
      uint32_t source_words = 0, words = 0;
      for (const Sentence& sentence : source.sentences) {
        const Hypothesis& written = sentence.written[n];
        PUMICE_TRY(const std::vector<WordLink> own, aligner_->align(sentence.input, written.tokens));
        for (const auto& [from, to] : own) links.emplace_back(source_words + from, words + to);
        source_words += count_words(sentence.text);
        words += count_words(text_of(written, generation_.config, *tokenizer_));
      }
    }
    return {};
  }

  Status draw(const Source& source) const {
    if (source.sentences.size() != 1) {
      return Error{Code::invalid_argument, source.blank()
                                               ? "--attention: the text is empty: there is nothing to show"
                                               : "--attention shows one sentence, but the text has several"};
    }
    const Sentence& sentence = source.sentences.front();
    AttendedText text{sentence.input, generation_.config.prompt, sentence.written.front().tokens, {}, {}};
    text.input_labels = token_labels(*tokenizer_, text.input.tokens);
    text.output_labels = token_labels(*tokenizer_, text.output);
    return write_attention(model_, options_.attention, text);
  }

  const TranslateOptions& options_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::string prefix_;
  std::optional<TranslationLanguages> languages_;
  std::optional<Glossary> glossary_;
  GenerationOptions generation_;
  uint32_t longest_ = 0; // maximum number of tokens of a text
  OpenedDevice device_;
  std::shared_ptr<const Model> model_;
  std::unique_ptr<EncoderDecoder> writer_;
  std::optional<Aligner> aligner_;
  Status alignment_; // an error, once there was one
  WritingFigures figures_;
  ProgressBar progress_{"translated lines", ProgressBar::Look::counted};
  uint64_t answered_ = 0; // lines
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
  if (options.attention.given() && is_replica())
    return Error{Code::invalid_argument, "--attention shows one text: leave --replicas out"};
  PUMICE_CHECK(check_biases(options.writing.sampling, shape.vocabulary));
  PUMICE_TRY(std::shared_ptr<const Tokenizer> tokenizer, load_tokenizer(file));
  WaitingLines from(options.texts);
  std::vector<Line> lines;
  if (options.attention.given()) PUMICE_CHECK(check_single(from, lines));

  Translator translator(options, std::move(tokenizer));
  PUMICE_CHECK(translator.open(std::move(file), shape));
  while (!interrupted()) {
    if (!options.attention.given()) {
      PUMICE_TRY(lines, from.next(translator.lines_at_a_time()));
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
  add_language_options(*sub, options->languages);
  add_glossary_option(*sub, options->glossary);
  sub->add_flag("--sentences", options->sentences,
                "Translate each sentence by itself. Unicode's rules cut the texts, and the translations are "
                "joined again. Blank lines and lines stay as they are")
      ->group("Text");
  sub->add_flag_callback(
         "--paragraphs", [options] { options->texts.paragraphs = options->sentences = true; },
         "Join lines up to a blank one; cut as --sentences does. A paragraph is printed on one line; "
         "blank lines stay. For files whose lines end in the middle of sentences")
      ->excludes("TEXT")
      ->group("Text");
  sub->add_flag(
         "--json", options->writing.json,
         "Print one JSON object for each text. Its fields: source, text, tokens, score; truncated if the "
         "text was cut; hypotheses with --n-best; sentences with --sentences; alignment "
         "with --alignment")
      ->group("Text");
  add_alignment_option(*sub, options->attention);
  add_attention_options(*sub, options->attention);
  add_writing_options(*sub, options->writing);
  add_stage_options(*sub, options->writing.device);
  add_replica_option(*sub, options->writing.device);
  add_resume_option(*sub, options->texts.resume);
  sub->footer(example("pumice translate models/pretrained/dates \"le 3 mars 2021\" --attention dates.png"));
  return {sub,
          [options] { return translate(*options); },
          {{"MODEL", "--file"}, {"--attention", "--resume"}},
          [options] { return serve_stage(options->model, options->writing.device, options->writing.load); },
          &options->writing.device.timeout,
          &options->writing.device.replicas};
}

} // namespace pumice::command

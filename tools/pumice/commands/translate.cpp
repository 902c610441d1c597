#include <algorithm>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "input/waiting_lines.h"
#include "loading/open_device.h"
#include "model/vocabulary.h"
#include "options/prompt.h"
#include "options/subcommand.h"
#include "output/attention_picture.h"
#include "process/processes.h"
#include "process/replicas.h"
#include "task/model_kind.h"
#include "task/translation/translator.h"
#include "terminal/terminal.h"
#include "terminal/writing.h"

namespace pumice::command {

namespace {

struct TranslateOptions {
  std::string model;
  TextOptions texts;
  TranslatorOptions translator;
  std::string glossary; // a file; empty: none
  AttentionOptions attention;
  WriterOptions writing;

  Result<TranslatorOptions> resolved() const {
    TranslatorOptions result = translator;
    result.writing = writing.resolved();
    if (attention.alignment) result.alignment = {attention.layer, attention.head};
    if (glossary.empty()) return result;
    PUMICE_TRY(std::string text, read_text(glossary));
    result.glossary = {std::move(text), glossary};
    return result;
  }
};

// Translates lines and prints what they become.
class LineTranslator {
public:
  LineTranslator(const TranslateOptions& options, std::shared_ptr<const Tokenizer> tokenizer)
      : options_(options), tokenizer_(std::move(tokenizer)) {}

  Status open(OpenedModel opened, const ModelShape& shape) {
    PUMICE_TRY(const TranslatorOptions asked, options_.resolved());
    PUMICE_TRY(TranslatorSettings settings,
               read_translator_settings(opened.file, shape, *tokenizer_, asked, option_names));
    PUMICE_TRY(device_, open_device(options_.writing.device));
    PUMICE_TRY(model_, load_model(std::move(opened), device_, options_.writing.load));
    PUMICE_TRY(translator_, Translator::create(model_, tokenizer_, std::move(settings)));
    return {};
  }

  // Lines that are read before they are answered, if they have arrived: enough that those of similar length
  // can run together.
  size_t lines_at_a_time() const {
    return options_.attention.given() ? 1 : size_t{32} * translator_->settings().session.inputs;
  }

  // Prints the answer to each line when those to the lines before it are there.
  Status answer(const std::vector<Line>& lines, const WaitingLines& from) {
    std::vector<Source> sources;
    numbers_.clear();
    std::map<uint64_t, Line> bad = read(lines, from, sources);
    const auto reject_before = [&](uint64_t number) -> Status {
      for (auto at = bad.begin(); at != bad.end() && at->first < number; at = bad.erase(at))
        PUMICE_CHECK(from.reject(at->second, *at->second.error));
      return {};
    };
    const size_t count = sources.size();
    size_t printed = 0;
    TranslationCallbacks callbacks;
    std::optional<StreamDecoder> stream;
    if (streams(lines) && count == 1 && sources[0].sentences.size() == 1) {
      stream.emplace(tokenizer_);
      callbacks.on_token = [&](uint32_t token) {
        if (!std::ranges::count(generation().config.ends, token)) print_result(stream->push(token));
      };
    }
    callbacks.on_text = [&](size_t index, const Source& source) {
      add_figures(source, numbers_[index]);
      if (!failed_.ok()) return; // it is printed with the rest
      if (!stream) {
        progress_.erase();
        (void)reject_before(numbers_[index]);
        failed_ = print(source, numbers_[index]);
        if (!failed_.ok()) return;
      }
      printed = index + 1;
      if (stream) return;
      (void)end_line(numbers_[index]); // an error comes with the next lines, too
      if (lines.size() > 1) progress_.update(answered_ + index + 1, answered_ + count);
    };
    PUMICE_CHECK(translator_->begin(std::move(sources), std::move(callbacks)));
    const ComputeWatch stopwatch;
    std::optional<SavedWork> saved; // what is answered by Ctrl-C, though a line before it is not
    if (lines.size() > 1) saved.emplace();
    Status status = translator_->run();
    if (status.ok()) status = failed_;
    if (!status.ok()) {
      print_rest(printed, status.error(), reject_before);
      return status;
    }
    figures_.seconds += stopwatch.seconds();
    answered_ += count;
    progress_.erase();
    if (stream) print_result(stream->flush() + "\n");
    PUMICE_CHECK(reject_before(UINT64_MAX));
    if (count == 0) return {};
    return options_.attention.given() ? draw() : Status();
  }

  Status finish() const {
    figures_.print(device_);
    return device_.save_pipelines();
  }

private:
  const GenerationOptions& generation() const { return translator_->settings().generation; }

  bool streams(const std::vector<Line>& lines) const {
    return lines.size() == 1 && generation().config.beams == 1 && !options_.writing.json &&
           !options_.attention.alignment && stdout_is_terminal() && !is_replica();
  }

  // Returns those that cannot be used, by their numbers.
  std::map<uint64_t, Line> read(const std::vector<Line>& lines, const WaitingLines& from,
                                std::vector<Source>& sources) {
    std::map<uint64_t, Line> bad;
    for (const Line& line : lines) {
      Source source;
      Status status = line.error ? Status(*line.error) : Status();
      if (status.ok()) {
        source = translator_->read(line.text);
        status = check(source, from.name(line));
      }
      if (!status.ok()) {
        Line& kept = bad[line.number] = line;
        kept.error = status.error();
        continue;
      }
      sources.push_back(std::move(source));
      numbers_.push_back(line.number);
    }
    return bad;
  }

  Status check(const Source& source, const std::string& name) const {
    const bool sentences = options_.translator.sentences;
    for (const Sentence& sentence : source.sentences) {
      if (sentence.cut) {
        print_note(fmt::format("{}: the {} has {} tokens, and {} can read {} at once: its end is left out{}",
                               name, sentences ? "sentence" : "text", sentence.length, options_.model,
                               translator_->settings().longest,
                               sentences ? "" : "; --sentences cuts texts into sentences"));
      }
      PUMICE_CHECK(check_ids(sentence.input.tokens, model_->shape().encoder->vocabulary, name));
    }
    return {};
  }

  void add_figures(const Source& source, uint64_t number) {
    for (const Sentence& each : source.sentences) {
      const size_t tokens = each.written.front().tokens.size();
      ++figures_.inputs;
      figures_.tokens += tokens;
      if (each.lacks_terms) {
        print_note(
            fmt::format("text {}: the translation lacks a term of the glossary, because it may have no "
                        "more than {} tokens: raise --count",
                        number, tokens));
      }
    }
  }

  // What lines of --n-best begin with: the number of the text, unless there is only one.
  std::string owner(uint64_t number) const {
    return options_.texts.texts.size() == 1 ? "" : std::to_string(number);
  }

  // The shortest texts are answered first. After Ctrl-C or an error, prints those that are, from this one on,
  // with what stands in the place of an answer between them. With --resume they come again.
  template <class Reject>
  void print_rest(size_t from, const Error& error, const Reject& reject_before) {
    progress_.erase();
    if (!options_.texts.resume.empty() || is_replica()) return;
    const std::span<const Source> sources = translator_->begun();
    size_t end = sources.size();
    while (end > from && (sources[end - 1].blank() || !sources[end - 1].answered())) --end;
    for (; from < end; ++from) {
      (void)reject_before(numbers_[from]);
      Status made = sources[from].answered() ? print(sources[from], numbers_[from]) : Status(error);
      if (made.ok()) continue;
      if (options_.writing.json) {
        print_json({{"source", sources[from].text}, {"error", made.error().text()}});
      } else {
        print_result("\n");
      }
    }
  }

  // It runs the model again to link words, which may fail.
  Status print(const Source& source, uint64_t number) {
    PUMICE_TRY(const Translation made, translator_->translation(source));
    if (!options_.writing.json) {
      print_result(source.blank() ? "\n" : lines_of(made.texts, generation(), owner(number)));
      return {};
    }
    Json json = {{"source", source.text}};
    if (source.cut()) json["truncated"] = true;
    add_written(json, made.texts, generation());
    if (options_.translator.sentences) json["sentences"] = Json::array();
    for (size_t i = 0; i < made.sentences.size(); ++i) {
      Json sentence = {{"source", source.sentences[i].text}};
      add_written(sentence, made.sentences[i], generation());
      json["sentences"].push_back(std::move(sentence));
    }
    print_json(json);
    return {};
  }

  Status draw() {
    PUMICE_TRY(const std::span<const Source> sources, translator_->sources());
    const Source& source = sources.front();
    if (source.sentences.size() != 1) {
      return Error{Code::invalid_argument, source.blank()
                                               ? "--attention: the text is empty: there is nothing to show"
                                               : "--attention shows one sentence, but the text has several"};
    }
    const Sentence& sentence = source.sentences.front();
    AttendedText text{sentence.input, generation().config.prompt, sentence.written.front().tokens, {}, {}};
    text.input_labels = token_labels(*tokenizer_, text.input.tokens);
    text.output_labels = token_labels(*tokenizer_, text.output);
    return write_attention(model_, options_.attention, text);
  }

  const TranslateOptions& options_;
  std::shared_ptr<const Tokenizer> tokenizer_;
  OpenedDevice device_;
  std::shared_ptr<const Model> model_;
  std::unique_ptr<Translator> translator_;
  Status failed_; // to link words, once it has
  WritingFigures figures_;
  ProgressBar progress_{"translated lines", ProgressBar::Look::counted};
  std::vector<uint64_t> numbers_; // of the lines that are answered together
  uint64_t answered_ = 0;         // lines
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
  PUMICE_TRY(OpenedModel opened, OpenedModel::open(path_of(options.model)));
  const ModelShape shape = opened.definition->shape();
  if (!shape.has_decoder() || !shape.encoder || shape.encoder->kind != InputKind::tokens) {
    return wrong_subcommand(opened.file);
  }
  PUMICE_CHECK(check_attention(options.attention, shape));
  if (options.attention.given() && is_replica())
    return Error{Code::invalid_argument, "--attention shows one text: leave --replicas out"};
  PUMICE_CHECK(check_biases(options.writing.sampling, shape.vocabulary));
  PUMICE_TRY(std::shared_ptr<const Tokenizer> tokenizer, load_tokenizer(opened.file));
  WaitingLines from(options.texts);
  from.answer_bad_with([&](const Line& line, const Error& error) {
    if (options.writing.json) return json_text({{"source", line.text}, {"error", error.text()}});
    // Each line of the output belongs to one of the input.
    return std::string(options.texts.texts.size() == 1 ? "" : "\n");
  });
  std::vector<Line> lines;
  if (options.attention.given()) PUMICE_CHECK(check_single(from, lines));

  LineTranslator translator(options, std::move(tokenizer));
  PUMICE_CHECK(translator.open(std::move(opened), shape));
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
                  "A folder of Hugging Face or CTranslate2, or a GGUF file. The model has an encoder and a "
                  "decoder, such as "
                  "Marian, BART or T5")
      ->required()
      ->type_name("");
  add_text_options(
      *sub, options->texts, "TEXT",
      "The texts; without TEXT, the lines of standard input. Each result is printed on a line of its own, as "
      "soon as it is ready. A text that is too long for the model is cut, with a note");
  sub->add_option(
         "--task", options->translator.task,
         "A task of the model, such as translation_en_to_de. The model's settings define it, as T5's do")
      ->type_name("NAME")
      ->group("Text");
  sub->add_option("--prefix", options->translator.prefix,
                  "Put this before each text (default: the task's). Without a task, it comes from the "
                  "model's settings")
      ->type_name("TEXT")
      ->group("Text");
  sub->add_option("--from", options->translator.source_language,
                  "The texts' language: its name in English or its code, such as de or deu_Latn (default: "
                  "the model's)")
      ->type_name("LANGUAGE")
      ->group("Text");
  sub->add_option("--to,--target-language,--forced-first", options->translator.target_language,
                  "The language to translate into, named in the same way. Any other token, or its id, is the "
                  "first of the translation")
      ->type_name("LANGUAGE")
      ->group("Text");
  sub->add_option("--glossary", options->glossary,
                  "Fixed terms: a term, a tab and its translation per line. Where a text has the "
                  "term as a word, its translation contains the other, which the search of at least 2 beams "
                  "finds a place for. Without --beams, there are 8")
      ->type_name("FILE")
      ->group("Text");
  sub->add_flag("--sentences", options->translator.sentences,
                "Translate each sentence by itself. Unicode's rules cut the texts, and the translations are "
                "joined again. Blank lines and lines stay as they are")
      ->group("Text");
  sub->add_flag_callback(
         "--paragraphs", [options] { options->texts.paragraphs = options->translator.sentences = true; },
         "Join lines up to a blank one; cut as --sentences does. A paragraph is printed on one line; "
         "blank lines stay. For files whose lines end in the middle of sentences")
      ->excludes("TEXT")
      ->group("Text");
  sub->add_flag("--json", options->writing.json,
                "Print one JSON object for each text. Its fields: source, text, tokens, score, or error; "
                "truncated if "
                "the text was cut; hypotheses with --n-best; sentences with --sentences; alignment "
                "with --alignment")
      ->group("Text");
  add_alignment_option(*sub, options->attention);
  add_attention_options(*sub, options->attention);
  add_writing_options(*sub, options->writing);
  add_stage_options(*sub, options->writing.device);
  add_replica_option(*sub, options->writing.device);
  add_resume_option(*sub, options->texts.resume);
  sub->footer(example("pumice translate models/pretrained/dates \"le 3 mars 2021\" --attention map.png"));
  return {sub,
          [options] { return translate(*options); },
          {{"MODEL", "--file"}, {"--attention", "--resume"}},
          [options] { return serve_stage(options->model, options->writing.device, options->writing.load); },
          &options->writing.device.timeout,
          &options->writing.device.replicas};
}

} // namespace pumice::command

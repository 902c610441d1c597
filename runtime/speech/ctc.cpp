#include "speech/ctc.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>

#include <fmt/format.h>

#include "io/json_text.h"
#include "io/mapped_file.h"
#include "model/vocabulary.h"
#include "speech/quiet_end.h"
#include "speech/transducer.h"

namespace pumice {

namespace {

constexpr double impossible = -std::numeric_limits<double>::infinity();

// log(exp(a) + exp(b)).
double sum_of_logs(double a, double b) {
  if (a == impossible) return b;
  if (b == impossible) return a;
  const double larger = std::max(a, b);
  return larger + std::log1p(std::exp(std::min(a, b) - larger));
}

std::vector<double> frame_log_probabilities(std::span<const float> scores) {
  const double largest = *std::ranges::max_element(scores);
  double sum = 0;
  for (float score : scores) sum += std::exp(score - largest);
  std::vector<double> result;
  for (float score : scores) result.push_back(score - largest - std::log(sum));
  return result;
}

// Of a text so far: the logarithms of the probabilities that its last frame is a blank, and that it is its
// last letter; and where its letters lie in its likeliest path.
struct Prefix {
  double blank = impossible, letter = impossible;
  double best = impossible; // of what the places come from
  std::vector<HeardLetter> places;

  double total() const { return sum_of_logs(blank, letter); }
};
using Prefixes = std::map<std::vector<uint32_t>, Prefix>;

void keep_places(Prefix& to, double likely, const std::vector<HeardLetter>& places) {
  if (!to.places.empty() && likely <= to.best) return;
  to.best = likely;
  to.places = places;
}

// What a text becomes with another frame.
void extend_text(const std::vector<uint32_t>& text, const Prefix& from, std::span<const double> frame,
                 uint32_t blank, uint32_t at, Prefixes& to) {
  Prefix& same = to[text];
  same.blank = sum_of_logs(same.blank, from.total() + frame[blank]);
  std::vector<HeardLetter> held = from.places;
  if (!text.empty()) {
    same.letter = sum_of_logs(same.letter, from.letter + frame[text.back()]);
    if (frame[text.back()] > frame[blank] && held.back().end == at) held.back().end = at + 1;
  }
  keep_places(same, from.total() + std::max(frame[blank], text.empty() ? impossible : frame[text.back()]),
              held);
  for (uint32_t token = 0; token < frame.size(); ++token) {
    if (token == blank) continue;
    // The same letter again needs a blank between.
    const double before = !text.empty() && text.back() == token ? from.blank : from.total();
    if (before == impossible) continue;
    std::vector<uint32_t> longer = text;
    longer.push_back(token);
    Prefix& next = to[longer];
    next.letter = sum_of_logs(next.letter, before + frame[token]);
    std::vector<HeardLetter> places = from.places;
    places.push_back({token, at, at + 1});
    keep_places(next, before + frame[token], places);
  }
}

// The most likely ones.
Prefixes pruned(Prefixes all, size_t most) {
  if (all.size() <= most) return all;
  std::vector<double> totals;
  for (const auto& [text, prefix] : all) totals.push_back(prefix.total());
  std::nth_element(totals.begin(), totals.begin() + static_cast<ptrdiff_t>(most - 1), totals.end(),
                   std::greater<>());
  const double least = totals[most - 1];
  std::erase_if(all, [&](const auto& each) { return each.second.total() < least; });
  return all;
}

} // namespace

void SoundLevel::add(std::span<const float> samples) {
  count_ += samples.size();
  for (const float sample : samples) {
    sum_ += sample;
    squares_ += double{sample} * sample;
  }
}

void SoundLevel::normalise(std::span<float> samples) const {
  const auto count = static_cast<double>(std::max<uint64_t>(count_, 1));
  const double mean = sum_ / count, variance = std::max(squares_ / count - mean * mean, 0.0);
  const double scale = 1 / std::sqrt(variance + 1e-7); // as Wav2Vec2FeatureExtractor has it
  for (float& sample : samples) sample = static_cast<float>((sample - mean) * scale);
}

std::vector<HeardLetter> ctc_greedy(std::span<const float> scores, uint32_t vocabulary, uint32_t blank) {
  std::vector<HeardLetter> letters;
  uint32_t last = blank;
  for (uint32_t frame = 0; frame < scores.size() / vocabulary; ++frame) {
    const std::span<const float> row = scores.subspan(size_t{frame} * vocabulary, vocabulary);
    const auto token = static_cast<uint32_t>(std::ranges::max_element(row) - row.begin());
    if (token != blank && token == last) {
      letters.back().end = frame + 1;
    } else if (token != blank) {
      letters.push_back({token, frame, frame + 1});
    }
    last = token;
  }
  return letters;
}

std::vector<HeardLetter> ctc_beam_search(std::span<const float> scores, uint32_t vocabulary, uint32_t blank,
                                         uint32_t beams) {
  Prefixes prefixes;
  prefixes[{}].blank = 0;
  for (uint32_t at = 0; at < scores.size() / vocabulary; ++at) {
    const std::vector<double> frame =
        frame_log_probabilities(scores.subspan(size_t{at} * vocabulary, vocabulary));
    Prefixes next;
    for (const auto& [text, prefix] : prefixes) extend_text(text, prefix, frame, blank, at, next);
    prefixes = pruned(std::move(next), beams);
  }
  const auto best =
      std::ranges::max_element(prefixes, {}, [](const auto& each) { return each.second.total(); });
  return best->second.places;
}

std::string CtcVocabulary::text_of(uint32_t token) const {
  if (token >= letters.size() || token == blank) return "";
  const std::string& letter = letters[token];
  if (letter == delimiter) return " ";
  const bool special = letter.size() > 2 && letter.front() == '<' && letter.back() == '>';
  return special ? "" : letter;
}

namespace {

// An object of a file in the model's folder; empty if there is no such file.
Result<nlohmann::json> read_folder_object(const ModelFolder& folder, const char* name) {
  PUMICE_TRY(std::optional<nlohmann::json> object, folder.object(name));
  return object ? *std::move(object) : nlohmann::json::object();
}

// Parts of words, of which those that begin one have a space in front.
Status read_pieces(const ModelFile& file, uint32_t size, CtcVocabulary& vocabulary) {
  constexpr std::string_view space = "\u2581";
  const Result<std::shared_ptr<const Tokenizer>> tokenizer = load_tokenizer(file);
  if (!tokenizer.ok()) return tokenizer.error().code == Code::not_found ? Status() : tokenizer.error();
  vocabulary.delimiter = space;
  vocabulary.letters.resize(size);
  for (uint32_t token = 0; token < std::min(size, (*tokenizer)->vocabulary_size()); ++token) {
    std::string& letter = vocabulary.letters[token];
    letter = (*tokenizer)->piece(token);
    if (letter != space && letter.starts_with(space)) letter.replace(0, space.size(), " ");
  }
  return {};
}

} // namespace

Result<CtcVocabulary> read_ctc_vocabulary(const ModelFile& file) {
  CtcVocabulary result;
  const ModelFolder folder = folder_of(file);
  PUMICE_TRY(const uint32_t size, file.fields().u32_or("vocab_size", 1, 1 << 24, 32));
  const bool pieces = file.architecture().starts_with("parakeet_");
  const bool transducer = pieces && file.architecture() != "parakeet_ctc";
  PUMICE_TRY(result.blank,
             file.fields().u32_or(transducer ? "blank_token_id" : "pad_token_id", 0, size - 1, 0));
  PUMICE_TRY(const nlohmann::json sound, read_folder_object(folder, "preprocessor_config.json"));
  const Fields of_sound(sound, folder.path("preprocessor_config.json"));
  PUMICE_TRY(result.sample_rate, of_sound.u32_or("sampling_rate", 1000, 1 << 20, 16000));
  PUMICE_TRY(result.normalises, of_sound.boolean_or("do_normalize", true));
  PUMICE_TRY(const nlohmann::json text, read_folder_object(folder, "tokenizer_config.json"));
  const Fields of_text(text, folder.path("tokenizer_config.json"));
  PUMICE_TRY(result.delimiter, of_text.string_or("word_delimiter_token", "|"));
  PUMICE_TRY(const nlohmann::json letters, read_folder_object(folder, "vocab.json"));
  const Fields of_letters(letters, folder.path("vocab.json"));
  if (pieces) {
    result.normalises = false; // the graph normalises the spectrum
    PUMICE_CHECK(read_pieces(file, size, result));
    return result;
  }
  if (letters.empty()) return result;
  result.letters.resize(size);
  for (const auto& [letter, number] : letters.items()) {
    PUMICE_TRY(const uint32_t token, of_letters.u32(letter, 0, UINT32_MAX));
    if (token < size) result.letters[token] = letter;
  }
  return result;
}

Result<std::unique_ptr<CtcTranscriber>> CtcTranscriber::create(std::shared_ptr<const Model> model,
                                                               CtcVocabulary vocabulary,
                                                               const CtcOptions& options,
                                                               const Making& making) {
  PUMICE_TRY(std::shared_ptr<const Transducer> transducer, Transducer::read(model->file()));
  if (transducer && options.beams > 1)
    return Error{
        Code::unsupported,
        fmt::format("{}: a transducer's text has the likeliest token of each step, so {} beams cannot be "
                    "kept: leave them out",
                    model->file().path(), options.beams)};
  EncoderOptions encoder_options;
  encoder_options.readable = {transducer ? Transducer::frames : "logits"};
  const EncoderShape shape = *model->shape().encoder;
  PUMICE_TRY(std::unique_ptr<ResumableEncoder> encoding,
             ResumableEncoder::create(std::move(model), encoder_options, making));
  return std::unique_ptr<CtcTranscriber>(
      new CtcTranscriber(std::move(encoding), shape, std::move(vocabulary), std::move(transducer), options));
}

CtcTranscriber::CtcTranscriber(std::unique_ptr<ResumableEncoder> encoding, const EncoderShape& shape,
                               CtcVocabulary vocabulary, std::shared_ptr<const Transducer> transducer,
                               const CtcOptions& options)
    : encoding_(std::move(encoding)), shape_(shape), vocabulary_(std::move(vocabulary)),
      transducer_(std::move(transducer)), options_(options) {}

CtcTranscriber::~CtcTranscriber() = default;

std::vector<TranscriptSegment> CtcTranscriber::segments(std::span<const HeardLetter> letters, size_t at,
                                                        size_t samples, uint32_t frames) const {
  constexpr double pause = 0.8; // seconds
  const double rate = vocabulary_.sample_rate;
  const double frame = static_cast<double>(samples) / rate / std::max(frames, 1u);
  const double begin = static_cast<double>(at) / rate;
  std::vector<TranscriptSegment> all;
  for (const HeardLetter& letter : letters) {
    const double start = begin + letter.first * frame, end = begin + letter.end * frame;
    const std::string text = vocabulary_.text_of(letter.token);
    const bool between = vocabulary_.letters.empty() ? false : text == " ";
    const bool new_word = text.starts_with(' ') || (!all.empty() && all.back().text.ends_with(' '));
    if (all.empty() || (!between && start - all.back().end > pause && new_word)) {
      if (between) continue;
      all.emplace_back().start = start;
    }
    TranscriptSegment& segment = all.back();
    if (!between) segment.end = end;
    segment.tokens.push_back(letter.token);
    segment.text += segment.text.empty() && text.starts_with(' ') ? text.substr(1) : text;
  }
  for (TranscriptSegment& segment : all) {
    while (segment.text.ends_with(' ')) segment.text.pop_back();
  }
  return all;
}

Status CtcTranscriber::begin(std::unique_ptr<SoundSource> source, const SoundLevel& level,
                             WindowFunction on_window, Progress progress) {
  sound_ = {};
  PUMICE_CHECK(encoding_->stop());
  cancelled_ = false;
  auto reader = std::make_unique<SoundReader>(std::move(source), vocabulary_.sample_rate, false);
  sound_ = {std::move(reader), level, std::move(on_window), std::move(progress), 0, {}, {}, {}};
  return {};
}

// Takes the next window that is not shorter than a frame, which has no speech; or ends the sound.
Status CtcTranscriber::begin_window() {
  const size_t most = shape_.input_values();
  std::vector<float>& samples = sound_.window.values;
  for (;; sound_.at += samples.size()) {
    samples.clear();
    PUMICE_TRY(const std::optional<uint64_t> more, sound_.reader->speech(sound_.at));
    if (!more) break;
    PUMICE_TRY(const std::span<const float> rest, sound_.reader->samples(sound_.at, most + 1));
    samples.assign(rest.begin(), rest.end());
    if (vocabulary_.normalises) sound_.level.normalise(samples);
    if (samples.size() > most) {
      samples.resize(most);
      samples.resize(quiet_end(samples, vocabulary_.sample_rate));
    }
    const bool wanted = !sound_.progress || sound_.progress(sound_.at, sound_.reader->total());
    if (!wanted || cancelled_) return Error{Code::cancelled, "cancelled between two windows"};
    if (shape_.frames(static_cast<uint32_t>(samples.size())) > 0) return {};
  }
  const uint64_t read = sound_.reader->read();
  if (sound_.progress) (void)sound_.progress(read, read);
  sound_.reader.reset();
  return {};
}

// Decodes a window's frames, a transducer's for about so many seconds.
Status CtcTranscriber::decode(double seconds) {
  if (!sound_.decoding) {
    PUMICE_TRY(std::vector<float> frames, encoding_->read());
    const uint32_t columns = encoding_->columns();
    if (!transducer_) {
      return finish_window(options_.beams > 1
                               ? ctc_beam_search(frames, columns, vocabulary_.blank, options_.beams)
                               : ctc_greedy(frames, columns, vocabulary_.blank));
    }
    sound_.decoding = std::make_unique<TransducerDecoding>(transducer_, std::move(frames));
  }
  const auto begin = std::chrono::steady_clock::now();
  while (!sound_.decoding->done()) {
    if (cancelled_) return Error{Code::cancelled, "cancelled while a window was decoded"};
    sound_.decoding->step();
    if (std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() > seconds) return {};
  }
  const std::unique_ptr<TransducerDecoding> done = std::move(sound_.decoding);
  return finish_window(done->heard());
}

Status CtcTranscriber::finish_window(std::span<const HeardLetter> heard) {
  const size_t samples = sound_.window.values.size();
  TranscriptWindow window;
  window.seconds = static_cast<double>(samples) / vocabulary_.sample_rate;
  window.segments = segments(heard, sound_.at, samples, shape_.frames(static_cast<uint32_t>(samples)));
  for (const HeardLetter& letter : heard) window.tokens.push_back(letter.token);
  std::vector<TranscriptSegment>& all = sound_.transcript.segments;
  all.insert(all.end(), window.segments.begin(), window.segments.end());
  sound_.at += samples;
  sound_.window.values.clear();
  if (sound_.on_window) sound_.on_window(window);
  return {};
}

Status CtcTranscriber::run_window() {
  if (sound_.window.values.empty()) PUMICE_CHECK(begin_window());
  if (!active()) return {};
  if (!sound_.decoding) PUMICE_CHECK(encoding_->run({sound_.window}));
  return decode(std::numeric_limits<double>::infinity());
}

Result<Transcript> CtcTranscriber::run() {
  while (active()) {
    Status status = run_window();
    if (status.ok()) continue;
    sound_ = {};
    return status.error();
  }
  return std::move(std::exchange(sound_, {}).transcript);
}

Result<SliceResult> CtcTranscriber::slice_of_window(const SliceRequest& request) {
  if (active() && sound_.window.values.empty()) {
    PUMICE_CHECK(begin_window());
    if (active()) PUMICE_CHECK(encoding_->begin({sound_.window}));
  }
  PUMICE_TRY(SliceResult result, encoding_->slice(request));
  if (active() && !result.active) PUMICE_CHECK(decode(request.budget));
  result.active = active();
  return result;
}

// Being cancelled ends the sound.
Result<SliceResult> CtcTranscriber::slice(const SliceRequest& request) {
  Result<SliceResult> result = slice_of_window(request);
  if (!result.ok() && result.error().code == Code::cancelled) sound_ = {};
  return result;
}

void CtcTranscriber::cancel() {
  cancelled_ = true;
  encoding_->cancel();
}

} // namespace pumice

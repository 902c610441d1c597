#include <set>

#include <fmt/format.h>

#include "base/number_from_chars.h"
#include "options/prompt.h"
#include "output/transcript_output.h"
#include "serve/routes/multipart.h"
#include "serve/routes/service.h"

// OpenAI's interface of speech.
namespace pumice::serve {

namespace {

struct SpeechWish {
  std::string_view sound;
  std::string format = "json";
  bool streams = false;
  TranscriptionOptions transcription;
};

Result<float> read_temperature(std::string_view text) {
  float value = 0;
  const auto end = number_from_chars(text.data(), text.data() + text.size(), value);
  if (end.ec != std::errc() || end.ptr != text.data() + text.size() || !(value >= 0 && value <= 1))
    return bad_field("temperature", "expected a number from 0 to 1");
  return value;
}

// The fields of a form; that of the model is found before.
Result<SpeechWish> read_speech_wish(const std::vector<FormPart>& parts, bool translates) {
  SpeechWish wish;
  wish.transcription.translate = translates;
  std::set<std::string> known;
  for (const FormPart& part : parts) {
    const std::string value(part.is_file ? std::string_view() : part.value);
    const bool several = part.name == "timestamp_granularities[]" || part.name == "timestamp_granularities";
    if (!known.insert(part.name).second && !several) return bad_field(part.name, "it is there twice");
    if (part.name == "file") {
      wish.sound = part.value;
    } else if (part.is_file) {
      return bad_field(part.name, "expected a value, and found a file");
    } else if (part.name == "language") {
      wish.transcription.language = value;
    } else if (part.name == "prompt") {
      wish.transcription.prompt = value;
    } else if (part.name == "response_format") {
      wish.format = value;
      const std::set<std::string> formats = {"json", "text", "srt", "vtt", "verbose_json"};
      if (!formats.contains(value))
        return bad_field("response_format", "expected json, text, srt, vtt or verbose_json");
    } else if (part.name == "temperature") {
      PUMICE_TRY(const float temperature, read_temperature(value));
      // At 0 other temperatures are tried where the text is not good.
      if (temperature > 0) wish.transcription.temperatures = {temperature};
    } else if (several) {
      if (value != "word" && value != "segment") return bad_field(part.name, "expected word or segment");
      if (value == "word") wish.transcription.words = true;
    } else if (part.name == "stream") {
      if (value != "true" && value != "false") return bad_field("stream", "expected true or false");
      wish.streams = value == "true";
    }
  }
  if (wish.sound.empty()) return bad_field("file", "it is missing, or empty: expected a sound's file");
  PUMICE_CHECK(command::check_utf8(wish.transcription.prompt, request_field("prompt")));
  PUMICE_CHECK(command::check_utf8(wish.transcription.language, request_field("language")));
  if (wish.transcription.words && wish.format != "verbose_json")
    return bad_field("timestamp_granularities[]",
                     "it has an effect only where 'response_format' is verbose_json");
  if (wish.streams && wish.format != "json" && wish.format != "text")
    return bad_field("stream", "it has an effect only where 'response_format' is json or text");
  wish.transcription.timestamps = wish.format == "srt" || wish.format == "vtt";
  return wish;
}

Json verbose_json(const SpeechModel::Heard& heard, bool translates, bool words) {
  Json all = command::json_of(heard.transcript, {"", heard.seconds, heard.partial},
                              translates ? "translate" : "transcribe", heard.has_text);
  all.erase("audio");
  Json spoken = Json::array();
  for (size_t i = 0; i < all["segments"].size(); ++i) {
    Json segment = {{"id", i}};
    segment.update(all["segments"][i]);
    const Json of_segment = segment.value("words", Json::array());
    spoken.insert(spoken.end(), of_segment.begin(), of_segment.end());
    segment.erase("words");
    all["segments"][i] = std::move(segment);
  }
  if (words) all["words"] = std::move(spoken);
  return all;
}

Status hear(Service& service, Exchange& exchange, bool translates) {
  const HttpRequest& request = exchange.request();
  PUMICE_TRY(const std::vector<FormPart> parts,
             read_form_parts(request.header("content-type"), request.body));
  std::string name;
  bool streams = false;
  for (const FormPart& part : parts) {
    if (part.name == "model" && !part.is_file) name = part.value;
    if (part.name == "stream") streams = part.value == "true";
  }
  if (streams) show_events_live(exchange);
  PUMICE_TRY(const UsedModel served, find_model(service, exchange, name, ServedKind::Use::speech));
  const auto slot = service.slots.open(served->name, exchange.request().path);
  PUMICE_TRY(const SpeechWish wish, read_speech_wish(parts, translates));
  const TranscriptionOptions& options = wish.transcription;
  const bool verbose = wish.format == "verbose_json";
  const Json key = {options.language, options.prompt, options.translate,   options.timestamps,
                    options.words,    verbose,        options.temperatures};
  const auto send = [&](const Json& event) {
    exchange.begin(200, "text/event-stream");
    exchange.write(fmt::format("data: {}\n\n", text_of(event)));
  };
  const auto take = [&](const std::string& piece) {
    if (wish.streams) send({{"type", "transcript.text.delta"}, {"delta", piece}});
  };
  Result<SpeechModel::Heard> heard = served->speech->hear(std::string(wish.sound), request_field("file"),
                                                          options, verbose, text_of(key), exchange, take);
  if (!heard.ok()) {
    const Error& error = heard.error();
    const std::string named = fmt::format("language \"{}\"", options.language);
    const bool language = !options.language.empty() && error.message.find(named) != std::string::npos;
    if (language) return bad_field("language", error.message);
    return Error{error.code == Code::not_found ? Code::unsupported : error.code, error.message};
  }
  const Transcript& transcript = heard->transcript;
  if (wish.streams) {
    send({{"type", "transcript.text.done"},
          {"text", heard->text},
          {"usage", {{"type", "duration"}, {"seconds", heard->seconds}}}});
  } else if (wish.format == "srt") {
    exchange.answer(200, "text/plain; charset=utf-8", srt_of(transcript, heard->has_text));
  } else if (wish.format == "vtt") {
    exchange.answer(200, "text/vtt; charset=utf-8", vtt_of(transcript, heard->has_text));
  } else if (verbose) {
    answer_json(exchange, verbose_json(*heard, translates, options.words));
  } else {
    std::string lines;
    for (const TranscriptSegment& segment : transcript.segments)
      lines += command::lines_of(segment, heard->has_text, false, "");
    if (wish.format == "text")
      exchange.answer(200, "text/plain; charset=utf-8", std::move(lines));
    else
      answer_json(exchange, {{"text", heard->text}});
  }
  return {};
}

} // namespace

Status audio_transcriptions(Service& service, Exchange& exchange) {
  return hear(service, exchange, false);
}

Status audio_translations(Service& service, Exchange& exchange) {
  return hear(service, exchange, true);
}

} // namespace pumice::serve

#include <algorithm>
#include <map>
#include <string>

#include <fmt/format.h>

#include "output/sound_file.h"
#include "serve/routes/service.h"
#include "terminal/counted.h"
#include "text/formats/base64.h"

// OpenAI's interface of texts that are spoken.
namespace pumice::serve {

namespace {

struct SpokenWish {
  std::string text;
  bool wav = true;     // otherwise its samples alone
  bool events = false; // with pieces of these bytes in base64
  SpeakerOptions options;
};

// OpenAI's own voices, of which clients send one always.
constexpr std::string_view usual_names[] = {"alloy", "ash",  "ballad", "cedar", "coral",   "echo", "fable",
                                            "marin", "nova", "onyx",   "sage",  "shimmer", "verse"};

// A name of the server's, or a profile.
Status read_voice(const RequestBody& body, const std::map<std::string, std::string>& voices,
                  SpeakerOptions& options) {
  const Json& given = body["voice"];
  if (given.is_null() || given == "default") return {};
  options.voice_name = request_field("voice");
  if (given.is_object() && given.contains("words")) {
    options.voice = given.dump();
    return {};
  }
  const Json name = given.is_object() ? given.value("id", Json()) : given;
  if (!name.is_string())
    return body.error("voice", "expected a name, or a profile of OuteTTS with 'text' and 'words'");
  const auto found = voices.find(name.get<std::string>());
  if (found == voices.end()) {
    if (std::ranges::count(usual_names, name.get_ref<const std::string&>()) > 0) return {}; // the default one
    std::string names = "default";
    for (const auto& [own, profile] : voices) names += ", " + own;
    return body.error("voice",
                      fmt::format("is '{}': expected one of this server's (--voice), {}, or a profile",
                                  name.get<std::string>(), names));
  }
  options.voice = found->second;
  return {};
}

Result<SpokenWish> read_spoken_wish(const RequestBody& body, const VoiceModel& model,
                                    const std::map<std::string, std::string>& voices) {
  SpokenWish wish;
  if (!body["input"].is_string()) return body.error("input", "expected a string");
  wish.text = body["input"];
  PUMICE_TRY(const std::string format, body.string_or("response_format", "wav"));
  if (format != "wav" && format != "pcm")
    return body.error("response_format", fmt::format("is '{}': this server writes wav and pcm", format));
  wish.wav = format == "wav";
  PUMICE_TRY(const std::string stream, body.string_or("stream_format", "audio"));
  if (stream != "audio" && stream != "sse") return body.error("stream_format", "expected audio or sse");
  wish.events = stream == "sse";
  if (body.has("speed") && body["speed"] != 1)
    return body.error("speed", "the model speaks as fast as its voice does: expected 1");
  PUMICE_TRY(const std::string instructions, body.string_or("instructions", ""));
  if (!instructions.empty()) return body.error("instructions", "the model takes none: choose a 'voice'");
  PUMICE_CHECK(read_voice(body, voices, wish.options));
  const Fields fields = body.fields();
  PUMICE_TRY(wish.options.max_tokens, fields.u32_or("max_tokens", 1, UINT32_MAX, 0));
  command::SamplingOptions sampling;
  sampling.params = usual_speech_sampling();
  PUMICE_CHECK(command::read_sampling_fields(fields, sampling.params));
  PUMICE_TRY(wish.options.sampling, sampling.resolved(model.tokenizer()));
  PUMICE_CHECK(read_seed(body, wish.options.sampling));
  PUMICE_CHECK(read_biases(body, model.vocabulary(), wish.options.sampling));
  return wish;
}

// Sends samples as they come.
class SpokenAnswer {
public:
  SpokenAnswer(Exchange& exchange, const SpokenWish& wish, uint32_t rate)
      : exchange_(exchange), wish_(wish), rate_(rate) {}

  bool add(std::span<const float> samples) {
    std::string bytes;
    if (wish_.wav && !sounds_) bytes = command::wav_header(rate_, command::unknown_samples);
    sounds_ = true;
    bytes += command::pcm_bytes(samples);
    if (wish_.events) return send({{"type", "speech.audio.delta"}, {"audio", text::encode_base64(bytes)}});
    exchange_.begin(200, wish_.wav ? "audio/wav" : fmt::format("audio/pcm;rate={}", rate_));
    return exchange_.write(bytes);
  }
  Status finish(const Result<Speaker::Figures>& figures, const RequestBody& body) {
    if (!figures.ok()) {
      if (wish_.events || !sounds_) return figures.error();
      exchange_.failed(figures.error());
      exchange_.cut();
      return {};
    }
    if (!sounds_ && figures->finish_reason == FinishReason::length) {
      return body.error("max_tokens", fmt::format("no sound has begun after {}: give more, or leave it out",
                                                  command::counted(figures->tokens, "token")));
    }
    if (!sounds_)
      return body.error("input", "the model has written no codes of a sound: another 'seed' may do better");
    const uint64_t read = figures->prompt_tokens, written = figures->tokens;
    if (wish_.events) {
      send({{"type", "speech.audio.done"},
            {"usage",
             {{"input_tokens", read}, {"output_tokens", written}, {"total_tokens", read + written}}}});
    }
    return {};
  }

private:
  bool send(const Json& event) {
    exchange_.begin(200, "text/event-stream");
    return exchange_.write(fmt::format("data: {}\n\n", text_of(event)));
  }

  Exchange& exchange_;
  const SpokenWish& wish_;
  const uint32_t rate_;
  bool sounds_ = false; // there were samples
};

} // namespace

// {"input": TEXT, "voice": NAME or PROFILE, "response_format": "wav" or "pcm", "stream_format": "audio" or
// "sse", "max_tokens": N, and options of sampling}
Status audio_speech(Service& service, Exchange& exchange) {
  PUMICE_TRY(const RequestBody body, RequestBody::read(exchange.request()));
  if (body["stream_format"] == "sse") show_events_live(exchange);
  PUMICE_TRY(const UsedModel served, find_model(service, exchange, body, ServedKind::Use::voice));
  VoiceModel& model = *served->voice;
  PUMICE_TRY(const SpokenWish wish, read_spoken_wish(body, model, service.models.voices()));
  const auto slot = service.slots.open(served->name, exchange.request().path);
  SpokenAnswer answer(exchange, wish, model.sample_rate());
  Result<Speaker::Figures> figures =
      model.speak(wish.text, wish.options, exchange, [&](std::span<const float> samples) -> Status {
        if (answer.add(samples)) return {};
        return Error{Code::cancelled, "the client is gone"};
      });
  if (figures.ok()) {
    count_tokens(exchange, figures->prompt_tokens + figures->tokens);
  } else if (const Error& error = figures.error();
             error.code == Code::invalid_argument && !error.message.starts_with(request_name)) {
    figures = body.error("input", error.message);
  }
  return answer.finish(figures, body);
}

} // namespace pumice::serve

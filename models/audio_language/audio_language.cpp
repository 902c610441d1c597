#include <algorithm>

#include <fmt/format.h>

#include "kernel/elementwise/elementwise.h"
#include "kernel/image/image.h"
#include "model/gguf_model.h"
#include "models/bart/whisper_encoder.h"
#include "models/encoder/model.h"
#include "models/registry.h"
#include "models/vision_language/gguf_pair.h"
#include "models/vision_language/vision_language.h"

namespace pumice {

namespace {

constexpr float norm_eps = 1e-5f; // of the encoder, which no setting of config.json changes
constexpr uint32_t most_stacked = 64;

// GGUF's keys, in an mmproj file.
constexpr std::string_view columns_key = "audio.projection_dim";
constexpr std::string_view stack_key = "audio.projector.stack_factor";

// A decoder that hears: Whisper's encoder, neighbouring positions of which become a row of the decoder's
// embeddings each.
struct Hearing {
  std::string_view projector; // its name in GGUF
  std::string_view decoder;   // its entry in the table, and its text model's name in GGUF
  // Positions are averaged in pairs before the last norm, a layer projects them, and a sound has one window
  // with a row for each pair. Otherwise they are stacked, two layers project them, and a sound has as many
  // windows as it fills.
  bool pooled;
  const char *begin, *sound, *end; // tokens
  const char* token_field;
  std::optional<uint32_t> token; // by the class
  // See PictureTokens; around them what a prompt has before and behind a sound.
  const char *before, *question, *transcription = "", *spoken = "";
};

struct HearingEncoder {
  EncoderConfig encoder;
  std::string prefix, projector; // of tensor names
  Activation activation = Activation::gelu;
  uint32_t size = 0; // columns of the decoder's embeddings
  bool gguf = false; // the format of its file
};

class SoundTower : public EncoderModel {
public:
  SoundTower(HearingEncoder own, const Hearing& hearing)
      : EncoderModel(own.encoder, own.gguf), own_(std::move(own)), hearing_(hearing) {}

  Result<GgufModel> gguf(const ModelFile& file) const override;

protected:
  void build(EncoderBuilder& builder) const override {
    Graph& graph = builder.graph();
    const uint32_t joined = config().sound_windows->joined;
    TensorId x = run_whisper_encoder(builder, own_.prefix);
    if (hearing_.pooled) x = join_patches(graph, "averaged_frames", x, joined, JoinPatches::Rule::averaged);
    x = whisper_encoder_norm(builder, x);
    builder.finish(x);
    builder.prefix(own_.projector, "mm.a.");
    if (hearing_.pooled) {
      x = builder.project(x, {"linear", "fc"}, own_.size, true, "head");
    } else {
      x = join_patches(graph, "stacked_frames", x, joined);
      x = builder.project(x, {"linear_1", "mlp.1"}, own_.size, false, "head");
      x = activate(graph, "projector_activated", x, own_.activation);
      x = builder.project(x, {"linear_2", "mlp.2"}, own_.size, false, "head");
    }
    builder.readable().add(PictureTokens::features, x);
  }

  std::vector<Hyperparameter> own_hyperparameters() const override {
    return {{hearing_.pooled ? "averaged" : "stacked",
             fmt::format("{} positions", config().sound_windows->joined)}};
  }

private:
  const HearingEncoder own_;
  const Hearing hearing_;
};

Result<GgufModel> SoundTower::gguf(const ModelFile& file) const {
  for (const auto& [activation, field] : {std::pair(config().activation, "audio_config.activation_function"),
                                          {own_.activation, "projector_hidden_act"}}) {
    if (activation != Activation::gelu)
      return file.fields().error(
          field, fmt::format("expected gelu, which GGUF's models have; found {}", to_string(activation)));
  }
  EncoderBuilder builder(config(), false, &file);
  build(builder);
  PUMICE_CHECK(builder.status());
  GgufModel model;
  model.architecture = "clip";
  model.tensors = builder.gguf_tensors();
  nlohmann::json metadata = {
      {"has_audio_encoder", true},
      {"projector_type", hearing_.projector},
      {"use_gelu", true},
      {"audio.num_mel_bins", config().input_shape[0]},
      {"audio.embedding_length", config().hidden},
      {"audio.feed_forward_length", config().feed_forward},
      {"audio.block_count", config().layers},
      {"audio.attention.head_count", config().heads},
      {"audio.attention.layer_norm_epsilon", config().norm_eps},
      {columns_key, own_.size},
  };
  if (!hearing_.pooled) metadata[stack_key] = config().sound_windows->joined;
  for (const auto& [key, value] : metadata.items()) model.metadata["clip." + key] = value;
  model.metadata["general.type"] = "mmproj";
  return model;
}

// "audio_config", whose fields have the names of either family, with the defaults that both have.
nlohmann::json audio_fields(const ModelFile& file) {
  nlohmann::json all = with_defaults(file, "audio_config", nlohmann::json::object());
  for (const auto& [name, other, value] : {std::tuple("hidden_size", "d_model", 1280),
                                           {"intermediate_size", "encoder_ffn_dim", 5120},
                                           {"num_hidden_layers", "encoder_layers", 32},
                                           {"num_attention_heads", "encoder_attention_heads", 20},
                                           {"num_mel_bins", "num_mel_bins", 128},
                                           {"max_source_positions", "max_source_positions", 1500}}) {
    if (!all.contains(name)) all[name] = all.contains(other) ? all[other] : nlohmann::json(value);
  }
  return all;
}

// All but the windows.
Result<EncoderConfig> read_audio_config(const Settings& settings) {
  StackConfigNames names;
  names.vocabulary = {};
  names.context = {"max_source_positions", ""};
  names.hidden.gguf = "audio.embedding_length";
  names.layers.gguf = "audio.block_count";
  names.heads.gguf = "audio.attention.head_count";
  names.feed_forward.gguf = "audio.feed_forward_length";
  names.norm_eps = {"", "audio.attention.layer_norm_epsilon"};
  names.activation = {"activation_function", ""};
  names.set_heads_share_columns();
  names.default_norm_eps = norm_eps;
  names.default_activation = Activation::gelu; // whatever GGUF's files say
  EncoderConfig config;
  PUMICE_TRY(static_cast<StackConfig&>(config), read_stack_config(settings, names));
  if (settings.gguf()) {
    const TensorView* table = settings.file().find("a.position_embd.weight");
    config.context = table ? static_cast<uint32_t>(std::min<uint64_t>(table->shape[0], UINT32_MAX)) : 1500;
  }
  PUMICE_CHECK(set_whisper_input(settings, names.context, config));
  return config;
}

// "text_config" with the defaults of its class.
nlohmann::json text_fields(const ModelFile& file, const Hearing& hearing) {
  if (hearing.pooled) {
    return with_defaults(file, "text_config",
                         {{"model_type", "qwen2"},
                          {"vocab_size", 151936},
                          {"hidden_size", 4096},
                          {"intermediate_size", 22016},
                          {"num_hidden_layers", 32},
                          {"num_attention_heads", 32},
                          {"num_key_value_heads", 32},
                          {"max_position_embeddings", 32768}});
  }
  return with_defaults(file, "text_config",
                       {{"model_type", "llama"},
                        {"vocab_size", 131072},
                        {"hidden_size", 3072},
                        {"intermediate_size", 8192},
                        {"num_hidden_layers", 30},
                        {"num_attention_heads", 32},
                        {"num_key_value_heads", 8},
                        {"head_dim", 128},
                        {"max_position_embeddings", 131072},
                        {"rms_norm_eps", 1e-5},
                        {"rope_theta", 1e8}});
}

Result<HearingEncoder> read_hearing(const ModelFile& file, const Hearing& hearing) {
  HearingEncoder own;
  own.gguf = file.is_mmproj();
  const nlohmann::json all = own.gguf ? nlohmann::json() : audio_fields(file);
  const Settings settings =
      own.gguf ? Settings(file) : Settings(file, Fields(all, file.path() + "/config.json", "audio_config."));
  PUMICE_TRY(own.encoder, read_audio_config(settings));
  EncoderConfig& config = own.encoder;
  SoundWindows windows{2, hearing.pooled};
  if (!hearing.pooled) {
    const SettingName feed_forward = {"intermediate_size", stack_key};
    if (own.gguf) {
      PUMICE_TRY(windows.joined, settings.u32({"", stack_key}, 1, most_stacked));
    } else {
      windows.joined = config.feed_forward / config.hidden;
    }
    if (windows.joined == 0 || config.context % windows.joined != 0 ||
        (!own.gguf && config.feed_forward % config.hidden != 0)) {
      return settings.error(
          feed_forward,
          fmt::format("expected a multiple of the {} columns of a position, such that the {} "
                      "positions of a window make whole rows; found {}",
                      config.hidden, config.context, own.gguf ? windows.joined : config.feed_forward));
    }
  }
  config.sound_windows = windows;
  if (own.gguf) {
    PUMICE_TRY(own.size, settings.u32({"", columns_key}, 1, limits::columns));
    return own;
  }
  PUMICE_TRY(own.activation, Settings(file).activation_or({"projector_hidden_act", ""}, Activation::gelu));
  const nlohmann::json text = text_fields(file, hearing);
  PUMICE_TRY(
      own.size,
      Fields(text, file.path() + "/config.json", "text_config.").u32("hidden_size", 1, limits::columns));
  own.prefix = prefix_of(file, "conv1.weight", {"audio_tower.", "model.audio_tower."});
  own.projector = prefix_of(file, hearing.pooled ? "linear.weight" : "linear_1.weight",
                            {"multi_modal_projector.", "model.multi_modal_projector."});
  return own;
}

PictureTokens shown_as(const Hearing& hearing, const SoundWindows& windows, uint32_t positions) {
  PictureTokens tokens;
  tokens.sounds = true;
  tokens.rows = positions / windows.joined; // at most
  tokens.markup.opening = hearing.begin;
  tokens.markup.picture = hearing.sound;
  tokens.markup.end = hearing.end;
  tokens.markup.place = tokens.markup.text({});
  const std::string shown = hearing.before + tokens.markup.place;
  tokens.question = shown + hearing.question;
  if (*hearing.transcription) tokens.transcription = shown + hearing.transcription;
  tokens.spoken = hearing.spoken;
  return tokens;
}

OpenedDefinition open_hearing(const ModelFile& file, const Hearing& hearing) {
  PUMICE_TRY(const HearingEncoder own, read_hearing(file.mmproj() ? *file.mmproj() : file, hearing));
  PictureTokens tokens = shown_as(hearing, *own.encoder.sound_windows, own.encoder.context);
  if (file.mmproj()) {
    PUMICE_CHECK(check_pair(file, hearing.decoder, own.size, "clip.audio.projection_dim"));
    PUMICE_TRY(tokens.token, vocabulary_token(file, tokens.markup.picture));
    return open_decoder(hearing.decoder, Settings(file), std::move(tokens));
  }
  if (hearing.token) {
    PUMICE_TRY(tokens.token, file.fields().u32_or(hearing.token_field, 0, limits::tokens, *hearing.token));
  } else {
    PUMICE_TRY(tokens.token, file.fields().u32(hearing.token_field, 0, limits::tokens));
  }
  const nlohmann::json text = text_fields(file, hearing);
  const Fields fields(text, file.path() + "/config.json", "text_config.");
  PUMICE_TRY(const std::string type, fields.string("model_type"));
  if (type != hearing.decoder)
    return fields.error("model_type", fmt::format("expected {}; found '{}'", hearing.decoder, type));
  const uint32_t token = tokens.token;
  PUMICE_TRY(std::unique_ptr<ModelDefinition> decoder,
             open_decoder(hearing.decoder, Settings(file, fields), std::move(tokens)));
  if (const uint32_t count = decoder->shape().vocabulary; token >= count)
    return file.fields().error(
        hearing.token_field,
        fmt::format("expected a token of the {} in the vocabulary; found {}", count, token));
  return OpenedDefinition(std::move(decoder));
}

// The table has a name for each in config.json that is also the entry's.
Architecture entry(std::string_view name, const Hearing& hearing) {
  Architecture made{name, {name}, {}, [=](const ModelFile& file) { return open_hearing(file, hearing); }};
  made.open_pictures = [=](const ModelFile& file) -> OpenedDefinition {
    PUMICE_TRY(HearingEncoder own, read_hearing(file, hearing));
    return std::unique_ptr<ModelDefinition>(std::make_unique<SoundTower>(std::move(own), hearing));
  };
  made.gguf_projectors = {hearing.projector};
  return made;
}

} // namespace

Architectures audio_language_models() {
  return {
      // Qwen2-Audio (Chu et al. 2024).
      entry("qwen2_audio", {"qwen2a", "qwen2", true, "<|audio_bos|>", "<|AUDIO|>", "<|audio_eos|>",
                            "audio_token_index", 151646, "", "Generate the caption in English:"}),
      // Voxtral (Mistral AI 2025).
      entry("voxtral", {"voxtral",
                        "llama",
                        false,
                        "[BEGIN_AUDIO]",
                        "[AUDIO]",
                        "",
                        "audio_token_id",
                        {},
                        "[INST]",
                        "Describe this sound.[/INST]",
                        "[/INST]{language}[TRANSCRIBE]",
                        "lang:{code}"}),
  };
}

} // namespace pumice

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "kernel/elementwise/elementwise.h"
#include "kernel/embedding/embedding.h"
#include "kernel/heads/heads.h"
#include "kernel/norm/norm.h"
#include "kernel/streams/streams.h"
#include "models/decoder/decoder.h"
#include "models/decoder/rotary.h"
#include "models/gemma/gemma3n_audio.h"
#include "models/gemma/layer_inputs.h"
#include "models/vision_language/vision_language.h"

namespace pumice {

namespace {

constexpr float all_columns = -std::numeric_limits<float>::infinity(); // of a feed-forward count

// What Gemma 3n has besides the settings of other decoders.
struct Gemma3n {
  uint32_t streams = 4, active = 0; // of AltUp: how many, and which one layers compute
  bool scaled = true;               // what of the active stream each layer's input is gated by
  uint32_t laurel = 0;              // columns between the two projections of LAuReL
  uint32_t layer_input = 0;         // columns of a token's further embedding for each layer
  uint32_t layer_vocabulary = 0;    // rows of the table of these
  std::vector<float> deviations;    // by layer, see SparseGate
  // Tokens that the embedders of pictures and sounds have tables of, in this order, behind all others.
  struct Embedder {
    std::string prefix;
    uint32_t tokens = 128, columns = 2048;
    float eps = 1e-6f;
  };
  std::vector<Embedder> embedders;
};

std::string node(const DecoderBuilder& builder, std::string_view name) {
  return builder.prefix() + std::string(name);
}

TensorId stream(DecoderBuilder& builder, TensorId x, uint32_t index, std::string_view name) {
  const uint32_t columns = builder.config().hidden;
  return builder.graph().add_tensor(
      {node(builder, name), RowKind::tokens, columns, View{x, index * columns}});
}

// A number for each stream, of which the factors between streams are made.
TensorId route(DecoderBuilder& builder, TensorId x, const Gemma3n& own, std::string_view name) {
  const WeightId weight =
      builder.norm_weight({"altup.router_norm", "altup_router_norm"}, builder.config().hidden);
  const TensorId y =
      rms_norm(builder.graph(), node(builder, name) + "_norm", x, weight, builder.config().norm_eps);
  const WeightView router = builder.tensor({"altup.modality_router", "altup_router"}, ".weight", own.streams,
                                           builder.config().hidden, "feed-forward");
  return builder.project(y, node(builder, name), router, nullptr, "feed-forward");
}

WeightId coefficients(DecoderBuilder& builder, const TensorName& name, uint32_t rows, const Gemma3n& own) {
  return builder.weight(builder.tensor(name, ".weight", rows, own.streams, "feed-forward"), "feed-forward");
}

TensorId attend(const Decoder& d, DecoderBuilder& builder, uint32_t layer, TensorId x) {
  AttentionStyle style = d.style;
  if (d.config.windows[layer]) style.rotary = &*d.rotary_in_windows;
  const AttentionInputs inputs = builder.query_key_value(x, style);
  // Published files have them in layers that use those of others too, and llama.cpp wants them.
  const LayerSizes sizes = d.config.sizes_of(layer);
  for (const TensorName& name : {TensorName{"self_attn.k_proj", "attn_k"}, {"self_attn.v_proj", "attn_v"}}) {
    if (d.config.cache_of(layer) != layer && builder.has(name, ".weight"))
      builder.tensor(name, ".weight", sizes.kv_heads * sizes.head_dim, d.config.hidden, "attention");
  }
  if (d.config.cache_of(layer) != layer && builder.has(style.key_norm, ".weight"))
    builder.tensor(style.key_norm, ".weight", sizes.head_dim, 0, "norms");
  return builder.attend_and_project(layer, inputs, style);
}

// LAuReL (Menghani et al., Learned Augmented Residual Layer, 2024): x and a norm of a narrow projection.
TensorId laurel(DecoderBuilder& builder, TensorId x, const Gemma3n& own) {
  TensorId y = builder.project(x, {"laurel.linear_left", "laurel_l"}, own.laurel, false, "feed-forward");
  y = builder.project(y, {"laurel.linear_right", "laurel_r"}, builder.config().hidden, false, "feed-forward");
  return builder.add(builder.norm(y, {"laurel.post_laurel_norm", "laurel_post_norm"}), x, "laurel");
}

TensorId feed_forward(DecoderBuilder& builder, uint32_t layer, TensorId x, const Gemma3n& own) {
  const DecoderConfig& config = builder.config();
  const uint32_t rows = config.sizes_of(layer).feed_forward;
  const GatedNames names;
  if (own.deviations[layer] == all_columns) return builder.gated_feed_forward(x, names, rows);
  const TensorId opened = builder.project(x, names.gate, rows, false, "feed-forward");
  const TensorId up = builder.project(x, names.up, rows, false, "feed-forward");
  const TensorId y = sparse_gate(builder.graph(), node(builder, names.result), opened, up, config.activation,
                                 own.deviations[layer]);
  return builder.project(y, names.down, config.hidden, false, "feed-forward");
}

// What a layer makes of its prediction of the active stream.
TensorId compute(const Decoder& d, DecoderBuilder& builder, uint32_t layer, TensorId x, const Gemma3n& own) {
  const TensorId input = builder.norm(x, d.norms.attention_input);
  const TensorId augmented = laurel(builder, input, own);
  TensorId y = builder.norm(attend(d, builder, layer, input), d.norms.attention_result);
  y = builder.add(builder.add(y, x, "attention_residual"), augmented, "augmented");
  y = scale(builder.graph(), node(builder, "augmented_residual"), y, std::sqrt(0.5f));
  const TensorId fed = feed_forward(builder, layer, builder.norm(y, d.norms.feed_forward_input), own);
  return builder.add(builder.norm(fed, d.norms.feed_forward_result), y, "residual");
}

TensorId block(const Decoder& d, DecoderBuilder& builder, uint32_t layer, TensorId x, TensorId layer_inputs,
               const Gemma3n& own) {
  Graph& graph = builder.graph();
  const float routed = 1 / static_cast<float>(d.config.hidden);
  // Streams may begin where not every kernel can: what several read is copied.
  const auto copied = [&](TensorId from, std::string_view view, std::string_view name) {
    return scale(graph, node(builder, name), stream(builder, from, own.active, view), 1);
  };
  const TensorId predicted = predict_streams(
      graph, node(builder, "predicted"), x, route(builder, copied(x, "stream", "active"), own, "predicting"),
      routed,
      coefficients(builder, {"altup.prediction_coefs", "altup_predict_coef"}, own.streams * own.streams, own),
      own.streams);
  const TensorId computed =
      compute(d, builder, layer, copied(predicted, "predicted_stream", "predicted_active"), own);
  MixStreams correction;
  correction.streams = own.streams;
  correction.active = own.active;
  correction.scale = routed;
  const TensorId corrected = correct_streams(
      graph, node(builder, "corrected"), predicted, route(builder, computed, own, "correcting"), computed,
      coefficients(builder, {"altup.correction_coefs", "altup_correct_coef"}, own.streams, own), correction);
  TensorId gating;
  if (own.scaled) {
    const WeightView factors = builder.tensor({"altup.correct_output_scale", "altup_correct_scale.weight"},
                                              "", d.config.hidden, 0, "norms");
    gating = scale_columns(graph, node(builder, "corrected_active"),
                           stream(builder, corrected, own.active, "corrected_stream"),
                           builder.weight(factors, "norms"));
  } else {
    gating = copied(corrected, "corrected_stream", "corrected_active");
  }
  const TensorId added = gated_layer_input(builder, gating, layer_inputs, layer, own.layer_input);
  return add_to_streams(graph, node(builder, "streams"), corrected, added, own.streams);
}

// Matrices of all streams but the first.
std::vector<WeightId> stream_matrices(DecoderBuilder& builder, const TensorName& name, const Gemma3n& own) {
  std::vector<WeightId> ids;
  const uint64_t columns = builder.config().hidden;
  for (const WeightView& view : builder.expert_tensors(name, own.streams - 1, columns, columns))
    ids.push_back(builder.weight(view, "embedding"));
  return ids;
}

// x, but for tokens of the embedders' own.
TensorId embed_further(const Decoder& d, DecoderBuilder& builder, TensorId x, const Gemma3n& own) {
  if (own.embedders.empty()) return x;
  const uint64_t hidden = d.config.hidden;
  struct Part {
    WeightView table, norm, matrix;
    uint64_t tokens = 0;
    float eps = 0;
  };
  std::vector<Part> parts;
  uint32_t count = 0;
  for (const Gemma3n::Embedder& each : own.embedders) {
    builder.prefix(each.prefix, "");
    parts.push_back(
        {builder.tensor({"embedding", ""}, ".weight", each.tokens, each.columns, "embedding"),
         builder.tensor({"hard_embedding_norm", ""}, ".weight", each.columns, 0, "norms"),
         builder.tensor({"embedding_projection", ""}, ".weight", hidden, each.columns, "embedding"),
         each.tokens, each.eps});
    count += each.tokens;
  }
  builder.prefix("", "");
  const WeightView table =
      builder.derived_tensor("further_tokens", {count, hidden}, [&](std::span<float> to) {
        for (const Part& part : parts) {
          const std::vector<float> rows = decode_vector(part.table), norm = decode_vector(part.norm),
                                   matrix = decode_vector(part.matrix);
          for (uint64_t token = 0; token < part.tokens; ++token, to = to.subspan(hidden)) {
            const std::span<float> row = to.first(hidden);
            project_token(rows, token, norm, matrix, part.table.columns, part.eps, row);
            const double squares = std::transform_reduce(row.begin(), row.end(), 0.0, std::plus<>(),
                                                         [](float v) { return double{v} * v; });
            const double factor = 1 / std::sqrt(squares / static_cast<double>(hidden) + part.eps);
            for (float& each : row) each = static_cast<float>(factor * each);
          }
        }
      });
  return further_embedding(builder.graph(), "further_tokens", x, builder.weight(table, "embedding"),
                           d.config.vocabulary - count);
}

void build_gemma3n(const Decoder& d, DecoderBuilder& builder, const Gemma3n& own) {
  Graph& graph = builder.graph();
  const uint32_t columns = d.config.hidden;
  const TensorId embedded = builder.with_pictures(
      embed_further(d, builder, builder.embed(d.names.embedding, d.config.embedding_scale), own));
  const TensorId layer_inputs = per_layer_inputs(builder, embedded, own.layer_input, own.layer_vocabulary);
  const TensorId others = head_linear(graph, "other_streams", embedded, {0, 0, columns},
                                      stream_matrices(builder, {"altup_projections.{}", "altup_proj"}, own));
  const TensorId streams = match_streams(graph, "streams", embedded, others, own.streams);
  const auto described = [&](uint32_t layer, TensorId x) {
    x = block(d, builder, layer, x, layer_inputs, own);
    if (layer + 1 < d.config.layers) return x;
    builder.prefix("", "");
    const TensorId further =
        graph.add_tensor({"further_streams", RowKind::tokens, (own.streams - 1) * columns, View{x, columns}});
    const TensorId back =
        head_linear(graph, "joined_streams", further, {columns, 0, columns},
                    stream_matrices(builder, {"altup_unembed_projections.{}", "altup_unembd_proj"}, own));
    return mean_stream(graph, "mean_stream", x, back, own.streams);
  };
  builder.decode_embedded(streams, described, d.names);
}

// x with so much of the normal distribution below it.
float normal_quantile(double share) {
  double low = -40, high = 40;
  for (int i = 0; i < 80; ++i) {
    const double middle = (low + high) / 2;
    (std::erfc(-middle / std::sqrt(2.0)) / 2 < share ? low : high) = middle;
  }
  return static_cast<float>((low + high) / 2);
}

// How many deviations above its mean a column of the gate counts, by layer. config.json has the share of
// columns that do not.
Result<std::vector<float>> read_deviations(const Settings& settings, uint32_t layers) {
  const SettingName name = {"activation_sparsity_pattern", "activation_sparsity_scale"};
  std::vector<float> values(layers, all_columns);
  if (layers > 10) std::fill_n(values.begin(), 10, normal_quantile(0.95));
  if (settings.gguf()) {
    const GgufArray* list = settings.file().array(settings.name(name));
    if (!list) return values;
    values = list->floats();
  } else if (settings.has(name)) {
    PUMICE_TRY(values, settings.fields().f32_array(name.hugging_face));
    for (float& value : values) {
      if (value >= 1) return settings.error(name, fmt::format("expected shares below 1; found {}", value));
      value = value > 0 ? normal_quantile(value) : all_columns;
    }
  }
  if (values.size() != layers) {
    return settings.error(
        name, fmt::format("expected one for each of the {} layers; found {}", layers, values.size()));
  }
  for (const float value : values) {
    if (!(value < 40)) return settings.error(name, fmt::format("expected fewer than 40; found {}", value));
  }
  return values;
}

// The projections' columns, which GGUF has no key for.
Result<uint32_t> read_laurel(const Settings& settings) {
  if (!settings.gguf()) return settings.u32_or({"laurel_rank", ""}, 1, limits::columns, 64);
  const TensorView* tensor = settings.file().find("blk.0.laurel_l.weight");
  return tensor && tensor->shape.size() == 2 ? static_cast<uint32_t>(tensor->shape[0]) : 64;
}

Result<Gemma3n> read_gemma3n(const Settings& settings, const DecoderConfig& config) {
  Gemma3n own;
  PUMICE_TRY(own.streams, settings.u32_or({"altup_num_inputs", "altup.num_inputs"}, 2, most_streams, 4));
  PUMICE_TRY(own.active, settings.u32_or({"altup_active_idx", "altup.active_idx"}, 0, own.streams - 1, 0));
  PUMICE_TRY(own.scaled, settings.boolean_or({"altup_correct_scale", ""}, true));
  if (settings.gguf() && settings.file().has_weights())
    own.scaled = settings.file().find("blk.0.altup_correct_scale.weight");
  PUMICE_TRY(own.laurel, read_laurel(settings));
  const SettingName inputs = {"hidden_size_per_layer_input", "embedding_length_per_layer_input"};
  PUMICE_TRY(own.layer_input, settings.u32_or(inputs, 4, limits::columns, 256));
  if (own.layer_input % 4)
    return settings.error(inputs, fmt::format("expected a multiple of 4; found {}", own.layer_input));
  if (config.hidden % 4) {
    return settings.error({"hidden_size", "embedding_length"},
                          fmt::format("expected a multiple of 4; found {}", config.hidden));
  }
  PUMICE_TRY(own.layer_vocabulary, settings.u32_or({"vocab_size_per_layer_input", ""}, 1, limits::tokens,
                                                   settings.gguf() ? config.vocabulary : 262144));
  constexpr uint32_t most_missing = 1 << 16; // which GGUF has
  if (config.vocabulary > own.layer_vocabulary + most_missing) {
    return settings.error({"vocab_size_per_layer_input", ""},
                          fmt::format("expected at least {}, for a vocabulary of {}; found {}",
                                      config.vocabulary - most_missing, config.vocabulary,
                                      own.layer_vocabulary));
  }
  PUMICE_TRY(own.deviations, read_deviations(settings, config.layers));
  return own;
}

// Of a folder with the encoders of pictures and sounds.
Status read_embedders(const Settings& settings, uint32_t vocabulary, Gemma3n& own) {
  const ModelFile& file = settings.file();
  if (settings.gguf() || !file.fields().has("audio_config")) return {};
  uint32_t all = 0, first = 0;
  for (const auto& [name, field] :
       {std::pair("embed_vision.", "vision_config"), {"embed_audio.", "audio_config"}}) {
    Gemma3n::Embedder each;
    const bool sounds = !own.embedders.empty();
    const nlohmann::json json = with_defaults(file, field, {{"hidden_size", sounds ? 1536 : 2048}});
    const Fields fields(json, file.path() + "/config.json", std::string(field) + ".");
    PUMICE_TRY(each.tokens, fields.u32_or("vocab_size", 1, 1 << 20, 128));
    PUMICE_TRY(each.columns, fields.u32("hidden_size", 1, limits::columns));
    PUMICE_TRY(each.eps, fields.f32_or("rms_norm_eps", 0.0f, 1.0f, 1e-6f));
    PUMICE_TRY(const uint32_t offset,
               fields.u32_or("vocab_offset", 1, limits::tokens, sounds ? 262272 : 262144));
    if (sounds ? offset != first + all : offset > vocabulary)
      return fields.error("vocab_offset", fmt::format("expected the end of other tokens; found {}", offset));
    if (!sounds) first = offset;
    all += each.tokens;
    each.prefix = name;
    own.embedders.push_back(std::move(each));
  }
  if (first + all == vocabulary) return {};
  return settings.error(
      {"vocab_size", ""},
      fmt::format("expected {}, with the tokens of pictures and sounds; found {}", first + all, vocabulary));
}

// Each layer may have another width.
Status read_widths(const Settings& settings, DecoderConfig& config) {
  PUMICE_TRY(const std::vector<uint32_t> sizes,
             settings.u32_each({"intermediate_size", "feed_forward_length"}, config.layers, 1,
                               4 * limits::columns, 16384));
  config.feed_forward = *std::ranges::max_element(sizes);
  if (std::ranges::all_of(sizes, [&](uint32_t size) { return size == config.feed_forward; })) return {};
  for (const uint32_t size : sizes) config.layer_sizes.push_back({config.kv_heads, config.head_dim, size});
  return {};
}

// The text model of Gemma 3n (Gemma Team 2025): streams of columns, of which layers compute one (AltUp),
// learned residuals (LAuReL), a further embedding of each token for each layer, last layers that attend to
// the keys and values of earlier ones, and layers of which a feed-forward has few columns that count.
Status describe_gemma3n(const Settings& settings, Decoder& d) {
  DecoderConfig& config = d.config;
  PUMICE_CHECK(settings.expect("tie_word_embeddings", true, true));
  config.embedding_scale = std::sqrt(static_cast<float>(config.hidden));
  config.root = "model."; // or, where the model also sees and hears, another
  d.names = {.embedding = {"embed_tokens", "token_embd"},
             .layers = "layers.{}.",
             .norm = {"norm", "output_norm"},
             .head = {"", "output"}};
  d.norms = norms_around;
  RotaryConfig& local = d.rotary_in_windows.emplace();
  local.pairs = config.rotary.pairs = RotaryPairs::half_split;
  local.dim = config.rotary.dim = config.head_dim;
  local.base = 10000;
  config.rotary.base = 1e6f;
  PUMICE_CHECK(read_rotary_in_windows(settings, config, local));
  PUMICE_CHECK(read_periodic_windows(settings, 512, 5, config));
  PUMICE_CHECK(read_widths(settings, config));
  if (!settings.gguf()) config.sharing_layers = 15; // unless it says otherwise
  PUMICE_CHECK(read_sharing_layers(settings, config));
  PUMICE_CHECK(d.read_biases(settings, attention_biases));
  if (d.style.input_bias) d.refuse_gguf(settings, "attention_bias", "have no biases");
  d.style.score_scale = 1;
  d.style.head_norms = d.style.value_norm = true;
  PUMICE_TRY(config.logit_soft_cap,
             settings.f32_or({"final_logit_softcapping", "final_logit_softcapping"}, 0.0f, 1e6f, 30.0f));
  PUMICE_TRY(Gemma3n own, read_gemma3n(settings, config));
  PUMICE_CHECK(read_embedders(settings, config.vocabulary, own));
  d.own_build = [own](const Decoder& decoder, DecoderBuilder& builder) {
    build_gemma3n(decoder, builder, own);
  };
  const auto sparse = std::ranges::count_if(own.deviations, [](float v) { return v > all_columns; });
  d.shown = {{"rotary in windows", describe(local)},
             {"layers without keys", fmt::format("{}", config.sharing_layers)},
             {"input of each layer", fmt::format("{}", own.layer_input)},
             {"streams", fmt::format("{}, of which layers compute number {}", own.streams, own.active)},
             {"rank of residuals", fmt::format("{}", own.laurel)},
             {"sparse feed-forwards", fmt::format("in {} of {} layers", sparse, config.layers)}};
  d.gguf_metadata = gguf_rotary_in_windows(local);
  d.gguf_metadata.update(gguf_windows(config));
  d.gguf_metadata.update({{"attention.shared_kv_layers", config.sharing_layers},
                          {"final_logit_softcapping", config.logit_soft_cap},
                          {"embedding_length_per_layer_input", own.layer_input},
                          {"altup.num_inputs", own.streams},
                          {"altup.active_idx", own.active},
                          {"activation_sparsity_scale", own.deviations}});
  if (config.layer_sizes.empty()) return {};
  nlohmann::json& sizes = d.gguf_metadata["feed_forward_length"] = nlohmann::json::array();
  for (const LayerSizes& each : config.layer_sizes) sizes.push_back(each.feed_forward);
  return {};
}

// A folder with the encoder of sounds. That of pictures is not read.
OpenedDefinition open_gemma3n(const ModelFile& file) {
  if (!file.fields().has("audio_config")) return open_decoder("gemma3n", Settings::of_text(file));
  PUMICE_TRY(const std::string begin, picture_token(file, "boa_token", "<start_of_audio>"));
  PUMICE_TRY(const std::string sound, picture_token(file, "audio_token", "<audio_soft_token>"));
  PUMICE_TRY(const std::string end, picture_token(file, "eoa_token", "<end_of_audio>"));
  PictureTokens tokens;
  tokens.sounds = true;
  tokens.markup.place = tokens.markup.picture = sound;
  tokens.markup.begin = "\n\n" + begin;
  tokens.markup.end = end + "\n\n";
  tokens.question = sound + "Describe this sound.";
  PUMICE_TRY(tokens.token, file.fields().u32_or("audio_token_id", 0, limits::tokens, 262273));
  PUMICE_TRY(tokens.rows, file.fields().u32_or("audio_soft_tokens_per_image", 1, 4096, 188));
  return open_decoder("gemma3n", Settings::of_text(file), std::move(tokens));
}

} // namespace

Architectures gemma3n_models() {
  return {{"gemma3n_sounds", {"gemma3n"}, {}, open_gemma3n, open_gemma3n_sounds},
          decoder("gemma3n", {"gemma3n_text"}, {"gemma3n"},
                  {.feed_forward = {},
                   .activation = {"hidden_activation", ""},
                   .default_context = 32768,
                   .default_head_dim = 256,
                   .default_activation = Activation::gelu_tanh,
                   .tied_by_default = true,
                   .rotary = false},
                  describe_gemma3n)};
}

} // namespace pumice

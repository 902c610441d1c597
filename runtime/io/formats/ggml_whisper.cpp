#include "io/formats/ggml_whisper.h"

#include <algorithm>
#include <array>
#include <optional>
#include <unordered_map>
#include <unordered_set>

#include <fmt/format.h>

#include "io/bytes.h"
#include "io/formats/gguf_array.h"
#include "io/formats/whisper_settings.h"
#include "io/tensor_type.h"

namespace pumice {

namespace {

using nlohmann::json;

constexpr uint32_t ggml_magic = 0x67676d6c; // "ggml", most significant byte first
constexpr uint32_t most_size = 1 << 20, most_bands = 1024;
constexpr uint32_t most_name_bytes = 256;
constexpr uint32_t quantisation_version = 2; // of the blocks that are read here
constexpr uint32_t version_factor = 1000;    // the version is the thousands of the file's type
constexpr uint32_t gpt2_words = 50256;       // of the vocabulary of models for English alone
constexpr uint32_t first_quantised_type = 2; // in ggml's numbers of types

// In the order of their tokens (Whisper's tokenizer).
constexpr std::string_view languages[] = {
    "en", "zh", "de", "es", "ru", "ko", "fr", "ja", "pt",  "tr", "pl", "ca", "nl", "ar", "sv", "it", "id",
    "hi", "fi", "vi", "he", "uk", "el", "ms", "cs", "ro",  "da", "hu", "ta", "no", "th", "ur", "hr", "bg",
    "lt", "la", "mi", "ml", "cy", "sk", "te", "fa", "lv",  "bn", "sr", "az", "sl", "kn", "et", "mk", "br",
    "eu", "is", "hy", "ne", "mn", "bs", "kk", "sq", "sw",  "gl", "mr", "pa", "si", "km", "sn", "yo", "so",
    "af", "oc", "ka", "be", "tg", "sd", "gu", "am", "yi",  "lo", "uz", "fo", "ht", "ps", "tk", "nn", "mt",
    "sa", "lb", "my", "bo", "tl", "mg", "as", "tt", "haw", "ln", "ha", "ba", "jw", "su", "yue"};
// After the languages; the tokens of times follow.
constexpr std::string_view instructions[] = {"<|translate|>",   "<|transcribe|>", "<|startoflm|>",
                                             "<|startofprev|>", "<|nospeech|>",   "<|notimestamps|>"};

// What is not spoken: Whisper's settings suppress the tokens of these symbols, with and without a space
// before them (Radford et al. 2022, in the tokenizer of the code that was published with it).
constexpr std::string_view unspoken[] = {
    "\"",  "#",  "(",  ")",  "*",   "+",  "/",  ":",   ";",   "<",  "=",  ">",  "@",  "[",   "\\",  "]",
    "^",   "_",  "`",  "{",  "|",   "}",  "~",  "「",  "」",  "『", "』", "<<", ">>", "<<<", ">>>", "--",
    "---", "-(", "-[", "('", "(\"", "((", "))", "(((", ")))", "[[", "]]", "{{", "}}", "♪♪",  "♪♪♪"};
// Of these the token that they begin with.
constexpr std::string_view musical[] = {"♩", "♪", "♫", "♬", "♭", "♮", "♯"};
// Only with a space before them.
constexpr std::string_view dashes[] = {" -", " '"};

struct Sizes {
  uint32_t vocabulary = 0;
  uint32_t audio_context = 0, audio_hidden = 0, audio_heads = 0, audio_layers = 0;
  uint32_t text_context = 0, text_hidden = 0, text_heads = 0, text_layers = 0;
  uint32_t mels = 0, type = 0;
};

// Names of Whisper's own code and of Hugging Face's.
constexpr std::pair<std::string_view, std::string_view> outer_names[] = {
    {"positional_embedding", "embed_positions.weight"},
    {"token_embedding.weight", "embed_tokens.weight"},
    {"ln_post.", "layer_norm."},
    {"ln.", "layer_norm."},
    {"conv1.", "conv1."},
    {"conv2.", "conv2."}};
constexpr std::pair<std::string_view, std::string_view> block_names[] = {
    {"attn.query.", "self_attn.q_proj."},
    {"attn.key.", "self_attn.k_proj."},
    {"attn.value.", "self_attn.v_proj."},
    {"attn.out.", "self_attn.out_proj."},
    {"attn_ln.", "self_attn_layer_norm."},
    {"cross_attn.query.", "encoder_attn.q_proj."},
    {"cross_attn.key.", "encoder_attn.k_proj."},
    {"cross_attn.value.", "encoder_attn.v_proj."},
    {"cross_attn.out.", "encoder_attn.out_proj."},
    {"cross_attn_ln.", "encoder_attn_layer_norm."},
    {"mlp.0.", "fc1."},
    {"mlp.2.", "fc2."},
    {"mlp_ln.", "final_layer_norm."}};

// The beginning of a name replaced as in the table; empty if it is not there.
std::string renamed(std::string_view name,
                    std::span<const std::pair<std::string_view, std::string_view>> table) {
  for (const auto& [own, other] : table) {
    if (name.starts_with(own)) return fmt::format("{}{}", other, name.substr(own.size()));
  }
  return {};
}

// Hugging Face's name of a tensor; empty if the model has no such tensor.
std::string hugging_face_name(std::string_view name) {
  const size_t side_end = name.find('.');
  const std::string_view side = name.substr(0, side_end);
  if (side_end == std::string_view::npos || (side != "encoder" && side != "decoder")) return {};
  std::string_view rest = name.substr(side_end + 1);
  constexpr std::string_view blocks = "blocks.";
  if (!rest.starts_with(blocks)) {
    const std::string outer = renamed(rest, outer_names);
    return outer.empty() ? "" : fmt::format("model.{}.{}", side, outer);
  }
  rest.remove_prefix(blocks.size());
  const size_t number_end = std::min(rest.find('.'), rest.size());
  const std::string inner = renamed(rest.substr(std::min(number_end + 1, rest.size())), block_names);
  return inner.empty() ? "" : fmt::format("model.{}.layers.{}.{}", side, rest.substr(0, number_end), inner);
}

// Special tokens that are no languages.
uint64_t other_tokens(uint64_t positions) {
  return 2 + std::size(instructions) + positions + 1;
}

class GgmlReader {
public:
  GgmlReader(std::span<const std::byte> bytes, const std::string& file) : bytes_(bytes), file_(file) {}

  Result<GgmlWhisper> run() {
    PUMICE_CHECK(read_sizes());
    PUMICE_CHECK(skip_filters());
    PUMICE_CHECK(read_words());
    PUMICE_CHECK(name_special_tokens());
    while (bytes_.remaining() > 0) PUMICE_CHECK(read_tensor());
    PUMICE_CHECK(write_config());
    return std::move(model_);
  }

private:
  Error invalid(const std::string& what) const {
    return {Code::invalid_file, fmt::format("{}: {}", file_, what)};
  }
  Error unsupported(const std::string& what) const {
    return {Code::unsupported, fmt::format("{}: {}", file_, what)};
  }
  Error cut_short(std::string_view what, uint64_t need) const {
    return invalid(fmt::format("{}: expected {} bytes at byte {}, found {} before the end of the file: the "
                               "file is truncated",
                               what, need, bytes_.position(), bytes_.remaining()));
  }

  Result<uint32_t> number(std::string_view what) {
    uint32_t value = 0;
    if (!bytes_.read(value)) return cut_short(what, sizeof value);
    return value;
  }
  Result<std::span<const std::byte>> take(std::string_view what, uint64_t count) {
    std::span<const std::byte> taken;
    if (!bytes_.take(count, taken)) return cut_short(what, count);
    return taken;
  }

  Status read_sizes() {
    PUMICE_TRY(const uint32_t found, number("magic"));
    if (found != ggml_magic) return invalid("expected a file that begins with \"lmgg\"");
    const std::pair<const char*, uint32_t Sizes::*> fields[] = {
        {"n_vocab", &Sizes::vocabulary},         {"n_audio_ctx", &Sizes::audio_context},
        {"n_audio_state", &Sizes::audio_hidden}, {"n_audio_head", &Sizes::audio_heads},
        {"n_audio_layer", &Sizes::audio_layers}, {"n_text_ctx", &Sizes::text_context},
        {"n_text_state", &Sizes::text_hidden},   {"n_text_head", &Sizes::text_heads},
        {"n_text_layer", &Sizes::text_layers},   {"n_mels", &Sizes::mels}};
    for (const auto& [name, field] : fields) {
      PUMICE_TRY(sizes_.*field, number(name));
      if (sizes_.*field >= 1 && sizes_.*field <= most_size) continue;
      return unsupported(fmt::format("{}: expected 1 to {}, found {}: of ggml's files before GGUF, only "
                                     "whisper.cpp's speech models can be read",
                                     name, most_size, sizes_.*field));
    }
    PUMICE_TRY(sizes_.type, number("ftype"));
    if (sizes_.text_hidden != sizes_.audio_hidden)
      return unsupported(fmt::format("n_text_state: expected {}, as n_audio_state, found {}",
                                     sizes_.audio_hidden, sizes_.text_hidden));
    const uint32_t a_second = whisper_sample_rate / whisper_hop / 2;
    if (sizes_.audio_context % a_second == 0) return {};
    return unsupported(fmt::format("n_audio_ctx: expected a multiple of {}, whole seconds, found {}",
                                   a_second, sizes_.audio_context));
  }

  // They follow from the number of bands.
  Status skip_filters() {
    PUMICE_TRY(const uint32_t mels, number("mel filters"));
    PUMICE_TRY(const uint32_t bins, number("mel filters"));
    if (mels != sizes_.mels || mels > most_bands || bins != whisper_n_fft / 2 + 1)
      return unsupported(fmt::format("mel filters: expected [{}, {}], found [{}, {}]",
                                     std::min(sizes_.mels, most_bands), whisper_n_fft / 2 + 1, mels, bins));
    const auto filters = take("mel filters", uint64_t{mels} * bins * sizeof(float));
    return filters.ok() ? Status() : Status(filters.error());
  }

  Status read_words() {
    PUMICE_TRY(const uint32_t count, number("vocabulary"));
    if (count > sizes_.vocabulary)
      return invalid(
          fmt::format("vocabulary: expected at most {} tokens, found {}", sizes_.vocabulary, count));
    std::vector<std::string_view>& words = model_.tokens.words;
    for (uint32_t i = 0; i < count; ++i) {
      PUMICE_TRY(const uint32_t length, number("vocabulary"));
      PUMICE_TRY(const std::span<const std::byte> word, take("vocabulary", length));
      words.push_back(as_text(word));
    }
    if (!words.empty() && words.back() == "<|endoftext|>") words.pop_back();
    for (uint32_t i = 0; i < words.size(); ++i) ids_.emplace(words[i], i);
    return {};
  }

  // The file does not name the tokens after the words. There is a time for each position of the encoder and
  // one more, and as many languages as fit.
  Status name_special_tokens() {
    const uint64_t words = model_.tokens.words.size();
    const uint64_t others = other_tokens(sizes_.audio_context);
    const auto [least, most] = ggml_whisper_tokens(words, sizes_.audio_context);
    if (sizes_.vocabulary < least || sizes_.vocabulary > most)
      return unsupported(
          fmt::format("n_vocab: expected {} to {} with {} words and {} times, found {}: it is not one of "
                      "Whisper's vocabularies",
                      least, most, words, sizes_.audio_context + 1, sizes_.vocabulary));
    std::vector<std::string>& special = model_.tokens.special;
    special = {"<|endoftext|>", "<|startoftranscript|>"};
    for (const std::string_view code : std::span(languages).first(sizes_.vocabulary - words - others))
      special.push_back(fmt::format("<|{}|>", code));
    special.insert(special.end(), std::begin(instructions), std::end(instructions));
    for (uint32_t step = 0; step <= sizes_.audio_context; ++step)
      special.push_back(fmt::format("<|{}.{:02}|>", step / 50, step % 50 * 2));
    return {};
  }

  Status read_tensor() {
    PUMICE_TRY(const uint32_t dimensions, number("dimensions of a tensor"));
    PUMICE_TRY(const uint32_t name_length, number("name of a tensor"));
    PUMICE_TRY(const uint32_t type, number("type of a tensor"));
    if (dimensions < 1 || dimensions > most_gguf_dimensions || name_length < 1 ||
        name_length > most_name_bytes)
      return invalid(
          fmt::format("tensor {}: expected 1 to {} dimensions and a name of 1 to {} bytes, found {} "
                      "and {}: the file is damaged",
                      model_.tensors.size(), most_gguf_dimensions, most_name_bytes, dimensions, name_length));
    TensorView tensor;
    tensor.shape.resize(dimensions);
    for (size_t i = dimensions; i-- > 0;) { // innermost first
      PUMICE_TRY(tensor.shape[i], number("shape of a tensor"));
    }
    PUMICE_TRY(const std::span<const std::byte> name, take("name of a tensor", name_length));
    const std::string what = "tensor " + in_quotes(as_text(name));
    tensor.name = hugging_face_name(as_text(name));
    if (tensor.name.empty()) return unsupported(what + ": expected one of Whisper's, found this name");
    if (!names_.insert(tensor.name).second) return invalid(what + ": the name occurs twice");
    const TensorTypeInfo* known = find_gguf_type(type);
    if (!known)
      return unsupported(
          fmt::format("{}: expected one of the types {}, found type {}", what, tensor_type_names(), type));
    if (type >= first_quantised_type && known->block_size > 1 &&
        sizes_.type / version_factor != quantisation_version)
      return unsupported(fmt::format("{}: its blocks are those of another version of ggml ({}; expected {}): "
                                     "quantise the model again with a whisper.cpp of 2023 or later",
                                     what, sizes_.type / version_factor, quantisation_version));
    tensor.type = known->type;
    // The convolutions' biases are columns, for whisper.cpp's own use.
    if (tensor.name.ends_with(".bias") && dimensions == 2 && tensor.shape[1] == 1) tensor.shape.pop_back();
    const std::optional<uint64_t> bytes = tensor_bytes(tensor.type, tensor.shape);
    if (!bytes || std::ranges::count(tensor.shape, 0) > 0)
      return invalid(fmt::format("{}: a shape of {} is not possible with the type {}", what,
                                 shape_text(tensor.shape), known->name));
    PUMICE_TRY(tensor.data, take(what, *bytes));
    model_.tensors.push_back(std::move(tensor));
    return {};
  }

  uint64_t special_id(std::string_view name) const {
    const std::vector<std::string>& special = model_.tokens.special;
    return model_.tokens.words.size() +
           static_cast<uint64_t>(std::ranges::find(special, name) - special.begin());
  }

  void suppress(std::string_view word, json& ids) const {
    if (const auto found = ids_.find(word); found != ids_.end()) ids.push_back(found->second);
  }

  json suppressed() const {
    json ids = json::array();
    for (const std::string_view dash : dashes) suppress(dash, ids);
    for (const std::string_view symbol : unspoken) {
      suppress(symbol, ids);
      suppress(fmt::format(" {}", symbol), ids);
    }
    for (const std::string_view symbol : musical) {
      for (std::string text : {std::string(symbol), fmt::format(" {}", symbol)}) {
        while (!text.empty() && !ids_.contains(text)) text.pop_back();
        suppress(text, ids);
      }
    }
    return ids;
  }

  Result<uint64_t> rows_of(std::string_view name) const {
    const auto found = std::ranges::find(model_.tensors, name, &TensorView::name);
    if (found != model_.tensors.end()) return found->shape[0];
    return invalid(fmt::format("expected a tensor for \"{}\", found none", name));
  }

  Status write_config() {
    json& config = model_.config;
    config = json::object();
    PUMICE_TRY(config["encoder_ffn_dim"], rows_of("model.encoder.layers.0.fc1.weight"));
    PUMICE_TRY(config["decoder_ffn_dim"], rows_of("model.decoder.layers.0.fc1.weight"));
    config["model_type"] = "whisper";
    config["is_encoder_decoder"] = true;
    config["activation_function"] = "gelu";
    config["d_model"] = sizes_.audio_hidden;
    config["encoder_layers"] = sizes_.audio_layers;
    config["encoder_attention_heads"] = sizes_.audio_heads;
    config["max_source_positions"] = sizes_.audio_context;
    config["decoder_layers"] = sizes_.text_layers;
    config["decoder_attention_heads"] = sizes_.text_heads;
    config["max_target_positions"] = sizes_.text_context;
    config["num_mel_bins"] = sizes_.mels;
    config["vocab_size"] = sizes_.vocabulary;
    config["max_length"] = sizes_.text_context;
    config["decoder_start_token_id"] = special_id("<|startoftranscript|>");
    config["eos_token_id"] = config["pad_token_id"] = special_id("<|endoftext|>");
    config["is_multilingual"] = model_.tokens.words.size() != gpt2_words;
    config["max_initial_timestamp_index"] = whisper_first_timestamp_steps;
    config["suppress_tokens"] = suppressed();
    json first = json::array({special_id("<|endoftext|>")});
    suppress(" ", first);
    config["begin_suppress_tokens"] = first;
    config["preprocessor_config"] = whisper_preprocessor_config(sizes_.mels, sizes_.audio_context);
    return {};
  }

  ByteReader bytes_;
  const std::string& file_;
  Sizes sizes_;
  GgmlWhisper model_;
  std::unordered_map<std::string_view, uint32_t> ids_; // of words
  std::unordered_set<std::string> names_;              // of tensors so far
};

} // namespace

bool is_ggml(std::span<const std::byte> bytes) {
  return as_text(bytes).starts_with("lmgg");
}

std::pair<uint64_t, uint64_t> ggml_whisper_tokens(uint64_t words, uint64_t positions) {
  const uint64_t without_languages = words + other_tokens(positions);
  return {without_languages + 1, without_languages + std::size(languages)};
}

std::vector<std::pair<std::string, std::string>> ggml_whisper_names(uint64_t encoder_layers,
                                                                    uint64_t decoder_layers) {
  std::vector<std::pair<std::string, std::string>> names;
  const auto add = [&](const std::string& own) {
    const bool whole = !own.ends_with('.'); // otherwise the beginning of a weight's and a bias's name
    for (const char* end : {"weight", "bias"}) {
      std::string name = whole ? own : own + end;
      names.emplace_back(name, hugging_face_name(name));
      if (whole) break;
    }
  };
  for (const auto& [side, layers] : {std::pair{"encoder", encoder_layers}, {"decoder", decoder_layers}}) {
    // The last norm has a name for each side.
    const std::string_view others = std::string_view(side) == "encoder" ? "ln." : "ln_post.";
    for (const auto& [own, other] : outer_names) {
      if (own != others) add(fmt::format("{}.{}", side, own));
    }
    for (uint64_t layer = 0; layer < layers; ++layer) {
      for (const auto& [own, other] : block_names) add(fmt::format("{}.blocks.{}.{}", side, layer, own));
    }
  }
  return names;
}

Result<GgmlWhisper> read_ggml_whisper(std::span<const std::byte> bytes, const std::string& file) {
  return GgmlReader(bytes, file).run();
}

} // namespace pumice

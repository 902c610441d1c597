#include "io/ctranslate2.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <optional>

#include <fmt/format.h>

#include "base/align.h"
#include "base/path.h"
#include "io/ctranslate2_file.h"
#include "io/json_text.h"
#include "io/tensor_type.h"

namespace pumice {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using Array = Ctranslate2File::Array;
using ArrayType = Ctranslate2File::Type;

constexpr uint64_t tensor_alignment = 64;
constexpr uint64_t quantised_block = 32, quantised_bytes = 34; // of Q8_0

// A tensor of Hugging Face's form, made of some rows of an array.
struct Piece {
  std::string name;
  const Array* from = nullptr;
  const Array* scale =
      nullptr; // of integers: what numbers were multiplied with, one for each row or one for all
  uint64_t first = 0, rows = 0, columns = 1;
  uint64_t zeros_before = 0, zeros_after = 0; // rows
  std::vector<uint64_t> shape;
  TensorType type = TensorType::f32;

  uint64_t row_bytes() const {
    return type == TensorType::q8_0 ? columns / quantised_block * quantised_bytes
                                    : columns * (type == TensorType::f32 ? 4 : 2);
  }
  uint64_t bytes() const { return (zeros_before + rows + zeros_after) * row_bytes(); }
};

template <class T>
T element(std::span<const std::byte> data, uint64_t index) {
  T value;
  std::memcpy(&value, data.data() + index * sizeof(T), sizeof(T));
  return value;
}

void put_half(std::byte* to, float value) {
  const uint16_t half = float_to_half(value);
  std::memcpy(to, &half, sizeof half);
}

// One row of a piece, in the piece's type.
void write_row(const Piece& piece, uint64_t row, std::byte* to) {
  const uint64_t size = ctranslate2_type_bytes(piece.from->type), begin = (piece.first + row) * piece.columns;
  const std::byte* source = piece.from->data.data() + begin * size;
  if (!piece.scale) {
    std::memcpy(to, source, piece.columns * size);
    return;
  }
  const uint64_t scales = piece.scale->data.size() / 4;
  const float inverse = 1 / element<float>(piece.scale->data, scales > 1 ? piece.first + row : 0);
  if (piece.type == TensorType::q8_0) {
    for (uint64_t block = 0; block < piece.columns / quantised_block; ++block, to += quantised_bytes) {
      put_half(to, inverse);
      std::memcpy(to + 2, source + block * quantised_block, quantised_block);
    }
    return;
  }
  for (uint64_t i = 0; i < piece.columns; ++i) {
    const float whole = piece.from->type == ArrayType::i8
                            ? static_cast<float>(element<int8_t>(piece.from->data, begin + i))
                            : static_cast<float>(element<int16_t>(piece.from->data, begin + i));
    const float value = whole * inverse;
    std::memcpy(to + i * 4, &value, 4);
  }
}

// Collects the tensors and the settings of a model.
class Conversion {
public:
  Conversion(const Ctranslate2File& file, const fs::path& folder, const json& own)
      : file_(file), folder_(folder), own_(own) {}

  Result<Ctranslate2Model> run() {
    if (file_.kind != "TransformerSpec") {
      return Error{
          Code::unsupported,
          fmt::format(
              "{}: expected a model of the kind \"TransformerSpec\", found \"{}\": convert the original "
              "model's folder instead",
              file_.path, file_.kind)};
    }
    PUMICE_CHECK(read_sizes());
    PUMICE_CHECK(file_.find("encoder/layer_0/self_attention/relative_attention_bias") ? convert_t5()
                                                                                      : convert_bart());
    PUMICE_CHECK(read_vocabulary());
    return write();
  }

private:
  Error error(const std::string& what) const {
    return {Code::unsupported, fmt::format("{}: {}", file_.path, what)};
  }

  Result<const Array*> array(const std::string& name) const {
    if (const Array* found = file_.find(name)) return found;
    return Error{Code::invalid_file,
                 fmt::format("{}: expected a tensor \"{}\", found none", file_.path, name)};
  }

  Status read_sizes() {
    for (const char* refused :
         {"decoder/project_in/weight", "encoder/embeddings_1/weight",
          "encoder/layer_0/self_attention/relative_position_keys",
          "encoder/layer_0/self_attention/rotary_dim", "decoder/layer_0/self_attention/rotary_dim",
          "decoder/layer_0/self_attention/num_heads_kv", "encoder/layer_0/post_attention_layer_norm/gamma"}) {
      if (file_.find(refused)) return error(fmt::format("models with \"{}\" are not supported", refused));
    }
    if (file_.number("decoder/alibi", 0) != 0) return error("models with ALiBi are not supported");
    PUMICE_TRY(const Array* table, array("encoder/embeddings_0/weight"));
    PUMICE_TRY(const Array* target, array("decoder/embeddings/weight"));
    PUMICE_TRY(const Array* wide, array("encoder/layer_0/ffn/linear_0/weight"));
    PUMICE_TRY(const Array* fused, array("encoder/layer_0/self_attention/linear_0/weight"));
    for (const Array* each : {table, target, wide, fused}) {
      if (each->shape.size() != 2 || each->shape[0] == 0 || each->shape[1] == 0)
        return error("a matrix has no two dimensions");
    }
    hidden_ = table->shape[1];
    inner_ = fused->shape[0] / 3;
    source_words_ = table->shape[0];
    target_words_ = target->shape[0];
    shared_ = table->data.data() == target->data.data();
    config_["d_model"] = hidden_;
    for (const char* side : {"encoder", "decoder"}) {
      uint32_t& count = side == std::string_view("encoder") ? encoder_layers_ : decoder_layers_;
      while (file_.find(fmt::format("{}/layer_{}/ffn/linear_1/weight", side, count))) ++count;
    }
    wide_ = wide->shape[0];
    heads_ = static_cast<uint64_t>(file_.number("encoder/num_heads", 8));
    if (heads_ == 0 || inner_ % heads_ != 0)
      return error("the number of heads does not divide the columns of attention");
    return {};
  }

  // Adds rows of an array, [rows, columns] or [rows], as one tensor.
  Status add(const std::string& name, const std::string& from, uint64_t first = 0, uint64_t rows = 0,
             uint64_t zeros_before = 0, uint64_t zeros_after = 0) {
    Piece piece;
    piece.name = name;
    PUMICE_TRY(piece.from, array(from));
    const std::vector<uint64_t>& shape = piece.from->shape;
    if (shape.empty() || shape.size() > 2)
      return error(fmt::format("tensor \"{}\": expected one or two dimensions", from));
    piece.columns = shape.size() == 2 ? shape[1] : 1;
    piece.rows = rows ? rows : shape[0];
    piece.first = first;
    piece.zeros_before = zeros_before;
    piece.zeros_after = zeros_after;
    if (first + piece.rows > shape[0]) {
      return error(
          fmt::format("tensor \"{}\": expected {} rows, found {}", from, first + piece.rows, shape[0]));
    }
    piece.shape = {zeros_before + piece.rows + zeros_after};
    if (shape.size() == 2) piece.shape.push_back(piece.columns);
    switch (piece.from->type) {
    case ArrayType::f32:
      break;
    case ArrayType::f16:
      piece.type = TensorType::f16;
      break;
    case ArrayType::bf16:
      piece.type = TensorType::bf16;
      break;
    case ArrayType::i32:
      return error(fmt::format("tensor \"{}\": expected numbers of another type than int32", from));
    case ArrayType::i8:
    case ArrayType::i16: {
      PUMICE_TRY(piece.scale, array(from + "_scale"));
      const uint64_t scales = piece.scale->data.size() / 4;
      if (piece.scale->type != ArrayType::f32 || (scales != 1 && scales != shape[0])) {
        return error(fmt::format("tensor \"{}_scale\": expected one float for each row", from));
      }
      const bool fits = piece.from->type == ArrayType::i8 && piece.columns % quantised_block == 0;
      piece.type = fits ? TensorType::q8_0 : TensorType::f32;
      break;
    }
    }
    pieces_.push_back(std::move(piece));
    return {};
  }

  // A linear layer, or rows of one: part `part` of several that are stored as one.
  Status add_linear(const std::string& name, const std::string& from, uint64_t part = 0, uint64_t rows = 0) {
    PUMICE_CHECK(add(name + ".weight", from + "/weight", part * rows, rows));
    return file_.find(from + "/bias") ? add(name + ".bias", from + "/bias", part * rows, rows) : Status();
  }

  Status add_norm(const std::string& name, const std::string& from) {
    PUMICE_CHECK(add(name + ".weight", from + "/gamma"));
    return file_.find(from + "/beta") ? add(name + ".bias", from + "/beta") : Status();
  }

  // The projections of an attention, under names such as {"q_proj", "k_proj", "v_proj", "out_proj"}.
  Status add_attention(const std::string& prefix, const std::string& from, bool cross,
                       const std::array<const char*, 4>& names) {
    const std::string first = from + "/linear_0", second = from + "/linear_1";
    PUMICE_CHECK(add_linear(prefix + names[0], first, 0, inner_));
    PUMICE_CHECK(add_linear(prefix + names[1], cross ? second : first, cross ? 0 : 1, inner_));
    PUMICE_CHECK(add_linear(prefix + names[2], cross ? second : first, cross ? 1 : 2, inner_));
    return add_linear(prefix + names[3], cross ? from + "/linear_2" : second);
  }

  Status convert_bart() {
    constexpr std::array<const char*, 4> names = {"q_proj", "k_proj", "v_proj", "out_proj"};
    const bool pre_norm = file_.number("encoder/pre_norm", 1) != 0;
    zero_start_ = file_.number("decoder/start_from_zero_embedding", 0) != 0;
    if (!file_.find("encoder/layer_0/self_attention/layer_norm/beta"))
      return error("models with RMS norms are not supported");
    if (zero_start_ && !shared_)
      return error("a decoder that begins with zeros needs one vocabulary for both sides");
    const uint64_t more = zero_start_ ? 1 : 0; // the token that the decoder begins with has a row of zeros
    if (shared_) {
      PUMICE_CHECK(add("model.shared.weight", "decoder/embeddings/weight", 0, 0, 0, more));
    } else {
      PUMICE_CHECK(add("model.encoder.embed_tokens.weight", "encoder/embeddings_0/weight"));
      PUMICE_CHECK(add("model.decoder.embed_tokens.weight", "decoder/embeddings/weight"));
    }
    for (const std::string side : {"encoder", "decoder"}) {
      if (file_.find(side + "/layer_norm/gamma")) {
        PUMICE_CHECK(add_norm("model." + side + ".layer_norm", side + "/layer_norm"));
      }
      for (uint32_t layer = 0; layer < (side == "encoder" ? encoder_layers_ : decoder_layers_); ++layer) {
        const std::string to = fmt::format("model.{}.layers.{}.", side, layer),
                          from = fmt::format("{}/layer_{}/", side, layer);
        PUMICE_CHECK(add_attention(to + "self_attn.", from + "self_attention", false, names));
        PUMICE_CHECK(add_norm(to + "self_attn_layer_norm", from + "self_attention/layer_norm"));
        if (side == "decoder") {
          PUMICE_CHECK(add_attention(to + "encoder_attn.", from + "attention", true, names));
          PUMICE_CHECK(add_norm(to + "encoder_attn_layer_norm", from + "attention/layer_norm"));
        }
        PUMICE_CHECK(add_linear(to + "fc1", from + "ffn/linear_0"));
        PUMICE_CHECK(add_linear(to + "fc2", from + "ffn/linear_1"));
        PUMICE_CHECK(add_norm(to + "final_layer_norm", from + "ffn/layer_norm"));
      }
    }
    PUMICE_TRY(const Array* head, array("decoder/projection/weight"));
    PUMICE_TRY(const Array* table, array("decoder/embeddings/weight"));
    const bool tied = head->data.data() == table->data.data();
    if (!tied) PUMICE_CHECK(add("lm_head.weight", "decoder/projection/weight", 0, 0, 0, more));
    if (file_.find("decoder/projection/bias")) {
      PUMICE_CHECK(add("final_logits_bias", "decoder/projection/bias", 0, 0, 0, more));
      pieces_.back().shape.insert(pieces_.back().shape.begin(), 1);
    }
    config_["share_encoder_decoder_embeddings"] = shared_;
    config_["tie_word_embeddings"] = tied;
    config_["vocab_size"] = source_words_ + more;
    config_["decoder_vocab_size"] = target_words_ + more;
    config_["encoder_layers"] = encoder_layers_;
    config_["decoder_layers"] = decoder_layers_;
    config_["encoder_attention_heads"] = config_["decoder_attention_heads"] = heads_;
    config_["encoder_ffn_dim"] = config_["decoder_ffn_dim"] = wide_;
    config_["is_encoder_decoder"] = true;
    constexpr std::array<const char*, 4> activations = {"relu", "gelu_new", "swish", "gelu"};
    PUMICE_TRY(config_["activation_function"], activation(activations));
    PUMICE_CHECK(read_scale());
    return read_positions(pre_norm);
  }

  Result<json> activation(std::span<const char* const> names) const {
    const double number = file_.number("encoder/activation", 0);
    if (number >= 0 && number < static_cast<double>(names.size()))
      return json(names[static_cast<size_t>(number)]);
    return error(fmt::format("activation {} is not supported", number));
  }

  // Embeddings are multiplied by 1 or by the square root of their width.
  Status read_scale() {
    const Array* given = file_.find("encoder/scale_embeddings");
    const double root = std::sqrt(static_cast<double>(hidden_)),
                 found = file_.number("encoder/scale_embeddings", 1);
    const bool flag = !given || given->type != ArrayType::f32;
    const double scale = flag ? (found != 0 ? root : 1) : found;
    if (std::abs(scale - root) > 1e-3 * root && scale != 1) {
      return error(fmt::format("\"encoder/scale_embeddings\": expected 1 or {:.6g}, found {}", root, scale));
    }
    config_["scale_embedding"] = scale != 1;
    const auto epsilon = own_.find("layer_norm_epsilon");
    if (epsilon != own_.end() && epsilon->is_number() && epsilon->get<double>() != 1e-5) {
      return error(fmt::format("layer_norm_epsilon: expected 1e-05, found {}", epsilon->get<double>()));
    }
    return {};
  }

  // Which model it is shows in its positions: sines, as one of the models has them, or a table.
  Status read_positions(bool pre_norm) {
    const bool embedding_norm = file_.find("encoder/layernorm_embedding/gamma");
    const Array* table = file_.find("encoder/position_encodings/encodings");
    if (!table) return error("the positions are those of OpenNMT, which is not supported");
    if (table->shape.size() != 2 || table->shape[1] != hidden_)
      return error("the table of positions has another width");
    config_["max_position_embeddings"] = table->shape[0];
    if (embedding_norm) {
      for (const std::string side : {"encoder", "decoder"}) {
        PUMICE_CHECK(add_norm("model." + side + ".layernorm_embedding", side + "/layernorm_embedding"));
        PUMICE_CHECK(add("model." + side + ".embed_positions.weight", side + "/position_encodings/encodings",
                         0, 0, 2));
      }
      config_["model_type"] = pre_norm ? "mbart" : "bart";
      return {};
    }
    if (is_sinusoid(*table, 0, static_cast<double>(hidden_))) {
      config_["model_type"] = pre_norm ? "pegasus" : "marian";
    } else if (pre_norm && hidden_ > 2 && is_sinusoid(*table, 2, static_cast<double>(hidden_) - 2)) {
      config_["model_type"] = "m2m_100";
      config_["pad_token_id"] = 1; // positions are counted from it on
    } else {
      return error("expected the positions of Marian, PEGASUS, M2M-100 or BART, found others");
    }
    return {};
  }

  // Whether the table has sines in its first half and cosines in the second: of (first + row) / 10000^(2i /
  // divisor).
  bool is_sinusoid(const Array& table, uint64_t first, double divisor) const {
    for (uint64_t row = 0; row < std::min<uint64_t>(table.shape[0], 9); ++row) {
      for (uint64_t column = 0; column < hidden_; ++column) {
        const uint64_t half = hidden_ / 2, i = column % half;
        const double angle =
            static_cast<double>(first + row) * std::pow(10000.0, -2.0 * static_cast<double>(i) / divisor);
        const double wanted = column < half ? std::sin(angle) : std::cos(angle);
        if (std::abs(float_at(table, row * hidden_ + column) - wanted) > 2e-3) return false;
      }
    }
    return hidden_ % 2 == 0;
  }

  static double float_at(const Array& array, uint64_t index) {
    if (array.type == ArrayType::f16) return half_to_float(element<uint16_t>(array.data, index));
    if (array.type == ArrayType::bf16) return bf16_to_float(element<uint16_t>(array.data, index));
    return array.type == ArrayType::f32 ? element<float>(array.data, index) : 0;
  }

  Status convert_t5() {
    constexpr std::array<const char*, 4> names = {"q", "k", "v", "o"};
    if (!shared_) return error("T5 needs one vocabulary for both sides");
    const bool gated = file_.find("encoder/layer_0/ffn/linear_0_noact/weight");
    PUMICE_CHECK(add("shared.weight", "decoder/embeddings/weight"));
    for (const std::string side : {"encoder", "decoder"}) {
      PUMICE_CHECK(add_norm(side + ".final_layer_norm", side + "/layer_norm"));
      for (uint32_t layer = 0; layer < (side == "encoder" ? encoder_layers_ : decoder_layers_); ++layer) {
        const std::string to = fmt::format("{}.block.{}.layer.", side, layer),
                          from = fmt::format("{}/layer_{}/", side, layer);
        PUMICE_CHECK(add_attention(to + "0.SelfAttention.", from + "self_attention", false, names));
        PUMICE_CHECK(add_norm(to + "0.layer_norm", from + "self_attention/layer_norm"));
        if (layer == 0) {
          PUMICE_CHECK(add(to + "0.SelfAttention.relative_attention_bias.weight",
                           from + "self_attention/relative_attention_bias"));
        }
        if (side == "decoder") {
          PUMICE_CHECK(add_attention(to + "1.EncDecAttention.", from + "attention", true, names));
          PUMICE_CHECK(add_norm(to + "1.layer_norm", from + "attention/layer_norm"));
        }
        const std::string feed = to + (side == "decoder" ? "2." : "1.");
        PUMICE_CHECK(add_norm(feed + "layer_norm", from + "ffn/layer_norm"));
        PUMICE_CHECK(
            add_linear(feed + (gated ? "DenseReluDense.wi_0" : "DenseReluDense.wi"), from + "ffn/linear_0"));
        if (gated) PUMICE_CHECK(add_linear(feed + "DenseReluDense.wi_1", from + "ffn/linear_0_noact"));
        PUMICE_CHECK(add_linear(feed + "DenseReluDense.wo", from + "ffn/linear_1"));
      }
    }
    PUMICE_TRY(const Array* head, array("decoder/projection/weight"));
    PUMICE_TRY(const Array* table, array("decoder/embeddings/weight"));
    PUMICE_TRY(const Array* bias, array("encoder/layer_0/self_attention/relative_attention_bias"));
    const bool tied = head->data.data() == table->data.data();
    if (!tied) PUMICE_CHECK(add("lm_head.weight", "decoder/projection/weight"));
    config_["model_type"] = "t5";
    config_["is_encoder_decoder"] = true;
    config_["tie_word_embeddings"] = tied;
    config_["scale_decoder_outputs"] = file_.find("decoder/scale_outputs") != nullptr;
    config_["vocab_size"] = source_words_;
    config_["num_layers"] = encoder_layers_;
    config_["num_decoder_layers"] = decoder_layers_;
    config_["num_heads"] = heads_;
    config_["d_kv"] = inner_ / heads_;
    config_["d_ff"] = wide_;
    config_["relative_attention_num_buckets"] = bias->shape[0];
    config_["relative_attention_max_distance"] = static_cast<uint64_t>(
        file_.number("encoder/layer_0/self_attention/relative_attention_max_distance", 128));
    constexpr std::array<const char*, 4> activations = {"relu", "gelu_new", "silu", "gelu"};
    PUMICE_TRY(const json name, activation(activations));
    config_["feed_forward_proj"] = (gated ? "gated-" : "") + name.get<std::string>();
    return {};
  }

  // The special tokens, whose ids are the vocabulary's.
  Status read_vocabulary() {
    std::error_code ignored;
    fs::path path = folder_ / "shared_vocabulary.json";
    if (!fs::is_regular_file(path, ignored)) path = folder_ / "target_vocabulary.json";
    PUMICE_TRY(const MappedFile file, MappedFile::open(path));
    const json tokens =
        json::parse(reinterpret_cast<const char*>(file.bytes().data()),
                    reinterpret_cast<const char*>(file.bytes().data()) + file.bytes().size(), nullptr, false);
    if (!tokens.is_array())
      return Error{Code::invalid_file, fmt::format("{}: expected a list of tokens", file.path())};
    const auto id_of = [&](const char* role) -> std::optional<uint64_t> {
      const auto name = own_.find(role);
      if (name == own_.end() || !name->is_string()) return std::nullopt;
      const auto found = std::ranges::find(tokens, *name);
      if (found == tokens.end()) return std::nullopt;
      return static_cast<uint64_t>(found - tokens.begin());
    };
    if (const auto end = id_of("eos_token")) config_["eos_token_id"] = *end;
    if (const auto begin = id_of("decoder_start_token")) config_["decoder_start_token_id"] = *begin;
    if (!zero_start_) return {};
    config_["decoder_start_token_id"] = config_["pad_token_id"] = target_words_;
    config_["bad_words_ids"] = json::array({json::array({target_words_})});
    return {};
  }

  Result<Ctranslate2Model> write() {
    uint64_t bytes = 0;
    for (const Piece& piece : pieces_) bytes = align(bytes, tensor_alignment) + piece.bytes();
    PUMICE_TRY(MappedFile block, MappedFile::reserve(bytes, file_.path));
    Ctranslate2Model model{std::move(config_), std::move(block), {}};
    uint64_t at = 0;
    for (const Piece& piece : pieces_) {
      at = align(at, tensor_alignment);
      const uint64_t row_bytes = piece.row_bytes(), begin = at + piece.zeros_before * row_bytes;
      std::vector<std::byte> row(row_bytes);
      for (uint64_t n = 0; n < piece.rows; ++n) {
        write_row(piece, n, row.data());
        const auto copy = [&](uint64_t from, std::span<std::byte> to) {
          std::memcpy(to.data(), row.data() + (from - begin - n * row_bytes), to.size());
          return true;
        };
        PUMICE_CHECK(model.weights.read(copy, begin + n * row_bytes, row_bytes));
      }
      model.tensors.push_back(
          {piece.name, piece.type, piece.shape, model.weights.bytes().subspan(at, piece.bytes()), {}});
      at += piece.bytes();
    }
    return model;
  }

  const Ctranslate2File& file_;
  const fs::path& folder_;
  const json& own_;
  json config_ = json::object();
  std::vector<Piece> pieces_;
  uint64_t hidden_ = 0, inner_ = 0, wide_ = 0, heads_ = 0, source_words_ = 0, target_words_ = 0;
  uint32_t encoder_layers_ = 0, decoder_layers_ = 0;
  bool shared_ = false, zero_start_ = false;
};

} // namespace

bool is_ctranslate2_folder(const fs::path& folder) {
  std::error_code ignored;
  const auto has = [&](const char* name) { return fs::is_regular_file(folder / name, ignored); };
  return has("model.bin") && !has("model.safetensors") && !has("model.safetensors.index.json");
}

Result<Ctranslate2Model> read_ctranslate2(const fs::path& folder, const json& own) {
  PUMICE_TRY(const MappedFile bytes, MappedFile::open(folder / "model.bin"));
  PUMICE_TRY(const Ctranslate2File file, Ctranslate2File::parse(bytes.bytes(), bytes.path()));
  return Conversion(file, folder, own).run();
}

} // namespace pumice

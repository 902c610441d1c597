#include "io/formats/ctranslate2.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "base/path.h"
#include "io/formats/ctranslate2_file.h"
#include "io/formats/ctranslate2_tensors.h"
#include "io/formats/ctranslate2_whisper.h"
#include "io/formats/torch_file.h"
#include "io/json_text.h"
#include "io/tensor_type.h"

namespace pumice {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using Array = Ctranslate2File::Array;
using ArrayType = Ctranslate2File::Type;

// Collects the tensors and the settings of a translator.
class Conversion {
public:
  Conversion(const Ctranslate2File& file, const fs::path& folder, const json& own)
      : file_(file), tensors_(file), folder_(folder), own_(own) {}

  Result<Ctranslate2Model> run() {
    if (file_.kind != "TransformerSpec") {
      return Error{
          Code::unsupported,
          fmt::format("{}: expected a model of the kind \"TransformerSpec\" or \"WhisperSpec\", found "
                      "\"{}\": convert the original model's folder instead",
                      file_.path, file_.kind)};
    }
    PUMICE_CHECK(read_sizes());
    PUMICE_CHECK(file_.find("encoder/layer_0/self_attention/relative_attention_bias") ? convert_t5()
                                                                                      : convert_bart());
    PUMICE_CHECK(read_vocabulary());
    PUMICE_TRY(Ctranslate2Tensors::Written written, tensors_.write());
    return Ctranslate2Model{std::move(config_), std::move(written.weights), std::move(written.tensors)};
  }

private:
  Error error(const std::string& what) const { return tensors_.error(what); }

  Status read_sizes() {
    for (const char* refused :
         {"decoder/project_in/weight", "encoder/embeddings_1/weight",
          "encoder/layer_0/self_attention/relative_position_keys",
          "encoder/layer_0/self_attention/rotary_dim", "decoder/layer_0/self_attention/rotary_dim",
          "decoder/layer_0/self_attention/num_heads_kv", "encoder/layer_0/post_attention_layer_norm/gamma"}) {
      if (file_.find(refused)) return error(fmt::format("models with \"{}\" are not supported", refused));
    }
    if (file_.number("decoder/alibi", 0) != 0) return error("models with ALiBi are not supported");
    PUMICE_TRY(const Array* table, tensors_.array("encoder/embeddings_0/weight"));
    PUMICE_TRY(const Array* target, tensors_.array("decoder/embeddings/weight"));
    PUMICE_TRY(const Array* wide, tensors_.array("encoder/layer_0/ffn/linear_0/weight"));
    PUMICE_TRY(const Array* fused, tensors_.array("encoder/layer_0/self_attention/linear_0/weight"));
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

  Status convert_bart() {
    const bool pre_norm = file_.number("encoder/pre_norm", 1) != 0;
    zero_start_ = file_.number("decoder/start_from_zero_embedding", 0) != 0;
    if (!file_.find("encoder/layer_0/self_attention/layer_norm/beta"))
      return error("models with RMS norms are not supported");
    if (zero_start_ && !shared_)
      return error("a decoder that begins with zeros needs one vocabulary for both sides");
    const uint64_t more = zero_start_ ? 1 : 0; // the token that the decoder begins with has a row of zeros
    if (shared_) {
      PUMICE_CHECK(tensors_.add("model.shared.weight", "decoder/embeddings/weight", 0, 0, 0, more));
    } else {
      PUMICE_CHECK(tensors_.add("model.encoder.embed_tokens.weight", "encoder/embeddings_0/weight"));
      PUMICE_CHECK(tensors_.add("model.decoder.embed_tokens.weight", "decoder/embeddings/weight"));
    }
    for (const std::string side : {"encoder", "decoder"}) {
      if (file_.find(side + "/layer_norm/gamma")) {
        PUMICE_CHECK(tensors_.add_norm("model." + side + ".layer_norm", side + "/layer_norm"));
      }
      PUMICE_TRY(config_[side + "_layers"], tensors_.add_bart_layers(side, inner_));
    }
    PUMICE_TRY(const Array* head, tensors_.array("decoder/projection/weight"));
    PUMICE_TRY(const Array* table, tensors_.array("decoder/embeddings/weight"));
    const bool tied = head->data.data() == table->data.data();
    if (!tied) PUMICE_CHECK(tensors_.add("lm_head.weight", "decoder/projection/weight", 0, 0, 0, more));
    if (file_.find("decoder/projection/bias")) {
      PUMICE_CHECK(tensors_.add("final_logits_bias", "decoder/projection/bias", 0, 0, 0, more));
      tensors_.add_leading_dimension();
    }
    config_["share_encoder_decoder_embeddings"] = shared_;
    config_["tie_word_embeddings"] = tied;
    config_["vocab_size"] = source_words_ + more;
    config_["decoder_vocab_size"] = target_words_ + more;
    config_["encoder_attention_heads"] = config_["decoder_attention_heads"] = heads_;
    config_["encoder_ffn_dim"] = config_["decoder_ffn_dim"] = wide_;
    config_["is_encoder_decoder"] = true;
    constexpr std::array<const char*, 4> activations = {"relu", "gelu_new", "swish", "gelu"};
    PUMICE_TRY(config_["activation_function"], tensors_.activation("encoder/activation", 0, activations));
    PUMICE_CHECK(read_scale());
    return read_positions(pre_norm);
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
        PUMICE_CHECK(
            tensors_.add_norm("model." + side + ".layernorm_embedding", side + "/layernorm_embedding"));
        PUMICE_CHECK(tensors_.add("model." + side + ".embed_positions.weight",
                                  side + "/position_encodings/encodings", 0, 0, 2));
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
    if (array.type == ArrayType::f16) return half_to_float(ctranslate2_element<uint16_t>(array.data, index));
    if (array.type == ArrayType::bf16) return bf16_to_float(ctranslate2_element<uint16_t>(array.data, index));
    return array.type == ArrayType::f32 ? ctranslate2_element<float>(array.data, index) : 0;
  }

  Status convert_t5() {
    constexpr std::array<const char*, 4> names = {"q", "k", "v", "o"};
    if (!shared_) return error("T5 needs one vocabulary for both sides");
    const bool gated = file_.find("encoder/layer_0/ffn/linear_0_noact/weight");
    PUMICE_CHECK(tensors_.add("shared.weight", "decoder/embeddings/weight"));
    for (const std::string side : {"encoder", "decoder"}) {
      PUMICE_CHECK(tensors_.add_norm(side + ".final_layer_norm", side + "/layer_norm"));
      for (uint32_t layer = 0; layer < (side == "encoder" ? encoder_layers_ : decoder_layers_); ++layer) {
        const std::string to = fmt::format("{}.block.{}.layer.", side, layer),
                          from = fmt::format("{}/layer_{}/", side, layer);
        PUMICE_CHECK(
            tensors_.add_attention(to + "0.SelfAttention.", from + "self_attention", false, inner_, names));
        PUMICE_CHECK(tensors_.add_norm(to + "0.layer_norm", from + "self_attention/layer_norm"));
        if (layer == 0) {
          PUMICE_CHECK(tensors_.add(to + "0.SelfAttention.relative_attention_bias.weight",
                                    from + "self_attention/relative_attention_bias"));
        }
        if (side == "decoder") {
          PUMICE_CHECK(
              tensors_.add_attention(to + "1.EncDecAttention.", from + "attention", true, inner_, names));
          PUMICE_CHECK(tensors_.add_norm(to + "1.layer_norm", from + "attention/layer_norm"));
        }
        const std::string feed = to + (side == "decoder" ? "2." : "1.");
        PUMICE_CHECK(tensors_.add_norm(feed + "layer_norm", from + "ffn/layer_norm"));
        PUMICE_CHECK(tensors_.add_linear(feed + (gated ? "DenseReluDense.wi_0" : "DenseReluDense.wi"),
                                         from + "ffn/linear_0"));
        if (gated)
          PUMICE_CHECK(tensors_.add_linear(feed + "DenseReluDense.wi_1", from + "ffn/linear_0_noact"));
        PUMICE_CHECK(tensors_.add_linear(feed + "DenseReluDense.wo", from + "ffn/linear_1"));
      }
    }
    PUMICE_TRY(const Array* head, tensors_.array("decoder/projection/weight"));
    PUMICE_TRY(const Array* table, tensors_.array("decoder/embeddings/weight"));
    PUMICE_TRY(const Array* bias, tensors_.array("encoder/layer_0/self_attention/relative_attention_bias"));
    const bool tied = head->data.data() == table->data.data();
    if (!tied) PUMICE_CHECK(tensors_.add("lm_head.weight", "decoder/projection/weight"));
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
    PUMICE_TRY(const std::string name, tensors_.activation("encoder/activation", 0, activations));
    config_["feed_forward_proj"] = (gated ? "gated-" : "") + name;
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

  const Ctranslate2File& file_;
  Ctranslate2Tensors tensors_;
  const fs::path& folder_;
  const json& own_;
  json config_ = json::object();
  uint64_t hidden_ = 0, inner_ = 0, wide_ = 0, heads_ = 0, source_words_ = 0, target_words_ = 0;
  uint32_t encoder_layers_ = 0, decoder_layers_ = 0;
  bool shared_ = false, zero_start_ = false;
};

} // namespace

bool is_ctranslate2_folder(const fs::path& folder) {
  std::error_code ignored;
  const auto has = [&](const char* name) { return fs::is_regular_file(folder / name, ignored); };
  if (!has("model.bin") || has("model.safetensors") || has("model.safetensors.index.json")) return false;
  const Result<MappedFile> file = MappedFile::open(folder / "model.bin");
  return !file.ok() || !TorchFile::begins(file->bytes());
}

Result<Ctranslate2Model> read_ctranslate2(const fs::path& folder, const json& own) {
  PUMICE_TRY(const MappedFile bytes, MappedFile::open(folder / "model.bin"));
  PUMICE_TRY(const Ctranslate2File file, Ctranslate2File::parse(bytes.bytes(), bytes.path()));
  if (file.kind == "WhisperSpec") return read_ctranslate2_whisper(file, folder, own);
  return Conversion(file, folder, own).run();
}

} // namespace pumice

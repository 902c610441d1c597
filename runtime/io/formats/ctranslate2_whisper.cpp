#include "io/formats/ctranslate2_whisper.h"

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/lines.h"
#include "base/path.h"
#include "io/formats/ctranslate2_tensors.h"
#include "io/formats/whisper_settings.h"
#include "io/json_text.h"

namespace pumice {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using Array = Ctranslate2File::Array;

constexpr uint64_t gpt2_end = 50256; // of a text, in the vocabulary of models that know English only

class WhisperConversion {
public:
  WhisperConversion(const Ctranslate2File& file, const fs::path& folder, const json& own)
      : file_(file), tensors_(file), folder_(folder), own_(own) {}

  Result<Ctranslate2Model> run() {
    PUMICE_CHECK(convert_side("encoder"));
    PUMICE_CHECK(convert_side("decoder"));
    for (const std::string name : {"conv1", "conv2"}) {
      PUMICE_CHECK(tensors_.add_linear("model.encoder." + name, "encoder/" + name));
    }
    PUMICE_CHECK(tensors_.add("model.decoder.embed_tokens.weight", "decoder/embeddings/weight"));
    PUMICE_TRY(const Array* head, tensors_.array("decoder/projection/weight"));
    PUMICE_TRY(const Array* table, tensors_.array("decoder/embeddings/weight"));
    const bool tied = head->data.data() == table->data.data();
    if (!tied) PUMICE_CHECK(tensors_.add("proj_out.weight", "decoder/projection/weight"));
    config_["tie_word_embeddings"] = tied;
    config_["vocab_size"] = table->shape[0];
    config_["model_type"] = "whisper";
    config_["is_encoder_decoder"] = true;
    PUMICE_CHECK(read_features());
    PUMICE_CHECK(read_special_tokens());
    read_generation();
    PUMICE_TRY(Ctranslate2Tensors::Written written, tensors_.write());
    return Ctranslate2Model{std::move(config_), std::move(written.weights), std::move(written.tensors)};
  }

private:
  Status convert_side(const std::string& side) {
    PUMICE_TRY(const Array* positions, tensors_.array(side + "/position_encodings/encodings"));
    PUMICE_TRY(const Array* wide, tensors_.array(side + "/layer_0/ffn/linear_0/weight"));
    for (const Array* each : {positions, wide}) {
      if (each->shape.size() != 2 || each->shape[0] == 0 || each->shape[1] == 0)
        return tensors_.error("a matrix has no two dimensions");
    }
    const uint64_t hidden = positions->shape[1];
    // The keys have no biases: what the file has for them are zeros.
    PUMICE_TRY(config_[side + "_layers"], tensors_.add_bart_layers(side, hidden, false));
    const bool encoder = side == "encoder";
    config_["d_model"] = hidden;
    config_[side + "_ffn_dim"] = wide->shape[0];
    config_[side + "_attention_heads"] = static_cast<uint64_t>(file_.number(side + "/num_heads", 8));
    config_[encoder ? "max_source_positions" : "max_target_positions"] = positions->shape[0];
    PUMICE_CHECK(tensors_.add(fmt::format("model.{}.embed_positions.weight", side),
                              side + "/position_encodings/encodings"));
    return tensors_.add_norm(fmt::format("model.{}.layer_norm", side), side + "/layer_norm");
  }

  Status read_features() {
    constexpr std::array<const char*, 4> activations = {"relu", "gelu_new", "swish", "gelu"};
    PUMICE_TRY(config_["activation_function"], tensors_.activation("decoder/activation", 3, activations));
    PUMICE_TRY(const Array* first, tensors_.array("encoder/conv1/weight"));
    if (first->shape.size() != 3 || first->shape[1] == 0)
      return tensors_.error("tensor \"encoder/conv1/weight\": expected three dimensions");
    const uint64_t mels = first->shape[1], positions = config_["max_source_positions"];
    config_["num_mel_bins"] = mels;
    std::error_code ignored;
    if (fs::is_regular_file(folder_ / "preprocessor_config.json", ignored)) return {};
    config_["preprocessor_config"] = whisper_preprocessor_config(mels, positions);
    return {};
  }

  // The vocabulary: a list in JSON, or in older folders a line for each token.
  Result<std::vector<std::string>> read_vocabulary() const {
    std::error_code ignored;
    if (const fs::path path = folder_ / "vocabulary.json"; fs::is_regular_file(path, ignored)) {
      PUMICE_TRY(const MappedFile file, MappedFile::open(path));
      PUMICE_TRY(const json tokens, parse_json(file.bytes(), file.path()));
      const auto is_text = [](const json& token) { return token.is_string(); };
      if (!tokens.is_array() || !std::ranges::all_of(tokens, is_text))
        return Error{Code::invalid_file, fmt::format("{}: expected a list of tokens", file.path())};
      return tokens.get<std::vector<std::string>>();
    }
    PUMICE_TRY(const MappedFile file, MappedFile::open(folder_ / "vocabulary.txt"));
    const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()), file.bytes().size());
    const std::vector<std::string_view> tokens = split_lines(text);
    return std::vector<std::string>(tokens.begin(), tokens.end());
  }

  Status read_special_tokens() {
    PUMICE_TRY(const std::vector<std::string> tokens, read_vocabulary());
    const auto id_of = [&](const char* token) -> Result<uint64_t> {
      const auto found = std::ranges::find(tokens, token);
      if (found != tokens.end()) return static_cast<uint64_t>(found - tokens.begin());
      return Error{Code::invalid_file,
                   fmt::format("{}: its vocabulary has no token {}", path_text(folder_), token)};
    };
    PUMICE_TRY(const uint64_t end, id_of("<|endoftext|>"));
    PUMICE_TRY(config_["decoder_start_token_id"], id_of("<|startoftranscript|>"));
    config_["eos_token_id"] = config_["pad_token_id"] = end;
    config_["is_multilingual"] = end != gpt2_end;
    return {};
  }

  // CTranslate2 has other names for what is in generation_config.json.
  void read_generation() {
    config_["max_length"] = config_["max_target_positions"];
    config_["max_initial_timestamp_index"] = whisper_first_timestamp_steps;
    constexpr std::array<std::array<const char*, 2>, 3> names = {
        {{"suppress_ids", "suppress_tokens"},
         {"suppress_ids_begin", "begin_suppress_tokens"},
         {"alignment_heads", "alignment_heads"}}};
    for (const auto& [own, name] : names) {
      const auto found = own_.find(own);
      if (found == own_.end()) continue;
      json values = *found;
      if (values.is_array()) { // a negative one stands for a list of the program's own
        std::erase_if(values.get_ref<json::array_t&>(),
                      [](const json& value) { return value.is_number_integer() && value < 0; });
      }
      config_[name] = std::move(values);
    }
  }

  const Ctranslate2File& file_;
  Ctranslate2Tensors tensors_;
  const fs::path& folder_;
  const json& own_;
  json config_ = json::object();
};

} // namespace

Result<Ctranslate2Model> read_ctranslate2_whisper(const Ctranslate2File& file, const fs::path& folder,
                                                  const json& own) {
  return WhisperConversion(file, folder, own).run();
}

} // namespace pumice

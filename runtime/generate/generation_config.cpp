#include "generate/generation_config.h"

#include <filesystem>

#include <fmt/format.h>

#include "io/json_text.h"
#include "io/mapped_file.h"

namespace pumice {

namespace {

// Settings from generation_config.json, or if it does not have them from config.json, or its text_config.
class Reader {
public:
  Reader(const Fields* generation, const ModelFile& file, uint32_t vocabulary)
      : generation_(generation), config_(file.fields()), text_(file.text_fields()), vocabulary_(vocabulary) {}

  const Fields& having(std::string_view name) const {
    if (generation_ && generation_->has(name)) return *generation_;
    return config_.has(name) ? config_ : text_;
  }

  Result<std::optional<uint32_t>> token(std::string_view name) const {
    if (!having(name).has(name)) return std::optional<uint32_t>();
    PUMICE_TRY(uint32_t id, having(name).u32(name, 0, vocabulary_ - 1));
    return std::optional(id);
  }
  Result<std::vector<uint32_t>> tokens(std::string_view name) const {
    return having(name).u32_array_or_empty(name, 0, vocabulary_ - 1);
  }
  Result<uint32_t> count(std::string_view name, uint32_t fallback) const {
    return having(name).u32_or(name, fallback);
  }
  Result<float> number(std::string_view name, float fallback) const {
    return having(name).f32_or(name, fallback);
  }

private:
  const Fields* generation_;
  Fields config_;
  Fields text_;
  uint32_t vocabulary_;
};

Result<EarlyStopping> early_stopping(const Reader& reader) {
  const Fields& fields = reader.having("early_stopping");
  const nlohmann::json* value = fields.find("early_stopping");
  if (!value) return EarlyStopping::no;
  if (value->is_string() && *value == "never") return EarlyStopping::never;
  if (!value->is_boolean()) {
    return fields.error("early_stopping", "expected true, false or \"never\"; found " + value->dump());
  }
  return value->get<bool>() ? EarlyStopping::yes : EarlyStopping::no;
}

// Words of one token are suppressed tokens; longer words are ignored.
void add_bad_words(const Reader& reader, std::vector<uint32_t>& suppressed, uint32_t vocabulary) {
  const nlohmann::json* words = reader.having("bad_words_ids").find("bad_words_ids");
  if (!words || !words->is_array()) return;
  for (const nlohmann::json& word : *words) {
    if (!word.is_array() || word.size() != 1 || !word[0].is_number_unsigned()) continue;
    if (const uint64_t id = word[0].get<uint64_t>(); id < vocabulary) {
      suppressed.push_back(static_cast<uint32_t>(id));
    }
  }
}

Result<GenerationConfig> read(const Reader& reader, uint32_t vocabulary) {
  GenerationConfig config;
  PUMICE_TRY(const std::optional<uint32_t> start, reader.token("decoder_start_token_id"));
  PUMICE_TRY(const std::optional<uint32_t> first, reader.token("bos_token_id"));
  if (start || first) config.prompt = {start ? *start : *first};
  PUMICE_TRY(config.ends, reader.tokens("eos_token_id"));
  PUMICE_TRY(config.forced_first, reader.token("forced_bos_token_id"));
  PUMICE_TRY(config.forced_last, reader.token("forced_eos_token_id"));
  PUMICE_TRY(config.suppressed, reader.tokens("suppress_tokens"));
  PUMICE_TRY(config.suppressed_first, reader.tokens("begin_suppress_tokens"));
  add_bad_words(reader, config.suppressed, vocabulary);
  PUMICE_TRY(config.min_tokens, reader.count("min_new_tokens", 0));
  // The lengths in the file include the prompt of the decoder.
  const auto without_prompt = [&](uint32_t length) {
    return length - std::min(length, static_cast<uint32_t>(config.prompt.size()));
  };
  PUMICE_TRY(uint32_t min_length, reader.count("min_length", 0));
  config.min_tokens = std::max(config.min_tokens, without_prompt(min_length));
  PUMICE_TRY(uint32_t max_length, reader.count("max_length", 0));
  PUMICE_TRY(config.max_tokens, reader.count("max_new_tokens", without_prompt(max_length)));
  PUMICE_TRY(config.beams, reader.count("num_beams", 1));
  config.beams = std::max(config.beams, 1u);
  PUMICE_TRY(config.length_penalty, reader.number("length_penalty", 1));
  PUMICE_TRY(config.early_stopping, early_stopping(reader));
  PUMICE_TRY(config.repetition_penalty, reader.number("repetition_penalty", 1));
  PUMICE_TRY(config.no_repeat_ngram, reader.count("no_repeat_ngram_size", 0));
  PUMICE_TRY(config.multilingual, reader.having("is_multilingual").boolean_or("is_multilingual", true));
  PUMICE_TRY(config.latest_first_timestamp,
             reader.count("max_initial_timestamp_index", config.latest_first_timestamp));
  return config;
}

// T5 is the only encoder-decoder that GGUF has.
Result<GenerationConfig> read_gguf(const ModelFile& file, uint32_t vocabulary) {
  const Fields fields = file.fields();
  GenerationConfig config;
  PUMICE_TRY(uint32_t start,
             fields.u32_or(file.architecture() + ".decoder_start_token_id", 0, vocabulary - 1, 0));
  config.prompt = {start};
  PUMICE_TRY(config.ends, fields.u32_array_or_empty("tokenizer.ggml.eos_token_id", 0, vocabulary - 1));
  return config;
}

} // namespace

Result<GenerationConfig> read_generation_config(const ModelFile& file, uint32_t vocabulary) {
  if (file.format() == ModelFile::Format::gguf) return read_gguf(file, vocabulary);
  constexpr const char* name = "generation_config.json";
  PUMICE_TRY(const std::optional<nlohmann::json> json, file.folder().object(name));
  if (!json) return read(Reader(nullptr, file, vocabulary), vocabulary);
  const Fields generation(*json, file.folder().path(name));
  return read(Reader(&generation, file, vocabulary), vocabulary);
}

} // namespace pumice

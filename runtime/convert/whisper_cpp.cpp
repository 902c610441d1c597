#include "convert/whisper_cpp.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "convert/tensor_rows.h"
#include "io/formats/ggml_whisper.h"
#include "io/formats/whisper_settings.h"
#include "io/output_file.h"
#include "model/vocabulary.h"
#include "speech/audio_features.h"
#include "text/unicode/byte_level.h"

namespace pumice {

namespace {

constexpr std::string_view magic = "lmgg";
constexpr uint32_t block_version = 2000; // of quantised blocks, added to the type of the file

// ggml's numbers of the types of files.
constexpr std::pair<std::string_view, uint32_t> ggml_file_types[] = {
    {"F32", 0},   {"F16", 1},   {"Q4_0", 2},  {"Q4_1", 3},  {"Q8_0", 7},  {"Q5_0", 8}, {"Q5_1", 9},
    {"Q2_K", 10}, {"Q3_K", 11}, {"Q4_K", 12}, {"Q5_K", 13}, {"Q6_K", 14}, {"BF16", 24}};

struct Written {
  std::string name; // whisper.cpp's
  const TensorView* tensor = nullptr;
  std::vector<uint64_t> shape; // outermost first
  TensorType type = TensorType::f32;
};

void put(std::string& bytes, uint64_t value) {
  const auto number = static_cast<uint32_t>(value);
  bytes.append(reinterpret_cast<const char*>(&number), sizeof number);
}

bool quantised(TensorType type) {
  return info(type).block_size > 1;
}

// As whisper.cpp reads them: biases, norms and positions are F32; convolutions are not quantised, and their
// biases are columns.
Result<Written> written(const ModelFile& file, std::string name, const TensorView& tensor,
                        TensorType requested) {
  Written result{std::move(name), &tensor, tensor.shape, requested};
  if (tensor.shape.size() == 1) {
    if (result.name.find(".conv") != std::string::npos) result.shape.push_back(1);
    result.type = TensorType::f32;
  } else if (result.name.ends_with("positional_embedding")) {
    result.type = TensorType::f32;
  } else if (tensor.shape.size() > 2) {
    result.type = requested == TensorType::f32 ? requested : TensorType::f16;
  } else if (tensor.shape.back() % info(requested).block_size != 0) {
    return Error{Code::unsupported,
                 fmt::format("{}: tensor '{}': a file of whisper.cpp has all matrices in one type, and rows "
                             "of {} are not a whole number of {}'s blocks of {}: choose another --type",
                             file.path(), tensor.name, tensor.shape.back(), info(requested).name,
                             info(requested).block_size)};
  }
  return result;
}

Result<std::vector<Written>> choose_tensors(const ModelFile& file, TensorType requested) {
  PUMICE_TRY(const uint32_t encoder_layers, file.fields().u32("encoder_layers"));
  PUMICE_TRY(const uint32_t decoder_layers, file.fields().u32("decoder_layers"));
  std::vector<Written> all;
  for (auto& [own, other] : ggml_whisper_names(encoder_layers, decoder_layers)) {
    const TensorView* tensor = file.find(other);
    // CTranslate2 gives the keys a bias of zeros, which Whisper's have not.
    if (!tensor || own.ends_with("attn.key.bias")) continue;
    PUMICE_TRY(Written each, written(file, std::move(own), *tensor, requested));
    all.push_back(std::move(each));
  }
  return all;
}

// The bytes of the words, which come before all special tokens.
Result<std::vector<std::string>> words_of(const ModelFile& file) {
  std::vector<std::string> words;
  if (const RankedTokens* ranks = file.ranked_tokens()) {
    words.assign(ranks->words.begin(), ranks->words.end());
    return words;
  }
  PUMICE_TRY(const std::shared_ptr<const Tokenizer> tokenizer, load_tokenizer(file));
  const uint32_t end = tokenizer->find("<|endoftext|>").value_or(0);
  for (uint32_t id = 0; id < end; ++id) {
    std::optional<std::string> bytes = text::bytes_of_byte_level(tokenizer->piece(id));
    if (!bytes)
      return Error{Code::unsupported,
                   fmt::format("{}: token {} ('{}'): expected one of Whisper's, which spell bytes",
                               file.path(), id, tokenizer->piece(id))};
    words.push_back(*std::move(bytes));
  }
  return words;
}

Result<std::string> header_of(const ModelFile& file, const ModelDefinition& definition, TensorType type) {
  PUMICE_TRY(const LogMelShape sound, read_log_mel_shape(file, definition.shape()));
  PUMICE_TRY(const std::vector<std::string> words, words_of(file));
  const Fields fields = file.fields();
  std::string bytes(magic);
  uint32_t vocabulary = 0, positions = 0;
  PUMICE_TRY(vocabulary, fields.u32("vocab_size"));
  PUMICE_TRY(positions, fields.u32("max_source_positions"));
  const auto [least, most] = ggml_whisper_tokens(words.size(), positions);
  if (sound.sample_rate != whisper_sample_rate || sound.n_fft != whisper_n_fft || sound.hop != whisper_hop)
    return Error{Code::unsupported, fmt::format("{}: expected the sound features of Whisper", file.path())};
  if (words.empty() || vocabulary < least || vocabulary > most)
    return fields.error("vocab_size", fmt::format("a file of whisper.cpp has {} to {} tokens with {} words, "
                                                  "found {}",
                                                  least, most, words.size(), vocabulary));
  put(bytes, vocabulary);
  for (const char* name : {"max_source_positions", "d_model", "encoder_attention_heads", "encoder_layers",
                           "max_target_positions", "d_model", "decoder_attention_heads", "decoder_layers"}) {
    PUMICE_TRY(const uint32_t value, fields.u32(name));
    put(bytes, value);
  }
  put(bytes, sound.mels);
  const uint32_t number =
      std::ranges::find(ggml_file_types, info(type).name, &std::pair<std::string_view, uint32_t>::first)
          ->second;
  put(bytes, quantised(type) ? number + block_version : number);
  put(bytes, sound.mels);
  put(bytes, sound.bins());
  for (const double each : mel_filters(sound)) {
    const auto value = static_cast<float>(each);
    bytes.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  put(bytes, words.size());
  for (const std::string& word : words) {
    put(bytes, word.size());
    bytes += word;
  }
  return bytes;
}

std::string header_of(const Written& tensor) {
  std::string bytes;
  put(bytes, tensor.shape.size());
  put(bytes, tensor.name.size());
  put(bytes, info(tensor.type).gguf_id);
  for (size_t i = tensor.shape.size(); i-- > 0;) put(bytes, tensor.shape[i]); // innermost first
  return bytes + tensor.name;
}

} // namespace

Result<Conversion> convert_to_whisper_cpp(const ModelFile& file, const ModelDefinition& definition,
                                          const std::filesystem::path& path, const ConversionOptions& options,
                                          const Progress& progress) {
  if (file.architecture() != "whisper")
    return Error{Code::unsupported,
                 fmt::format("{}: a file of whisper.cpp (.bin) holds a Whisper model, and this is one of the "
                             "architecture '{}': choose a name that ends in .gguf",
                             file.path(), file.architecture())};
  const TensorTypeInfo& type = info(options.mixture.type);
  const auto number =
      std::ranges::find(ggml_file_types, type.name, &std::pair<std::string_view, uint32_t>::first);
  if (number == std::end(ggml_file_types) || options.mixture.name != type.name || !options.rules.empty() ||
      options.importance || options.split_bytes > 0 || options.dry_run)
    return Error{Code::unsupported,
                 fmt::format("{}: a file of whisper.cpp (.bin) is one file with all matrices in one type, of "
                             "F32, F16, BF16, Q8_0, Q4_0 to Q5_1 and Q2_K to Q6_K: {}",
                             path_text(path),
                             options.mixture.name != type.name || number == std::end(ggml_file_types)
                                 ? fmt::format("it cannot have {}", options.mixture.name)
                                 : "rules for tensors, importance, parts and dry runs are for GGUF files")};
  PUMICE_TRY(const std::vector<Written> tensors, choose_tensors(file, options.mixture.type));
  PUMICE_TRY(const std::string header, header_of(file, definition, options.mixture.type));
  OutputFile out;
  PUMICE_CHECK(out.open(path));
  Conversion conversion;
  conversion.tensors = tensors.size();
  const WriteBytes write = [&](std::span<const std::byte> bytes) {
    conversion.bytes += bytes.size();
    return out.write(bytes);
  };
  PUMICE_CHECK(write(std::as_bytes(std::span(header))));
  uint64_t done = 0, total = 0;
  for (const Written& each : tensors) total += tensor_bytes(each.type, each.tensor->shape).value_or(0);
  for (const Written& each : tensors) {
    const std::string before = header_of(each);
    PUMICE_CHECK(write(std::as_bytes(std::span(before))));
    GgufTensor same;
    same.name = each.tensor->name;
    same.shape = each.tensor->shape;
    same.parts = {WeightView::whole(*each.tensor)};
    PUMICE_TRY(const TensorRows rows, TensorRows::of(same));
    PUMICE_CHECK(write_rows(rows, each.type, write, progress, done, total));
  }
  PUMICE_CHECK(out.finish());
  return conversion;
}

} // namespace pumice

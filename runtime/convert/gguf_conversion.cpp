// A GGUF file to one of other types.
#include <algorithm>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "convert/conversion.h"
#include "convert/gguf_output.h"
#include "convert/importance.h"
#include "io/formats/gguf.h"
#include "io/mapped_file.h"

namespace pumice {

namespace {

// What llama-quantize leaves as it is: it is small, and small errors in it have a large effect, or it is read
// in another way than a matrix.
constexpr std::string_view kept[] = {"_norm.weight",
                                     "ffn_gate_inp.weight",
                                     "altup",
                                     "laurel",
                                     "per_layer_model_proj",
                                     "position_embd",
                                     "token_types.weight",
                                     "ssm_conv1d",
                                     "shortconv.conv.weight",
                                     "indexer.k_proj",
                                     "indexer.q_proj",
                                     "time_mix_first.weight",
                                     "time_mix_w",
                                     "time_mix_v0",
                                     "time_mix_v1",
                                     "time_mix_v2",
                                     "time_mix_a0",
                                     "time_mix_a1",
                                     "time_mix_a2",
                                     "time_mix_g1",
                                     "time_mix_g2",
                                     "time_mix_decay_w",
                                     "time_mix_lerp_fused",
                                     "attn_rel_b.weight",
                                     "patch_embd",
                                     "patch_merger",
                                     "rel_pos",
                                     "mm.input_projection"};

bool is_quantised(const TensorView& tensor) {
  const auto larger = [](uint64_t size) { return size > 1; };
  const auto first = std::ranges::find_if(tensor.shape, larger);
  return tensor.shape.end() - first >= 2 && tensor.name.ends_with("weight") &&
         std::ranges::none_of(
             kept, [&](std::string_view part) { return tensor.name.find(part) != std::string::npos; });
}

// Those of the first file, but for what says how the file was made.
Status add_pairs(const ModelFile& file, const Mixture& mixture, GgufWriter& writer) {
  const std::vector<std::filesystem::path> files = ModelFile::weight_files(path_of(file.path()));
  PUMICE_TRY(const MappedFile first, MappedFile::open(files.empty() ? path_of(file.path()) : files.front()));
  PUMICE_TRY(const GgufFile header, GgufFile::parse(first.bytes(), first.path()));
  constexpr uint32_t quantization_version = 2; // the version of the block layouts
  for (const auto& [key, bytes] : header.pairs) {
    if (key == "general.file_type" || key == "general.quantization_version" || key == "general.alignment" ||
        key.starts_with("split.")) {
      continue;
    }
    writer.add_pair(key, bytes);
  }
  writer.add("general.quantization_version", quantization_version);
  writer.add("general.file_type", mixture.file_type);
  return {};
}

} // namespace

Result<Conversion> convert_gguf(const ModelFile& file, const std::filesystem::path& path,
                                const ConversionOptions& options, const Progress& progress) {
  std::vector<std::string> names;
  for (const TensorView& tensor : file.tensors()) names.push_back(tensor.name);
  const MixtureTypes types(options.mixture, options.rules, file.architecture(), file.config(), names,
                           options.importance != nullptr);
  Conversion conversion;
  std::vector<OutputTensor> tensors;
  size_t fallen_back = 0, again = 0, without = 0;
  for (const TensorView& tensor : file.tensors()) {
    OutputTensor out;
    out.tensor.name = tensor.name;
    out.tensor.shape = tensor.shape;
    out.tensor.parts = {WeightView::whole(tensor)};
    out.from = out.type = tensor.type;
    if (is_quantised(tensor)) {
      const WrittenType chosen = types.of(tensor.name, tensor.shape.size() > 2, tensor.shape.back());
      out.type = chosen.type;
      fallen_back += chosen.fell_back;
      again += out.type != out.from && info(out.from).block_size > 1;
      without += options.importance && info(out.type).block_size > 1 && !options.importance->has(tensor.name);
    }
    out.as_it_is = out.type == out.from;
    tensors.push_back(std::move(out));
  }
  if (fallen_back > 0)
    conversion.notes.push_back(fallback_note(file.path(), fallen_back, tensors.size(), options.mixture.type));
  if (again > 0)
    conversion.notes.push_back(
        fmt::format("{}: {} of {} tensors were quantised before, and lose more now: of a file in F16, BF16 "
                    "or F32 the result is better",
                    file.path(), again, tensors.size()));
  if (without > 0)
    conversion.notes.push_back(fmt::format("{}: says nothing of {} of {} tensors", options.importance->path(),
                                           without, tensors.size()));
  const auto settings = [&](GgufWriter& writer) { return add_pairs(file, options.mixture, writer); };
  PUMICE_CHECK(write_gguf(file, path, options, false, settings, tensors, progress, conversion));
  return conversion;
}

} // namespace pumice

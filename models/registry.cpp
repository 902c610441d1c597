#include "models/architecture.h"

#include <algorithm>

#include <fmt/format.h>

#include "models/gpt2/gpt2.h"
#include "models/llama/llama.h"

namespace pumice {

std::span<const Architecture> architectures() {
  static const Architecture table[] = {
      {"gpt2", {"gpt2"}, {}, open_gpt2},
      {"llama", {"llama"}, {"llama"}, open_llama},
  };
  return table;
}

Result<std::unique_ptr<Definition>> open_definition(const ModelFile& file) {
  const bool gguf = file.format() == ModelFile::Format::gguf;
  const std::string wanted = file.architecture();
  std::string known;
  for (const Architecture& architecture : architectures()) {
    const auto& names = gguf ? architecture.gguf_architectures : architecture.hugging_face_model_types;
    if (std::find(names.begin(), names.end(), wanted) != names.end()) return architecture.open(file);
    for (std::string_view name : names) known += fmt::format("{}{}", known.empty() ? "" : ", ", name);
  }
  return Error{Code::unsupported, fmt::format("{}: field '{}': expected one of {}; found '{}'", file.path(),
                                              gguf ? "general.architecture" : "model_type", known, wanted)};
}

} // namespace pumice

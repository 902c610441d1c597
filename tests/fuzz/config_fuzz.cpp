// config.json from anyone, through ModelFile as a program opens it; each field is then read as every type
// there is, and the whole as a model's.
#include "io/model_file.h"
#include "model/architecture.h"

#include <cstdint>
#include <string>

#include <nlohmann/json.hpp>

using namespace pumice;

namespace {

void read_all(const nlohmann::json& object, const Fields& fields, int depth) {
  for (const auto& [name, value] : object.items()) {
    (void)fields.u32(name, 1, 1u << 20);
    (void)fields.u32_or(name, 7);
    (void)fields.f32(name);
    (void)fields.f32_or(name, 0, 1, 0.5f);
    (void)fields.boolean_or(name, false);
    (void)fields.string_or(name, "");
    (void)fields.u32_array_or_empty(name);
    (void)fields.f32_array(name);
    (void)fields.string_array(name);
    const auto nested = fields.object_or_empty(name);
    if (nested && value.is_object() && depth < 8) read_all(value, *nested, depth + 1);
  }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  // from_memory also takes GGUF, which a target of its own covers.
  const auto model = ModelFile::from_memory({reinterpret_cast<const std::byte*>(data), size}, "config.json");
  if (!model) return 0;
  (void)model->architecture();
  (void)model->config().dump();
  (void)model->require("model.embed_tokens.weight", {});
  read_all(model->config(), model->fields(), 0);
  const auto definition = open_model_definition(*model);
  if (!definition) return 0;
  (void)(*definition)->shape();
  (void)(*definition)->hyperparameters();
  return 0;
}

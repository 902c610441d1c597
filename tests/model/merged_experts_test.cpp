// GGUF files whose experts have gate and up in one tensor, as llama.cpp's converter writes them if it is
// asked to.
#include <cstring>

#include <doctest/doctest.h>

#include "io/formats/gguf.h"
#include "io/formats/gguf_writer.h"
#include "io/mapped_file.h"
#include "support/command/answers.h"
#include "support/command/command.h"
#include "support/files/fixtures.h"
#include "support/files/temporary_folder.h"
#include "support/model.h"
#include "support/require.h"
#include "support/vulkan/gpu.h"

using namespace pumice;

namespace {

void add_setting(GgufWriter& writer, const std::string& key, const nlohmann::json& value) {
  if (value.is_string()) {
    writer.add(key, value.get<std::string>());
  } else if (value.is_boolean()) {
    writer.add(key, value.get<bool>());
  } else if (value.is_number_float()) {
    writer.add(key, value.get<float>());
  } else if (value.is_number()) {
    writer.add(key, value.get<uint32_t>());
  } else if (value.is_array() && value[0].is_boolean()) {
    const std::vector<bool> flags = value;
    writer.add_flags(key, std::vector<uint8_t>(flags.begin(), flags.end()));
  } else {
    const std::vector<uint32_t> numbers = value;
    writer.add_array(key, std::span(numbers));
  }
}

// Rewrites a file of F32 so that [experts, rows, ...] of gate and up become [experts, 2 * rows, ...].
void merge_experts(const std::filesystem::path& from, const std::filesystem::path& to) {
  const MappedFile mapped = require(MappedFile::open(from));
  const GgufFile file = require(GgufFile::parse(mapped.bytes(), from.string()));
  const auto find = [&](const std::string& name) {
    const auto found = std::ranges::find(file.tensors, name, &TensorView::name);
    REQUIRE(found != file.tensors.end());
    return *found;
  };
  struct Tensor {
    std::string name;
    std::vector<uint64_t> shape;
    std::vector<std::byte> bytes;
  };
  std::vector<Tensor> tensors;
  size_t merged = 0;
  for (const TensorView& each : file.tensors) {
    REQUIRE(each.type == TensorType::f32);
    Tensor tensor{each.name, each.shape, {each.data.begin(), each.data.end()}};
    if (each.name.find("ffn_up_exps") != std::string::npos) continue;
    if (const size_t at = each.name.find("ffn_gate_exps"); at != std::string::npos) {
      std::string name = each.name;
      const TensorView up = find(name.replace(at, 13, "ffn_up_exps"));
      tensor.name.replace(at, 13, "ffn_gate_up_exps");
      tensor.shape[1] *= 2;
      tensor.bytes.clear();
      const size_t size = each.data.size() / each.shape[0]; // of an expert
      for (size_t expert = 0; expert < each.shape[0]; ++expert) {
        for (const auto& data : {each.data, up.data}) {
          const auto own = data.subspan(expert * size, size);
          tensor.bytes.insert(tensor.bytes.end(), own.begin(), own.end());
        }
      }
      ++merged;
    }
    tensors.push_back(std::move(tensor));
  }
  REQUIRE(merged > 0);
  GgufWriter writer;
  for (const auto& [key, value] : file.metadata.items()) add_setting(writer, key, value);
  for (const Tensor& each : tensors) writer.add_tensor(each.name, each.shape, TensorType::f32);
  require(writer.open(to));
  for (const Tensor& each : tensors) require(writer.write(each.bytes));
  require(writer.finish());
}

} // namespace

TEST_CASE("experts with gate and up in one tensor are the same model") {
  for (const char* name : {"gpt-oss", "qwen3-moe", "qwen2-moe", "glm4-moe", "mixtral-moe"}) {
    CAPTURE(name);
    const TemporaryFolder temporary;
    const std::filesystem::path folder = fixtures().model(name), plain = temporary.path() / "plain.gguf",
                                merged = temporary.path() / "merged.gguf";
    const CommandResult converted =
        pumice_command({"convert", folder.string(), plain.string(), "--type", "F32", "--no-vocabulary"});
    REQUIRE_MESSAGE(converted.status == 0, converted.err);
    merge_experts(plain, merged);
    const Answers answers(folder / "expected.safetensors");
    const std::vector<uint32_t> ids = answers.ids("input_ids", 0);
    const std::vector<float> expected = forward(load_model(plain), ids, 128);
    CHECK(forward(load_model(merged), ids, 128) == expected);
    CHECK(relative_rms(expected, answers.floats.at("logits")) <= 1e-4);
  }
}

// The table of architectures.
#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "models/registry.h"
#include "support/files/gguf_builder.h"
#include "support/files/temporary_folder.h"

using namespace pumice;

namespace {

void check_unique(const std::vector<std::string_view>& names) {
  std::set<std::string_view> seen;
  for (std::string_view name : names) {
    CAPTURE(name);
    CHECK(!name.empty());
    CHECK(seen.insert(name).second);
  }
}

} // namespace

TEST_CASE("no two entries of the table of architectures share a name") {
  std::vector<std::string_view> names, hugging_face, gguf, projectors;
  for (const Architecture& each : architectures()) {
    names.push_back(each.name);
    hugging_face.insert(hugging_face.end(), each.hugging_face_model_types.begin(),
                        each.hugging_face_model_types.end());
    gguf.insert(gguf.end(), each.gguf_architectures.begin(), each.gguf_architectures.end());
    projectors.insert(projectors.end(), each.gguf_projectors.begin(), each.gguf_projectors.end());
  }
  for (const auto& list : {names, hugging_face, gguf, projectors}) check_unique(list);
}

TEST_CASE("every entry of the table of architectures can be opened") {
  for (const Architecture& each : architectures()) {
    CAPTURE(each.name);
    CHECK(each.open);
    CHECK(!each.hugging_face_model_types.empty());
    if (!each.gguf_projectors.empty()) CHECK(each.open_pictures);
  }
  for (std::string_view text_model : {"gemma3", "llama", "qwen2"}) { // that models with pictures open
    const auto entry = std::ranges::find(architectures(), text_model, &Architecture::name);
    REQUIRE(entry != architectures().end());
    CHECK(entry->open_decoder);
  }
}

TEST_CASE("a factor of each expert of NVFP4 is refused by its name") {
  constexpr uint32_t nvfp4 = 40; // ggml's number
  GgufBuilder file;
  file.string("general.architecture", "llama");
  file.tensor({"blk.0.ffn_up_exps.weight", {64, 1, 2}, nvfp4})
      .tensor({"blk.0.ffn_up_exps.scale", {2}, 0, 96});
  file.data_bytes = 128;
  const std::vector<std::byte> bytes = file.build();
  const TemporaryFolder folder;
  const auto path =
      folder.write("model.gguf", std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
  const auto opened = ModelFile::open(path);
  REQUIRE(opened.ok());
  const auto definition = open_model_definition(*opened);
  REQUIRE(!definition.ok());
  CHECK(definition.error().message.find("'blk.0.ffn_up_exps.scale'") != std::string::npos);
}

#include "io/model_file.h"
#include "io/weight_view.h"

#include "support/command/messages.h"
#include "support/files/fixtures.h"
#include "support/files/gguf_builder.h"
#include "support/files/safetensors_builder.h"
#include "support/files/temporary_folder.h"

#include <cfloat>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

using namespace pumice;

namespace {

using Shape = std::vector<uint64_t>;

constexpr std::string_view two_shards =
    R"({"weight_map":{"a":"s-1.safetensors","b":"s-2.safetensors","c":"s-2.safetensors"}})";

std::vector<std::byte> shard(std::string_view first, std::string_view second) {
  return safetensors_bytes(
      "{\"" + std::string(first) + R"(":{"dtype":"F32","shape":[2],"data_offsets":[0,8]},")" +
          std::string(second) + R"(":{"dtype":"F16","shape":[4],"data_offsets":[8,16]}})",
      16);
}

// A folder with a config and this index. The test writes the shards.
void write_index(const TemporaryFolder& folder, std::string_view index) {
  folder.write("config.json", std::string_view(R"({"model_type":"test"})"));
  folder.write("model.safetensors.index.json", index);
}

} // namespace

TEST_CASE("model file: a config.json with the numbers that only Python writes") {
  const TemporaryFolder folder;
  folder.write("config.json", std::string_view(R"({"model_type":"a\"Infinity","limit":[0.0, Infinity],)"
                                               R"("all":[-Infinity,NaN,-1], "NaN":"NaN"})"));
  const auto model = ModelFile::open(folder.path());
  REQUIRE_MESSAGE(model.ok(), model.error().text());
  CHECK(model->fields().string("model_type").value() == "a\"Infinity");
  CHECK(model->fields().f32_array("limit").value() == std::vector<float>{0, FLT_MAX});
  CHECK(model->fields().string("NaN").value() == "NaN");
  CHECK(says(model->fields().f32_array("all"), {"config.json", "'all[0]'"}) == "");
  folder.write("config.json", std::string_view(R"({"model_type":"a","limit":Infinite})"));
  CHECK(says(ModelFile::open(folder.path()), {"config.json", "invalid JSON"}) == "");
}

TEST_CASE("model file: a GGUF file") {
  const TemporaryFolder folder;
  const auto path = folder.write("small.gguf", small_gguf().build());
  auto opened = ModelFile::open(path);
  REQUIRE_MESSAGE(opened.ok(), says(opened, {}));
  const Fields fields = opened->fields();
  const ModelFile model = *std::move(opened); // references from before the move stay valid
  CHECK(*fields.u32("llama.block_count") == 2);
  CHECK(model.format() == ModelFile::Format::gguf);
  CHECK(model.architecture() == "llama");
  CHECK(model.config()["llama.block_count"] == 2);
  CHECK(model.tensors().size() == 2);
  CHECK(model.has_weights());
  CHECK(model.file_bytes() == small_gguf().build().size());
  CHECK(model.tokenizer_path().empty());
  REQUIRE(model.array("tokenizer.ggml.tokens"));
  CHECK(model.array("tokenizer.ggml.tokens")->strings().size() == 3);
  CHECK(model.array("llama.block_count") == nullptr);
  REQUIRE(model.find("token_embd.weight"));
  const auto required = model.require("token_embd.weight", Shape{3, 4});
  REQUIRE(required.ok());
  CHECK(*required == model.find("token_embd.weight"));
  CHECK(says(model.require("token_embd.weight", Shape{4, 3}),
             {"small.gguf", "'token_embd.weight'", "expected shape [4, 3]", "found [3, 4]"}) == "");
  CHECK(says(model.require("token_embed.weight", Shape{3, 4}),
             {"small.gguf", "'token_embed.weight'", "nearest", "'token_embd.weight'"}) == "");
  const auto unlike = model.require("xyz", Shape{1});
  CHECK(says(unlike, {"small.gguf", "'xyz'"}) == "");
  CHECK(unlike.error().text().find("nearest") == std::string::npos);
  CHECK(unlike.error().code == Code::not_found);
  CHECK(says(fields.u32("llama.nothing"), {"small.gguf", "'llama.nothing'"}) == "");
}

TEST_CASE("model file: any part of a split GGUF file opens all of it") {
  const auto part = [](uint16_t number, uint16_t count, const char* tensor) {
    GgufBuilder builder;
    if (number == 0) builder.string("general.architecture", "llama").u32("llama.block_count", 2);
    builder.pair("split.no", GgufType::u16, number).pair("split.count", GgufType::u16, count);
    builder.pair("split.tensors.count", GgufType::i32, int32_t{3});
    builder.tensor({tensor, {4, 3}, 0, 0});
    builder.data_bytes = 48;
    return builder.build();
  };
  const TemporaryFolder folder;
  const std::vector<std::filesystem::path> paths = {folder.write("m-00001-of-00003.gguf", part(0, 3, "a")),
                                                    folder.write("m-00002-of-00003.gguf", part(1, 3, "b")),
                                                    folder.write("m-00003-of-00003.gguf", part(2, 3, "c"))};
  for (const std::filesystem::path& path : paths) {
    const auto model = ModelFile::open(path);
    REQUIRE_MESSAGE(model.ok(), model.error().text());
    CHECK(model->architecture() == "llama");
    CHECK(model->tensors().size() == 3);
    for (const char* name : {"a", "b", "c"}) CHECK(model->require(name, Shape{3, 4}).ok());
    CHECK(ModelFile::weight_files(path) == paths);
  }
  CHECK(says(ModelFile::open(folder.write("alone.gguf", part(1, 3, "b"))),
             {"alone.gguf", "part 2 of the 3", "-00002-of-00003.gguf"}) == "");
  CHECK(says(ModelFile::from_memory(part(0, 3, "a"), "embedded"), {"embedded", "part 1 of the 3"}) == "");
  folder.write("m-00003-of-00003.gguf", part(1, 3, "c"));
  CHECK(says(ModelFile::open(paths[0]), {"m-00003-of-00003.gguf", "'split.no'", "expected 2, found 1"}) ==
        "");
  folder.write("m-00003-of-00003.gguf", part(2, 3, "a"));
  CHECK(says(ModelFile::open(paths[0]), {"m-00003-of-00003.gguf", "'a'", "earlier part"}) == "");
  std::filesystem::remove(paths[1]);
  std::filesystem::remove(paths[2]);
  CHECK(says(ModelFile::open(paths[0]),
             {"m-00001-of-00003.gguf", "3 files", "no m-00002-of-00003.gguf, m-00003-of-00003.gguf"}) == "");
}

TEST_CASE("model file: the parts of a split GGUF file from anywhere") {
  const auto part = [](uint16_t number, uint16_t count) {
    GgufBuilder builder;
    builder.string("general.architecture", "llama");
    builder.pair("split.no", GgufType::u16, number).pair("split.count", GgufType::u16, count);
    builder.tensor({fmt::format("t{}", number), {4, 3}, 0, 0});
    builder.data_bytes = 48;
    return builder.build();
  };
  const std::vector<std::byte> parts[] = {part(0, 3), part(1, 3), part(2, 3)}, other = part(1, 2);
  const auto join = [](const std::vector<std::span<const std::byte>>& all) {
    std::vector<MappedFile> files;
    for (const auto& bytes : all) files.push_back(MappedFile::from_memory(bytes, "packed"));
    return ModelFile::join(std::move(files));
  };
  const auto model = join({parts[2], parts[0], parts[1]});
  REQUIRE_MESSAGE(model.ok(), model.error().text());
  for (const char* name : {"t0", "t1", "t2"}) CHECK(model->find(name));
  CHECK(says(join({parts[2], parts[0]}), {"packed", "3 parts, and 2 were given, without part 2"}) == "");
  CHECK(says(join({parts[0], parts[0], parts[1]}), {"packed", "'split.no'", "part 1 was given twice"}) == "");
  CHECK(says(join({parts[0], other}), {"packed", "'split.count'", "expected 3", "found 2"}) == "");
  const std::vector<std::byte> whole = small_gguf().build();
  CHECK(join({whole}).ok());
  CHECK(says(join({parts[0], whole}), {"packed", "'split.count'"}) == "");
}

TEST_CASE("model file: a factor of a matrix of NVFP4") {
  GgufBuilder builder;
  builder.string("general.architecture", "llama");
  builder.tensor({"a.weight", {64, 2}, 40}).tensor({"b.weight", {64, 2}, 40, 96});
  builder.tensor({"a.scale", {1}, 0, 192}).tensor({"c.scale", {1}, 0, 224});
  builder.data_bytes = 256;
  std::vector<std::byte> bytes = builder.build();
  const float factor = 0.75f;
  std::byte* data = bytes.data() + bytes.size() - 256;
  std::memcpy(data + 96, data, 72); // the same matrix, without a factor
  std::memcpy(data + 192, &factor, sizeof factor);
  const auto model = ModelFile::from_memory(bytes, "embedded");
  REQUIRE_MESSAGE(model.ok(), model.error().text());
  CHECK(!model->find("a.scale"));
  CHECK(model->find("c.scale"));
  const TensorView *scaled = model->find("a.weight"), *plain = model->find("b.weight");
  REQUIRE((scaled && plain));
  CHECK(scaled->type == TensorType::f32);
  CHECK(plain->type == TensorType::nvfp4);
  const std::vector<float> values = decode_vector(WeightView::whole(*scaled)),
                           wanted = decode_vector(WeightView::whole(*plain));
  REQUIRE(values.size() == wanted.size());
  for (size_t i = 0; i < values.size(); ++i) CHECK(values[i] == wanted[i] * factor);
  float third = 0; // from the middle of a block
  join_blocks(*scaled, 67, 1, reinterpret_cast<std::byte*>(&third));
  CHECK(third == values[67]);
}

TEST_CASE("model file: a special token of id -1 is none") {
  GgufBuilder builder = small_gguf();
  builder.u32("tokenizer.ggml.bos_token_id", 0).u32("tokenizer.ggml.eos_token_id", UINT32_MAX);
  builder.pair("tokenizer.ggml.unknown_token_id", GgufType::i32, int32_t{-1});
  const std::vector<std::byte> bytes = builder.build();
  const auto model = ModelFile::from_memory(bytes, "embedded");
  REQUIRE(model.ok());
  CHECK(model->fields().has("tokenizer.ggml.bos_token_id"));
  CHECK(!model->fields().has("tokenizer.ggml.eos_token_id"));
  CHECK(!model->fields().has("tokenizer.ggml.unknown_token_id"));
}

TEST_CASE("model file: a GGUF file is recognised by its magic, on disk and in memory") {
  const TemporaryFolder folder;
  const std::vector<std::byte> bytes = small_gguf().build();
  CHECK(ModelFile::open(folder.write("blob", bytes)).ok());
  const auto model = ModelFile::from_memory(bytes, "embedded");
  REQUIRE(model.ok());
  CHECK(model->find("token_embd.weight")->data.data() > bytes.data()); // no copy
  CHECK(says(model->require("x", Shape{}), {"embedded"}) == "");
  const std::string_view text = R"({"model_type":"gpt2"})";
  const auto config = ModelFile::from_memory(std::as_bytes(std::span(text)), "embedded.json");
  REQUIRE(config.ok());
  CHECK(config->architecture() == "gpt2");
  CHECK(!config->has_weights());
}

TEST_CASE("model file: a GGUF file inside another file, at any offset") {
  const TemporaryFolder folder;
  const std::vector<std::byte> model = small_gguf().build();
  for (size_t offset : {0u, 1u, 3u, 32u, 4096u, 5001u}) {
    CAPTURE(offset);
    std::vector<std::byte> packed(offset, std::byte{0xee});
    packed.insert(packed.end(), model.begin(), model.end());
    packed.resize(packed.size() + 777, std::byte{0xdd});
    const auto path = folder.write("assets.pak", packed);
    const auto opened = ModelFile::open(path, {offset, model.size()});
    REQUIRE_MESSAGE(opened.ok(), says(opened, {}));
    CHECK(opened->architecture() == "llama");
    CHECK(opened->file_bytes() == model.size());
    CHECK(opened->array("tokenizer.ggml.scores")->floats() == std::vector<float>{0, -1, -2.5f});
    // The tensors' bytes count up from 0.
    std::vector<float> row(4), expected(4);
    std::vector<std::byte> counting(16);
    for (size_t i = 0; i < 16; ++i) counting[i] = static_cast<std::byte>(i);
    decode_row(TensorType::f32, opened->find("token_embd.weight")->data.data(), row);
    decode_row(TensorType::f32, counting.data(), expected);
    CHECK(row == expected);
    CHECK(says(ModelFile::open(path, {offset, model.size() - 40}), {"assets.pak", "data"}) == "");
    CHECK(says(ModelFile::open(path, {offset + 1, 0}), {"assets.pak", "magic"}) == "");
    CHECK(says(ModelFile::open(path, {offset, packed.size() + 1}), {"assets.pak", "found a file of"}) == "");
  }
}

TEST_CASE("model file: a file that an application reads") {
  const std::vector<std::byte> bytes = small_gguf().build();
  const ReadBytes source = [&](uint64_t at, std::span<std::byte> to) {
    if (at + to.size() > bytes.size()) return false;
    std::copy_n(bytes.begin() + static_cast<ptrdiff_t>(at), to.size(), to.begin());
    return true;
  };
  auto model = ModelFile::read(source, bytes.size(), "pack:small");
  REQUIRE_MESSAGE(model.ok(), says(model, {}));
  CHECK(model->path() == "pack:small");
  CHECK(model->find("token_embd.weight")->data[5] == std::byte{5});
  model->forget_weights({});
  CHECK(model->array("tokenizer.ggml.tokens")->strings()[2] == "hello");
  CHECK(model->config()["llama.block_count"] == 2);

  const auto cancelled = ModelFile::read(source, bytes.size(), "x", [](uint64_t, uint64_t) { return false; });
  CHECK(cancelled.error().code == Code::cancelled);
  CHECK(says(ModelFile::read(source, bytes.size() + 1, "pack:small"), {"pack:small", "not be read"}) == "");
  CHECK(says(ModelFile::read(source, bytes.size() - 8, "pack:small"), {"pack:small", "data"}) == "");
  const std::string_view config = R"({"model_type":"gpt2"})";
  const ReadBytes text = [&](uint64_t at, std::span<std::byte> to) {
    std::ranges::copy(std::as_bytes(std::span(config)).subspan(at, to.size()), to.begin());
    return true;
  };
  CHECK(ModelFile::read(text, config.size(), "pack:config")->architecture() == "gpt2");
}

TEST_CASE("model file: for estimates, an application reads little more than the header") {
  // A header of about 3 MB, followed by a tensor of 64 MB and one of a few bytes.
  GgufBuilder builder = small_gguf();
  builder.numbers<uint32_t>("test.many", GgufType::u32, std::vector<uint32_t>(700000, 7));
  builder.tensor({"large", {4096, 4096}, 0, 256}).tensor({"small", {4}, 0, 256 + (64u << 20)});
  const std::vector<std::byte> header = builder.header();
  const uint64_t data = (header.size() + 31) / 32 * 32, bytes = data + 256 + (64u << 20) + 16;
  uint64_t read = 0;
  const ReadBytes source = [&](uint64_t at, std::span<std::byte> to) {
    read += to.size();
    for (size_t i = 0; i < to.size(); ++i)
      to[i] = at + i < header.size() ? header[at + i] : std::byte{at + i < data ? uint8_t{0} : uint8_t{1}};
    return true;
  };
  const auto model = ModelFile::read_header(source, bytes, "pack:model");
  REQUIRE_MESSAGE(model.ok(), says(model, {}));
  CHECK(read < 8u << 20);
  CHECK(model->array("test.many")->count == 700000);
  CHECK(model->find("small")->data[3] == std::byte{1});
  CHECK(model->find("large")->data.size() == 64u << 20);
  CHECK(model->find("large")->data[40u << 20] == std::byte{0});

  read = 0;
  const ReadBytes nonsense = [&](uint64_t at, std::span<std::byte> to) {
    if (at >= 8u << 20) read += to.size();
    std::ranges::fill(to, std::byte{9});
    return true;
  };
  CHECK(says(ModelFile::read_header(nonsense, 64u << 20, "pack:model"), {"pack:model"}) == "");
  CHECK(read == 0);
}

TEST_CASE("model file: a Hugging Face folder with one file") {
  const TemporaryFolder folder;
  folder.write("config.json", std::string_view(R"({"model_type":"bert","layers":2})"));
  folder.write("model.safetensors", small_safetensors());
  folder.write("tokenizer.json", std::string_view("{}"));
  const auto model = ModelFile::open(folder.path());
  REQUIRE_MESSAGE(model.ok(), says(model, {}));
  CHECK(model->format() == ModelFile::Format::hugging_face);
  CHECK(model->architecture() == "bert");
  CHECK(model->path() == folder.path().string());
  CHECK(model->tokenizer_path() == folder.path() / "tokenizer.json");
  CHECK(model->tensors().size() == 2); // position_ids is not a weight
  CHECK(model->find("position_ids") == nullptr);
  CHECK(model->require("a.bias", Shape{4}).ok());
  CHECK(model->file_bytes() == small_safetensors().size());
  CHECK(says(model->require("position_ids", Shape{1, 2}),
             {"'position_ids'", "F32, F16", "'I64'", "[1, 2]"}) == "");
  CHECK(says(model->fields().u32("heads"), {"config.json", "'heads'"}) == "");
  CHECK(model->array("layers") == nullptr);
}

TEST_CASE("model file: a Hugging Face folder with shards") {
  const TemporaryFolder folder;
  write_index(folder, two_shards);
  folder.write("s-1.safetensors", shard("a", "unlisted"));
  folder.write("s-2.safetensors", shard("b", "c"));
  const auto model = ModelFile::open(folder.path());
  REQUIRE_MESSAGE(model.ok(), says(model, {}));
  CHECK(model->tensors().size() == 3);
  CHECK(model->require("c", Shape{4}).ok());
  CHECK(model->find("unlisted") == nullptr);
  CHECK(model->file_bytes() > 200);
}

TEST_CASE("model file: shards that are wrong") {
  const auto open = [](std::string_view index, bool second, std::string_view last) {
    const TemporaryFolder folder;
    write_index(folder, index);
    folder.write("s-1.safetensors", shard("a", "z"));
    if (second) folder.write("s-2.safetensors", shard("b", last));
    return ModelFile::open(folder.path());
  };
  CHECK(open(two_shards, true, "c").ok());
  CHECK(says(open(two_shards, false, "c"), {"index.json", "'s-2.safetensors'", "not in the folder"}) == "");
  CHECK(says(open(two_shards, true, "d"), {"s-2.safetensors", "'c'", "index.json"}) == "");
  CHECK(says(open("{}", true, "c"), {"index.json", "'weight_map'", "missing"}) == "");
  CHECK(says(open("[]", true, "c"), {"index.json", "object"}) == "");
  CHECK(says(open(R"({"weight_map":{"a":3}})", true, "c"), {"index.json", "'weight_map.a'", "string", "3"}) ==
        "");
  CHECK(says(open(R"({"weight_map":{"a":null}})", true, "c"), {"index.json", "'weight_map.a'"}) == "");
  for (const std::string name :
       {"../s-1.safetensors", "/etc/passwd", "..", ".", "", "a\\\\b", "c:x", "a\\u0000b"})
    CHECK(says(open("{\"weight_map\":{\"a\":\"" + name + "\"}}", true, "c"),
               {"index.json", "'weight_map.a'", "name of a file"}) == "");
  const TemporaryFolder folder;
  write_index(folder, two_shards);
  folder.write("s-1.safetensors", std::string_view("short"));
  folder.write("s-2.safetensors", shard("b", "c"));
  CHECK(says(ModelFile::open(folder.path()), {"s-1.safetensors", "header length"}) == "");
}

TEST_CASE("model file: a config without weights") {
  const TemporaryFolder folder;
  const auto path = folder.write("config.json", std::string_view(R"({"model_type":"bert"})"));
  for (const auto& what : {path, folder.path()}) {
    const auto model = ModelFile::open(what);
    REQUIRE_MESSAGE(model.ok(), says(model, {}));
    CHECK(!model->has_weights());
    CHECK(model->file_bytes() == 0);
    CHECK(model->architecture() == "bert");
    CHECK(says(model->require("w", Shape{1}), {"no weights", "model.safetensors"}) == "");
  }
}

TEST_CASE("model file: what lies in the place of weights is named, with what is read instead") {
  const struct {
    const char *name, *says;
  } cases[] = {{"tf_model.h5", "TensorFlow"},
               {"flax_model.msgpack", "Flax"},
               {"model.onnx", "ONNX"},
               {"adapter_model.safetensors", "--lora"},
               {"model-00001-of-00002.safetensors", "model.safetensors.index.json"},
               {"model.fp16.safetensors", "under the name model.safetensors"},
               {"consolidated.00.pth", "their maker's own names"}};
  for (const auto& each : cases) {
    CAPTURE(each.name);
    const TemporaryFolder folder;
    const auto file = folder.write(each.name, std::string_view("weights of a kind"));
    const std::initializer_list<std::string_view> expected = {each.name, each.says, "model.safetensors"};
    CHECK(says(ModelFile::open(folder.path()), expected) == "");
    CHECK(says(ModelFile::open(file), expected) == "");
    folder.write("config.json", std::string_view(R"({"model_type":"bert"})"));
    const auto model = ModelFile::open(folder.path());
    REQUIRE_MESSAGE(model.ok(), says(model, {}));
    CHECK(says(model->require("w", Shape{1}), expected) == "");
  }
  const TemporaryFolder folder;
  const auto file = folder.write("model.safetensors", std::string_view("short"));
  CHECK(says(ModelFile::open(file), {"give their folder", folder.path().string()}) == "");
  CHECK(says(ModelFile::open(folder.path()), {"config.json is missing"}) == "");
}

TEST_CASE("model file: a GGUF file that holds only a vocabulary says that it has no weights") {
  const TemporaryFolder folder;
  GgufBuilder builder;
  builder.string("general.architecture", "llama").strings("tokenizer.ggml.tokens", {"<s>", "hello"});
  const auto path = folder.write("vocabulary.gguf", builder.build());
  const auto model = ModelFile::open(path);
  REQUIRE_MESSAGE(model.ok(), says(model, {}));
  CHECK(!model->has_weights());
  CHECK(says(model->require("w", Shape{1}), {path.string(), "this GGUF file", "no weights"}) == "");
}

TEST_CASE("model file: paths that are not models") {
  const TemporaryFolder folder;
  CHECK(says(ModelFile::open(folder.path()), {folder.path().string(), "config.json"}) == "");
  for (const char* name : {"llama3.2:1b", "hf.co/owner/model:Q4_K_M", "owner/model-GGUF",
                           "https://huggingface.co/owner/model/resolve/main/m.gguf"})
    CHECK(says(ModelFile::open(name), {name, "models are not downloaded"}) == "");
  const auto absent = ModelFile::open(folder.path() / "absent.gguf");
  CHECK(says(absent, {"absent.gguf"}) == "");
  CHECK(absent.error().code == Code::not_found);
  CHECK(says(ModelFile::open(folder.write("a.txt", std::string_view("hello"))), {"a.txt", ".gguf"}) == "");
  CHECK(says(ModelFile::open(folder.write("a.gguf", std::string_view(""))), {"a.gguf", "it is empty"}) == "");
  CHECK(says(ModelFile::open(folder.write("a.gguf", std::string_view("hello"))), {"a.gguf", "magic"}) == "");
  CHECK(says(ModelFile::open(folder.write("b.json", std::string_view("{"))), {"b.json", "invalid JSON"}) ==
        "");
  CHECK(says(ModelFile::open(folder.write("b.json", std::string_view("3"))), {"b.json", "object"}) == "");
  folder.write("config.json", std::string_view("{}"));
  CHECK(ModelFile::open(folder.path())->architecture().empty());
  folder.write("model.safetensors", std::string_view(""));
  CHECK(says(ModelFile::open(folder.path()), {"model.safetensors", "it is empty"}) == "");
}

FIXTURE_TEST_CASE("model file: the fixtures open, with every tensor that they should have") {
  for (const std::string& name : fixtures().models()) {
    const auto path = fixtures().model(name);
    const auto model = ModelFile::open(path);
    REQUIRE_MESSAGE(model.ok(), says(model, {}));
    CHECK(!model->architecture().empty());
    CHECK(model->has_weights());
    if (!std::filesystem::exists(path / "model.gguf")) continue;
    const auto gguf = ModelFile::open(path / "model.gguf");
    REQUIRE_MESSAGE(gguf.ok(), says(gguf, {}));
    CHECK(!gguf->architecture().empty());
  }
}

FIXTURE_TEST_CASE("model file: GGUF fixtures open where their types are known, and say so where not") {
  for (const std::string& name : fixtures().ggufs()) {
    const auto model = ModelFile::open(fixtures().gguf(name));
    if (find_type_named(name.substr(name.find('-') + 1)))
      CHECK_MESSAGE(model.ok(), says(model, {}));
    else if (!model)
      CHECK(model.error().code == Code::unsupported);
    if (model) CHECK(model->architecture() == "llama");
  }
  const auto stories = ModelFile::open(fixtures().story());
  REQUIRE_MESSAGE(stories.ok(), says(stories, {}));
  const auto tokens = stories->array("tokenizer.ggml.tokens")->strings();
  REQUIRE(tokens.size() == 512);
  CHECK(tokens[1] == "<s>");
  CHECK(stories->array("tokenizer.ggml.scores")->floats().size() == 512);
  CHECK(stories->require("token_embd.weight", Shape{512, 64}).ok());
}

FIXTURE_TEST_CASE("model file: the same weights in safetensors and GGUF decode to the same numbers") {
  const auto from = ModelFile::open(fixtures().model("qwen2"));
  const auto to = ModelFile::open(fixtures().model("qwen2") / "model.gguf");
  REQUIRE(from.ok());
  REQUIRE(to.ok());
  const TensorView* a = from->find("model.embed_tokens.weight");
  const TensorView* b = to->find("token_embd.weight");
  REQUIRE(a);
  REQUIRE(b);
  REQUIRE(a->shape == b->shape);
  std::vector<float> row_a(a->shape[1]), row_b(a->shape[1]);
  decode_row(a->type, a->data.data(), row_a);
  decode_row(b->type, b->data.data(), row_b);
  CHECK(row_a == row_b);
}

#include "io/formats/torch_file.h"

#include <fstream>
#include <iterator>

#include <doctest/doctest.h>

#include "io/model_file.h"
#include "support/command/messages.h"
#include "support/files/fixtures.h"
#include "support/files/temporary_folder.h"

using namespace pumice;

namespace {

std::string read_fixture(const char* name) {
  std::ifstream in(fixtures().folder() / "torch" / name, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(in), {});
}

Result<TorchFile> parse(std::string_view bytes) {
  return TorchFile::parse(std::as_bytes(std::span(bytes)), "x.bin");
}

// The text with one part replaced, which must be there.
std::string with(std::string text, std::string_view part, std::string_view other) {
  const size_t at = text.find(part);
  REQUIRE(at != text.npos);
  return text.replace(at, part.size(), other);
}

const SafetensorsFile::Entry& entry(const TorchFile& file, std::string_view name) {
  for (const SafetensorsFile::Entry& each : file.entries)
    if (each.name == name) return each;
  FAIL("no tensor " << name);
  return file.entries[0];
}

std::vector<float> floats(const TorchFile& file, std::string_view name) {
  const auto values = SafetensorsFile::floats(entry(file, name));
  REQUIRE_MESSAGE(values.ok(), values.error().text());
  return *values;
}

} // namespace

TEST_CASE("torch file: an archive, the form before it, and what training programs write") {
  for (const char* name : {"archive.bin", "old.bin", "training.pt"}) {
    CAPTURE(std::string(name));
    const std::string bytes = read_fixture(name);
    const auto file = parse(bytes);
    REQUIRE_MESSAGE(file.ok(), file.error().text());
    CHECK(file->entries.size() == 8);
    CHECK(entry(*file, "matrix").shape == std::vector<uint64_t>{2, 3});
    CHECK(floats(*file, "matrix") == std::vector<float>{0, 1, 2, 3, 4, 5});
    CHECK(entry(*file, "transposed").shape == std::vector<uint64_t>{3, 2});
    CHECK(floats(*file, "transposed") == std::vector<float>{0, 3, 1, 4, 2, 5});
    CHECK(entry(*file, "row").dtype == "BF16");
    CHECK(floats(*file, "row") == std::vector<float>{0, 1, 2, 3});
    CHECK(floats(*file, "part") == std::vector<float>{1, 2});
    CHECK(entry(*file, "scalar").shape.empty());
    CHECK(floats(*file, "scalar") == std::vector<float>{0.5f});
    CHECK(floats(*file, "parameter") == std::vector<float>{1, 1});
    const auto ids = SafetensorsFile::integers(entry(*file, "ids"));
    REQUIRE(ids.ok());
    CHECK(*ids == std::vector<int64_t>{7, -1});
    CHECK(floats(*file, "LayerNorm.weight") == std::vector<float>{1.5f, -2}); // was gamma
    CHECK(file->copies.size() == 1);                                          // the transposed one
  }
}

TEST_CASE("torch file: the old form of later protocols, and names of a model that was wrapped") {
  const std::string old = read_fixture("old.bin");
  for (const std::string_view begin :
       {std::string_view("\x80\x03\x8a", 3), std::string_view("\x80\x04\x95\x0d\0\0\0\0\0\0\0\x8a", 12)}) {
    const std::string later = with(old, "\x80\x02\x8a", begin);
    const auto file = parse(later);
    REQUIRE_MESSAGE(file.ok(), file.error().text());
    CHECK(floats(*file, "matrix") == std::vector<float>{0, 1, 2, 3, 4, 5});
  }
  std::string wrapped = old;
  const std::vector<std::string> names = {"matrix", "transposed", "row", "part",
                                          "scalar", "parameter",  "ids", "LayerNorm.gamma"};
  for (const std::string& name : names) {
    const auto text = [](const std::string& value) {
      return std::string("X") + static_cast<char>(value.size()) + std::string(3, '\0') + value;
    };
    wrapped = with(wrapped, text(name), text("module." + name));
  }
  const auto file = parse(wrapped);
  REQUIRE_MESSAGE(file.ok(), file.error().text());
  CHECK(floats(*file, "matrix") == std::vector<float>{0, 1, 2, 3, 4, 5});
  CHECK(floats(*file, "LayerNorm.weight") == std::vector<float>{1.5f, -2});
  const std::string one_wrapped =
      with(old, std::string("X\x06\0\0\0matrix", 11), std::string("X\x0d\0\0\0module.matrix", 18));
  const auto partly = parse(one_wrapped);
  REQUIRE_MESSAGE(partly.ok(), partly.error().text());
  CHECK(floats(*partly, "module.matrix").size() == 6);
}

TEST_CASE("torch file: what is no tensor is refused by name, and nothing is run") {
  CHECK(says(parse(read_fixture("object.pt")), {"x.bin", "'pathlib", "nothing that a file names is run"}) ==
        "");
  CHECK(says(parse(read_fixture("repeated.pt")), {"x.bin", "'matrix'", "repeats its elements"}) == "");
  const std::string old = read_fixture("old.bin");
  for (const char* function : {"builtins\neval\n", "os\nsystem\n", "torch\nload\n"}) {
    CHECK(parse(with(old, "torch._utils\n_rebuild_tensor_v2\n", function)).error().code == Code::unsupported);
  }
  CHECK(says(parse(with(old, "torch\nFloatStorage\n", "torch\nFloatStorage2\n")),
             {"'torch.FloatStorage2'"}) == "");
  CHECK(says(parse("PK\x03\x04"), {"x.bin", "not complete"}) == "");
  CHECK(says(parse("pickled"), {"x.bin", "torch.save()"}) == "");
}

TEST_CASE("torch file: elements that tensors repeat, and the byte order of an archive") {
  const std::string expanded = read_fixture("expanded.pt");
  const auto file = parse(expanded);
  REQUIRE_MESSAGE(file.ok(), file.error().text());
  CHECK(entry(*file, "rows").shape == std::vector<uint64_t>{2, 3});
  CHECK(floats(*file, "rows") == std::vector<float>{0, 1, 2, 0, 1, 2});
  CHECK(floats(*file, "columns") == std::vector<float>{0, 0, 1, 1, 2, 2});
  CHECK(says(parse(read_fixture("big_endian.pt")), {"x.bin", "byte order little", "'big'"}) == "");
}

TEST_CASE("torch file: cut anywhere, or with any byte changed, it is an error or a file") {
  for (const char* name : {"archive.bin", "old.bin"}) {
    const std::string bytes = read_fixture(name);
    for (size_t length = 0; length < bytes.size(); length += 7) {
      const auto file = parse(std::string_view(bytes).substr(0, length));
      CHECK(!file.ok());
    }
    for (size_t at = 0; at < bytes.size(); ++at) {
      std::string changed = bytes;
      changed[at] = static_cast<char>(changed[at] ^ 0x55);
      const auto file = parse(changed);
      if (!file.ok()) CHECK(file.error().message.starts_with("x.bin"));
    }
  }
}

TEST_CASE("torch file: a folder's weights under other names") {
  const std::string bytes = read_fixture("archive.bin");
  for (const char* name : {"model.bin", "pytorch_model.pt", "pytorch_model.pth", "model.pt", "model.pth"}) {
    CAPTURE(std::string(name));
    const TemporaryFolder folder;
    folder.write("config.json", std::string_view(R"({"model_type":"test"})"));
    folder.write(name, std::string_view(bytes));
    const auto model = ModelFile::open(folder.path());
    REQUIRE_MESSAGE(model.ok(), model.error().text());
    CHECK(model->tensors().size() == 7);
    CHECK(ModelFile::weight_files(folder.path()).size() == 1);
  }
  const TemporaryFolder folder;
  folder.write("config.json", std::string_view(R"({"model_type":"test"})"));
  folder.write("consolidated.00.pth", std::string_view(bytes));
  const auto none = ModelFile::open(folder.path());
  REQUIRE(none.ok());
  CHECK(says(none->require("matrix", std::vector<uint64_t>{2, 3}),
             {"model.safetensors, model.safetensors.index.json, pytorch_model.bin", "model.bin", "model.pth",
              "consolidated.00.pth has weights under their maker's own names",
              "look for the model's files for transformers"}) == "");
}

TEST_CASE("torch file: a folder's weights, whole and in shards") {
  const TemporaryFolder folder;
  folder.write("config.json", std::string_view(R"({"model_type":"test"})"));
  const std::string bytes = read_fixture("archive.bin"), old = read_fixture("old.bin");
  folder.write("s-1.bin", std::string_view(bytes));
  folder.write("s-2.bin", std::string_view(old));
  folder.write("pytorch_model.bin.index.json",
               std::string_view(R"({"weight_map":{"matrix":"s-1.bin","row":"s-2.bin"}})"));
  auto model = ModelFile::open(folder.path());
  REQUIRE_MESSAGE(model.ok(), model.error().text());
  CHECK(model->tensors().size() == 2);
  CHECK(ModelFile::weight_files(folder.path()).size() == 2);
  folder.write("pytorch_model.bin", std::string_view(bytes));
  model = ModelFile::open(folder.path());
  REQUIRE_MESSAGE(model.ok(), model.error().text());
  CHECK(model->tensors().size() == 7); // and the ids, which are no weights
  CHECK(model->unreadable() == std::vector<std::string>{"ids"});
  CHECK(ModelFile::weight_files(folder.path()).size() == 1);
}

// A GGUF file to one of other types.
#include <cmath>
#include <cstring>
#include <fstream>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "io/formats/gguf_writer.h"
#include "io/model_file.h"
#include "support/command/command.h"
#include "support/command/messages.h"
#include "support/files/fixtures.h"
#include "support/require.h"

using namespace pumice;
using nlohmann::json;

namespace {

CommandResult convert(const std::filesystem::path& from, const std::filesystem::path& to,
                      std::vector<std::string> more) {
  std::vector<std::string> arguments = {"convert", from.string(), to.string()};
  arguments.insert(arguments.end(), more.begin(), more.end());
  return pumice_command(arguments, nullptr, {"LD_LIBRARY_PATH=/nonexistent", "VK_ICD_FILENAMES="});
}

ModelFile converted(const std::filesystem::path& from, const std::filesystem::path& to,
                    std::vector<std::string> more) {
  const CommandResult result = convert(from, to, std::move(more));
  CAPTURE(result.err);
  REQUIRE(result.status == 0);
  return require(ModelFile::open(to));
}

std::string type_of(const ModelFile& file, const char* tensor) {
  const TensorView* found = file.find(tensor);
  REQUIRE(found);
  return std::string(info(found->type).name);
}

std::vector<float> numbers(const ModelFile& file, const char* tensor) {
  const TensorView& found = *file.find(tensor);
  std::vector<float> values(found.shape[0] * found.shape[1]);
  decode_row(found.type, found.data.data(), values);
  return values;
}

// The mean square of the difference in the columns below a number, and in the others.
std::pair<double, double> errors(const ModelFile& a, const ModelFile& b, const char* tensor, size_t few) {
  const std::vector<float> first = numbers(a, tensor), second = numbers(b, tensor);
  const size_t columns = a.find(tensor)->shape[1];
  double sums[2] = {};
  for (size_t i = 0; i < first.size(); ++i) {
    const double difference = double{first[i]} - second[i];
    sums[i % columns >= few] += difference * difference;
  }
  return {sums[0], sums[1]};
}

} // namespace

FIXTURE_TEST_CASE("convert: a GGUF file becomes another mixture, and keeps its settings and vectors") {
  const TemporaryFolder folder;
  const auto from = fixtures().gguf("random-F32"), to = folder.path() / "out.gguf";
  const ModelFile before = require(ModelFile::open(from)), mixed = converted(from, to, {"--type", "q4_k_m"});
  const ModelFile like = require(ModelFile::open(fixtures().gguf("random-Q4_K_M")));
  REQUIRE(mixed.tensors().size() == before.tensors().size());
  for (const TensorView& tensor : mixed.tensors()) {
    CAPTURE(tensor.name);
    CHECK(tensor.shape == before.find(tensor.name)->shape);
    CHECK(tensor.type == like.find(tensor.name)->type);
    if (tensor.shape.size() == 1) CHECK(std::ranges::equal(tensor.data, before.find(tensor.name)->data));
  }
  json settings = mixed.config();
  CHECK(settings["general.file_type"] == 15);
  for (const char* key : {"general.file_type", "general.quantization_version"}) settings.erase(key);
  json expected = before.config();
  for (const char* key : {"general.file_type", "general.quantization_version"}) expected.erase(key);
  CHECK(settings == expected);
  // Back again: what was quantised stays a little off, and that is said.
  const CommandResult again = convert(to, folder.path() / "back.gguf", {"--type", "Q8_0"});
  CHECK(again.status == 0);
  CHECK(again.err.find("9 of 12 tensors were quantised before") != std::string::npos);
  CHECK(type_of(require(ModelFile::open(folder.path() / "back.gguf")), "output.weight") == "Q8_0");
}

FIXTURE_TEST_CASE("convert: types of single tensors, a dry run, and parts") {
  const TemporaryFolder folder;
  const auto from = fixtures().gguf("random-F32"), to = folder.path() / "out.gguf";
  const std::vector<std::string> rules = {"--type",         "Q4_0",          "--tensor-type",
                                          "attn_[qk]=Q5_K", "--tensor-type", "attn=F16"};
  const ModelFile file = converted(from, to, rules);
  CHECK(type_of(file, "blk.0.attn_q.weight") == "Q5_K");
  CHECK(type_of(file, "blk.0.attn_v.weight") == "F16");
  CHECK(type_of(file, "blk.0.ffn_up.weight") == "Q4_0");
  CHECK(type_of(file, "output.weight") == "Q6_K");

  std::vector<std::string> dry = rules;
  dry.insert(dry.end(), {"--dry-run", "--json"});
  const CommandResult result = convert(from, folder.path() / "none.gguf", dry);
  REQUIRE(result.status == 0);
  const json told = json::parse(result.out);
  CHECK(!std::filesystem::exists(folder.path() / "none.gguf"));
  uint64_t bytes = 0;
  for (const json& tensor : told["written"]) {
    const TensorView* found = file.find(tensor["name"].get<std::string>());
    REQUIRE(found);
    CHECK(tensor["type"] == info(found->type).name);
    CHECK(tensor["from"] == "F32");
    CHECK(tensor["bytes"] == found->data.size());
    bytes += found->data.size();
  }
  CHECK(told["bytes"] == bytes);
  dry.pop_back();
  const CommandResult table = convert(from, folder.path() / "none.gguf", dry);
  CHECK(table.out.find("blk.0.attn_q.weight") != std::string::npos);
  CHECK(table.out.find("12 tensors, ") != std::string::npos);
  CHECK(table.out.find(", not written\n") != std::string::npos);

  std::vector<std::string> split = rules;
  split.insert(split.end(), {"--split-max-size", "200K"});
  REQUIRE(convert(from, folder.path() / "cut.gguf", split).status == 0);
  CHECK(!std::filesystem::exists(folder.path() / "cut.gguf"));
  std::vector<std::filesystem::path> parts;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    if (entry.path().filename().string().starts_with("cut-")) parts.push_back(entry.path());
  }
  REQUIRE(parts.size() > 1);
  const ModelFile joined = require(ModelFile::open(parts.back()));
  REQUIRE(joined.tensors().size() == file.tensors().size());
  for (const TensorView& tensor : file.tensors())
    CHECK(std::ranges::equal(joined.find(tensor.name)->data, tensor.data));
  // And the parts make one file again.
  const ModelFile whole = converted(parts.front(), folder.path() / "whole.gguf", rules);
  CHECK(whole.config() == file.config());
  CHECK(fails_saying(convert(parts.front(), folder.path() / "cut.gguf", split),
                     {"one of the files of the model"}) == "");
}

// Both forms of llama-imatrix: the first eight columns count a thousand times as much.
FIXTURE_TEST_CASE("convert: importance moves errors to where they count less") {
  const TemporaryFolder folder;
  const auto from = fixtures().gguf("random-F32");
  const char* tensor = "blk.0.ffn_up.weight";
  std::vector<float> sums(256, 7.0f);
  for (size_t i = 0; i < 8; ++i) sums[i] = 7000;
  const auto imatrix = folder.path() / "imatrix.gguf", old = folder.path() / "imatrix.dat";
  {
    GgufWriter writer;
    writer.add("general.type", "imatrix");
    const float count = 7;
    writer.add_tensor(std::string(tensor) + ".in_sum2", std::vector<uint64_t>{1, 256}, TensorType::f32);
    writer.add_tensor(std::string(tensor) + ".counts", std::vector<uint64_t>{1, 1}, TensorType::f32);
    require(writer.open(imatrix));
    require(writer.write(std::as_bytes(std::span(sums))));
    require(writer.write(std::as_bytes(std::span(&count, 1))));
    require(writer.finish());
    std::ofstream out(old, std::ios::binary);
    const auto number = [&](int32_t value) { out.write(reinterpret_cast<const char*>(&value), 4); };
    number(1);
    number(static_cast<int32_t>(std::strlen(tensor)));
    out << tensor;
    number(7);
    number(256);
    out.write(reinterpret_cast<const char*>(sums.data()), 4 * 256);
  }
  const ModelFile exact = require(ModelFile::open(from));
  for (const char* type : {"Q4_0", "Q3_K", "Q4_K", "Q6_K", "IQ4_XS"}) {
    CAPTURE(type);
    const auto plain = converted(from, folder.path() / "plain.gguf", {"--type", type});
    const auto weighed =
        converted(from, folder.path() / "weighed.gguf", {"--type", type, "--imatrix", imatrix.string()});
    const auto same =
        converted(from, folder.path() / "same.gguf", {"--type", type, "--imatrix", old.string()});
    CHECK(std::ranges::equal(weighed.find(tensor)->data, same.find(tensor)->data));
    const auto [few, many] = errors(plain, exact, tensor, 8);
    const auto [fewer, more] = errors(weighed, exact, tensor, 8);
    CHECK(fewer < few);
    CHECK(fewer * many < few * more);
    CHECK(std::ranges::equal(plain.find("blk.0.attn_q.weight")->data,
                             weighed.find("blk.0.attn_q.weight")->data));
  }
  const CommandResult result =
      convert(from, folder.path() / "out.gguf", {"--type", "Q4_K", "--imatrix", imatrix.string()});
  CHECK(result.err.find("imatrix.gguf: says nothing of 8 of 12 tensors") != std::string::npos);
  std::filesystem::resize_file(old, 100);
  CHECK(fails_saying(convert(from, folder.path() / "out.gguf", {"--type", "Q4_K", "--imatrix", old.string()}),
                     {"imatrix.dat", "llama-imatrix"}) == "");
}

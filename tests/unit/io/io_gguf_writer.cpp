#include "io/formats/gguf_writer.h"

#include <fstream>
#include <iterator>

#include <doctest/doctest.h>

#ifndef _WIN32
#include <csignal>

#include <sys/resource.h>
#endif

#include "io/formats/gguf.h"
#include "support/command/messages.h"
#include "support/files/temporary_folder.h"

using namespace pumice;

namespace {

std::vector<std::byte> bytes_of(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  const std::string text((std::istreambuf_iterator<char>(in)), {});
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

std::vector<std::byte> counting(size_t count, int from) {
  std::vector<std::byte> bytes(count);
  for (size_t i = 0; i < count; ++i) bytes[i] = static_cast<std::byte>(from + static_cast<int>(i));
  return bytes;
}

bool has_partial(const TemporaryFolder& folder) {
  return std::ranges::any_of(std::filesystem::directory_iterator(folder.path()), [](const auto& entry) {
    return entry.path().string().find("out.gguf.partial") != std::string::npos;
  });
}

} // namespace

TEST_CASE("gguf_writer: every kind of setting and array is read back unchanged, with its type") {
  const TemporaryFolder folder;
  const auto path = folder.path() / "out.gguf";
  GgufWriter writer;
  writer.add("general.architecture", "llama");
  writer.add("u8", uint8_t{200});
  writer.add("i8", int8_t{-100});
  writer.add("u16", uint16_t{60000});
  writer.add("i16", int16_t{-30000});
  writer.add("u32", uint32_t{4000000000});
  writer.add("i32", int32_t{-2000000000});
  writer.add("u64", uint64_t{1} << 60);
  writer.add("i64", -(int64_t{1} << 60));
  writer.add("f32", 0.1f);
  writer.add("f64", 0.1);
  writer.add("yes", true);
  writer.add("no", false);
  writer.add("empty", "");
  const std::vector<std::string> texts = {"", "Ġa", "b"};
  writer.add_array("texts", std::span<const std::string>(texts));
  const std::vector<float> floats = {1.5f, -2};
  writer.add_array("floats", std::span<const float>(floats));
  const std::vector<int32_t> integers = {-1, 7};
  writer.add_array("integers", std::span<const int32_t>(integers));
  const std::vector<uint8_t> flags = {1, 0, 1};
  writer.add_flags("flags", flags);
  writer.add_array("none", std::span<const float>());
  REQUIRE(writer.open(path).ok());
  REQUIRE(writer.finish().ok());

  const std::vector<std::byte> bytes = bytes_of(path);
  CHECK(bytes.size() == writer.file_bytes());
  CHECK(bytes.size() % 32 == 0);
  const auto file = GgufFile::parse(bytes, "out.gguf");
  REQUIRE_MESSAGE(file.ok(), file.error().text());
  CHECK(file->version == 3);
  const nlohmann::json expected = {{"general.architecture", "llama"},
                                   {"u8", 200u},
                                   {"i8", -100},
                                   {"u16", 60000u},
                                   {"i16", -30000},
                                   {"u32", 4000000000u},
                                   {"i32", -2000000000},
                                   {"u64", uint64_t{1} << 60},
                                   {"i64", -(int64_t{1} << 60)},
                                   {"f32", 0.1f},
                                   {"f64", 0.1},
                                   {"yes", true},
                                   {"no", false},
                                   {"empty", ""},
                                   {"texts", {"", "Ġa", "b"}},
                                   {"floats", {1.5f, -2.0f}},
                                   {"integers", {-1, 7}},
                                   {"flags", {true, false, true}},
                                   {"none", nlohmann::json::array()}};
  CHECK(file->metadata == expected);
  for (const auto& item : expected.items()) {
    CAPTURE(item.key());
    CHECK(file->metadata.at(item.key()).type() == item.value().type());
  }
  CHECK(file->arrays.at("flags").type == GgufType::boolean);
  CHECK(file->arrays.at("integers").type == GgufType::i32);
  CHECK(file->arrays.at("none").type == GgufType::f32);
}

TEST_CASE("gguf_writer: tensors are aligned, whatever pieces they are written in") {
  const TemporaryFolder folder;
  const std::vector<uint64_t> a = {3, 5}, b = {7}, c = {2, 1, 64};
  std::vector<std::byte> data = counting(60, 1);
  const std::vector<std::byte> second = counting(14, 100), third = counting(136, 50);
  data.insert(data.end(), second.begin(), second.end());
  data.insert(data.end(), third.begin(), third.end());
  for (const size_t piece : {1, 7, 60, 61, 1000}) {
    CAPTURE(piece);
    const auto path = folder.path() / "out.gguf";
    GgufWriter writer;
    writer.add("general.architecture", "x");
    writer.add_tensor("a", a, TensorType::f32);
    writer.add_tensor("b", b, TensorType::f16);
    writer.add_tensor("c", c, TensorType::q8_0);
    CHECK(writer.tensor_bytes() == data.size());
    REQUIRE(writer.open(path).ok());
    for (size_t at = 0; at < data.size(); at += piece)
      REQUIRE(writer.write(std::span(data).subspan(at, std::min(piece, data.size() - at))).ok());
    REQUIRE(writer.finish().ok());
    const std::vector<std::byte> bytes = bytes_of(path);
    const auto file = GgufFile::parse(bytes, "out.gguf");
    REQUIRE_MESSAGE(file.ok(), file.error().text());
    REQUIRE(file->tensors.size() == 3);
    CHECK(file->tensors[0].shape == a);
    CHECK(file->tensors[1].shape == b);
    CHECK(file->tensors[2].shape == c);
    CHECK(std::ranges::equal(file->tensors[0].data, std::span(data).first(60)));
    CHECK(std::ranges::equal(file->tensors[1].data, second));
    CHECK(std::ranges::equal(file->tensors[2].data, third));
    for (const TensorView& tensor : file->tensors) CHECK((tensor.data.data() - bytes.data()) % 32 == 0);
  }
}

TEST_CASE("gguf_writer: what does not fit the format is refused, and the error names it") {
  const TemporaryFolder folder;
  const auto path = folder.path() / "out.gguf";
  const auto refused = [&](auto&& fill) {
    GgufWriter writer;
    fill(writer);
    return writer.open(path);
  };
  const std::vector<uint64_t> one = {1}, odd = {2, 33}, none = {2, 0}, deep = {1, 1, 1, 1, 1};
  CHECK(says(refused([](GgufWriter& w) { w.add("k", 1u), w.add("k", 2.0f); }),
             {"out.gguf", "'k'", "twice"}) == "");
  CHECK(says(refused([&](GgufWriter& w) {
               w.add_tensor("t", one, TensorType::f32), w.add_tensor("t", one, TensorType::f16);
             }),
             {"out.gguf", "'t'", "twice"}) == "");
  CHECK(says(refused([&](GgufWriter& w) { w.add_tensor("t", odd, TensorType::q8_0); }),
             {"'t'", "[2, 33]", "Q8_0"}) == "");
  CHECK(says(refused([&](GgufWriter& w) { w.add_tensor("t", none, TensorType::f32); }), {"'t'", "[2, 0]"}) ==
        "");
  CHECK(says(refused([&](GgufWriter& w) { w.add_tensor("t", deep, TensorType::f32); }), {"'t'"}) == "");
  CHECK(says(refused([&](GgufWriter& w) { w.add_tensor(std::string(64, 'n'), one, TensorType::f32); }),
             {"63"}) == "");
  const auto missing = folder.path() / "missing" / "out.gguf";
  CHECK(says(GgufWriter().open(missing), {missing.string(), "no folder"}) == "");
  CHECK(!std::filesystem::exists(path));
  CHECK(!has_partial(folder));
}

TEST_CASE("gguf_writer: a file gets its name only when it is complete") {
  const TemporaryFolder folder;
  const auto path = folder.write("out.gguf", "what was there");
  const std::vector<uint64_t> shape = {4};
  const std::vector<std::byte> data = counting(16, 0);
  {
    GgufWriter writer;
    writer.add_tensor("t", shape, TensorType::f32);
    REQUIRE(writer.open(path).ok());
    REQUIRE(writer.write(std::span(data).first(15)).ok());
    CHECK(has_partial(folder));
    CHECK(says(writer.finish(), {"out.gguf", "fewer"}) == "");
    REQUIRE(writer.write(std::span(data).last(1)).ok());
    CHECK(says(writer.write(data), {"out.gguf", "more"}) == "");
    CHECK(std::filesystem::file_size(path) == 14);
  }
  CHECK(!has_partial(folder));
  CHECK(std::filesystem::file_size(path) == 14);
  GgufWriter writer;
  writer.add_tensor("t", shape, TensorType::f32);
  REQUIRE(writer.open(path).ok());
  REQUIRE(writer.write(data).ok());
  REQUIRE(writer.finish().ok());
  CHECK(!has_partial(folder));
  CHECK(std::filesystem::file_size(path) == writer.file_bytes());
}

#ifndef _WIN32

TEST_CASE("gguf_writer: a full disk is an error and leaves no file behind") {
  const TemporaryFolder folder;
  const std::vector<uint64_t> shape = {1 << 20};
  const std::vector<std::byte> data(size_t{4} << 20);
  // A limit of the file size causes the same errors as a full disk.
  rlimit before{};
  getrlimit(RLIMIT_FSIZE, &before);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{1 << 20, before.rlim_max};
  setrlimit(RLIMIT_FSIZE, &small);
  {
    GgufWriter writer;
    writer.add_tensor("t", shape, TensorType::f32);
    REQUIRE(writer.open(folder.path() / "out.gguf").ok());
    Status status = writer.write(data);
    if (status.ok()) status = writer.finish();
    CHECK(says(status, {"out.gguf", "cannot be written", "File too large"}) == "");
  }
  setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);
  CHECK(std::filesystem::is_empty(folder.path()));
}

#endif

#include "io/formats/gguf.h"
#include "io/formats/safetensors.h"
#include "io/model_file.h"

#include "support/command/messages.h"
#include "support/files/gguf_builder.h"
#include "support/files/temporary_folder.h"

#include <functional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

using namespace pumice;

namespace {

Result<GgufFile> parse(const GgufBuilder& builder) {
  // The heap copy is exactly as long as the file, so that a sanitizer detects a read past its end.
  static std::vector<std::byte> bytes;
  bytes = builder.build();
  bytes.shrink_to_fit();
  return GgufFile::parse(bytes, "small.gguf");
}

// The parser's error message about the small file after `change`.
Result<GgufFile> parse_changed(const std::function<void(GgufBuilder&)>& change) {
  GgufBuilder builder = small_gguf();
  change(builder);
  return parse(builder);
}

} // namespace

TEST_CASE("gguf: a valid file gives its metadata, arrays and tensors") {
  const auto file = parse(small_gguf());
  REQUIRE_MESSAGE(file.ok(), says(file, {}));
  CHECK(file->version == 3);
  CHECK(file->alignment == 32);
  CHECK(file->metadata["general.architecture"] == "llama");
  CHECK(file->metadata["llama.block_count"] == 2);
  CHECK(file->metadata["llama.rms_epsilon"].get<float>() == 1e-5f);
  CHECK(file->metadata["llama.parallel"] == true);
  CHECK(file->metadata["llama.shift"] == -3);
  CHECK(file->metadata["tokenizer.ggml.tokens"] == nlohmann::json({"<s>", "", "hello"}));

  const GgufArray& tokens = file->arrays.at("tokenizer.ggml.tokens");
  CHECK(tokens.count == 3);
  CHECK(tokens.strings() == std::vector<std::string_view>{"<s>", "", "hello"});
  CHECK(tokens.floats().empty());
  const GgufArray& scores = file->arrays.at("tokenizer.ggml.scores");
  CHECK(scores.floats() == std::vector<float>{0, -1, -2.5f});
  CHECK(scores.integers() == std::vector<int64_t>{0, -1, -2});
  CHECK(scores.strings().empty());

  REQUIRE(file->tensors.size() == 2);
  CHECK(file->tensors[0].name == "token_embd.weight");
  CHECK(file->tensors[0].shape == std::vector<uint64_t>{3, 4}); // outermost first
  CHECK(file->tensors[0].type == TensorType::f32);
  CHECK(file->tensors[0].data.size() == 48);
  CHECK(file->tensors[0].data[0] == std::byte{0});
  CHECK(file->tensors[1].data.size() == 68);
  CHECK(file->tensors[1].data[0] == std::byte{64});
}

TEST_CASE("gguf: every type of value, and version 2") {
  GgufBuilder builder;
  builder.version = 2;
  builder.pair("a.u8", GgufType::u8, uint8_t{200}).pair("a.i8", GgufType::i8, int8_t{-100});
  builder.pair("a.u16", GgufType::u16, uint16_t{60000}).pair("a.i16", GgufType::i16, int16_t{-30000});
  builder.pair("a.u64", GgufType::u64, UINT64_MAX).pair("a.i64", GgufType::i64, INT64_MIN);
  builder.pair("a.f64", GgufType::f64, 0.1);
  builder.numbers<uint8_t>("a.booleans", GgufType::boolean, {1, 0, 1});
  builder.numbers<uint64_t>("a.none", GgufType::u64, {});
  builder.begin_array("a.nested", GgufType::array, 1)
      .number(uint32_t{0})
      .number(uint64_t{2})
      .number(uint16_t{7});
  const auto file = parse(builder);
  REQUIRE_MESSAGE(file.ok(), says(file, {}));
  CHECK(file->metadata["a.u8"] == 200);
  CHECK(file->metadata["a.i8"] == -100);
  CHECK(file->metadata["a.u16"] == 60000);
  CHECK(file->metadata["a.i16"] == -30000);
  CHECK(file->metadata["a.u64"] == UINT64_MAX);
  CHECK(file->metadata["a.i64"] == INT64_MIN);
  CHECK(file->metadata["a.f64"] == 0.1);
  CHECK(file->metadata["a.booleans"] == nlohmann::json({true, false, true}));
  CHECK(file->metadata["a.none"] == nlohmann::json::array());
  CHECK(!file->metadata.contains("a.nested"));
  CHECK(file->arrays.at("a.booleans").integers() == std::vector<int64_t>{1, 0, 1});
  CHECK(file->arrays.at("a.nested").bytes.size() == 14);
}

TEST_CASE("gguf: a long array stays in the file, and text is made valid UTF-8") {
  GgufBuilder builder;
  builder.numbers<int32_t>("long", GgufType::i32, std::vector<int32_t>(257, -5));
  builder.string("general.name", "bad \xff byte");
  const auto file = parse(builder);
  REQUIRE_MESSAGE(file.ok(), says(file, {}));
  CHECK(!file->metadata.contains("long"));
  CHECK(file->arrays.at("long").integers() == std::vector<int64_t>(257, -5));
  CHECK(file->metadata["general.name"] == "bad \xef\xbf\xbd byte");
}

TEST_CASE("gguf: every prefix of a file is an error and not a crash") {
  const std::vector<std::byte> whole = small_gguf().build();
  for (size_t length = 0; length < whole.size(); ++length) {
    const std::vector<std::byte> prefix(whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(length));
    const auto file = GgufFile::parse(prefix, "cut.gguf");
    CHECK_MESSAGE(says(file, {"cut.gguf"}) == "", "at ", length);
  }
}

TEST_CASE("gguf: a change of any single byte of a header does not cause a crash") {
  const GgufBuilder builder = small_gguf();
  const std::vector<std::byte> whole = builder.build();
  for (size_t at = 0; at < builder.header().size(); ++at)
    for (const int value : {0, 1, 0x7f, 0x80, 0xff}) {
      std::vector<std::byte> bytes = whole;
      bytes[at] = static_cast<std::byte>(value);
      const auto file = GgufFile::parse(bytes, "changed.gguf");
      if (!file) CHECK(says(file, {"changed.gguf"}) == "");
    }
}

TEST_CASE("gguf: the fixed part") {
  CHECK(says(parse_changed([](auto& b) { b.magic = "GGML"; }), {"small.gguf", "magic", "'GGUF'", "'GGML'"}) ==
        "");
  CHECK(says(parse_changed([](auto& b) { b.version = 1; }), {"small.gguf", "version", "2 or 3", "found 1"}) ==
        "");
  CHECK(says(parse_changed([](auto& b) { b.version = 4; }), {"version", "found 4"}) == "");
  CHECK(says(parse_changed([](auto& b) { b.version = 0x03000000; }), {"small.gguf", "big-endian"}) == "");
  CHECK(says(parse_changed([](auto& b) { b.tensors_claimed = UINT64_MAX; }),
             {"small.gguf", "tensor count"}) == "");
  CHECK(says(parse_changed([](auto& b) { b.pairs_claimed = 1ull << 40; }),
             {"small.gguf", "metadata count"}) == "");
}

TEST_CASE("gguf: wrong metadata is refused, and the error names the key") {
  CHECK(says(parse_changed([](auto& b) { b.u32("llama.block_count", 3); }),
             {"small.gguf", "'llama.block_count'", "twice"}) == "");
  CHECK(says(parse_changed([](auto& b) { b.strings("tokenizer.ggml.tokens", {}); }), {"twice"}) == "");
  CHECK(says(parse_changed([](auto& b) { b.u32("", 3); }), {"small.gguf", "key 7", "length"}) == "");
  CHECK(says(parse_changed([](auto& b) { b.u32("a\nb", 3); }), {"small.gguf", "key 7", "a\\x0ab"}) == "");
  CHECK(says(parse_changed([](auto& b) { b.begin_pair("x.y", static_cast<GgufType>(13)); }),
             {"small.gguf", "'x.y'", "value type", "found 13"}) == "");
  CHECK(says(parse_changed([](auto& b) { b.pair("x.y", GgufType::boolean, uint8_t{2}); }),
             {"small.gguf", "'x.y'", "boolean", "found 2"}) == "");
  CHECK(says(parse_changed([](auto& b) { b.begin_pair("x.y", GgufType::string).number(UINT64_MAX); }),
             {"small.gguf", "'x.y'", "18446744073709551615 bytes"}) == "");
  CHECK(says(parse_changed([](auto& b) { b.begin_array("x.y", GgufType::u64, 1ull << 61); }),
             {"small.gguf", "'x.y'", "elements", "2305843009213693952"}) == "");
  CHECK(says(parse_changed([](auto& b) { b.begin_array("x.y", GgufType::string, 1ull << 61); }),
             {"small.gguf", "'x.y'", "elements"}) == "");
  CHECK(says(parse_changed([](auto& b) {
               ByteWriter& out = b.begin_array("x.y", GgufType::array, 1);
               for (int i = 0; i < 9; ++i) out.number(uint32_t{9}).number(uint64_t{1});
             }),
             {"small.gguf", "'x.y'", "nested"}) == "");
}

TEST_CASE("gguf: the alignment is a power of two, and is used") {
  for (const uint32_t value : {0u, 3u, 48u, 1u << 30})
    CHECK(says(parse_changed([&](auto& b) { b.u32("general.alignment", value); }),
               {"small.gguf", "'general.alignment'", "power of two", std::to_string(value)}) == "");
  CHECK(says(parse_changed([](auto& b) { b.string("general.alignment", "32"); }), {"'general.alignment'"}) ==
        "");
  const auto file = parse_changed([](auto& b) {
    b.u32("general.alignment", 64);
    b.alignment = 64;
  });
  REQUIRE_MESSAGE(file.ok(), says(file, {}));
  CHECK(file->alignment == 64);
  CHECK(file->data_offset % 64 == 0);
  CHECK(file->tensors[1].data[0] == std::byte{64});
}

TEST_CASE("gguf: wrong tensors are refused, and the error names the tensor") {
  const auto changed = [](uint32_t type, uint64_t offset, std::vector<uint64_t> dims) {
    return parse_changed([&](auto& b) { b.tensors[1] = {"odd.weight", dims, type, offset}; });
  };
  CHECK(changed(8, 64, {32, 2}).ok());
  CHECK(says(changed(9, 64, {256}), {"small.gguf", "'odd.weight'", "F32, F16, BF16", "type 9 (Q8_1)"}) == "");
  CHECK(changed(9, 64, {256}).error().code == Code::unsupported);
  CHECK(says(changed(4, 64, {256}), {"'odd.weight'", "type 4 (unknown)"}) == "");
  CHECK(says(changed(1u << 31, 64, {256}), {"'odd.weight'", "type 2147483648 (unknown)"}) == "");
  CHECK(says(changed(8, 64, {31, 2}), {"small.gguf", "'odd.weight'", "multiple of 32", "Q8_0", "[2, 31]"}) ==
        "");
  CHECK(says(changed(0, 64, {0, 2}), {"small.gguf", "'odd.weight'", "dimensions of at least 1"}) == "");
  CHECK(says(changed(0, 64, {}), {"small.gguf", "'odd.weight'", "1 to 4 dimensions", "found 0"}) == "");
  CHECK(says(changed(0, 64, {1, 1, 1, 1, 1}), {"'odd.weight'", "1 to 4 dimensions", "found 5"}) == "");
  CHECK(says(changed(0, 64, {1ull << 40, 1ull << 40}), {"small.gguf", "'odd.weight'", "64 bits"}) == "");
  CHECK(says(changed(0, 64, {UINT64_MAX}), {"small.gguf", "'odd.weight'", "64 bits"}) == "");
  CHECK(says(changed(0, 64, {1ull << 40}), {"small.gguf", "'odd.weight'", "4398046511104 bytes"}) == "");
  CHECK(says(changed(0, 65, {1}), {"small.gguf", "'odd.weight'", "multiple of 32", "found 65"}) == "");
  CHECK(says(changed(0, 1ull << 40, {1}), {"small.gguf", "'odd.weight'", "offset 1099511627776"}) == "");
  CHECK(says(changed(0, UINT64_MAX - 31, {8}), {"small.gguf", "'odd.weight'", "offset"}) == "");
  CHECK(says(changed(0, 32, {1}), {"small.gguf", "'odd.weight'", "'token_embd.weight'", "ends at 48"}) == "");
  CHECK(says(changed(0, 0, {1}), {"small.gguf", "of its own"}) == "");
}

TEST_CASE("gguf: names of tensors") {
  CHECK(says(parse_changed([](auto& b) { b.tensors[1].name = "token_embd.weight"; }),
             {"small.gguf", "'token_embd.weight'", "twice"}) == "");
  CHECK(says(parse_changed([](auto& b) { b.tensors[1].name = ""; }), {"small.gguf", "tensor 1", "length"}) ==
        "");
  CHECK(says(parse_changed([](auto& b) { b.tensors[1].name = std::string(2000, 'x'); }),
             {"small.gguf", "tensor 1", "2000"}) == "");
  CHECK(says(parse_changed([](auto& b) { b.tensors[1].dims_claimed = UINT32_MAX; }),
             {"'blk.0.attn_q.weight'", "found 4294967295"}) == "");
}

TEST_CASE("gguf and safetensors: what a failed download leaves is named") {
  const auto refused = [](std::string_view text, const char* part) {
    const auto bytes = std::as_bytes(std::span(text));
    CHECK(says(GgufFile::parse(bytes, "model.gguf"), {"model.gguf: ", part}) == "");
    CHECK(says(SafetensorsFile::parse(bytes, "model.safetensors"), {"model.safetensors: ", part}) == "");
  };
  refused("", "empty");
  refused("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 4096\n", "git lfs pull");
  refused("<!DOCTYPE html><html></html>", "web page");
}

TEST_CASE("gguf: a tensor of 4 GiB, and one behind it, are where the file has them") {
  constexpr uint64_t columns = 8192, rows = 262144, bytes = columns * rows * 2; // of F16
  GgufBuilder builder = small_gguf();
  builder.tensors = {{"table", {columns, rows}, 1, 0}, {"after", {32, 2}, 8, bytes}};
  builder.data_bytes = 0;
  const TemporaryFolder folder;
  const std::filesystem::path path = folder.write("large.gguf", builder.build());
  const uint64_t data = std::filesystem::file_size(path);
  std::filesystem::resize_file(path, data + bytes + 68); // with a hole in place of zeros
  std::fstream file(path, std::ios::binary | std::ios::in | std::ios::out);
  for (const auto& [offset, value] : {std::pair{bytes / 2, 'a'}, {bytes - 1, 'b'}, {bytes, 'c'}}) {
    file.seekp(static_cast<std::streamoff>(data + offset));
    file.put(value);
  }
  file.close();
  const auto opened = ModelFile::open(path);
  REQUIRE_MESSAGE(opened.ok(), says(opened, {}));
  const TensorView *table = opened->find("table"), *after = opened->find("after");
  REQUIRE(table->data.size() == bytes);
  CHECK(table->data[bytes / 2] == std::byte{'a'});
  CHECK(table->data.back() == std::byte{'b'});
  CHECK(after->data.front() == std::byte{'c'});
}

#include <algorithm>
#include <cmath>
#include <sstream>

#include <doctest/doctest.h>

#include "io/formats/safetensors.h"
#include "media/image.h"
#include "support/command/command.h"
#include "support/files/fixtures.h"
#include "support/files/whisper_folder.h"

using namespace pumice;

namespace {

using Parts = std::vector<std::string>;

std::string fails(const std::vector<std::string>& arguments, const Parts& parts,
                  const std::vector<std::string>& environment = {}) {
  return fails_saying(pumice_command(arguments, nullptr, environment), parts);
}

// A picture of one row that is wider than any that are read.
std::string wide_png() {
  Image image{60000, 1, std::vector<uint8_t>(60000 * 3)};
  const TemporaryFolder folder;
  REQUIRE(write_png(image, (folder.path() / "a.png").string()).ok());
  std::stringstream text;
  text << std::ifstream(folder.path() / "a.png", std::ios::binary).rdbuf();
  std::string bytes = text.str();
  // The header's width, and its checksum.
  bytes.replace(16, 4, std::string("\x00\x01\x86\xa0", 4));
  uint32_t checksum = 0xffffffff;
  for (const char c : bytes.substr(12, 17)) {
    checksum ^= static_cast<uint8_t>(c);
    for (int bit = 0; bit < 8; ++bit) checksum = checksum >> 1 ^ (checksum & 1 ? 0xedb88320 : 0);
  }
  for (int at = 0; at < 4; ++at) bytes[29 + at] = static_cast<char>(~checksum >> (24 - 8 * at));
  return bytes;
}

} // namespace

TEST_CASE(
    "a folder without weights, or with damaged ones, names their file before anything else is missing") {
  const TemporaryFolder folder;
  std::stringstream config;
  config << std::ifstream(fixtures().model("llama-mha") / "config.json").rdbuf();
  folder.write("config.json", std::string_view(config.view()));
  const std::string path = folder.path().string();
  CHECK(fails({"run", path, "x"}, {path, "there are no weights", "model.safetensors"}) == "");
  folder.write("pytorch_model.bin", std::string_view("pickled"));
  for (const char* command : {"run", "embed"}) {
    CAPTURE(std::string(command));
    CHECK(fails({command, path, "x"}, {path, "pytorch_model.bin"}) == "");
  }
}

TEST_CASE("a model that is not there or cannot be read is named") {
  const TemporaryFolder folder;
  const auto write = [&](const char* name, std::string_view text) {
    return folder.write(name, text).string();
  };
  CHECK(fails({"run", "/nonexistent/m.gguf", "x"}, {"/nonexistent/m.gguf"}) == "");
  const std::string broken = write("config.json", "{\"model_type\": ");
  CHECK(fails({"inspect", broken}, {broken}) == "");
  const std::string unknown = write("other.json", R"({"model_type": "perceptron"})");
  CHECK(fails({"inspect", unknown}, {unknown, "model_type", "llama", "perceptron"}) == "");
  const std::string magic = write("m.gguf", "GGUX then something else that is long enough");
  CHECK(fails({"run", magic, "x"}, {magic, "GGUF"}) == "");
}

TEST_CASE("prompts that no model could take are refused") {
  const std::string stories = fixtures().story().string();
  const std::string mha = fixtures().model("llama-mha").string();
  CHECK(fails({"generate", mha, "--ids", "1,320"}, {"--ids", "0 to 319", "320"}) == "");
  CHECK(fails({"generate", mha, "--ids", "1,-2"}, {"--ids", "1,-2"}) == "");
  CHECK(fails({"generate", mha, "--ids", ""}, {"--ids", "empty"}) == "");
  CHECK(fails({"generate", mha}, {"--ids", "--inputs", "--prompt"}) == "");
  CHECK(fails({"generate", mha, "--ids", "1", "--weights", "iq2_xs"},
              {"--weights", "iq2_xs", "Q8_0, Q4_0"}) == "");
  CHECK(fails({"inspect", mha, "--weights", "int4"}, {"--weights", "int4", "Q4_K, Q5_K"}) == "");
  CHECK(fails({"generate", mha, "--prompt", "x"}, {mha, "tokenizer.json"}) == "");
  CHECK(fails({"run", stories, ""}, {"prompt", "empty"}) == "");
  CHECK(fails_saying(pumice_command({"run", stories, "-"}, std::string()), {"standard input", "empty"}) ==
        "");
  CHECK(fails({"run", stories, "caf\xe9 au lait"}, {"prompt", "UTF-8", "0xE9", "3"}) == "");
  CHECK(fails({"generate", stories, "--prompt", "a\xff"}, {"--prompt", "UTF-8"}) == "");
  std::string ids = "1";
  for (int i = 0; i < 255; ++i) ids += ",2";
  CHECK(fails({"generate", mha, "--ids", ids}, {"--ids", "256", "255"}) == "");
  CHECK(fails({"generate", mha, "--ids", "1,2,3", "--context", "3"}, {"--ids", "context of 3"}) == "");
  CHECK(fails({"generate", mha, "--ids", "1", "--context", "4096"}, {mha, "4096", "256"}) == "");
}

TEST_CASE("eval names the tensor that is wrong") {
  const std::string model = fixtures().model("llama-mha").string();
  const TemporaryFolder folder;
  const std::string in = (folder.path() / "in.safetensors").string(),
                    out = (folder.path() / "out.safetensors").string();
  const auto eval = [&](const char* name, const char* type, std::vector<uint64_t> shape,
                        std::vector<int64_t> values, const Parts& parts) {
    const SafetensorsFile::Entry entries[] = {{name, type, shape, std::as_bytes(std::span(values))}};
    REQUIRE(write_safetensors(in, entries).ok());
    return fails({"eval", model, "--inputs", in, "--outputs", out}, parts);
  };
  CHECK(eval("input_ids", "I64", {1, 3}, {1, 320, 2}, {in, "'input_ids'", "[0, 1]", "0 to 319", "320"}) ==
        "");
  CHECK(eval("input_ids", "I64", {1, 3}, {1, 2, -1}, {in, "'input_ids'", "[0, 2]", "-1"}) == "");
  CHECK(eval("input_ids", "I64", {0, 3}, {}, {in, "'input_ids'", "empty", "[0, 3]"}) == "");
  CHECK(eval("input_ids", "I64", {1, 1, 1}, {1}, {in, "'input_ids'", "[batch, tokens]", "[1, 1, 1]"}) == "");
  CHECK(eval("input_ids", "F64", {1, 1}, {1}, {in, "'input_ids'", "I64", "F64"}) == "");
  CHECK(eval("tokens", "I64", {1, 1}, {1}, {in, "'input_ids'", "tokens"}) == "");
  CHECK(eval("input_ids", "I64", {1, 257}, std::vector<int64_t>(257), {in, "'input_ids'", "256", "257"}) ==
        "");
  CHECK(fails({"eval", model, "--inputs", "/nonexistent.safetensors", "--outputs", out},
              {"/nonexistent.safetensors"}) == "");
  const std::string good = (fixtures().model("llama-mha") / "expected.safetensors").string();
  CHECK(fails({"eval", model, "--inputs", good, "--outputs", out, "--output", "attentions.9", "--no-cache"},
              {"attentions.9", "hidden_states.2", "attentions.1"}) == "");
  CHECK(fails({"eval", model, "--inputs", good, "--outputs", "/dev/null/out.safetensors", "--no-cache"},
              {"/dev/null/out.safetensors"}) == "");
}

TEST_CASE("devices and folders that cannot be used are named") {
  const std::string model = fixtures().model("llama-mha").string();
  const std::vector<std::string> generate = {"generate", model, "--ids", "1", "-n", "2", "--json"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), generate.begin(), generate.end());
    return more;
  };
  CHECK(fails(with({"--vulkan-loader", "/nonexistent/libvulkan.so"}), {"/nonexistent/libvulkan.so"}) == "");
  CHECK(fails(generate, {}, {"VK_DRIVER_FILES=/nonexistent", "VK_ICD_FILENAMES=/nonexistent"}) == "");
  CHECK(fails(with({"--device", "no such device"}), {"no such device", "device 0"}) == "");

  const TemporaryFolder temporary;
  const std::string file = temporary.write("file", std::string_view("x")).string();
  CHECK(fails(with({"--cache", file + "/cache"}), {file + "/cache", "cache folder"}) == "");
  const CommandResult fallback = pumice_command(generate, nullptr, {"XDG_CACHE_HOME=" + file});
  CHECK(fallback.status == 0);
  CHECK(fallback.err.find("cache folder") != std::string::npos);

  const std::string cache = (temporary.path() / "cache").string();
  CHECK(pumice_command(with({"--cache", cache})).status == 0);
  CHECK(!std::filesystem::is_empty(cache));
}

TEST_CASE("pictures and sound that cannot be read are named, in a sentence") {
  const TemporaryFolder folder;
  const auto fails_in_a_line = [](const std::vector<std::string>& arguments, const Parts& parts) {
    const CommandResult result = pumice_command(arguments);
    if (std::ranges::count(result.err, '\n') != 1) return "several lines: " + result.err;
    return fails_saying(result, parts);
  };
  struct Case {
    const char* name;
    std::string bytes;
    Parts parts;
  };
  const std::string vit = fixtures().model("vit").string(), clip = fixtures().model("clip").string();
  for (const Case& c : {Case{"text.png", "a text", {"text.png", "PNG or JPEG", "a text"}},
                        Case{"empty.png", "", {"empty.png", "empty"}},
                        Case{"wide.png", wide_png(), {"wide.png", "65535", "100000 x 1"}},
                        Case{"a.gif", "GIF89a\x01", {"a.gif", "GIF", "convert"}}}) {
    CAPTURE(std::string(c.name));
    const std::string file = folder.write(c.name, c.bytes).string();
    CHECK(fails_in_a_line({"classify", vit, file}, c.parts) == "");
    CHECK(fails_in_a_line({"embed", clip, "--image", file}, c.parts) == "");
  }
  const std::string whisper = fixtures().model("whisper").string();
  for (const Case& c : {Case{"empty.wav", "", {"empty.wav", "empty"}},
                        Case{"none.wav", wav_bytes({}), {"none.wav", "none in it"}},
                        Case{"text.wav", "a text", {"text.wav", "WAV, FLAC, Ogg", "a text"}}}) {
    CAPTURE(std::string(c.name));
    const std::string file = folder.write(c.name, c.bytes).string();
    CHECK(fails_in_a_line({"transcribe", whisper, file}, c.parts) == "");
  }
}

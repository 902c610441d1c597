// Decoders that see in GGUF, as llama.cpp has them: a file of the text model, and one of the encoder of its
// pictures (mmproj). Both are written here from a folder, whose reference's answers have to hold for them
// too.
#include <doctest/doctest.h>

#include "io/formats/gguf_writer.h"
#include "support/command/command.h"
#include "support/command/messages.h"
#include "support/in_turn.h"
#include "support/picture_pair.h"

using namespace pumice;
using namespace picture_tests;

namespace {

std::vector<VisionModel> vision_models() {
  return {llava(),
          smolvlm(),
          gemma3_vision(),
          qwen2_5_vl(),
          qwen_vl("qwen2-vl"),
          qwen_vl("qwen3-vl"),
          qwen_vl("qwen3-5-vl"),
          glm4v(),
          glm4v("glm-ocr"),
          gemma4_vision("gemma4-vision"),
          gemma4_vision("gemma4-vision-large"),
          mistral3_vision(),
          pixtral(),
          lighton_ocr(),
          internvl(),
          minicpm_v()};
}

const std::vector<std::string> plain = {"--temp", "0", "-n", "12"};

CommandResult run(std::vector<std::string> arguments, const std::vector<std::string>& options = plain) {
  arguments.insert(arguments.end(), options.begin(), options.end());
  return pumice_command(arguments);
}

std::string output(std::vector<std::string> arguments, const std::vector<std::string>& options = plain) {
  const CommandResult result = run(std::move(arguments), options);
  CAPTURE(result.err);
  CHECK(result.status == 0);
  return result.out;
}

// The rows of the fixture's first picture.
std::vector<float> first_rows(const std::string& tower, const Answers& answers) {
  const auto encoder = make_encoder(load_pictures(tower), PictureTokens::features, 1);
  const std::vector<EncoderInput> pictures = pictures_of(answers, encoder->shape());
  encode(*encoder, std::span(pictures).first(1));
  return read(*encoder, PictureTokens::features, 0);
}

// Copies a GGUF file with another value of a text or a number, or without a tensor.
void copy_gguf(const std::string& from, const std::filesystem::path& to, const std::string& key,
               const nlohmann::json& value, const std::string& left_out = "") {
  const ModelFile file = require(ModelFile::open(from));
  nlohmann::json metadata = file.config();
  if (!key.empty()) metadata[key] = value;
  GgufWriter writer;
  writer.add("general.architecture", metadata["general.architecture"].get<std::string>());
  for (const auto& [name, each] : metadata.items()) {
    if (name == "general.architecture") continue;
    if (each.is_string()) writer.add(name, each.get<std::string>());
    if (each.is_boolean()) writer.add(name, each.get<bool>());
    if (each.is_number_unsigned()) writer.add(name, each.get<uint32_t>());
    if (each.is_number_float()) writer.add(name, each.get<float>());
    if (!each.is_array() || each.empty() || !each[0].is_number()) continue;
    const auto values = each.get<std::vector<float>>();
    writer.add_array(name, std::span<const float>(values));
  }
  for (const TensorView& tensor : file.tensors())
    if (tensor.name != left_out) writer.add_tensor(tensor.name, tensor.shape, tensor.type);
  require(writer.open(to));
  for (const TensorView& tensor : file.tensors())
    if (tensor.name != left_out) require(writer.write(tensor.data));
  require(writer.finish());
}

} // namespace

TEST_CASE("pictures of a GGUF pair: logits and text are the reference's") {
  for (const VisionModel& fixture : vision_models()) {
    CAPTURE(std::string(fixture.name));
    const PicturePair pair(fixture);
    const Answers answers(fixtures().model(fixture.name) / "expected.safetensors");
    const auto model = require(Model::load(require(pair.open()), test_context()));
    REQUIRE(model->shape().pictures);
    CHECK(model->shape().pictures->token == 319);
    check_answers(model, picture_prompt(pair.mmproj, answers, *model->shape().pictures), answers);
    const std::vector<float> rows = first_rows(pair.mmproj, answers);
    CHECK(relative_rms(rows, first_rows(pair.folder.path().string(), answers)) <= 1e-5);
  }
}

// Each model's text and chat, and a caption with a prompt or without; a long run has both.
TEST_CASE("pictures of a GGUF pair: caption, chat and generate answer as from the folder") {
  size_t turn = 0;
  for (const VisionModel& fixture : vision_models()) {
    CAPTURE(std::string(fixture.name));
    const PicturePair pair(fixture);
    const std::filesystem::path inputs = fixtures().model(fixture.name) / "expected.safetensors";
    const std::string written = (pair.converted.path() / "written.safetensors").string();
    (void)output({"generate", pair.text, "--mmproj", pair.mmproj, "--inputs", inputs.string(), "--outputs",
                  written, "--ignore-eos"});
    CHECK(Answers(written).ids("generated_ids", 0) == Answers(inputs).ids("generated_ids", 0));

    const std::vector<std::string> pictures = pair.pictures();
    std::vector<std::string> shown;
    for (const std::string& picture : pictures) shown.insert(shown.end(), {"--image", picture});
    const auto chat = [&](const std::string& model, const std::vector<std::string>& more) {
      std::vector<std::string> arguments = {"chat", model, "what?", "--kv", "f32"};
      arguments.insert(arguments.end(), shown.begin(), shown.end());
      arguments.insert(arguments.end(), more.begin(), more.end());
      return output(arguments);
    };
    const std::string folder = pair.folder.path().string();
    const std::string expected = chat(folder, {});
    CHECK(!expected.empty());
    CHECK(chat(pair.text, {"--mmproj", pair.mmproj}) == expected);
    CHECK(chat(pair.text, {}) == expected); // it is the only such file beside it
    for (const std::string prompt : turn_of(std::array{"", "look: <image> what?"}, turn++)) {
      std::vector<std::string> more = plain;
      if (!prompt.empty()) more.insert(more.end(), {"--prompt", prompt});
      CHECK(output({"caption", pair.text, pictures[0]}, more) ==
            output({"caption", folder, pictures[0]}, more));
    }
  }
}

TEST_CASE("an mmproj file beside a GGUF model is found, if it is the only one and fits") {
  const PicturePair pair(llava());
  const std::string picture = pair.pictures()[0];
  const auto caption = [&] { return run({"caption", pair.text, picture}); };
  CHECK(caption().err.find("mmproj-model.gguf, which lies beside it") != std::string::npos);
  // A text without pictures needs none.
  CHECK(run({"generate", pair.text, "--ids", "5,6"}).err.find("mmproj") == std::string::npos);
  const std::string second = (pair.converted.path() / "mmproj-second.gguf").string();
  std::filesystem::copy_file(pair.mmproj, second);
  CHECK(fails_saying(caption(), {"model.gguf"}) == "");
  std::filesystem::remove(second);
  copy_gguf(pair.mmproj, second, "clip.projector_type", "gemma3");
  std::filesystem::remove(pair.mmproj);
  CHECK(fails_saying(run({"chat", pair.text, "--image", picture, "what?"}), {"--mmproj"}) == "");
  CHECK(run({"chat", pair.text, "what?"}).status == 0);
}

// Each model in a type; a long run has each in each.
TEST_CASE("mmproj files of other types are read") {
  size_t turn = 0;
  for (const VisionModel& fixture : vision_models()) {
    CAPTURE(std::string(fixture.name));
    const PicturePair pair(fixture);
    const Answers answers(fixtures().model(fixture.name) / "expected.safetensors");
    const std::vector<float> exact = first_rows(pair.mmproj, answers);
    for (const char* type : turn_of(std::array{"F16", "BF16", "Q8_0"}, turn++)) {
      CAPTURE(std::string(type));
      const std::string path = (pair.converted.path() / "other.gguf").string();
      convert(pair.folder.path(), path, Tower::pictures, require(find_mixture(type)).type);
      const double error = relative_rms(first_rows(path, answers), exact);
      CHECK(error > 0);
      CHECK(error <= 0.03);
      CHECK(require(PicturePair::open_pair(pair.text, path)).mmproj() != nullptr);
    }
  }
}

TEST_CASE("the first mmproj files of LLaVA: names of the feed-forward exchanged, no names of the projector") {
  const PicturePair pair(llava());
  const Answers answers(fixtures().model("llava") / "expected.safetensors");
  const ModelFile file = require(ModelFile::open(pair.mmproj));
  GgufWriter writer;
  writer.add("general.architecture", std::string("clip"));
  writer.add("clip.has_llava_projector", true);
  writer.add("clip.vision.projection_dim", 768u); // CLIP's own
  for (const char* key : {"image_size", "patch_size", "embedding_length", "feed_forward_length",
                          "block_count", "attention.head_count"}) {
    const std::string name = std::string("clip.vision.") + key;
    writer.add(name, file.config()[name].get<uint32_t>());
  }
  writer.add("clip.vision.attention.layer_norm_epsilon", 1e-5f);
  for (const char* key : {"clip.vision.image_mean", "clip.vision.image_std"}) {
    const auto values = file.config()[key].get<std::vector<float>>();
    writer.add_array(key, std::span<const float>(values));
  }
  const auto renamed = [](std::string name) {
    const size_t up = name.find("ffn_up"), down = name.find("ffn_down");
    if (up != std::string::npos) return name.replace(up, 6, "ffn_down");
    if (down != std::string::npos) return name.replace(down, 8, "ffn_up");
    return name;
  };
  for (const TensorView& tensor : file.tensors())
    writer.add_tensor(renamed(tensor.name), tensor.shape, tensor.type);
  const std::string old = (pair.converted.path() / "old.gguf").string();
  require(writer.open(old));
  for (const TensorView& tensor : file.tensors()) require(writer.write(tensor.data));
  require(writer.finish());
  CHECK(require(open_model_definition(require(PicturePair::open_pair(pair.text, old))))->shape().pictures);
  CHECK(first_rows(old, answers) == first_rows(pair.mmproj, answers));
}

TEST_CASE("a vocabulary without the token of pictures: another stands for them") {
  VisionModel fixture = llava();
  const PicturePair known(fixture);
  fixture.special.clear();
  const PicturePair pair(fixture, TensorType::f32, R"({"pad_token": "<unk>"})");
  const ModelFile file = require(pair.open());
  const PictureTokens tokens = *require(open_model_definition(file))->shape().pictures;
  CHECK(tokens.token == 0);
  CHECK(tokens.markup.picture == "<unk>");
  const std::string picture = known.pictures()[0];
  const std::vector<std::string> prompt = {"--prompt", "look: <image> what?", "--temp", "0", "-n", "12"};
  CHECK(output({"caption", pair.text, picture}, prompt) == output({"caption", known.text, picture}, prompt));
}

TEST_CASE("GGUF pairs that do not fit are refused with what was expected") {
  const PicturePair pair(llava());
  const PicturePair other(gemma3_vision());
  const std::string wrong = (pair.folder.path() / "wrong.gguf").string();
  const auto refused = [&](const std::string& model, const std::string& mmproj,
                           const std::vector<std::string>& parts) {
    return fails_saying(run({"generate", model, "--ids", "5", "--mmproj", mmproj}), parts);
  };
  const auto with = [&](const std::string& key, const nlohmann::json& value,
                        const std::string& left_out = "") {
    copy_gguf(pair.mmproj, wrong, key, value, left_out);
    return wrong;
  };
  CHECK(fails_saying(run({"generate", pair.mmproj, "--ids", "5"}),
                     {"mmproj-model.gguf", "general.architecture", "'clip'", "--mmproj"}) == "");
  CHECK(refused(pair.mmproj, pair.mmproj, {"mmproj-model.gguf", "expected a GGUF file with a text model"}) ==
        "");
  CHECK(refused(pair.text, other.text, {other.text, "general.architecture", "'clip'", "'gemma3'"}) == "");
  CHECK(refused(pair.text, other.mmproj, {pair.text, "general.architecture", "'gemma3'", "'llama'"}) == "");
  CHECK(refused(pair.folder.path().string(), pair.mmproj, {"expected a GGUF file with a text model"}) == "");
  CHECK(refused(pair.text, pair.folder.path().string(), {"expected a GGUF file of the encoder"}) == "");
  CHECK(refused(pair.text, "missing.gguf", {"missing.gguf"}) == "");
  CHECK(refused(pair.text, with("clip.projector_type", "ldp"),
                {wrong, "clip.projector_type", "gemma3", "mlp", "'ldp'"}) == "");
  CHECK(refused(pair.text, with("clip.vision.image_mean", {0.5f, 0.5f}),
                {wrong, "clip.vision.image_mean", "three numbers", "2"}) == "");
  CHECK(refused(pair.text, with("clip.vision.patch_size", "8"), {wrong, "clip.vision.patch_size"}) == "");
  CHECK(refused(pair.text, with("clip.vision.image_grid_pinpoints", {32.0f, 64.0f}),
                {wrong, "image_grid_pinpoints", "LLaVA 1.6"}) == "");
  const std::string picture = pair.pictures()[0];
  CHECK(fails_saying(run({"caption", pair.text, picture, "--mmproj", with("", {}, "v.blk.1.ffn_up.weight")}),
                     {wrong, "v.blk.1.ffn_up.weight"}) == "");
  // Of other sizes.
  PicturePair wider(gemma3_vision());
  copy_gguf(other.mmproj, wrong, "clip.vision.projection_dim", 72u);
  CHECK(refused(wider.text, wrong, {wrong, "clip.vision.projection_dim", "64 columns", "72"}) == "");
  copy_gguf(other.mmproj, wrong, "clip.vision.projector.scale_factor", 4u);
  CHECK(refused(wider.text, wrong, {wrong, "scale_factor", "6 patches", "4"}) == "");
}

TEST_CASE("convert writes a text model and its mmproj file") {
  const TemporaryFolder folder;
  write_byte_folder(folder, llava());
  const std::string from = folder.path().string(), to = (folder.path() / "out.gguf").string();
  const CommandResult text = pumice_command({"convert", from, to});
  CHECK(text.status == 0);
  CHECK(text.err.find("--mmproj") != std::string::npos);
  CHECK(require(ModelFile::open(to)).architecture() == "llama");
  const CommandResult tower = pumice_command({"convert", from, to, "--mmproj", "--type", "F16"});
  CHECK(tower.status == 0);
  CHECK(tower.err == "");
  const ModelFile file = require(ModelFile::open(to));
  CHECK(file.is_mmproj());
  CHECK(file.config()["general.type"] == "mmproj");
  CHECK(file.config()["clip.vision.feature_layer"] == nlohmann::json{2});
  CHECK(file.find("v.patch_embd.weight")->shape == std::vector<uint64_t>{64, 3, 8, 8});
  CHECK(file.find("v.patch_embd.weight")->type == TensorType::f16);
  CHECK(file.find("v.position_embd.weight")->type == TensorType::f32);
  CHECK(!file.config().contains("tokenizer.ggml.model"));

  const std::string alone = fixtures().model("llama-gqa").string();
  CHECK(fails_saying(pumice_command({"convert", alone, to, "--mmproj"}), {"reads no pictures"}) == "");
  CHECK(fails_saying(pumice_command({"convert", fixtures().model("clip").string(), to, "--mmproj"}),
                     {"reads no pictures in its prompts"}) == "");
}

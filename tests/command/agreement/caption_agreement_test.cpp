// `pumice caption --json` and the C interface: the same numbers of every model that describes pictures.
#include <array>

#include <nlohmann/json.hpp>

#include "support/command/command.h"
#include "support/files/vision_folder.h"
#include "support/files/word_folder.h"
#include "support/in_turn.h"
#include "support/translators.h"
#include "support/vision_models.h"

using nlohmann::json;

namespace {

json written(const pumice_written& given) {
  return {{"text", given.text},
          {"tokens", std::vector<uint32_t>(given.tokens, given.tokens + given.token_count)},
          {"score", given.score}};
}

pumice_input input_of(const pumice::Image& image) {
  pumice_input input = {sizeof input};
  input.pixels = image.pixels.data();
  input.width = image.width;
  input.height = image.height;
  return input;
}

ModelHandle load_with_vision(pumice_device* device, const std::string& path, bool vision) {
  pumice_load_options options = {sizeof options};
  options.vision = vision;
  return load(device, path, options);
}

// How a model is asked, both ways.
struct Asked {
  std::vector<std::string> arguments = {"-n", "8"};
  pumice_captioner_options options = {sizeof options};
  pumice_writing_options writing = {sizeof writing};
};

// In whole steps and in slices.
void check(pumice_model* model, const TemporaryFolder& folder, Asked asked,
           const std::vector<pumice::Image>& images) {
  asked.writing.max_tokens = 8;
  asked.writing.scores = true;
  asked.writing.inputs = 2;
  asked.options.writing = &asked.writing;
  pumice_captioner* made = nullptr;
  pumice_error error;
  require_ok(pumice_captioner_create(model, &asked.options, &made, &error), error);
  const CaptionerHandle captioner(made);
  std::vector<std::string> arguments = {"caption", folder.path().string(), "--json"}, paths;
  arguments.insert(arguments.end(), asked.arguments.begin(), asked.arguments.end());
  std::vector<pumice_input> inputs;
  for (const pumice::Image& image : images) {
    paths.push_back((folder.path() / (std::to_string(paths.size()) + ".png")).string());
    REQUIRE(pumice::write_png(image, paths.back()).ok());
    inputs.push_back(input_of(image));
  }
  arguments.insert(arguments.end(), paths.begin(), paths.end());
  const CommandResult result = pumice_command(arguments);
  INFO(result.err);
  REQUIRE(result.status == 0);
  const std::vector<std::string> lines = lines_of(result.out);
  REQUIRE(lines.size() == images.size());

  const auto agree = [&] {
    for (size_t i = 0; i < images.size(); ++i) {
      const pumice_written* texts = nullptr;
      size_t count = 0;
      require_ok(pumice_captioner_result(made, i, &texts, &count, &error), error);
      REQUIRE(count > 0);
      json own = {{"schema", 1}, {"image", paths[i]}};
      own.update(written(texts[0]));
      for (size_t n = 0; asked.writing.n_best > 1 && n < count; ++n)
        own["hypotheses"].push_back(written(texts[n]));
      CHECK(own == json::parse(lines[i]));
    }
  };
  require_ok(pumice_captioner_caption(made, inputs.data(), inputs.size(), &error), error);
  agree();
  require_ok(pumice_captioner_begin(made, inputs.data(), inputs.size(), &error), error);
  CHECK(advance_to_the_end(made, 300) > 2);
  agree();
}

} // namespace

// Each model, with beams or without in turn; a long run asks each in both ways.
TEST_CASE("caption and the C interface agree for encoders of pictures with a decoder") {
  const DeviceHandle& device = shared_device();
  Asked beams;
  beams.arguments.insert(beams.arguments.end(), {"--beams", "3", "--n-best", "2"});
  beams.writing.beams = 3;
  beams.writing.n_best = 2;
  size_t turn = 0;
  for (const char* name :
       turns_of(std::array{"vit-trocr", "deit-trocr", "vit-gpt2", "beit-trocr", "donut"}, 2)) {
    CAPTURE(std::string(name));
    const TemporaryFolder folder;
    write_word_folder(folder, name);
    const ModelHandle model = load_with_vision(device.get(), folder.path().string(), false);
    for (const Asked& asked : turn_of(std::array{Asked(), beams}, turn++))
      check(model.get(), folder, asked, {small_picture(1), small_picture(77), patterned_picture(29, 61)});
  }
}

TEST_CASE("caption and the C interface agree for decoders that read pictures in their prompt") {
  const DeviceHandle& device = shared_device();
  const TemporaryFolder folder;
  write_vision_folder(folder);
  const ModelHandle model = load_with_vision(device.get(), folder.path().string(), true);
  check(model.get(), folder, {}, {small_picture(1), small_picture(77)});
  Asked prompted;
  prompted.options.prompt = "w4 <image> w20 w21 w6";
  prompted.arguments.insert(prompted.arguments.end(), {"--prompt", prompted.options.prompt});
  check(model.get(), folder, prompted, {small_picture(1)});
  const std::array others = {picture_tests::qwen2_5_vl(), picture_tests::gemma3_vision(),
                             picture_tests::smolvlm()};
  for (const picture_tests::VisionModel& each : turns_of(others, 3)) {
    CAPTURE(std::string(each.name));
    const TemporaryFolder own;
    picture_tests::write_vision_folder(own, each);
    const ModelHandle other = load_with_vision(device.get(), own.path().string(), true);
    check(other.get(), own, {}, each.pictures);
  }
}

TEST_CASE("a captioner says what it needs") {
  const DeviceHandle& device = shared_device();
  const TemporaryFolder folder;
  write_vision_folder(folder);
  const ModelHandle blind = load_with_vision(device.get(), folder.path().string(), false);
  pumice_captioner* made = nullptr;
  pumice_error error;
  const auto says = [&](const char* words) {
    return std::string(error.message).find(words) != std::string::npos;
  };
  CHECK(pumice_captioner_create(blind.get(), nullptr, &made, &error) == PUMICE_INVALID_ARGUMENT);
  CHECK(says("options.vision"));
  const ModelHandle model = load_with_vision(device.get(), folder.path().string(), true);
  pumice_writing_options writing = {sizeof writing};
  writing.beams = 4;
  pumice_captioner_options options = {sizeof options};
  options.writing = &writing;
  CHECK(pumice_captioner_create(model.get(), &options, &made, &error) == PUMICE_INVALID_ARGUMENT);
  CHECK(says("options.writing->beams"));
  const CaptionerHandle captioner = make_captioner(model.get(), 0, 4);
  pumice_input input = {sizeof input};
  const float values[4] = {};
  input.values = values;
  CHECK(pumice_captioner_caption(captioner.get(), &input, 1, &error) == PUMICE_INVALID_ARGUMENT);
  CHECK(says("give its pixels"));
  const pumice_written* texts = nullptr;
  size_t count = 0;
  CHECK(pumice_captioner_result(captioner.get(), 0, &texts, &count, &error) == PUMICE_NOT_READY);
  // Cancelled in the middle, and then as if nothing had been.
  const pumice::Image image = small_picture(1);
  const pumice_input picture = input_of(image);
  const std::string text = write(captioner.get(), picture);
  pumice_slice slice = {sizeof slice};
  begin(captioner.get(), picture);
  require_ok(pumice_work_advance(pumice_captioner_work(captioner.get()), 100, nullptr, &slice, &error),
             error);
  pumice_work_cancel(pumice_captioner_work(captioner.get()));
  CHECK(pumice_work_advance(pumice_captioner_work(captioner.get()), 100, nullptr, &slice, &error) ==
        PUMICE_CANCELLED);
  CHECK(pumice_captioner_result(captioner.get(), 0, &texts, &count, &error) == PUMICE_NOT_READY);
  CHECK(write(captioner.get(), picture) == text);
}

// Models of which a tower reads pictures, and models whose inputs have a size of their own, against a
// reference's answers.
#include <numeric>

#include <doctest/doctest.h>

#include "speech/ctc.h"
#include "support/command/answers.h"
#include "support/command/command.h"
#include "support/files/converted.h"
#include "support/files/fixtures.h"
#include "support/files/temporary_folder.h"
#include "support/model.h"
#include "support/picture_prompts.h"
#include "support/require.h"
#include "support/session.h"
#include "support/vulkan/gpu.h"

using namespace pumice;
using namespace picture_tests;

namespace {

// Each input's values of a tensor, which are the reference's, together and alone the same bits.
std::vector<float> check_encoder(const std::shared_ptr<const Model>& model, const std::string& name,
                                 const std::vector<EncoderInput>& inputs, const Answers& answers,
                                 double most = 1e-4) {
  CAPTURE(name);
  const auto together = make_encoder(model, name, static_cast<uint32_t>(inputs.size()));
  const auto alone = make_encoder(model, name, 1);
  encode(*together, inputs);
  std::vector<float> all;
  for (size_t i = 0; i < inputs.size(); ++i) {
    CAPTURE(i);
    const std::vector<float> values = read(*together, name, i);
    CHECK(relative_rms(values, answers.row(name, i)) <= most);
    encode(*alone, std::span(inputs).subspan(i, 1));
    CHECK(read(*alone, name, 0) == values);
    all.insert(all.end(), values.begin(), values.end());
  }
  return all;
}

std::vector<EncoderInput> texts_of(const Answers& answers) {
  std::vector<EncoderInput> inputs(answers.shapes.at("input_ids")[0]);
  for (size_t i = 0; i < inputs.size(); ++i) inputs[i].tokens = answers.ids("input_ids", i);
  return inputs;
}

void check_space(const std::filesystem::path& path, const Answers& answers, double most) {
  const auto model = load_model(path);
  REQUIRE(model->shape().shared_space);
  const SharedSpace space = *model->shape().shared_space;
  const std::vector<float> texts = check_encoder(model, SharedSpace::text, texts_of(answers), answers, most);
  const std::vector<float> pictures = check_encoder(load_pictures(path), SharedSpace::picture,
                                                    values_of(answers, "pixel_values"), answers, most);
  const size_t columns = answers.shapes.at(SharedSpace::text)[1];
  std::vector<float> logits;
  for (size_t picture = 0; picture < pictures.size(); picture += columns) {
    for (size_t text = 0; text < texts.size(); text += columns) {
      const auto first = pictures.begin() + static_cast<ptrdiff_t>(picture);
      const double cosine = std::inner_product(first, first + static_cast<ptrdiff_t>(columns),
                                               texts.begin() + static_cast<ptrdiff_t>(text), 0.0);
      logits.push_back(static_cast<float>(space.scale * cosine + space.bias));
    }
  }
  CHECK(relative_rms(logits, answers.floats.at("logits_per_image")) <= most);
}

} // namespace

FIXTURE_TEST_CASE("texts and pictures in one space are the reference's, alone and beside others") {
  for (const std::string folder : {"clip", "siglip"}) {
    CAPTURE(folder);
    const std::filesystem::path path = fixtures().model(folder);
    const Answers answers(path / "expected.safetensors");
    check_space(path, answers, 1e-4);
    const TemporaryFolder temporary;
    const std::filesystem::path out = temporary.path() / "model.gguf";
    (void)convert_to(out, path, TensorType::f32);
    check_space(out, answers, 1e-4);
    (void)convert_to(out, path, TensorType::q8_0);
    check_space(out, answers, 0.05);
    const ModelFile quantised = require(ModelFile::open(out));
    const auto type = [&](const char* name) {
      const TensorView* tensor = quantised.find(name);
      REQUIRE(tensor);
      return tensor->type;
    };
    CHECK(type("text_model.encoder.layers.0.self_attn.q_proj.weight") == TensorType::q8_0);
    CHECK(type("vision_model.encoder.layers.1.mlp.fc1.weight") == TensorType::q8_0);
    CHECK(type("text_model.embeddings.token_embedding.weight") == TensorType::q8_0);
    CHECK(type("text_model.embeddings.position_embedding.weight") == TensorType::f32);
  }
}

FIXTURE_TEST_CASE("convolutions over pictures of a size that the inputs have") {
  const std::filesystem::path path = fixtures().model("resnet");
  const Answers answers(path / "expected.safetensors");
  LoadOptions options;
  options.picture_height = static_cast<uint32_t>(answers.shapes.at("pixel_values")[2]);
  options.picture_width = static_cast<uint32_t>(answers.shapes.at("pixel_values")[3]);
  const auto check = [&](const std::filesystem::path& model, double most) {
    (void)check_encoder(load_model(model, options), "logits", values_of(answers, "pixel_values"), answers,
                        most);
  };
  check(path, 1e-4);
  const TemporaryFolder temporary;
  const std::filesystem::path out = temporary.path() / "model.gguf";
  (void)convert_to(out, path, TensorType::f32);
  check(out, 1e-4);
  (void)convert_to(out, path, TensorType::q8_0); // convolutions are F16
  check(out, 2e-2);
}

FIXTURE_TEST_CASE("a picture in a decoder's prompt gives the reference's logits and text") {
  const std::filesystem::path path = fixtures().model("llava");
  const Answers answers(path / "expected.safetensors");
  const auto model = load_model(path);
  REQUIRE(model->shape().pictures);
  const PicturePrompt prompt = picture_prompt(path, answers, *model->shape().pictures);
  const std::vector<float> logits = logits_of(model, prompt, 128);
  CHECK(relative_rms(logits, answers.floats.at("logits")) <= 1e-4);
  for (uint32_t chunk : {1u, 7u}) {
    CAPTURE(chunk);
    CHECK(relative_rms(logits_of(model, prompt, chunk), answers.floats.at("logits")) <= 1e-4);
    if (TestGpu::get().profile.cpu) CHECK(logits_of(model, prompt, chunk) == logits);
  }
  const std::vector<uint32_t> expected = answers.ids("generated_ids", 0);
  for (uint32_t chunk : {7u, 128u}) {
    SessionOptions options;
    options.size.chunk = chunk;
    options.size.cache = CacheType::f32;
    auto batch = Batch::create(model, options);
    if (!batch.ok()) FAIL(batch.error().text());
    const auto count = static_cast<uint32_t>(expected.size());
    CHECK(continue_prompt(**batch, prompt, count) == expected);
    // Another picture with the same words is another prompt.
    std::vector<float> other = prompt.embeddings->values;
    for (float& value : other) value = -value;
    auto changed =
        with_pictures(*model->shape().pictures, answers.ids("input_ids", 0), std::span(&other, 1), "");
    REQUIRE(changed.ok());
    CHECK(changed->tokens != prompt.tokens);
    (void)continue_prompt(**batch, *changed, count);
    CHECK(continue_prompt(**batch, prompt, count) == expected);
  }
}

TEST_CASE("a session shows pictures, is suspended, copied and saved") {
  const TemporaryFolder folder;
  const std::filesystem::path path = fixtures().model("llava");
  const Answers answers(path / "expected.safetensors");
  const auto model = load_model(path);
  const PicturePrompt prompt = picture_prompt(path, answers, *model->shape().pictures);
  const std::vector<uint32_t> expected = answers.ids("generated_ids", 0);
  SessionOptions options;
  options.size.cache = CacheType::f32;
  const auto make = [&] { return require(Session::create(model, options)); };
  const auto begin = [&](Session& session) {
    SamplingParams greedy;
    greedy.temperature = 0;
    REQUIRE(session.set_prompt(prompt.tokens, greedy, {}, prompt.embeddings).ok());
  };
  const size_t half = expected.size() / 2;
  const std::vector<uint32_t> first(expected.begin(), expected.begin() + static_cast<ptrdiff_t>(half));
  const std::vector<uint32_t> rest(expected.begin() + static_cast<ptrdiff_t>(half), expected.end());
  auto session = make();
  begin(*session);
  CHECK(take(*session, half) == first);
  auto copy = make();
  REQUIRE(copy->copy(*session).ok());
  REQUIRE(session->suspend().ok());
  REQUIRE(session->resume(model).ok());
  REQUIRE(session->save(folder.path() / "state").ok());
  CHECK(take(*session, rest.size()) == rest);
  CHECK(take(*copy, rest.size()) == rest);
  auto restored = make();
  REQUIRE(restored->restore(folder.path() / "state").ok());
  CHECK(take(*restored, rest.size()) == rest);

  // From where the picture is cut off: the rows that are left are given too.
  begin(*session);
  const auto rows =
      std::ranges::count_if(prompt.tokens, [](uint32_t token) { return (token & PROMPT_ROW) != 0; });
  const auto place =
      std::ranges::find_if(prompt.tokens, [](uint32_t token) { return (token & PROMPT_ROW) != 0; });
  const auto cut = static_cast<size_t>(place - prompt.tokens.begin()) + static_cast<size_t>(rows) / 2;
  session->end_at(cut);
  const std::vector<uint32_t> from_cut = take(*session, 3);
  auto fresh = make();
  SamplingParams greedy;
  greedy.temperature = 0;
  const std::vector<float>& all = prompt.embeddings->values;
  const auto middle = all.begin() + static_cast<ptrdiff_t>(all.size() / static_cast<size_t>(rows) *
                                                           (static_cast<size_t>(rows) / 2));
  const auto given = [](auto from, auto to) {
    return std::make_shared<const PromptEmbeddings>(PromptEmbeddings{{from, to}, {}});
  };
  REQUIRE(
      fresh->set_prompt(std::span(prompt.tokens).first(cut), greedy, {}, given(all.begin(), middle)).ok());
  CHECK(take(*fresh, 3) == from_cut);
  // The rest of them are added.
  fresh->end_at(cut);
  REQUIRE(fresh
              ->begin({{prompt.tokens.begin() + static_cast<ptrdiff_t>(cut), prompt.tokens.end()},
                       false,
                       UINT32_MAX,
                       greedy,
                       given(middle, all.end())})
              .ok());
  CHECK(take(*fresh, expected.size()) == expected);
}

TEST_CASE("CTC: the likeliest path, and the likeliest text") {
  // Letters 1 and 2, blank 0. In each frame the blank is the likeliest, and yet most paths have a letter.
  const std::vector<float> half = {std::log(0.4f), std::log(0.35f), std::log(0.25f),
                                   std::log(0.4f), std::log(0.35f), std::log(0.25f)};
  CHECK(ctc_greedy(half, 3, 0).empty());
  const std::vector<HeardLetter> one = ctc_beam_search(half, 3, 0, 8);
  REQUIRE(one.size() == 1); // 0.4 * 0.35 * 2 + 0.35 * 0.35 against 0.4 * 0.4
  CHECK(one[0].token == 1);
  const std::vector<float> path = {0, 9, 0, 0, 9, 0, 9, 0, 0, 0, 9, 0, 0, 0, 9};
  for (const auto& heard : {ctc_greedy(path, 3, 0), ctc_beam_search(path, 3, 0, 4)}) {
    REQUIRE(heard.size() == 3); // 1 1 - 1 2
    CHECK(heard[0].token == 1);
    CHECK(heard[0].end == 2);
    CHECK(heard[1].token == 1);
    CHECK(heard[1].first == 3);
    CHECK(heard[2].token == 2);
  }
}

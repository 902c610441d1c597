// Every model of the fixtures with every kernel variant forced that can run here: those for CPU drivers in
// the device's own profile, the others in that of a common GPU, as far as the device can run it.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "gpu/kernel_table.h"
#include "kernel/choices.h"
#include "shaders/attention/attention.params.h"
#include "support/command/answers.h"
#include "support/files/fixtures.h"
#include "support/model.h"
#include "support/skip.h"
#include "support/vulkan/gpu.h"

using namespace pumice;

namespace {

struct Fixture {
  std::filesystem::path model, answers;
  // One of those that differ in their weights' type alone. Kernels are slow to compile on CPU drivers, and
  // their own tests run each type in each variant, so that here each type meets a third of them.
  bool takes_turns = false;
};

std::vector<Fixture> all_fixtures() {
  std::vector<Fixture> found;
  for (const std::string& name : fixtures().ggufs()) {
    const std::filesystem::path model = fixtures().gguf(name);
    found.push_back({model, expected_of(model), name.starts_with("random-")});
  }
  for (const std::string& name : fixtures().models()) {
    if (name == "llava" || name == "smolvlm" || name == "gemma3-vision" || name == "mistral3-vision" ||
        name == "pixtral" || name == "lighton-ocr" || name == "internvl" || name == "glm4v" ||
        name == "glm-ocr" || name == "voxtral" || name == "qwen2-audio" || name == "gemma3n-audio" ||
        name == "minicpm-v" || name == "deepseek-ocr2" || name.starts_with("gemma4-vision") ||
        name.find("-vl") != std::string::npos)
      continue; // their answers are of a picture or a sound in the prompt: towers_test.cpp,
                // *_language*_test.cpp
    const std::filesystem::path model = fixtures().model(name), gguf = model / "model.gguf";
    found.push_back({model, model / "expected.safetensors"});
    if (std::filesystem::exists(gguf)) found.push_back({gguf, model / "expected.safetensors"});
  }
  return found;
}

// What ends a pass; what lies between would keep kernels from being fused.
std::vector<std::string> last_tensors(const Answers& answers, const Fixture& fixture) {
  std::vector<std::string> names;
  for (const auto& [name, values] : answers.floats) {
    if (name == "pooler_output" && fixture.model.extension() == ".gguf") continue; // has no pooler
    if (name == "logits" || name == "pooler_output" || name == "text_embeds" ||
        name.ends_with("last_hidden_state") || name.starts_with("sentence_embedding"))
      names.push_back(name);
  }
  return names;
}

// A variant that is forced, in the profile of the devices it is made for.
struct Forced {
  std::string variant;
  DeviceProfile profile;
};

// T5's attention is not scaled, so that its scores, and their errors, are exponents in the tens.
bool is_t5(const Fixture& fixture) {
  return fixture.model.string().find("t5") != std::string::npos;
}

// Sums in 32 bits meet the float64 reference to 1e-4. Factors that are rounded to 16 bits are off by 2^-12 of
// themselves at most, those rounded to 8 by 1/254 of the largest of 32, weights and x alike; answers of
// random models move up to twenty times as far, and T5's some hundred times. Those of a delta rule, and of
// experts that are chosen by a hair, move further: see sensitivity().
double tolerance_of(const std::string& variant, const Fixture& fixture) {
  if (variant == "dot") return 0.1;
  if (variant.starts_with("cm")) return is_t5(fixture) ? 0.2 : 5e-3;
  return 1e-4;
}

bool device_has(const std::string& variant, const DeviceProfile& own) {
  if (variant == "cpu8" || variant == "cpu8-rope") return own.cpu8;
  // Its bits are cpu8-rope's (attention_store_test.cpp), and it is for caches of halves.
  if (variant == "cpu8-qkv") return false;
  if (variant == "subgroup") return own.subgroup >= 8;
  if (variant == "dot") return own.dot && own.subgroup >= 8 && find_kernel("matmul.dot.q8_0");
  if (variant == "cm" || variant == "cm-split")
    return !own.matrix_shapes.empty() && find_kernel("matmul.cm.f32");
  if (variant == "cm2") return own.cm2 && find_kernel("matmul.cm.f32");
  return true;
}

std::vector<Forced> forced_variants() {
  const DeviceProfile& own = TestGpu::get().profile;
  std::vector<Forced> profiles;
  for (const std::string& variant : variant_names()) {
    if (!device_has(variant, own)) continue;
    const bool for_cpus = variant.starts_with("cpu8");
    Forced forced{variant, for_cpus ? own : forced_profile(variant)};
    forced.profile.forced = variant;
    if (!for_cpus) {
      forced.profile.matrix_shapes = own.matrix_shapes;
      forced.profile.cm2 = own.cm2;
      forced.profile.cm2_workgroup = own.cm2_workgroup;
    }
    profiles.push_back(std::move(forced));
  }
  return profiles;
}

std::unique_ptr<ForcedPass> make_pass(const std::shared_ptr<const Model>& model,
                                      const std::vector<std::string>& readable, uint32_t inputs,
                                      uint32_t chunk) {
  ForcedPassOptions options;
  options.readable = readable;
  options.inputs = inputs;
  options.chunk = chunk;
  if (model->shape().encoder) options.input_tokens = model->shape().encoder->context * inputs;
  auto pass = ForcedPass::create(model, options);
  if (!pass.ok()) FAIL(pass.error().text());
  return std::move(*pass);
}

// Attention's variants are told by their kernels, which a plan does not list as choices.
bool is_of(const std::string& variant, const Dispatch& dispatch) {
  return (variant == "cpu8-rope" && (dispatch.kernel.starts_with("attention.cpu8.rope.") ||
                                     dispatch.kernel == "attention.half8.rope")) ||
         (variant == "rope" && dispatch.kernel.starts_with("attention_portable.rope.")) ||
         (variant == "split-kv" && dispatch.kernel.starts_with("attention_portable.") &&
          dispatch.constants[ATTENTION_SPLIT_ID] > 0) ||
         (variant == "cm" && dispatch.kernel.starts_with("attention.cm."));
}

bool has_part(const std::string& variant, Runner* runner, uint32_t tokens) {
  if (!runner) return false;
  const auto plan = runner->plan(tokens);
  if (!plan.ok()) FAIL(plan.error().text());
  return std::ranges::any_of((*plan)->choices,
                             [&](const auto& choice) { return choice.chosen == variant; }) ||
         std::ranges::any_of((*plan)->dispatches,
                             [&](const auto& each) { return is_of(variant, each.dispatch); });
}

// Whether a variant is used in a pass over these inputs.
bool has_part(const std::string& variant, ForcedPass& pass, std::span<const ForcedInput> inputs,
              uint32_t chunk) {
  uint32_t tokens = 0, positions = 0;
  for (const ForcedInput& input : inputs) {
    tokens += static_cast<uint32_t>(input.tokens.size());
    if (!pass.encoder()) continue;
    positions += input.input.tokens.empty() ? pass.encoder()->shape().context
                                            : static_cast<uint32_t>(input.input.tokens.size());
  }
  return has_part(variant, pass.decoder(), std::min(tokens, chunk)) ||
         (pass.encoder() && has_part(variant, &pass.encoder()->runner(), positions));
}

size_t largest(std::span<const float> values) {
  return static_cast<size_t>(std::ranges::max_element(values) - values.begin());
}

// The likeliest token of every row, where the reference's lead over the next one is more than errors within
// the tolerance can take away: five times their root mean square on both.
void check_likeliest(std::span<const float> logits, std::span<const float> expected, size_t columns,
                     double tolerance) {
  double squares = 0;
  for (float value : expected) squares += double{value} * value;
  const double lead = 10 * tolerance * std::sqrt(squares / static_cast<double>(expected.size()));
  for (size_t begin = 0; begin < expected.size(); begin += columns) {
    std::vector<float> row(expected.begin() + static_cast<ptrdiff_t>(begin),
                           expected.begin() + static_cast<ptrdiff_t>(begin + columns));
    const size_t first = largest(row);
    const float best = std::exchange(row[first], -1e30f);
    if (best - row[largest(row)] > lead) CHECK(largest(logits.subspan(begin, columns)) == first);
  }
}

// The largest distance from the reference. Where it is beyond the tolerance, `sensitivity` multiplies that.
void compare(const ForcedPass& pass, const Answers& answers, const std::vector<std::string>& names,
             size_t inputs, double tolerance, const std::function<double()>& sensitivity, double& worst) {
  double factor = 0; // not known yet
  for (const std::string& name : names) {
    for (size_t input = 0; input < inputs; ++input) {
      CAPTURE(name);
      CAPTURE(input);
      const auto values = pass.read(name, input);
      if (!values.ok()) FAIL(values.error().text());
      // Of an encoder's rows, those of padding are the reference's alone.
      const std::span<const float> expected = answers.row(name, input).first(values->size());
      const double off = relative_rms(*values, expected);
      worst = std::max(worst, off);
      if (off > tolerance && factor == 0) factor = sensitivity();
      const double allowed = off > tolerance ? tolerance * factor : tolerance;
      CHECK(off <= allowed);
      if (name == "logits") check_likeliest(*values, expected, pass.columns(name), allowed);
    }
  }
}

std::shared_ptr<const Model> load_in(const Fixture& fixture, const DeviceProfile& profile, bool in_8_bits) {
  DeviceContext context = test_context();
  context.profile = profile;
  LoadOptions options;
  if (in_8_bits) options.weights = TensorType::q8_0;
  auto model = Model::load(fixture.model, context, {}, options);
  if (!model.ok()) FAIL(model.error().text());
  return *std::move(model);
}

// How much further than usual a fixture's answers move when something is rounded: by its weights in 8 bits
// alone, with plain kernels, which move most models' answers by less than 3 in 100.
double sensitivity(const Fixture& fixture, const Answers& answers, std::span<const ForcedInput> inputs,
                   const std::vector<std::string>& names) {
  DeviceProfile plain = forced_profile("portable");
  plain.forced = "portable";
  const auto model = load_in(fixture, plain, true);
  const auto pass = make_pass(model, names, static_cast<uint32_t>(inputs.size()), 128);
  if (const Status status = pass->run(inputs); !status.ok()) FAIL(status.error().text());
  double moved = 0;
  for (const std::string& name : names) {
    for (size_t input = 0; input < inputs.size(); ++input) {
      const auto values = pass->read(name, input);
      if (!values.ok()) FAIL(values.error().text());
      moved = std::max(moved, relative_rms(*values, answers.row(name, input).first(values->size())));
    }
  }
  return std::max(1.0, moved / 0.03);
}

// Runs a fixture's prompts at once, or token by token, and compares; false if the variant has no part in it.
bool run(const std::shared_ptr<const Model>& model, const Fixture& fixture, const Answers& answers,
         const Forced& forced, uint32_t chunk, double& worst) {
  const std::vector<std::string> names = last_tensors(answers, fixture);
  const auto& encoder = model->shape().encoder;
  std::vector<ForcedInput> inputs = encoder ? answers.inputs(encoder->picture_rows) : answers.sequences();
  REQUIRE(!inputs.empty());
  REQUIRE(!names.empty());
  if (chunk == 1) inputs.resize(1);
  const auto pass = make_pass(model, names, static_cast<uint32_t>(inputs.size()), chunk);
  if (!has_part(forced.variant, *pass, inputs, chunk)) return false;
  if (const Status status = pass->run(inputs); !status.ok()) FAIL(status.error().text());
  const bool rounds = forced.variant == "dot" || forced.variant.starts_with("cm");
  const auto factor = [&] { return rounds ? sensitivity(fixture, answers, inputs, names) : 1.0; };
  compare(*pass, answers, names, inputs.size(), tolerance_of(forced.variant, fixture), factor, worst);
  return true;
}

std::shared_ptr<const Model> load_forced(const Fixture& fixture, const Forced& forced) {
  return load_in(fixture, forced.profile, forced.variant == "dot"); // it has no kernels for plain numbers
}

} // namespace

TEST_CASE("a dense model and a mixture hold with products shared out over subgroups") {
  size_t runs = 0;
  for (const Forced& forced : forced_variants()) {
    if (forced.variant != "subgroup" && forced.variant != "dot") continue;
    for (const char* name : {"llama-gqa", "mixtral-moe"}) {
      CAPTURE(name);
      CAPTURE(forced.variant);
      const std::filesystem::path folder = fixtures().model(name);
      const Fixture fixture{folder, folder / "expected.safetensors"};
      double worst = 0;
      CHECK(run(load_forced(fixture, forced), fixture, Answers(fixture.answers), forced, 1, worst));
      ++runs;
    }
  }
  if (runs == 0) skip("this device has no subgroups of 8");
}

TEST_CASE("every fixture holds with every kernel variant forced" * doctest::test_suite("long")) {
  const std::vector<Forced> profiles = forced_variants();
  std::map<std::string, size_t> models;
  std::map<std::string, double> worst;
  size_t turn = 0;
  for (const Fixture& fixture : all_fixtures()) {
    CAPTURE(fixture.model.string());
    const Answers answers(fixture.answers);
    ++turn;
    for (size_t i = 0; i < profiles.size(); ++i) {
      const Forced& forced = profiles[i];
      CAPTURE(forced.variant);
      if (fixture.takes_turns && (turn + i) % 3 != 0) continue;
      // Weights in 8 bits alone move a T5's answers by half their size.
      if (forced.variant == "dot" && is_t5(fixture)) continue;
      const auto model = load_forced(fixture, forced);
      // Where a variant has a part in both, all at once and token by token take turns too.
      const bool decodes = model->shape().has_decoder(), one = decodes && (turn + i) % 2 == 0;
      double& off = worst[forced.variant];
      models[forced.variant] += run(model, fixture, answers, forced, one ? 1 : 128, off) ||
                                (decodes && run(model, fixture, answers, forced, one ? 128 : 1, off));
    }
  }
  for (const Forced& forced : profiles) {
    CAPTURE(forced.variant);
    CHECK(models[forced.variant] > 0);
    MESSAGE(forced.variant << ": " << models[forced.variant] << " models, at most " << worst[forced.variant]
                           << " off");
  }
}

// Low-rank adapters beside the same adapters merged into the weights.
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "model/adapter.h"
#include "step/batch.h"
#include "support/command/messages.h"
#include "support/difference.h"
#include "support/files/converted.h"
#include "support/files/fixtures.h"
#include "support/files/made_adapter.h"
#include "support/files/random_model.h"
#include "support/llama_reference.h"
#include "support/model.h"
#include "support/session.h"
#include "support/vulkan/gpu.h"

using namespace pumice;

namespace {

nlohmann::json small_config() {
  return {{"model_type", "llama"},
          {"vocab_size", 203},
          {"hidden_size", 60},
          {"num_hidden_layers", 2},
          {"num_attention_heads", 6},
          {"num_key_value_heads", 3},
          {"head_dim", 10},
          {"intermediate_size", 101},
          {"max_position_embeddings", 100},
          {"rms_norm_eps", 1e-5},
          {"tie_word_embeddings", false},
          {"rope_parameters", {{"rope_theta", 10000.0}, {"rope_type", "default"}}}};
}

std::vector<uint32_t> some_ids(uint32_t count, uint32_t vocabulary, uint32_t seed = 7) {
  std::vector<uint32_t> ids;
  for (uint32_t i = 0; i < count; ++i) ids.push_back((i * i * 31 + i * seed + seed) % vocabulary);
  return ids;
}

std::shared_ptr<const Adapter> load_adapter(const std::filesystem::path& path, const Model& model) {
  return require(Adapter::load(path, model.definition(), model.file()));
}

// Logits [tokens, vocabulary] of the same tokens with each of these adapters, in steps that all of them
// share.
std::vector<std::vector<float>> logits_with(const std::shared_ptr<const Model>& model,
                                            const std::vector<uint32_t>& ids,
                                            const std::vector<AdapterChoice>& choices,
                                            const std::shared_ptr<const AdapterRoom>& room,
                                            uint32_t rows_each = 100) {
  const auto sequences = static_cast<uint32_t>(choices.size());
  RunnerOptions options;
  options.size.sequences = sequences;
  options.size.context = static_cast<uint32_t>(ids.size());
  options.size.chunk = sequences * options.size.context;
  options.size.cache = CacheType::f32;
  options.sampling = false;
  options.all_outputs = true;
  options.readable = {"logits"};
  options.adapters = room;
  const std::unique_ptr<Runner> runner = require(Runner::create(model, options));
  for (uint32_t i = 0; i < sequences; ++i) require(runner->set_adapter(i, choices[i]));
  std::vector<std::vector<float>> logits(sequences);
  const uint32_t count = static_cast<uint32_t>(ids.size());
  for (uint32_t first = 0; first < count; first += rows_each) {
    std::vector<StepToken> rows;
    const uint32_t end = std::min(first + rows_each, count);
    for (uint32_t at = first; at < end; ++at) { // their rows alternate
      for (uint32_t i = 0; i < sequences; ++i) rows.push_back({ids[at], at, i, 0, true});
    }
    require(runner->write_step(rows));
    (void)require(runner->submit(static_cast<uint32_t>(rows.size())));
    const std::vector<float> all = require(runner->read("logits", static_cast<uint32_t>(rows.size())));
    const size_t columns = runner->columns("logits");
    for (size_t row = 0; row < rows.size(); ++row) {
      const auto begin = all.begin() + static_cast<ptrdiff_t>(row * columns);
      std::vector<float>& into = logits[rows[row].sequence];
      into.insert(into.end(), begin, begin + static_cast<ptrdiff_t>(columns));
    }
  }
  return logits;
}

std::vector<float> as_floats(const std::vector<double>& values) {
  return {values.begin(), values.end()};
}

} // namespace

// Several of them, of several types of numbers, and none, in one step, beside a reference in 64 bits with
// merged weights.
TEST_CASE("adapters give the logits of merged weights") {
  const TemporaryFolder folder;
  write_random_model(folder, small_config());
  const auto model = load_model(folder.path());
  const ModelFile file = require(ModelFile::open(folder.path()));
  const std::vector<uint32_t> ids = some_ids(21, 203);
  const std::vector<std::string> all = {"q_proj",    "k_proj",  "v_proj",    "o_proj",
                                        "gate_proj", "up_proj", "down_proj", "lm_head"};
  struct Case {
    std::vector<std::string> first, second;
    uint32_t first_rank, second_rank;
    uint32_t rows_each;
    TensorType first_numbers = TensorType::f32, second_numbers = TensorType::f32;
  };
  for (const Case& c :
       {Case{{"q_proj", "v_proj"}, {"q_proj", "v_proj"}, 3, 16, 100}, Case{all, all, 16, 1, 100},
        Case{all, {"down_proj"}, 9, 4, 1}, Case{{"gate_proj"}, {"k_proj", "lm_head"}, 5, 2, 7},
        Case{all, all, 17, 3, 7, TensorType::f16, TensorType::f16},
        Case{all, {"up_proj"}, 1, 5, 100, TensorType::bf16, TensorType::bf16},
        Case{all, all, 3, 8, 100, TensorType::f16, TensorType::bf16}}) {
    CAPTURE(c.first.size());
    const bool halves = c.first_numbers != TensorType::f32;
    MadeAdapter a = make_adapter(file, c.first, c.first_rank, 1);
    MadeAdapter b = make_adapter(file, c.second, c.second_rank, 2);
    if (halves) a = rounded(std::move(a), c.first_numbers);
    if (halves) b = rounded(std::move(b), c.second_numbers);
    b.stabilized = true;
    write_peft(a, folder.path() / "a");
    write_peft(b, folder.path() / "b");
    const std::vector<std::shared_ptr<const Adapter>> adapters = {load_adapter(folder.path() / "a", *model),
                                                                  load_adapter(folder.path() / "b", *model)};
    const bool alike = c.first_numbers == c.second_numbers;
    CHECK(room_for(adapters, 3)->numbers == (alike ? c.first_numbers : TensorType::f32));
    const auto logits =
        logits_with(model, ids, {{adapters[0], 1}, {}, {adapters[1], -0.5f}, {adapters[0], 0.25f}},
                    room_for(adapters, 3), c.rows_each);
    CHECK(largest_difference(logits[1], as_floats(llama_reference(file, ids))) < 1e-4);
    struct Merged {
      const MadeAdapter& adapter;
      float scale;
      size_t sequence;
    };
    for (const Merged& merged : {Merged{a, 1, 0}, Merged{b, -0.5f, 2}, Merged{a, 0.25f, 3}}) {
      CAPTURE(merged.sequence);
      write_merged(file, merged.adapter, merged.scale, folder.path() / "merged");
      const ModelFile changed = require(ModelFile::open(folder.path() / "merged"));
      const std::vector<float> expected = as_floats(llama_reference(changed, ids));
      CHECK(largest_difference(logits[merged.sequence], expected) < 1e-4);
      CHECK(largest_difference(logits[merged.sequence], logits[1]) > 1e-2); // it does something
    }
  }
}

// Products of CPU drivers add adapters themselves, those of others leave that to launches of their own.
TEST_CASE("adapters give the same logits in products and behind them") {
  const TemporaryFolder folder;
  write_random_model(folder, small_config());
  const auto model = load_model(folder.path());
  if (!model->context().profile.cpu8) return;
  DeviceContext context = test_context();
  context.profile = {};
  const auto other = require(Model::load(folder.path(), context));
  const ModelFile file = require(ModelFile::open(folder.path()));
  write_peft(make_adapter(
                 file, {"q_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj", "lm_head"}, 5, 1),
             folder.path() / "a");
  const auto adapter = load_adapter(folder.path() / "a", *model);
  const auto room = room_for(std::array{adapter}, 2);
  const std::vector<uint32_t> ids = some_ids(11, 203);
  const std::vector<AdapterChoice> choices = {{adapter, 1}, {}, {adapter, -0.5f}};
  const auto in_products = logits_with(model, ids, choices, room),
             behind = logits_with(other, ids, choices, room);
  for (size_t i = 0; i < choices.size(); ++i) CHECK(largest_difference(in_products[i], behind[i]) < 1e-4);
  // One row at a time, and beside those of other texts.
  CHECK(logits_with(model, ids, {choices[0]}, room, 1)[0] == in_products[0]);
  CHECK(logits_with(model, ids, choices, room, 7) == in_products);
}

TEST_CASE("several adapters together are one") {
  const TemporaryFolder folder;
  write_random_model(folder, small_config());
  const auto model = load_model(folder.path());
  const ModelFile file = require(ModelFile::open(folder.path()));
  const std::vector<uint32_t> ids = some_ids(9, 203);
  const MadeAdapter a = rounded(make_adapter(file, {"q_proj", "up_proj"}, 3, 1), TensorType::f16);
  const MadeAdapter b = rounded(make_adapter(file, {"q_proj", "o_proj"}, 5, 2), TensorType::f16);
  write_peft(a, folder.path() / "a");
  write_peft(b, folder.path() / "b");
  const AdapterChoice both =
      combined(std::array{AdapterChoice{load_adapter(folder.path() / "a", *model), 0.5f},
                          AdapterChoice{load_adapter(folder.path() / "b", *model), 2}});
  CHECK(both.adapter->rank() == 8);
  CHECK(both.adapter->numbers() == TensorType::f16);
  const auto logits = logits_with(model, ids, {both}, room_for(std::array{both.adapter}, 1));
  write_merged(file, a, 0.5, folder.path() / "half");
  write_merged(require(ModelFile::open(folder.path() / "half")), b, 2, folder.path() / "merged");
  const ModelFile merged = require(ModelFile::open(folder.path() / "merged"));
  CHECK(largest_difference(logits[0], as_floats(llama_reference(merged, ids))) < 1e-4);
}

// Products of other forms: transposed, interleaved, with biases, activations and gates, side by side.
TEST_CASE("adapters of other architectures") {
  struct Case {
    const char* name;
    std::vector<std::string> ends;
    bool transposed = false;
  };
  for (const Case& c :
       {Case{"phi3", {"qkv_proj", "o_proj", "gate_up_proj", "down_proj"}},
        Case{"gpt2", {"c_attn", "c_proj", "c_fc"}, true},
        Case{"gpt-neox", {"query_key_value", "attention.dense", "dense_h_to_4h", "dense_4h_to_h"}},
        Case{"gemma2", {"q_proj", "v_proj", "gate_proj", "down_proj"}},
        Case{"cohere", {"q_proj", "up_proj", "down_proj"}},
        Case{"falcon", {"query_key_value", "dense_h_to_4h"}}, Case{"phi", {"q_proj", "v_proj", "fc1", "fc2"}},
        Case{"qwen2", {"q_proj", "k_proj", "v_proj", "o_proj", "up_proj"}},
        Case{"gpt-oss", {"q_proj", "v_proj", "o_proj"}},
        Case{"lfm2", {"in_proj", "out_proj", "w1", "w2", "w3"}},
        Case{"qwen3-next", {"q_proj", "o_proj", "out_proj"}}, Case{"deepseek-v3", {"q_b_proj", "o_proj"}}}) {
    CAPTURE(c.name);
    const std::filesystem::path base = fixtures().model(c.name);
    const auto model = load_model(base);
    const ModelFile file = require(ModelFile::open(base));
    const std::vector<uint32_t> ids = some_ids(11, model->shape().vocabulary);
    const TemporaryFolder folder;
    const MadeAdapter made = make_adapter(file, c.ends, 4, 3, c.transposed);
    REQUIRE(made.pairs.size() >= c.ends.size());
    write_peft(made, folder.path() / "adapter");
    const auto adapter = load_adapter(folder.path() / "adapter", *model);
    const auto logits = logits_with(model, ids, {{adapter, 1}, {}}, room_for(std::array{adapter}, 1));
    ForwardOptions options;
    const std::vector<float> plain = forward(model, ids, options).at("logits");
    CHECK(relative_rms(logits[1], plain) < 1e-4);
    write_merged(file, made, 1, folder.path() / "merged", c.transposed);
    const std::vector<float> expected =
        forward(load_model(folder.path() / "merged"), ids, options).at("logits");
    CHECK(relative_rms(logits[0], expected) < 1e-4);
    CHECK(relative_rms(logits[0], plain) > 1e-3);
  }
}

// An adapter's names may be of either form of the model, whose rows differ.
TEST_CASE("adapters in the names of the model's other form") {
  const std::filesystem::path base = fixtures().model("llama-gqa");
  const ModelFile file = require(ModelFile::open(base));
  const TemporaryFolder folder;
  convert_to(folder.path() / "model.gguf", base, TensorType::f32);
  const auto hugging_face = load_model(base), gguf = load_model(folder.path() / "model.gguf");
  const MadeAdapter made =
      rounded(make_adapter(file, {"q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "down_proj"}, 4, 5),
              TensorType::bf16);
  write_peft(made, folder.path() / "peft");
  // llama.cpp's converter reorders the rows of queries and keys as it does those of the weights.
  MadeAdapter reordered = made;
  for (MadeAdapter::Pair& pair : reordered.pairs) {
    const bool query = pair.module.ends_with("q_proj");
    if (!query && !pair.module.ends_with("k_proj")) continue;
    const uint32_t heads = query ? 4 : 2, dim = pair.rows / heads;
    const std::vector<float> from = pair.up;
    for (uint32_t row = 0; row < pair.rows; ++row) {
      const uint32_t of = row % dim, source = row - of + of / 2 + of % 2 * dim / 2;
      std::copy_n(from.begin() + source * pair.rank, pair.rank, pair.up.begin() + row * pair.rank);
    }
  }
  write_gguf_adapter(reordered, folder.path() / "adapter.gguf", [](const std::string& module) {
    const std::string layer = module.substr(std::string("model.layers.").size(), 1);
    const std::pair<const char*, const char*> names[] = {
        {"q_proj", "attn_q"},      {"k_proj", "attn_k"},      {"v_proj", "attn_v"},
        {"o_proj", "attn_output"}, {"gate_proj", "ffn_gate"}, {"down_proj", "ffn_down"}};
    for (const auto& [own, other] : names) {
      if (module.ends_with(own)) return "blk." + layer + "." + other;
    }
    return module;
  });
  write_merged(file, made, 1, folder.path() / "merged");
  const std::vector<uint32_t> ids = some_ids(15, 320);
  const std::vector<float> expected =
      as_floats(llama_reference(require(ModelFile::open(folder.path() / "merged")), ids));
  for (const char* name : {"peft", "adapter.gguf"}) {
    CAPTURE(name);
    for (const auto& model : {hugging_face, gguf}) {
      const auto adapter = load_adapter(folder.path() / name, *model);
      const auto logits = logits_with(model, ids, {{adapter, 1}}, room_for(std::array{adapter}, 1));
      CHECK(largest_difference(logits[0], expected) < 1e-4);
    }
  }
}

TEST_CASE("the ranks and factors of an adapter's modules") {
  const std::filesystem::path base = fixtures().model("llama-gqa");
  const ModelFile file = require(ModelFile::open(base));
  const auto model = load_model(base);
  const TemporaryFolder folder;
  MadeAdapter made = make_adapter(file, {"q_proj", "v_proj"}, 4, 5);
  const auto with = [&](nlohmann::ordered_json more) {
    made.more = std::move(more);
    write_peft(made, folder.path() / "a");
    return Adapter::load(folder.path() / "a", model->definition(), model->file());
  };
  const auto first_up = [&](nlohmann::ordered_json more) {
    const auto adapter = require(with(std::move(more)));
    const AdapterMatrix& matrix = adapter->matrices().at({"model.layers.0.self_attn.q_proj.weight", 0});
    return matrix.scales[0] * matrix.up[0];
  };
  const float usual = first_up({});
  CHECK(first_up({{"lora_alpha", 16}}) == doctest::Approx(2 * usual));
  CHECK(first_up({{"use_rslora", true}}) == doctest::Approx(2 * usual)); // sqrt(4) instead of 4
  CHECK(first_up({{"alpha_pattern", {{"q_proj", 24}}}}) == doctest::Approx(3 * usual));
  CHECK(first_up({{"alpha_pattern", {{"layers.1.self_attn.q_proj", 24}}}}) == doctest::Approx(usual));
  CHECK(first_up({{"alpha_pattern", {{"v_proj", 1}, {"layers\\.\\d+\\..*q_proj", 4}}}}) ==
        doctest::Approx(usual / 2));
  CHECK(first_up({{"r", 9}, {"rank_pattern", {{"q_proj", 4}, {"v_proj", 4}}}}) == doctest::Approx(usual));
  CHECK(says(with({{"r", 9}}), {"adapter_config.json", "'r'", "q_proj", "9", "4"}) == "");
  CHECK(says(with({{"rank_pattern", {{"q_proj", 5}}}}), {"rank_pattern", "5", "4"}) == "");
  CHECK(says(with({{"r", 0}}), {"adapter_config.json", "'r'", "0"}) == "");
  CHECK(says(with({{"alpha_pattern", 7}}), {"alpha_pattern", "7"}) == "");
  CHECK(says(with({{"alpha_pattern", {{"(", 7}}}}), {"adapter_config.json", "alpha_pattern", "("}) == "");
  for (const char* name : {"use_dora", "lora_bias"}) CHECK(says(with({{name, true}}), {name}) == "");
  CHECK(says(with({{"bias", "all"}}), {"'bias'", "all"}) == "");
  CHECK(says(with({{"modules_to_save", {"lm_head"}}}), {"modules_to_save"}) == "");
  CHECK(says(with({{"peft_type", "IA3"}}), {"peft_type", "IA3"}) == "");
  CHECK(says(with({{"init_lora_weights", "pissa_niter_4"}}), {"init_lora_weights", "pissa"}) == "");
}

TEST_CASE("adapters that do not fit") {
  const std::filesystem::path base = fixtures().model("llama-gqa");
  const ModelFile file = require(ModelFile::open(base));
  const auto model = load_model(base);
  const TemporaryFolder folder;
  const MadeAdapter made = make_adapter(file, {"q_proj"}, 4, 5);
  const auto load = [&](const std::string& name) {
    return Adapter::load(folder.path() / name, model->definition(), model->file());
  };
  const auto changed = [&](const auto& change) {
    MadeAdapter other = made;
    change(other);
    write_peft(other, folder.path() / "a");
    return load("a");
  };
  REQUIRE(changed([](MadeAdapter&) {}).ok());
  CHECK(says(load("nothing"), {"nothing"}) == "");
  std::filesystem::create_directories(folder.path() / "empty");
  CHECK(says(load("empty"), {"empty", "adapter_config.json"}) == "");
  CHECK(says(changed([](MadeAdapter& a) { a.pairs.clear(); }), {"no tensors"}) == "");
  CHECK(says(changed([](MadeAdapter& a) { a.pairs[0].module = "model.layers.7.self_attn.q_proj"; }),
             {"model.layers.7.self_attn.q_proj", "nearest"}) == "");
  CHECK(says(changed([](MadeAdapter& a) { a.pairs[0].module = "model.embed_tokens"; }),
             {"model.embed_tokens", "embeddings"}) == "");
  CHECK(says(changed([](MadeAdapter& a) {
               a.pairs[0].columns = 32;
               a.pairs[0].down.resize(4 * 32);
             }),
             {"q_proj", "64 columns", "32", "another model's"}) == "");
  CHECK(says(changed([](MadeAdapter& a) {
               a.pairs[0].rows = 8;
               a.pairs[0].up.resize(4 * 8);
             }),
             {"q_proj", "64 rows", "8"}) == "");
  CHECK(says(changed([](MadeAdapter& a) { a.pairs[0].up[3] = NAN; }), {"lora_B", "nan"}) == "");
  // A tensor alone, or of another kind.
  const auto with_tensors = [&](std::vector<SafetensorsFile::Entry> entries) {
    require(write_safetensors(folder.path() / "a" / "adapter_model.safetensors", entries));
    return load("a");
  };
  const std::vector<float> numbers(4 * 64);
  const std::span<const std::byte> data = std::as_bytes(std::span(numbers));
  const std::string q = "base_model.model.model.layers.0.self_attn.q_proj.";
  CHECK(says(with_tensors({{q + "lora_A.weight", "F32", {4, 64}, data}}), {"lora_A", "other half"}) == "");
  CHECK(says(with_tensors(
                 {{q + "lora_A.weight", "F32", {4, 64}, data}, {q + "lora_B.weight", "F32", {32, 8}, data}}),
             {"lora_A", "lora_B", "rank"}) == "");
  CHECK(says(with_tensors(
                 {{q + "lora_A.weight", "F32", {0, 64}, {}}, {q + "lora_B.weight", "F32", {64, 0}, {}}}),
             {"lora_A", "[0, 64]"}) == "");
  CHECK(says(with_tensors({{q + "lora_magnitude_vector", "F32", {256}, data}}), {"DoRA"}) == "");
  CHECK(says(with_tensors({{"base_model.model.lm_head.weight", "F32", {4, 64}, data}}), {"lm_head"}) == "");
  folder.write("a/adapter_model.safetensors", "damaged");
  CHECK(says(load("a"), {"adapter_model.safetensors"}) == "");
  folder.write("damaged.gguf", "GGUF");
  CHECK(says(load("damaged.gguf"), {"damaged.gguf"}) == "");
  convert_to(folder.path() / "model.gguf", base, TensorType::f32);
  CHECK(says(load("model.gguf"), {"model.gguf", "general.type"}) == "");
}

namespace {

std::vector<uint32_t> text_of(Batch& batch, uint32_t id) {
  std::vector<uint32_t> tokens;
  while (batch.sequences() > 0) {
    const std::span<const BatchToken> sampled = require(batch.step());
    for (const BatchToken& token : sampled) {
      if (token.sequence == id) tokens.push_back(token.token);
    }
  }
  return tokens;
}

} // namespace

TEST_CASE("texts of a batch with adapters of their own") {
  const std::filesystem::path base = fixtures().model("llama-gqa");
  const ModelFile file = require(ModelFile::open(base));
  const auto model = load_model(base);
  const TemporaryFolder folder;
  std::vector<std::shared_ptr<const Adapter>> adapters;
  for (uint32_t i = 0; i < 3; ++i) {
    write_peft(make_adapter(file, {"q_proj", "v_proj", "down_proj"}, 2 + 3 * i, 40 + i), folder.path() / "a");
    adapters.push_back(load_adapter(folder.path() / "a", *model));
  }
  const std::vector<AdapterChoice> choices = {
      {}, {adapters[0], 2}, {adapters[1], 1}, {adapters[2], 1}, {adapters[0], -1}, {adapters[1], 1}};
  const std::vector<uint32_t> prompt = some_ids(20, 320);
  SessionOptions options;
  options.size.context = 100;
  options.size.cache = CacheType::f32;
  options.adapters = room_for(adapters, 2);
  const auto request = [&](const AdapterChoice& choice) {
    SequenceRequest sequence;
    sequence.prompt = prompt;
    sequence.max_tokens = 12;
    sequence.adapter = choice;
    return sequence;
  };
  std::vector<std::vector<uint32_t>> alone;
  const auto one = require(Batch::create(model, options));
  for (const AdapterChoice& choice : choices) {
    const uint32_t id = require(one->add(request(choice)));
    alone.push_back(text_of(*one, id));
    CHECK(alone.back().size() == 12);
  }
  // What one adapter has computed is nothing to another one, or to another scale.
  CHECK(alone[1] != alone[0]);
  CHECK(alone[4] != alone[1]);
  CHECK(alone[5] == alone[2]);
  SessionOptions none = options;
  none.adapters.reset();
  const auto without = require(Batch::create(model, none));
  CHECK(text_of(*without, require(without->add(request({})))) == alone[0]);
  CHECK(says(without->add(request({adapters[0], 1})), {"no room"}) == "");

  // Places for numbers of 16 bits have no room for others.
  write_peft(rounded(make_adapter(file, {"q_proj"}, 2, 40), TensorType::f16), folder.path() / "half");
  SessionOptions half = options;
  half.adapters = room_for(std::array{load_adapter(folder.path() / "half", *model)}, 1);
  write_peft(make_adapter(file, {"q_proj"}, 2, 41), folder.path() / "whole");
  const auto halves = require(Batch::create(model, half));
  CHECK(says(halves->add(request({load_adapter(folder.path() / "whole", *model), 1})),
             {"whole", "F32", "F16"}) == "");

  // With two places for three adapters: who finds none waits.
  options.size.sequences = 4;
  const auto batch = require(Batch::create(model, options));
  std::map<uint32_t, std::vector<uint32_t>> texts;
  std::vector<uint32_t> ids;
  for (const AdapterChoice& choice : choices) ids.push_back(require(batch->add(request(choice))));
  adapters.clear(); // the texts keep theirs
  while (batch->sequences() > 0) {
    const std::span<const BatchToken> tokens = require(batch->step());
    for (const BatchToken& token : tokens) texts[token.sequence].push_back(token.token);
  }
  for (size_t i = 0; i < choices.size(); ++i) {
    CAPTURE(i);
    CHECK(texts[ids[i]] == alone[i]);
  }
  // The same text again finds its keys and values; with another adapter it does not.
  const uint32_t again = require(batch->add(request(choices[5])));
  (void)require(batch->step());
  CHECK(batch->reused(again) == prompt.size() - 1);
  require(batch->stop_all());
  AdapterChoice other = choices[5];
  other.scale = 0.5f;
  const uint32_t changed = require(batch->add(request(other)));
  (void)require(batch->step());
  CHECK(batch->reused(changed) == 0);
}

TEST_CASE("a conversation whose adapter changes, is saved and forked") {
  const std::filesystem::path base = fixtures().model("llama-gqa");
  const ModelFile file = require(ModelFile::open(base));
  const auto model = load_model(base);
  const TemporaryFolder folder;
  write_peft(make_adapter(file, {"q_proj", "v_proj", "up_proj"}, 4, 50), folder.path() / "a");
  const auto adapter = load_adapter(folder.path() / "a", *model);
  SessionOptions options;
  options.size.context = 100;
  options.size.cache = CacheType::f32;
  options.adapters = room_for(std::array{adapter}, 1);
  const auto make = [&] { return require(Session::create(model, options)); };
  const std::vector<uint32_t> prompt = some_ids(20, 320);
  const auto continued = [&](Session& session, const AdapterChoice& choice) {
    require(session.set_adapter(choice));
    require(session.set_prompt(prompt, {}));
    return take(session, 10);
  };
  const auto plain = continued(*make(), {}), with = continued(*make(), {adapter, 1.5f});
  CHECK(plain != with);
  const auto session = make();
  CHECK(continued(*session, {}) == plain);
  CHECK(continued(*session, {adapter, 1.5f}) == with);
  CHECK(session->reused() == 0);
  CHECK(continued(*session, {}) == plain);
  CHECK(continued(*session, {adapter, 1.5f}) == with);

  // Goes on as the first one would, and computes again what it cannot know.
  const auto next = take(*session, 5);
  CHECK(continued(*session, {adapter, 1.5f}) == with);
  const auto fork = make();
  require(fork->copy(*session));
  CHECK(take(*fork, 5) == next);
  CHECK(fork->reused() > 0);
  require(session->save(folder.path() / "saved"));
  const auto restored = make();
  require(restored->restore(folder.path() / "saved"));
  require(restored->set_adapter({adapter, 1.5f}));
  CHECK(take(*restored, 5) == next);
  CHECK(restored->reused() == 0);
  require(session->suspend());
  require(session->resume(model));
  CHECK(take(*session, 5) == next);

  // How probable continuations are follows from the adapter, too.
  const std::vector<std::vector<uint32_t>> continuations = {{5, 6}, {7}};
  (void)continued(*session, {});
  const auto scored_plain = require(session->score(continuations, 2));
  (void)continued(*session, {adapter, 1.5f});
  const auto scored = require(session->score(continuations, 2));
  CHECK(std::abs(scored[0][0] - scored_plain[0][0]) > 1e-3);
}

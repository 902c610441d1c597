// Sizes that no model in the fixtures has, against a plain reference.
#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "support/files/random_model.h"
#include "support/in_turn.h"
#include "support/llama_reference.h"
#include "support/model.h"
#include "support/vulkan/gpu.h"
#include "support/vulkan/row_bits.h"

using namespace pumice;

namespace {

struct Sizes {
  uint32_t vocabulary, hidden, layers, heads, kv_heads, head_dim, feed_forward;
};

nlohmann::json config(const Sizes& sizes) {
  return {{"model_type", "llama"},
          {"vocab_size", sizes.vocabulary},
          {"hidden_size", sizes.hidden},
          {"num_hidden_layers", sizes.layers},
          {"num_attention_heads", sizes.heads},
          {"num_key_value_heads", sizes.kv_heads},
          {"head_dim", sizes.head_dim},
          {"intermediate_size", sizes.feed_forward},
          {"max_position_embeddings", 100},
          {"rms_norm_eps", 1e-5},
          {"tie_word_embeddings", false},
          {"rope_parameters", {{"rope_theta", 10000.0}, {"rope_type", "default"}}}};
}

} // namespace

// Each model whole and in steps of some length; a long run has each with each.
TEST_CASE("sizes that are multiples of nothing") {
  size_t turn = 0;
  // clang-format off
  //                          vocabulary hidden layers heads kv_heads head_dim feed_forward
  for (const Sizes& sizes : {Sizes{203,      60,    2,    6,      3,      10,      101},
                             Sizes{1,         2,    1,    1,      1,       2,        1},
                             Sizes{97,       33,    3,    5,      1,       6,       67},
                             Sizes{331,     130,    1,    9,      3,      34,      257},
                             Sizes{65,      100,    2,    2,      2,     300,       31}}) {
    // clang-format on
    CAPTURE(sizes.hidden);
    const TemporaryFolder folder;
    write_random_model(folder, config(sizes));
    const auto model = load_model(folder.path());
    std::vector<uint32_t> ids;
    for (uint32_t i = 0; i < 45; ++i) ids.push_back((i * i * 31 + 7) % sizes.vocabulary);
    const std::vector<double> reference = llama_reference(model->file(), ids);
    ForwardOptions options;
    const auto whole = forward(model, ids, options);
    CHECK(relative_rms(whole.at("logits"), std::vector<float>(reference.begin(), reference.end())) <= 1e-4);
    for (const auto& [chunk, beside] :
         turn_of(std::array{std::pair(1u, 0u), std::pair(7u, 2u), std::pair(33u, 1u)}, turn++)) {
      options.chunk = chunk;
      options.beside = beside;
      CHECK(same_in_any_step(forward(model, ids, options), whole));
    }
  }
}

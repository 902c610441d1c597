#include "convert/mixture.h"

#include <map>

#include <doctest/doctest.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

using namespace pumice;
using nlohmann::json;

namespace {

// A llama of so many layers, with four heads to each pair of keys and values.
struct Llama {
  std::vector<std::string> names = {"token_embd.weight", "output.weight"};
  json settings;
  size_t layers;

  explicit Llama(size_t count, uint32_t experts = 0) : layers(count) {
    settings = {{"llama.block_count", count},
                {"llama.expert_count", experts},
                {"llama.attention.head_count", 32},
                {"llama.attention.head_count_kv", 8}};
    for (size_t layer = 0; layer < count; ++layer) {
      for (const char* matrix :
           {"attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down"})
        names.push_back(fmt::format("blk.{}.{}.weight", layer, matrix));
    }
  }

  std::map<std::string, std::string> types(const char* mixture, bool importance = false) const {
    const auto found = find_mixture(mixture);
    REQUIRE(found.ok());
    const MixtureTypes types(*found, {}, "llama", settings, names, importance);
    std::map<std::string, std::string> all;
    for (const std::string& name : names) all[name] = info(types.of(name, false, 4096).type).name;
    return all;
  }

  // How many matrices of a mixture have each type.
  std::map<std::string, size_t> counts(const char* mixture) const {
    std::map<std::string, size_t> counts;
    for (const auto& [name, type] : types(mixture)) ++counts[type];
    return counts;
  }
};

using Counts = std::map<std::string, size_t>;

} // namespace

// What llama.cpp says of the published files of Llama 3 8B: 226 matrices.
TEST_CASE("mixtures: as many matrices of each type as llama-quantize makes of 32 layers") {
  const Llama llama(32);
  CHECK(llama.counts("Q4_K_M") == Counts{{"Q4_K", 193}, {"Q6_K", 33}});
  CHECK(llama.counts("Q5_K_M") == Counts{{"Q5_K", 193}, {"Q6_K", 33}});
  CHECK(llama.counts("Q4_K_S") == Counts{{"Q4_K", 217}, {"Q5_K", 8}, {"Q6_K", 1}});
  CHECK(llama.counts("Q5_K_S") == Counts{{"Q5_K", 225}, {"Q6_K", 1}});
  CHECK(llama.counts("Q3_K_M") == Counts{{"Q3_K", 129}, {"Q4_K", 92}, {"Q5_K", 4}, {"Q6_K", 1}});
  CHECK(llama.counts("Q3_K_L") == Counts{{"Q3_K", 129}, {"Q5_K", 96}, {"Q6_K", 1}});
  CHECK(llama.counts("Q2_K") == Counts{{"Q2_K", 129}, {"Q3_K", 64}, {"Q4_K", 32}, {"Q6_K", 1}});
  CHECK(llama.counts("Q4_0") == Counts{{"Q4_0", 225}, {"Q6_K", 1}});
  CHECK(llama.counts("Q8_0") == Counts{{"Q8_0", 226}});
  CHECK(llama.counts("F16") == Counts{{"F16", 226}});
  CHECK(llama.counts("IQ4_XS") == Counts{{"IQ4_XS", 189}, {"Q5_K", 36}, {"Q6_K", 1}});
  CHECK(llama.types("Q4_K_M").at("blk.6.ffn_down.weight") == "Q6_K");
  CHECK(llama.types("Q4_K_M").at("blk.7.attn_v.weight") == "Q4_K");
  CHECK(llama.types("Q4_0", true).at("blk.3.ffn_down.weight") == "Q4_1");
}

TEST_CASE("mixtures: eight experts, tied embeddings, 80 layers, and rows that do not fit") {
  const Llama experts(32, 8);
  CHECK(experts.types("Q4_K_M").at("blk.7.attn_v.weight") == "Q8_0");
  CHECK(experts.types("Q4_K_M").at("blk.7.attn_k.weight") == "Q8_0");
  CHECK(experts.types("Q4_K_M").at("blk.7.attn_output.weight") == "Q5_K");
  Llama tied(4);
  std::erase(tied.names, "output.weight");
  CHECK(tied.types("Q4_K_M").at("token_embd.weight") == "Q6_K");
  CHECK(Llama(4).types("Q4_K_M").at("token_embd.weight") == "Q4_K");
  CHECK(Llama(80).types("Q4_K_S").at("blk.30.attn_v.weight") == "Q5_K");
  CHECK(fitting_type(TensorType::q4_k, 96).type == TensorType::q5_0);
  CHECK(fitting_type(TensorType::q6_k, 96).type == TensorType::q8_0);
  CHECK(fitting_type(TensorType::iq4_xs, 96).type == TensorType::iq4_nl);
  CHECK(fitting_type(TensorType::q3_k, 40).type == TensorType::f16);
  CHECK(fitting_type(TensorType::q3_k, 40).fell_back);
  CHECK(!fitting_type(TensorType::q3_k, 512).fell_back);
  CHECK(!find_mixture("Q9").ok());
  CHECK(find_mixture("q4_k_m")->file_type == 15);
}

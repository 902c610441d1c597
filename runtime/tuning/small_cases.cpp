#include "tuning/small_cases.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <optional>
#include <tuple>

#include <fmt/format.h>

#include "kernel/attention/attention.h"
#include "kernel/weight_packing.h"
#include "shaders/attention/attention.params.h"
#include "shaders/matmul/matmul.params.h"
#include "shaders/norm/norm.params.h"
#include "tuning/attention_case.h"
#include "tuning/experts_case.h"
#include "tuning/norm_case.h"
#include "tuning/product_case.h"
#include "tuning/recurrence_case.h"

namespace pumice {

namespace {

// The words of a class of shapes: see matmul_shape_class() and its like.
class ClassWords {
public:
  explicit ClassWords(std::string_view name) {
    for (size_t end = 0; end != name.npos; name.remove_prefix(end + 1)) {
      end = name.find(' ');
      words_.emplace_back(name.substr(0, end));
      if (end == name.npos) break;
    }
  }

  std::string_view word(size_t i) const { return i < words_.size() ? std::string_view(words_[i]) : ""; }
  uint32_t number(size_t i) const {
    return i < words_.size() ? static_cast<uint32_t>(std::strtoul(words_[i].c_str(), nullptr, 10)) : 0;
  }
  bool has(std::string_view word) const { return std::ranges::find(words_, word) != words_.end(); }

private:
  std::vector<std::string> words_;
};

std::optional<TensorType> weight_type(std::string_view kernel_name) {
  for (const TensorTypeInfo& each : tensor_types()) {
    if (kernel_variant(each.type) == kernel_name) return each.type;
  }
  return {};
}

// Few rows and many are different kernels.
uint32_t few_or_many(uint32_t rows, uint32_t many) {
  return rows <= 8 ? rows : many;
}

// Where drivers take seconds to compile a kernel, the model's own kernel: with its rows to a workgroup, its
// columns and its bias. Not where it does more than that.
void take_own_kernel(ProductCase& c, const ClassWords& words, const Dispatch& dispatch) {
  const uint32_t epilogue = dispatch.constants[MATMUL_EPILOGUE_ID];
  if (!dispatch.kernel.starts_with("matmul.cpu8.") || words.number(2) <= 8 ||
      (epilogue & ~EPILOGUE_BIAS) != 0)
    return;
  const uint32_t rows = dispatch.constants[MATMUL_ROWS_ID];
  c.rows = rows <= 16 || rows == 32 ? rows : 2 * rows; // for which the kernel has the same shape
  c.columns = words.number(6);
  if (epilogue == EPILOGUE_BIAS) c.kind = ProductCase::Kind::bias;
}

std::vector<KernelCaseName> product_cases(const ClassWords& words, const Dispatch& dispatch) {
  const std::optional<TensorType> type = weight_type(words.word(1));
  if (!type) return {};
  if (words.has("routed")) return {named_case("matmul", experts_case(*type, words.number(2)))};
  ProductCase c;
  c.type = *type;
  c.rows = few_or_many(words.number(2), 13);
  c.results = 40;
  c.columns = info(c.type).block_size > 32 ? 512 : 416;
  take_own_kernel(c, words, dispatch);
  return {named_case("matmul", c)};
}

// With the model's heads, because what runs may depend on their number.
std::vector<KernelCaseName> attention_cases(const ClassWords& words, const Dispatch& dispatch) {
  const std::string& kernel = dispatch.kernel;
  if (!kernel.starts_with("attention")) return {}; // what stores keys and values before it
  const std::optional<CacheType> type = find_cache_type(words.word(1));
  AttentionCase c;
  c.heads = words.number(4);
  c.head_dim = words.number(6);
  c.kv_heads = words.number(8);
  if (!type || c.heads == 0 || c.head_dim == 0 || c.kv_heads == 0 || c.heads % c.kv_heads != 0) return {};
  c.cache = *type;
  c.rows = few_or_many(words.number(2), 17);
  c.past = 9;
  if (kernel.starts_with(projecting_attention)) {
    c.projected = weight_type(std::string_view(kernel).substr(projecting_attention.size()));
    return {named_case("attention", c)};
  }
  c.heads /= c.kv_heads;
  c.kv_heads = 1;
  if (dispatch.constants[ATTENTION_MASK_ID] == ATTENTION_MASK_BIDIRECTIONAL) {
    c.both_ways = true;
    c.past = 0;
    return {named_case("attention", c)};
  }
  AttentionCase divided = c; // among workgroups
  divided.past = 700;
  return {named_case("attention", c), named_case("attention", divided)};
}

// With the model's sizes, because what runs depends on them, of as many heads as share a state's keys. Many
// rows are two chunks (shaders/recurrence/chunks.params.h).
std::vector<KernelCaseName> recurrence_cases(const ClassWords& words) {
  RecurrenceCase c;
  c.kind =
      words.word(0) == "delta_rule" ? RecurrenceCase::Kind::delta_rule : RecurrenceCase::Kind::selective_scan;
  c.rows = few_or_many(words.number(2), 33);
  c.heads = words.number(4);
  c.head_dim = words.number(6);
  c.groups = words.number(8);
  c.size = words.number(10);
  if (c.head_dim == 0 || c.groups == 0 || c.size == 0 || c.heads % c.groups != 0 || c.heads == 0) return {};
  c.wide = words.has("wide");
  c.heads = std::min(c.heads / c.groups, c.wide ? 33u : 2u);
  c.groups = 1;
  c.past = 9;
  return {named_case(c.family(), c)};
}

std::vector<KernelCaseName> norm_cases(const Dispatch& dispatch) {
  NormCase c;
  c.kind = dispatch.constants[NORM_KIND_ID] == NORM_KIND_RMS ? NormKind::rms : NormKind::layer;
  c.bias = dispatch.constants[NORM_HAS_BIAS_ID] != 0;
  c.rows = 3;
  c.columns = 200;
  return {named_case("norm", c)};
}

// `kind`: what launches have in common that need one case together.
SmallCase small_case(const Plan& plan, const PlannedDispatch& planned, std::string& kind) {
  SmallCase made;
  made.flops = planned.dispatch.flops;
  if (!planned.choice) {
    made.plain = true;
    if (planned.dispatch.kernel == "norm") made.cases = norm_cases(planned.dispatch);
    kind = made.cases.empty() ? "" : made.key();
    return made;
  }
  const VariantChoice& choice = plan.choices[*planned.choice];
  made.variant = choice.chosen;
  made.plain = choice.chosen == choice.variants.back();
  const ClassWords words(choice.shape_class);
  kind = fmt::format("{} {} {}{}", words.word(0), words.word(1), choice.chosen,
                     words.has("routed") ? " routed" : "");
  if (words.word(0) == "matmul") made.cases = product_cases(words, planned.dispatch);
  if (words.word(0) == "attention") made.cases = attention_cases(words, planned.dispatch);
  if (words.word(0) == "delta_rule" || words.word(0) == "selective_scan")
    made.cases = recurrence_cases(words);
  return made;
}

} // namespace

std::string SmallCase::key() const {
  return fmt::format("{}{}{}: {}", cases[0].family, variant.empty() ? "" : " ", variant, cases[0].name);
}

std::vector<SmallCase> small_cases(std::span<const Plan> plans) {
  std::map<std::string, SmallCase> all;
  for (const Plan& plan : plans) {
    for (const PlannedDispatch& planned : plan.dispatches) {
      std::string kind;
      SmallCase made = small_case(plan, planned, kind);
      if (made.cases.empty()) continue;
      const double flops = made.flops;
      const auto [at, is_new] = all.try_emplace(kind, std::move(made));
      if (!is_new) at->second.flops += flops;
    }
  }
  std::vector<SmallCase> sorted;
  for (auto& [kind, each] : all) sorted.push_back(std::move(each));
  std::ranges::stable_sort(sorted, [](const SmallCase& a, const SmallCase& b) {
    return std::tuple(a.variant.empty(), a.flops) > std::tuple(b.variant.empty(), b.flops);
  });
  return sorted;
}

} // namespace pumice

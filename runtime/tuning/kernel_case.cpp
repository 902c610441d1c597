#include "tuning/kernel_case.h"

#include <algorithm>

#include "tuning/attention_case.h"
#include "tuning/experts_case.h"
#include "tuning/norm_case.h"
#include "tuning/product_case.h"
#include "tuning/random_weight.h"
#include "tuning/recurrence_case.h"

namespace pumice {

namespace {

constexpr uint32_t most_rows = 16;

class List {
public:
  explicit List(CaseSet set) : set_(set) {}

  std::vector<KernelCaseName> take() {
    add_products();
    add_attentions();
    add_recurrences();
    add_norms();
    return std::move(cases_);
  }

private:
  template <class Case>
  void add(const char* family, const Case& c) {
    cases_.push_back(named_case(family, c));
  }

  // The counts of rows that a type's products have. Types take turns, so that all together have all counts.
  std::vector<uint32_t> row_counts(uint32_t turn) const {
    std::vector<uint32_t> counts;
    if (set_ == CaseSet::all) {
      for (uint32_t rows = 1; rows <= most_rows; ++rows) counts.push_back(rows);
      return counts;
    }
    return {1, 2 + turn % 7, 9 + turn % 8};
  }

  void add_products() {
    constexpr uint32_t results[] = {100, 33, 9, 257};
    uint32_t turn = 0;
    for (const TensorTypeInfo& type : tensor_types()) {
      ProductCase c;
      c.type = type.type;
      // No multiple of 32 where the type allows it.
      c.columns = type.block_size == 1 ? 407 : type.block_size == 32 ? 416 : 768;
      for (uint32_t rows : row_counts(turn)) {
        c.rows = rows;
        c.results = results[(turn + rows) % 4];
        add("matmul", c);
      }
      c.kind = ProductCase::Kind::long_sums;
      c.columns = 4096;
      c.results = 16;
      for (uint32_t rows : {1u, most_rows}) {
        c.rows = rows;
        add("matmul", c);
      }
      add_experts(type.type, turn++);
    }
    for (uint32_t rows : row_counts(5)) {
      add("matmul", ProductCase{ProductCase::Kind::gated, TensorType::q4_1, rows, 100, 96});
      add("matmul", ProductCase{ProductCase::Kind::bias_residual, TensorType::q8_0, rows, 96, 96});
    }
  }

  void add_experts(TensorType type, uint32_t turn) {
    constexpr uint32_t block_slots[] = {1, 4, 8, 32};
    for (uint32_t i = 0; i < std::size(block_slots); ++i) {
      if (set_ == CaseSet::all || i == turn % std::size(block_slots))
        add("matmul", experts_case(type, block_slots[i]));
    }
  }

  void add_attentions() {
    uint32_t turn = 2;
    for (CacheType type : {CacheType::f32, CacheType::f16, CacheType::q8_0, CacheType::q4_0}) {
      for (uint32_t rows : row_counts(turn)) add("attention", AttentionCase{type, 4, 2, 64, 37, rows, {}});
      add("attention", AttentionCase{type, 6, 2, 20, 5, 1 + turn, {}});
      add("attention", AttentionCase{type, 4, 1, 128, 700, 1, {}}); // long enough to be divided
      ++turn;
    }
    for (CacheType type : {CacheType::f16_q8_0, CacheType::q8_0_f16, CacheType::q8_0_q4_0})
      add("attention", AttentionCase{type, 4, 2, 64, 37, turn++ % 2 ? 1u : 13u, {}});
    add("attention", AttentionCase{CacheType::f32, 4, 4, 32, 0, 13, {}, true});
    for (TensorType weights : {TensorType::f16, TensorType::q8_0, TensorType::q4_0})
      add("attention", AttentionCase{CacheType::f16, 4, 2, 64, 37, 1, weights});
  }

  // Also more rows than a chunk has (shaders/recurrence/chunks.params.h), from the first position on and from
  // the middle of a chunk.
  void add_recurrences() {
    using enum RecurrenceCase::Kind;
    for (const auto kind : {delta_rule, selective_scan}) {
      const auto add_case = [&](const RecurrenceCase& c) { add(c.family(), c); };
      for (uint32_t rows : row_counts(3)) add_case({kind, 2, 16, 4, 20, 5, rows});
      add_case({kind, 2, 7, 6, 5, 3, 35});
      add_case({kind, 1, 64, 2, 40, 0, 67});
      add_case({kind, 1, 128, 1, 33, 41, 40});
    }
    for (uint32_t rows : row_counts(2))
      add("selective_scan", RecurrenceCase{selective_scan, 1, 16, 37, 1, 5, rows, true});
  }

  void add_norms() {
    for (uint32_t rows : row_counts(1)) {
      add("norm", NormCase{NormKind::rms, false, rows, 407});
      add("norm", NormCase{NormKind::layer, false, rows, 33});
      add("norm", NormCase{NormKind::layer, true, rows, 1056});
    }
  }

  CaseSet set_;
  std::vector<KernelCaseName> cases_;
};

} // namespace

WeightId KernelCase::add_weight(const std::string& name, TensorType type, std::vector<uint64_t> shape,
                                std::vector<std::byte> bytes) {
  TensorView view;
  view.name = name;
  view.type = type;
  view.shape = std::move(shape);
  view.data = data.emplace_back(std::move(bytes));
  return graph.weight(WeightView::whole(tensors.emplace_back(std::move(view))), "attention");
}

WeightId KernelCase::add_vector(const std::string& name, uint32_t columns, uint32_t seed,
                                std::vector<float>& values) {
  std::vector<std::byte> bytes = random_weight(TensorType::f32, 1, columns, seed);
  values.resize(columns);
  decode_row(TensorType::f32, bytes.data(), values);
  return add_weight(name, TensorType::f32, {columns}, std::move(bytes));
}

std::vector<KernelCaseName> kernel_cases(CaseSet set) {
  return List(set).take();
}

KernelCaseName large_product(uint64_t bytes) {
  ProductCase c;
  c.results = c.columns = 4096;
  c.copies = static_cast<uint32_t>(bytes / (uint64_t{c.results} * c.columns * sizeof(float)) + 1);
  return named_case("matmul", c);
}

} // namespace pumice

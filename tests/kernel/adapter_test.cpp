// The two halves of low-rank adapters, which rows of a step may have or not, against plain sums in 64 bits.
#include "kernel/adapter/adapter.h"

#include <array>
#include <bit>
#include <cmath>

#include <doctest/doctest.h>

#include "kernel/adapter/adapter_packing.h"
#include "kernel/products/matmul_case.h"
#include "kernel/products/rows.h"
#include "shaders/adapter/adapter_down.params.h"
#include "shaders/common/step.h"

using namespace pumice;

namespace {

// What the sequences of a step have, by their numbers.
struct SequenceAdapter {
  uint32_t place = UINT32_MAX; // none
  float scale = 1;
  uint32_t rank = 0;
};

struct Case {
  uint32_t rows = 1;
  uint32_t rank = 1;     // of the largest adapter
  uint32_t columns = 32; // of x
  uint32_t members = 1;  // matrices that read x
  uint32_t out = 32;     // columns of the result
  bool gated = false;
  Activation activation = Activation::none;
  bool view = false;
  uint32_t rows_kind = ROWS_TOKENS;
  uint32_t sequences_each = 1; // rows of one sequence that lie side by side
  TensorType numbers = TensorType::f32;
};

uint32_t padded(uint32_t columns) {
  return (columns + 31) / 32 * 32;
}

// Sequences 0 to 3: without an adapter, with the largest one, with one of rank 1, with the largest one too.
std::vector<SequenceAdapter> sequence_adapters(uint32_t rank) {
  return {{}, {0, 0.5f, rank}, {1, -2, 1}, {0, 1.25f, rank}};
}

struct Step {
  BufferRef block;
  StepLayout layout;
  std::vector<SequenceAdapter> of_row; // of each row of the tensors
};

Step make_step(const Case& c) {
  const std::vector<SequenceAdapter> adapters = sequence_adapters(c.rank);
  Step step;
  const bool outputs = c.rows_kind == ROWS_OUTPUTS;
  const uint32_t tokens = outputs ? 2 * c.rows + 1 : c.rows; // every second one is an output
  step.layout = {tokens, static_cast<uint32_t>(adapters.size()), 0, true};
  std::vector<std::array<uint32_t, 4>> block(step.layout.bytes() / 16);
  block[0] = {tokens, outputs ? c.rows : 0, 0, 0};
  const auto sequence_of = [&](uint32_t token) {
    return token / c.sequences_each % static_cast<uint32_t>(adapters.size());
  };
  for (uint32_t i = 0; i < tokens; ++i) block[STEP_HEADER_QUADS + i] = {i, i, sequence_of(i), 0};
  for (uint32_t i = 0; i < c.rows; ++i) {
    const uint32_t token = outputs ? 2 * i + 1 : i;
    if (outputs) block[step.layout.details() + i][0] = token;
    step.of_row.push_back(adapters[sequence_of(token)]);
  }
  for (uint32_t i = 0; i < adapters.size(); ++i) {
    const SequenceAdapter& each = adapters[i];
    if (each.place == UINT32_MAX) continue;
    block[step.layout.adapters() + i] = {each.place + 1, std::bit_cast<uint32_t>(each.scale), each.rank, 0};
  }
  step.block = TestGpu::get().upload(block);
  return step;
}

constexpr uint32_t places = 2;

// [places, members]: what the adapters in the places have, of which one is of rank 1.
std::vector<AdapterMatrix> random_matrices(const Case& c) {
  std::vector<AdapterMatrix> matrices;
  uint32_t seed = 10;
  const auto random = [&](size_t count) {
    std::vector<float> values = random_values(count, ++seed);
    for (float& value : values) {
      if (c.numbers == TensorType::f16) value = half_to_float(float_to_half(value));
      if (c.numbers == TensorType::bf16) value = bf16_to_float(float_to_bf16(value));
    }
    return values;
  };
  for (uint32_t i = 0; i < places * c.members; ++i) {
    AdapterMatrix matrix;
    matrix.rank = i < c.members ? c.rank : 1;
    matrix.rows = c.out;
    matrix.columns = c.columns;
    matrix.scales = random_values(matrix.rank, 90 + i, 3);
    matrix.down = random(size_t{matrix.rank} * c.columns);
    matrix.up = random(size_t{matrix.rank} * c.out);
    matrices.push_back(std::move(matrix));
  }
  return matrices;
}

double activated(Activation activation, double x) {
  if (activation == Activation::silu) return x / (1 + std::exp(-x));
  if (activation == Activation::relu) return std::max(x, 0.0);
  return x;
}

void run(const DeviceProfile& profile, const Case& c) {
  CAPTURE(profile.workgroup);
  CAPTURE(c.rows);
  CAPTURE(c.rank);
  CAPTURE(c.columns);
  CAPTURE(c.out);
  TestGpu& gpu = TestGpu::get();
  const Step step = make_step(c);
  const uint32_t rank = padded_adapter_rank(c.rank);
  const std::vector<AdapterMatrix> matrices_of = random_matrices(c);
  std::vector<std::byte> downs, ups; // of all products, and of the last ones
  const uint32_t matrices = c.gated ? 2 : 1;
  for (uint32_t i = 0; i < matrices_of.size(); ++i) {
    const std::vector<std::byte> down = packed_adapter_down(c.numbers, rank, matrices_of[i]);
    downs.insert(downs.end(), down.begin(), down.end());
    if (i % c.members + matrices < c.members) continue;
    const std::vector<std::byte> up = packed_adapter_up(c.numbers, rank, matrices_of[i]);
    ups.insert(ups.end(), up.begin(), up.end());
  }

  // h = A x, of all members.
  const std::vector<float> x = random_values(size_t{c.rows} * c.columns, 1);
  AdapterDownArgs args;
  args.x = upload_rows(x, c.columns, c.view ? 32 : 0, c.view, c.rows_kind);
  args.matrix = gpu.upload(downs);
  args.numbers = c.numbers;
  args.members = c.members;
  args.rank = rank;
  args.for_products = profile.cpu8;
  const uint32_t head = args.for_products ? ADAPTER_HEAD : 0;
  args.result = blank_rows(c.rows, adapter_h_columns(args.for_products, c.members, rank), 0, c.rows_kind);
  args.step = step.block;
  args.step_layout = step.layout;
  gpu.run(adapter_down(profile, args));
  const std::vector<float> h = gpu.read<float>(args.result.buffer);
  double worst = 0;
  for (uint32_t row = 0; row < c.rows; ++row) {
    const SequenceAdapter& of = step.of_row[row];
    if (head > 0) CHECK(h[size_t{row} * args.result.stride] == static_cast<float>(of.place + 1));
    for (uint32_t r = 0; r < c.members * rank; ++r) {
      const float found = h[size_t{row} * args.result.stride + head + r];
      if (of.place == UINT32_MAX || r % rank >= of.rank) {
        if (of.place == UINT32_MAX || r % rank >= padded_adapter_rank(of.rank)) {
          CHECK(found == (head > 0 ? 0 : sentinel));
        }
        continue;
      }
      const AdapterMatrix& matrix = matrices_of[of.place * c.members + r / rank];
      double wanted = 0;
      for (uint32_t i = 0; i < c.columns; ++i)
        wanted += double{matrix.down[r % rank * c.columns + i]} * x[size_t{row} * c.columns + i];
      wanted *= matrix.scales[r % rank] * (head > 0 ? of.scale : 1);
      worst = std::max(worst, std::abs(found - wanted) / std::sqrt(double{1} * c.columns));
    }
  }
  CHECK(worst <= 3e-6);

  // y + scale * B h, by the last matrices of x.
  if (c.members < matrices || args.for_products) return gpu.clear();
  const uint32_t half = padded(c.out);
  const std::vector<float> plain = random_values(size_t{c.rows} * matrices * c.out, 3);
  std::vector<float> y(size_t{c.rows} * (c.gated ? 2 * half : c.out));
  for (uint32_t row = 0; row < c.rows; ++row) {
    for (uint32_t i = 0; i < c.out; ++i) {
      for (uint32_t m = 0; m < matrices; ++m) {
        const size_t at =
            c.gated ? size_t{row} * 2 * half + i / 8 * 16 + m * 8 + i % 8 : size_t{row} * c.out + i;
        y[at] = plain[(size_t{row} * matrices + m) * c.out + i];
      }
    }
  }
  const uint32_t first = (c.members - matrices) * rank;
  std::vector<double> expected;
  for (uint32_t row = 0; row < c.rows; ++row) {
    const SequenceAdapter& of = step.of_row[row];
    for (uint32_t i = 0; i < c.out; ++i) {
      double terms[2] = {};
      for (uint32_t m = 0; m < matrices; ++m) {
        double added = 0;
        for (uint32_t r = 0; of.place != UINT32_MAX && r < of.rank; ++r) {
          const AdapterMatrix& matrix = matrices_of[of.place * c.members + c.members - matrices + m];
          added +=
              double{matrix.up[r * c.out + i]} * h[size_t{row} * args.result.stride + first + m * rank + r];
        }
        terms[m] = plain[(size_t{row} * matrices + m) * c.out + i] + of.scale * added;
      }
      expected.push_back(activated(c.activation, terms[0]) * (c.gated ? terms[1] : 1));
    }
  }
  AdapterUpArgs sum;
  const uint32_t y_columns = c.gated ? 2 * half : c.out;
  sum.y = upload_rows(y, y_columns, c.view ? 32 : 0, c.view, c.rows_kind);
  sum.h = args.result;
  sum.h.buffer = sum.h.buffer.at(uint64_t{first} * 4, sum.h.buffer.bytes - uint64_t{first} * 4);
  sum.h.columns = matrices * rank;
  sum.matrix = gpu.upload(ups);
  sum.numbers = c.numbers;
  sum.rank = rank;
  sum.gated = c.gated;
  sum.activation = c.activation;
  sum.result = blank_rows(c.rows, c.out, 32, c.rows_kind);
  sum.step = step.block;
  sum.step_layout = step.layout;
  gpu.run(adapter_up(profile, sum));
  check_rows(sum.result, expected, 1e-5, 1e-2);
  gpu.clear();
}

// Adapters of a product that adds the second half itself, of up to two matrices: in place 0 of all of the
// rank, in place 1 of rank 1 and only for the first matrix. The rows have none, the one, the other, and so
// on.
void add_adapter(TestProduct& product, uint32_t rank, TensorType numbers, uint32_t first_rows) {
  const MatmulCase& c = product.c;
  const std::vector<uint32_t> rows_of = c.gated            ? std::vector{c.n, c.n}
                                        : first_rows < c.n ? std::vector{first_rows, c.n - first_rows}
                                                           : std::vector{c.n};
  const uint32_t padded_rank = padded_adapter_rank(rank),
                 another = padded_rank; // before those of the product
  const auto first_of = [&](size_t matrix) {
    return static_cast<uint32_t>(ADAPTER_HEAD + another + matrix * padded_rank);
  };
  ActivationRef h;
  h.rows = c.bucket;
  h.columns = adapter_h_columns(true, static_cast<uint32_t>(rows_of.size()) + 1, padded_rank);
  h.stride = h.padded_columns();
  std::vector<float> values(size_t{h.rows} * h.stride, not_a_number);
  const std::vector<float> random = random_values(values.size(), 21);
  product.added.assign(size_t{c.bucket} * c.n, 0);
  product.up_added = product.added;
  std::vector<std::byte> packed;
  for (uint32_t place = 0; place < places; ++place) {
    uint32_t first_column = 0;
    for (size_t m = 0; m < rows_of.size(); ++m) {
      AdapterMatrix matrix;
      matrix.rows = rows_of[m];
      matrix.columns = c.k;
      matrix.rank = place == 0 ? rank : m == 0 ? 1 : 0;
      matrix.up =
          random_values(size_t{matrix.rank} * matrix.rows, 30 + 10 * place + static_cast<uint32_t>(m));
      for (float& value : matrix.up) {
        if (numbers == TensorType::f16) value = half_to_float(float_to_half(value));
        if (numbers == TensorType::bf16) value = bf16_to_float(float_to_bf16(value));
      }
      const std::vector<std::byte> tiles = packed_adapter_tiles(numbers, padded_rank, first_of(m), matrix);
      packed.insert(packed.end(), tiles.begin(), tiles.end());
      std::vector<double>& added = c.gated && m == 1 ? product.up_added : product.added;
      for (uint32_t row = 0; row < c.bucket; ++row) {
        values[size_t{row} * h.stride] = static_cast<float>(row % (places + 1));
        if (row % (places + 1) != place + 1) continue;
        const size_t at = size_t{row} * h.stride + first_of(m);
        for (uint32_t r = 0; r < padded_rank; ++r) {
          values[at + r] = r < matrix.rank ? random[at + r] : 0;
        }
        for (uint32_t i = 0; i < matrix.rows; ++i) {
          for (uint32_t r = 0; r < matrix.rank; ++r) {
            added[row * c.n + first_column + i] += double{values[at + r]} * matrix.up[r * matrix.rows + i];
          }
        }
      }
      first_column += c.gated ? 0 : rows_of[m];
    }
  }
  h.buffer = TestGpu::get().upload(values);
  product.adapter =
      MatmulAdapter{h, TestGpu::get().upload(packed), packed.size() / places, numbers, padded_rank};
}

} // namespace

TEST_CASE("products that add adapters themselves") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    if (!profile.cpu8) continue;
    for (TensorType numbers : {TensorType::f32, TensorType::f16, TensorType::bf16}) {
      CAPTURE(info(numbers).name);
      for (const MatmulCase& c :
           {MatmulCase{.k = 40, .n = 70},
            MatmulCase{.type = TensorType::f16,
            .n = 96,
            .bucket = 9,
            .count = 8,
            .residual = true,
            .row_scale = true},
            MatmulCase{
                .type = TensorType::q8_0, .n = 160, .bucket = 17, .count = 17, .bias = true, .split = true},
            MatmulCase{.n = 65,
            .bucket = 4,
            .count = 3,
            .activation = Activation::silu,
            .gated = true,
            .row_scale = true}}) {
        for (uint32_t rank : {3u, 16u}) {
          CAPTURE(c.n);
          CAPTURE(rank);
          TestProduct product(profile, c);
          add_adapter(product, rank, numbers, 64);
          check_rows(product.run(0, c.bucket, c.count), product.expected(), 2e-6, product.magnitude() + rank);
          TestGpu::get().clear();
        }
      }
    }
  }
}

TEST_CASE("adapters of odd shapes") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (uint32_t rank : {1u, 3u, 16u, 64u}) {
      for (uint32_t rows : {1u, 2u, 9u, 17u}) {
        run(profile, {.rows = rows, .rank = rank, .columns = 33, .out = 257});
        run(profile, {.rows = rows, .rank = rank, .columns = 769, .members = 3, .out = 7, .view = true});
      }
    }
    run(profile, {.rows = 5, .rank = 8, .columns = 1, .out = 1});
    run(profile, {.rows = 5, .rank = 8, .columns = 4100, .out = 100});
  }
}

TEST_CASE("adapters of gates and activations") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (uint32_t out : {8u, 33u, 160u}) {
      run(profile, {.rows = 9, .rank = 3, .columns = 40, .out = out, .activation = Activation::relu});
      run(profile, {.rows = 9,
                    .rank = 16,
                    .columns = 40,
                    .members = 2,
                    .out = out,
                    .gated = true,
                    .activation = Activation::silu});
    }
  }
}

TEST_CASE("adapters of rows that lie side by side, and of outputs") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (uint32_t each : {2u, 3u, 4u, 64u})
      run(profile, {.rows = 23, .rank = 5, .columns = 65, .out = 40, .sequences_each = each});
    run(profile, {.rows = 9, .rank = 5, .columns = 65, .out = 40, .rows_kind = ROWS_OUTPUTS});
  }
}

TEST_CASE("adapters with numbers of 16 bits") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (TensorType numbers : {TensorType::f16, TensorType::bf16}) {
      for (uint32_t rank : {1u, 3u, 17u}) {
        run(profile, {.rows = 11, .rank = rank, .columns = 35, .out = 257, .numbers = numbers});
        run(profile, {.rows = 1,
                      .rank = rank,
                      .columns = 769,
                      .members = 3,
                      .out = 9,
                      .view = true,
                      .numbers = numbers});
      }
      run(profile, {.rows = 19,
                    .rank = 16,
                    .columns = 40,
                    .members = 2,
                    .out = 33,
                    .gated = true,
                    .activation = Activation::silu,
                    .numbers = numbers});
    }
  }
}

// Whatever adapters the rows beside it have.
TEST_CASE("bits of a row with an adapter") {
  TestGpu& gpu = TestGpu::get();
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (TensorType numbers : {TensorType::f32, TensorType::f16, TensorType::bf16}) {
      CAPTURE(info(numbers).name);
      constexpr uint32_t columns = 100, rank = 8;
      Case c;
      c.rank = rank;
      c.columns = columns;
      c.numbers = numbers;
      std::vector<std::byte> downs, ups, all_tiles;
      for (const AdapterMatrix& matrix : random_matrices(c)) {
        const std::vector<std::byte> down = packed_adapter_down(numbers, rank, matrix),
                                     up = packed_adapter_up(numbers, rank, matrix),
                                     tiled = packed_adapter_tiles(numbers, rank, ADAPTER_HEAD, matrix);
        downs.insert(downs.end(), down.begin(), down.end());
        ups.insert(ups.end(), up.begin(), up.end());
        all_tiles.insert(all_tiles.end(), tiled.begin(), tiled.end());
      }
      const BufferRef down = gpu.upload(downs), up = gpu.upload(ups), tiles = gpu.upload(all_tiles);
      std::vector<float> one; // of the first row of sequence 1: A x, and what is added to a product
      for (const auto& [rows, each] : {std::pair{2u, 1u}, {17u, 1u}, {23u, 2u}, {40u, 5u}}) {
        c.rows = rows;
        c.sequences_each = each;
        const Step step = make_step(c);
        const auto rows_with_own = [&](uint32_t width, uint32_t seed) {
          std::vector<float> all = random_values(size_t{rows} * width, rows + seed);
          std::ranges::copy(random_values(width, seed), all.begin() + each * width);
          return upload_rows(all, width);
        };
        AdapterDownArgs args;
        args.x = rows_with_own(columns, 1);
        args.matrix = down;
        args.numbers = numbers;
        args.rank = rank;
        args.for_products = profile.cpu8;
        args.result = blank_rows(rows, adapter_h_columns(profile.cpu8, 1, rank));
        args.step = step.block;
        args.step_layout = step.layout;
        gpu.run(adapter_down(profile, args));
        ActivationRef sums;
        if (profile.cpu8) {
          TestProduct product(profile, {.k = columns, .n = c.out, .bucket = rows, .count = rows});
          product.x = random_values(product.x.size(), rows);
          std::ranges::copy(random_values(columns, 100), product.x.begin() + each * columns);
          product.adapter = MatmulAdapter{args.result, tiles, tiles.bytes / places, numbers, rank};
          sums = product.run(0, rows, rows);
        } else {
          AdapterUpArgs sum;
          sum.y = rows_with_own(c.out, 100);
          sum.h = args.result;
          sum.matrix = up;
          sum.numbers = numbers;
          sum.rank = rank;
          sum.result = blank_rows(rows, c.out);
          sum.step = step.block;
          sum.step_layout = step.layout;
          gpu.run(adapter_up(profile, sum));
          sums = sum.result;
        }
        std::vector<float> found;
        for (const auto& [result, first] :
             {std::pair{args.result, profile.cpu8 ? ADAPTER_HEAD : 0}, {sums, 0u}}) {
          const std::vector<float> all = gpu.read<float>(result.buffer);
          const auto begin = all.begin() + each * result.stride;
          found.insert(found.end(), begin + first, begin + result.columns);
        }
        if (one.empty()) one = found;
        CHECK(found == one);
      }
      gpu.clear();
    }
  }
}

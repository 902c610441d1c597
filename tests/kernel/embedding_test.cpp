#include "kernel/embedding/embedding.h"

#include <algorithm>

#include <doctest/doctest.h>

#include "kernel/embedding_reference.h"
#include "kernel/products/rows.h"
#include "kernel/run_graph.h"
#include "shaders/common/step.h"
#include "shaders/embedding/prompt_rows.params.h"

using namespace pumice;

namespace {

struct Case {
  TensorType type = TensorType::f32;
  uint32_t vocabulary = 37;
  uint32_t columns = 64;
  uint32_t bucket = 4;
  std::vector<uint32_t> entries;  // of the step's rows
  std::vector<uint32_t> segments; // tiles of each part of the table; one with all of them if empty
  EmbeddingIndex index = EmbeddingIndex::token;
  float scale = 1;
  uint32_t offset = 0;
  uint32_t first = 0;          // position of the first row's text; the next row's is one further
  uint32_t given = UINT32_MAX; // a row that the host gives
  uint32_t first_token = 0;
  bool others = false; // rows whose token the table lacks are others
};

// A block whose row i asks for c.entries[i], and in everything else for what is wrong.
BufferRef step_block(const Case& c) {
  const StepLayout layout = {c.bucket};
  std::vector<uint32_t> block(layout.bytes() / 4, 9999);
  block[0] = static_cast<uint32_t>(c.entries.size());
  for (uint32_t i = 0; i < c.entries.size(); ++i) {
    const uint32_t entry = c.entries[i] - c.offset, row = 4 * (STEP_HEADER_QUADS + i);
    block[row + 3] = c.first + i;
    if (c.index == EmbeddingIndex::token) block[row] = i == c.given ? PROMPT_ROW | 5 : entry;
    if (c.index == EmbeddingIndex::position) block[row + 1] = c.first + i + entry;
    if (c.index == EmbeddingIndex::token_type) block[4 * (layout.details() + i) + 2] = entry;
  }
  return TestGpu::get().upload(block);
}

void run(const DeviceProfile& profile, const Case& c) {
  CAPTURE(profile.workgroup);
  CAPTURE(profile.uniform_loads);
  CAPTURE(info(c.type).name);
  CAPTURE(c.columns);
  TestGpu& gpu = TestGpu::get();
  const TestWeight table(c.type, c.vocabulary, c.columns, c.columns);
  std::vector<double> expected;
  const std::vector<float> others = random_values(size_t{c.bucket} * c.columns, 7);
  for (size_t i = 0; i < c.entries.size(); ++i) {
    const uint32_t entry = i == c.given ? c.vocabulary : c.entries[i] - c.first_token;
    if (c.others && entry >= c.vocabulary) {
      const auto row = others.begin() + static_cast<ptrdiff_t>(i * c.columns);
      expected.insert(expected.end(), row, row + c.columns);
      continue;
    }
    const std::vector<double> row = embedding_reference(table, entry < c.vocabulary ? entry : 0, c.scale);
    expected.insert(expected.end(), row.begin(), row.end());
  }

  EmbeddingArgs args;
  args.format = {c.type, c.columns, profile.weight_lane_bytes(c.type)};
  args.rows = c.vocabulary;
  args.scale = c.scale;
  args.index = c.index;
  args.offset = c.offset;
  args.first_token = c.first_token;
  if (c.others) args.others = upload_rows(others, c.columns, 64, false);
  args.step_layout = {c.bucket};
  args.result = blank_rows(c.bucket, c.columns, 32);
  args.step = step_block(c);
  uint32_t first = 0;
  for (uint32_t count : c.segments.empty() ? std::vector{((c.vocabulary + 7) / 8 + 3) / 4 * 4} : c.segments) {
    std::vector<TileSource> tiles;
    for (uint32_t tile = first; tile < first + count; ++tile) tiles.push_back(table.tile(tile));
    args.segment = upload_tiles(args.format, tiles, first);
    gpu.run(embedding(profile, args));
    first += count;
  }
  check_rows(args.result, expected, 1e-6);
  gpu.clear();
}

} // namespace

TEST_CASE("embedding of every type") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (TensorType type : weight_types) {
      for (uint32_t columns : {1u, 7u, 32u, 33u, 64u, 80u, 96u, 256u, 257u, 768u, 4096u}) {
        if (columns % info(type).block_size != 0) continue;
        run(profile, {.type = type, .columns = columns, .entries = {0, 36, 8, 15}});
      }
    }
  }
}

TEST_CASE("embedding of many rows, of fewer than the bucket has, and of none") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (uint32_t count : {1u, 2u, 7u, 8u, 9u, 33u}) {
      Case c = {.type = TensorType::q8_0, .bucket = 33};
      for (uint32_t i = 0; i < count; ++i) c.entries.push_back(i * 7 % c.vocabulary);
      run(profile, c);
    }
    run(profile, {.type = TensorType::f16, .bucket = 2, .entries = {}});
    run(profile, {.type = TensorType::f16, .entries = {9, 0, 4}, .given = 1});
    run(profile, {.type = TensorType::f16, .entries = {36, 37, 64, 9998}}); // tokens without a row
    run(profile, {.type = TensorType::f16, .entries = {39, 40, 76, 77}, .first_token = 40, .others = true});
    run(profile, {.type = TensorType::q8_0, .bucket = 5, .entries = {3, 9, 4}, .given = 1, .others = true});
    run(profile, {.type = TensorType::f32,
                  .vocabulary = 90,
                  .entries = {31, 60, 149, 150},
                  .segments = {4, 4, 4},
                  .first_token = 60,
                  .others = true});
  }
}

TEST_CASE("embedding from a table in several parts, scaled, by position") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (TensorType type : weight_types) {
      const uint32_t columns = std::max(64u, info(type).block_size);
      run(profile, {.type = type,
                    .vocabulary = 90,
                    .columns = columns,
                    .entries = {31, 32, 89, 64},
                    .segments = {4, 4, 4},
                    .scale = 27.7f});
      run(profile, {.type = type, .columns = columns, .entries = {3, 2}, .index = EmbeddingIndex::position});
    }
  }
}

TEST_CASE("embedding by position in a text, and by token type, from a row of the table on") {
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (EmbeddingIndex index :
         {EmbeddingIndex::token, EmbeddingIndex::position, EmbeddingIndex::token_type}) {
      for (TensorType type : {TensorType::f32, TensorType::q8_0}) {
        Case c = {.type = type, .bucket = 7, .entries = {3, 2, 36, 2, 2}, .index = index};
        run(profile, c);
        c.offset = 2;
        c.first = 64;
        run(profile, c);
      }
    }
  }
}

TEST_CASE("an entry past the table reads nothing past it") {
  TestGpu& gpu = TestGpu::get();
  for (const DeviceProfile& profile : profiles_to_test()) {
    const TestWeight table(TensorType::q4_0, 30, 32, 1);
    EmbeddingArgs args;
    args.format = {TensorType::q4_0, 32, profile.weight_lane_bytes(TensorType::q4_0)};
    args.rows = 30;
    args.segment = upload_tiles(args.format, {table.tile(0), table.tile(1), table.tile(2), table.tile(3)});
    args.result = blank_rows(2, 32);
    const StepRow rows[] = {{32, 0, 0, 0}, {PROMPT_ROW - 1, 0, 0, 0}};
    args.step = gpu.step(rows, {}, 2);
    for (uint32_t offset : {0u, 3u, 0xffffffffu}) {
      args.offset = offset;
      gpu.run(embedding(profile, args));
      const std::vector<double> row = embedding_reference(table, std::min(offset, 29u), 1);
      std::vector<double> expected = row;
      expected.insert(expected.end(), row.begin(), row.end());
      check_rows(args.result, expected, 1e-6);
    }
    gpu.clear();
  }
}

TEST_CASE("given rows replace others or are added to them") {
  TestGpu& gpu = TestGpu::get();
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (const auto& [first, given_columns] : {std::pair(0u, 36u), {72u, 108u}, {36u, 144u}}) {
      for (const bool added : {false, true}) {
        constexpr uint32_t columns = 36;
        CAPTURE(added);
        const std::vector<float> x = random_values(size_t{5} * columns, columns);
        const std::vector<float> given = random_values(size_t{5} * given_columns, 3);
        const StepRow rows[] = {{3, 0, 0, 0}, {PROMPT_ROW | 9, 1, 0, 0}, {PROMPT_ROW, 2, 0, 0}, {8, 3, 0, 0}};
        std::vector<double> expected;
        for (uint32_t row = 0; row < 4; ++row) {
          for (uint32_t column = 0; column < columns; ++column) {
            const double own = x[row * columns + column], other = given[row * given_columns + first + column];
            const bool is_given = row == 1 || row == 2;
            expected.push_back(!is_given ? own : added ? own + other : other);
          }
        }
        Graph graph;
        const TensorId in = graph.add_tensor({"x", RowKind::tokens, columns});
        const TensorId from = graph.add_tensor({"given", RowKind::tokens, given_columns});
        if (!added && first > 0) continue; // there is no such operation
        const TensorId out =
            added ? added_prompt_rows(graph, "rows", in, from, first) : prompt_rows(graph, "rows", in, from);
        const ActivationRef result = blank_rows(5, columns, 32);
        run_graph(profile, graph, gpu.step(rows, {}, 5), 5,
                  {{in, upload_rows(x, columns, 32)},
                   {from, upload_rows(given, given_columns, 32)},
                   {out, result}});
        check_rows(result, expected, 1e-6);
        gpu.clear();
      }
    }
  }
}

TEST_CASE("select rows") {
  TestGpu& gpu = TestGpu::get();
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (uint32_t columns : {1u, 7u, 32u, 33u, 257u, 768u, 4096u}) {
      for (bool view : {false, true}) {
        for (const std::vector<uint32_t>& outputs :
             {std::vector<uint32_t>{}, {8}, {0, 8, 3}, {8, 7, 6, 5, 4, 3, 2, 1, 0}}) {
          const std::vector<float> x = random_values(size_t{12} * columns, columns);
          std::vector<double> expected;
          for (uint32_t row : outputs) {
            expected.insert(expected.end(), x.begin() + row * columns, x.begin() + (row + 1) * columns);
          }
          SelectRowsArgs args;
          args.x = upload_rows(x, columns, 32, view);
          args.result = blank_rows(10, columns, 32, ROWS_OUTPUTS);
          args.step = gpu.step(std::vector<StepRow>(9), outputs, 12);
          args.step_capacity = 12;
          gpu.run(select_rows(profile, args));
          check_rows(args.result, expected, 0);
          gpu.clear();
        }
      }
    }
  }
}

#include "models/builder.h"

#include <fmt/format.h>

#include "kernel/elementwise/elementwise.h"
#include "kernel/matmul/linear.h"
#include "kernel/norm/norm.h"

namespace pumice {

namespace {

constexpr std::string_view expert_component = "feed-forward";

} // namespace

ModelBuilder::ModelBuilder(bool gguf, const ModelFile* file, std::string root, bool bare)
    : gguf_(gguf), file_(file), root_(std::move(root)), bare_(bare) {
  prefix("", "");
}

void ModelBuilder::prefix(std::string hugging_face, std::string gguf) {
  hugging_face_prefix_ = hugging_face_name(root_ + hugging_face);
  gguf_prefix_ = std::move(gguf);
}

void ModelBuilder::layer(uint32_t layer, std::string_view hugging_face, std::string_view gguf) {
  prefix(fmt::format(fmt::runtime(hugging_face), layer), fmt::format(fmt::runtime(gguf), layer));
}

std::string ModelBuilder::full_name(const TensorName& name, std::string_view suffix, bool gguf) const {
  if (gguf) return fmt::format("{}{}{}", gguf_prefix_, name.gguf, suffix);
  return hugging_face_name(fmt::format("{}{}{}", hugging_face_prefix_, name.hugging_face, suffix));
}

std::string ModelBuilder::hugging_face_name(std::string name) const {
  constexpr std::string_view inner = "model.";
  return bare_ && name.starts_with(inner) ? name.substr(inner.size()) : name;
}

const TensorView* ModelBuilder::find(const std::string& name, const std::vector<uint64_t>& shape,
                                     std::string_view component) {
  if (const auto known = found_.find(name); known != found_.end()) return known->second;
  specs_.push_back({name, shape, std::string(component)});
  const TensorView* tensor = nullptr;
  if (file_ && status_.ok()) {
    if (auto required = file_->require(name, shape); !required.ok()) {
      status_ = required.error();
    } else {
      tensor = *required;
    }
  }
  if (!tensor) tensor = &placeholders_.emplace_back(TensorView{name, TensorType::f32, shape, {}});
  found_.emplace(name, tensor);
  return tensor;
}

void ModelBuilder::add_gguf_tensor(const TensorName& name, std::string_view suffix,
                                   std::vector<uint64_t> shape, std::vector<WeightView> slices,
                                   const GgufTransform& transform) {
  if (file_ && suffix == ".weight" && shape.size() == 2) add_other_form(name, slices, transform);
  if (gguf_ || !file_ || name.gguf.empty()) return;
  GgufTensor tensor;
  tensor.name = full_name(name, suffix, true);
  for (const GgufTensor& other : gguf_tensors_) {
    if (other.name == tensor.name) return;
  }
  tensor.shape = std::move(shape);
  tensor.parts = std::move(slices);
  tensor.rotary_heads = transform.rotary_heads;
  tensor.rotary_dim = transform.rotary_dim;
  tensor.offset = transform.offset;
  tensor.scale = transform.scale;
  tensor.part_scales = transform.part_scales;
  tensor.negative_exp = transform.negative_exp;
  tensor.tiled_groups = transform.tiled_groups;
  tensor.tiled_dim = transform.tiled_dim;
  gguf_tensors_.push_back(std::move(tensor));
}

void ModelBuilder::add_other_form(const TensorName& name, const std::vector<WeightView>& parts,
                                  const GgufTransform& transform) {
  if (name.gguf.empty() || name.hugging_face.empty()) return;
  OtherForm form;
  form.name = full_name(name, "", !gguf_);
  form.parts = parts;
  form.rotary_heads = transform.rotary_heads;
  form.rotary_dim = transform.rotary_dim;
  form.scale = transform.scale;
  form.rows_only = transform.offset == 0 && transform.part_scales.empty() && !transform.negative_exp &&
                   transform.tiled_groups == 0;
  other_forms_.push_back(std::move(form));
}

WeightView ModelBuilder::tensor(const TensorName& name, std::string_view suffix, uint64_t rows,
                                uint64_t columns, std::string_view component,
                                const GgufTransform& transform) {
  std::vector<uint64_t> shape = {rows};
  if (columns) shape.push_back(columns);
  return shaped_tensor(name, suffix, std::move(shape), component, transform);
}

WeightView ModelBuilder::flat_tensor(const TensorName& name, std::string_view suffix,
                                     std::vector<uint64_t> shape, std::string_view component) {
  const WeightView view = WeightView::flat(*find(full_name(name, suffix, gguf_), shape, component));
  add_gguf_tensor(name, suffix, std::move(shape), {view});
  return view;
}

WeightView ModelBuilder::shaped_tensor(const TensorName& name, std::string_view suffix,
                                       std::vector<uint64_t> shape, std::string_view component,
                                       const GgufTransform& transform) {
  const WeightView view = WeightView::whole(*find(full_name(name, suffix, gguf_), shape, component));
  add_gguf_tensor(name, suffix, std::move(shape), {view}, transform);
  return view;
}

bool ModelBuilder::has(const TensorName& name, std::string_view suffix) const {
  return file_ && file_->find(full_name(name, suffix, gguf_));
}

WeightView ModelBuilder::transposed_tensor(const TensorName& name, uint64_t rows, uint64_t columns,
                                           std::string_view component, std::string_view suffix) {
  if (gguf_) return tensor(name, suffix, rows, columns, component);
  const WeightView view = stored_transposed(full_name(name, suffix, false), rows, columns, component);
  add_gguf_tensor(name, suffix, {rows, columns}, {view});
  return view;
}

WeightView ModelBuilder::transposed_in_both(const TensorName& name, uint64_t rows, uint64_t columns,
                                            std::string_view component) {
  const WeightView view = stored_transposed(full_name(name, "", gguf_), rows, columns, component);
  add_gguf_tensor(name, "", {columns, rows}, {WeightView::whole(*view.tensor)});
  return view;
}

WeightView ModelBuilder::stored_transposed(const std::string& name, uint64_t rows, uint64_t columns,
                                           std::string_view component) {
  const TensorView* stored = find(name, {columns, rows}, component);
  if (info(stored->type).block_size > 1 && status_.ok()) {
    status_ =
        Error{Code::unsupported, fmt::format("{}: tensor '{}': expected one of F32, F16, BF16, because it is "
                                             "stored transposed; found {}",
                                             file_->path(), stored->name, info(stored->type).name)};
  }
  return WeightView::transpose(*stored);
}

WeightView ModelBuilder::row_tensor(const TensorName& name, uint64_t columns, std::string_view component) {
  const std::vector<uint64_t> shape = gguf_ ? std::vector{columns} : std::vector{uint64_t{1}, columns};
  const TensorView* stored = find(full_name(name, ".weight", gguf_), shape, component);
  const WeightView view = {stored, 1, columns, false, 0, 1, 1, columns};
  add_gguf_tensor(name, ".weight", {columns}, {view});
  return view;
}

WeightView ModelBuilder::row_as_vector(const TensorName& name, uint64_t count, std::string_view component) {
  const std::vector<uint64_t> shape = gguf_ ? std::vector{count} : std::vector{uint64_t{1}, count};
  const WeightView view = WeightView::flat(*find(full_name(name, "", gguf_), shape, component));
  add_gguf_tensor(name, "", {count}, {view});
  return view;
}

WeightView ModelBuilder::channel_taps(const TensorName& name, uint64_t channels, uint64_t taps,
                                      std::string_view component) {
  if (gguf_) return tensor(name, ".weight", channels, taps, component);
  const WeightView view =
      WeightView::flat(*find(full_name(name, ".weight", false), {channels, 1, taps}, component));
  add_gguf_tensor(name, ".weight", {channels, taps}, {view});
  return view;
}

std::vector<WeightView> ModelBuilder::fused_tensor(const TensorName& name, std::string_view suffix,
                                                   std::span<const uint64_t> counts, uint64_t columns,
                                                   uint64_t groups, std::string_view component,
                                                   const GgufTransform& transform) {
  uint64_t rows = 0;
  for (uint64_t count : counts) rows += count;
  std::vector<uint64_t> shape = {rows};
  if (columns) shape.push_back(columns);
  const WeightView whole = WeightView::whole(*find(full_name(name, suffix, gguf_), shape, component));
  std::vector<WeightView> slices;
  uint64_t begin = 0;
  for (uint64_t count : counts) {
    const uint64_t parts = gguf_ ? 1 : groups;
    slices.push_back(whole.slice(begin, count, count / parts, rows / parts));
    begin += count / parts;
  }
  if (gguf_ && groups > 1) return slices; // its rows are in another order than Hugging Face's
  add_gguf_tensor(name, suffix, std::move(shape), slices, transform);
  return slices;
}

std::vector<WeightView> ModelBuilder::split_tensor(std::string_view hugging_face,
                                                   std::span<const std::string_view> gguf, uint64_t rows,
                                                   uint64_t columns, std::string_view component) {
  std::vector<WeightView> views;
  if (gguf_) {
    for (std::string_view name : gguf)
      views.push_back(tensor({hugging_face, name}, ".weight", rows, columns, component));
    return views;
  }
  const std::vector<uint64_t> counts(gguf.size(), rows);
  views = fused_tensor({hugging_face, ""}, ".weight", counts, columns, 1, component);
  for (size_t i = 0; i < gguf.size(); ++i)
    add_gguf_tensor({hugging_face, gguf[i]}, ".weight", {rows, columns}, {views[i]});
  return views;
}

WeightView ModelBuilder::vector_tensor(const TensorName& name, std::string_view suffix, uint64_t size,
                                       std::vector<uint64_t> gguf_shape, std::string_view component,
                                       const GgufTransform& transform) {
  if (gguf_) return shaped_tensor(name, suffix, std::move(gguf_shape), component);
  const WeightView view = WeightView::whole(*find(full_name(name, suffix, false), {size}, component));
  add_gguf_tensor(name, suffix, std::move(gguf_shape), {view}, transform);
  return view;
}

std::vector<WeightView> ModelBuilder::gguf_expert_tensors(const TensorName& name, uint32_t experts,
                                                          uint64_t rows, uint64_t columns) {
  return merged_gguf_experts(name, experts, rows, columns, {rows, 0, rows, rows});
}

std::vector<WeightView> ModelBuilder::merged_gguf_experts(const TensorName& name, uint32_t experts,
                                                          uint64_t rows, uint64_t columns,
                                                          const ExpertRows& part) {
  const std::string stored = full_name(name, ".weight", true);
  const WeightView all = WeightView::whole(*find(stored, {experts, part.all, columns}, expert_component));
  std::vector<WeightView> views;
  for (uint32_t expert = 0; expert < experts; ++expert)
    views.push_back(all.slice(expert * part.all + part.first, rows, part.run, part.step));
  return views;
}

std::vector<WeightView> ModelBuilder::stacked_expert_tensors(const TensorName& name, uint32_t experts,
                                                             uint64_t rows, uint64_t columns,
                                                             const ExpertRows& part) {
  if (gguf_) return gguf_expert_tensors(name, experts, rows, columns);
  const std::string stored = full_name(name, "", false);
  const TensorView* known = file_ ? file_->find(stored) : nullptr;
  const bool transposed = part.transposed && !(known && info(known->type).block_size > 1);
  const std::vector<uint64_t> shape = transposed ? std::vector<uint64_t>{experts, columns, part.all}
                                                 : std::vector{uint64_t{experts}, part.all, columns};
  const WeightView all = WeightView::whole(*find(stored, shape, expert_component));
  std::vector<WeightView> views;
  for (uint32_t expert = 0; expert < experts; ++expert) {
    WeightView view = all.slice((transposed ? 0 : expert * part.all) + part.first, rows, part.run, part.step);
    view.columns = columns;
    view.transposed = transposed;
    if (transposed) view.first_column = expert * columns;
    views.push_back(view);
  }
  add_gguf_tensor(name, ".weight", {experts, rows, columns}, views);
  return views;
}

WeightView ModelBuilder::stacked_expert_biases(const TensorName& name, uint32_t experts, uint64_t rows,
                                               const ExpertRows& part) {
  const uint64_t count = experts * rows;
  const std::string full = full_name(name, gguf_ ? ".bias" : "_bias", gguf_);
  const TensorView* stored = find(full, {experts, part.all}, expert_component);
  const WeightView view = {stored, count, 1, false, part.first, part.run, part.step, 1};
  add_gguf_tensor(name, ".bias", {experts, rows}, {view});
  return view;
}

std::vector<WeightView> ModelBuilder::expert_tensors(const TensorName& name, uint32_t experts, uint64_t rows,
                                                     uint64_t columns) {
  if (gguf_) return gguf_expert_tensors(name, experts, rows, columns);
  std::vector<WeightView> views;
  for (uint32_t expert = 0; expert < experts; ++expert) {
    const std::string one =
        hugging_face_prefix_ + fmt::format(fmt::runtime(name.hugging_face), expert) + ".weight";
    views.push_back(WeightView::whole(*find(one, {rows, columns}, expert_component)));
  }
  add_gguf_tensor(name, ".weight", {experts, rows, columns}, views);
  return views;
}

std::vector<WeightView> ModelBuilder::head_tensors(const TensorName& name, uint32_t heads, uint64_t rows,
                                                   uint64_t columns, const ExpertRows& part,
                                                   std::string_view component, std::string_view suffix) {
  std::vector<WeightView> views;
  if (gguf_) {
    const TensorView* stored = find(full_name(name, ".weight", true), {heads, rows, columns}, component);
    for (uint64_t head = 0; head < heads; ++head)
      views.push_back(WeightView::whole(*stored).slice(head * rows, rows));
    return views;
  }
  const uint64_t stored_columns = part.transposed ? rows : columns;
  const TensorView* stored =
      find(full_name(name, suffix, false), {heads * part.all, stored_columns}, component);
  if (part.transposed && info(stored->type).block_size > 1) {
    fail({Code::unsupported, fmt::format("{}: tensor '{}': expected one of F32, F16, BF16, because a part of "
                                         "it is used transposed; found {}",
                                         file_->path(), stored->name, info(stored->type).name)});
  }
  for (uint64_t head = 0; head < heads; ++head) {
    const uint64_t first = head * part.all + part.first;
    WeightView view = WeightView::whole(*stored).slice(part.transposed ? 0 : first, rows);
    view.columns = columns;
    view.transposed = part.transposed;
    if (part.transposed) view.first_column = first;
    views.push_back(view);
  }
  add_gguf_tensor(name, ".weight", {heads, rows, columns}, views);
  return views;
}

WeightView ModelBuilder::derived_tensor(std::string_view name, std::vector<uint64_t> shape,
                                        const std::function<void(std::span<float>)>& fill) {
  const std::string full = prefix() + std::string(name);
  if (file_ && status_.ok()) return WeightView::whole(file_->derive(full, shape, fill));
  return WeightView::whole(
      placeholders_.emplace_back(TensorView{full, TensorType::f32, std::move(shape), {}}));
}

WeightId ModelBuilder::weight(const WeightView& view, std::string_view component) {
  return graph().weight(view, std::string(component));
}

std::string ModelBuilder::node_name(const TensorName& name) const {
  return full_name(name, "", gguf_);
}

TensorId ModelBuilder::project(TensorId x, const std::string& name, const WeightView& matrix,
                               const WeightView* bias, std::string_view component) {
  std::optional<WeightId> bias_id;
  if (bias) bias_id = weight(*bias, component);
  return linear(graph(), name, x, weight(matrix, component), bias_id);
}

TensorId ModelBuilder::project(TensorId x, const TensorName& name, uint32_t rows, bool bias,
                               std::string_view component) {
  const uint32_t columns = graph().tensor(x).columns;
  const WeightView matrix = tensor(name, ".weight", rows, columns, component);
  if (!bias) return project(x, node_name(name), matrix, nullptr, component);
  const WeightView added = tensor(name, ".bias", rows, 0, component);
  return project(x, node_name(name), matrix, &added, component);
}

WeightId ModelBuilder::norm_weight(const TensorName& name, uint64_t size, float weight_offset, float scale) {
  const WeightView view = tensor(name, ".weight", size, 0, "norms", {0, 0, weight_offset, scale});
  return weight(view, "norms");
}

TensorId ModelBuilder::rms_norm(TensorId x, const TensorName& name, float eps, float weight_offset) {
  const WeightId weight = norm_weight(name, graph().tensor(x).columns, weight_offset);
  return pumice::rms_norm(graph(), node_name(name), x, weight, eps, gguf_ ? 0 : weight_offset);
}

TensorId ModelBuilder::layer_norm(TensorId x, const TensorName& name, float eps, std::string_view weight,
                                  std::string_view bias, float weight_offset) {
  const uint32_t size = graph().tensor(x).columns;
  const GgufTransform transform = {0, 0, weight_offset};
  const WeightId scale = this->weight(tensor(name, weight, size, 0, "norms", transform), "norms");
  std::optional<WeightId> shift;
  if (!bias.empty()) shift = this->weight(tensor(name, bias, size, 0, "norms"), "norms");
  return pumice::layer_norm(graph(), node_name(name), x, scale, shift, eps, gguf_ ? 0 : weight_offset);
}

TensorId ModelBuilder::add(TensorId a, TensorId b, std::string_view name) {
  return pumice::add(graph(), prefix() + std::string(name), a, b);
}

void ModelBuilder::fail(Error error) {
  if (status_.ok()) status_ = std::move(error);
}

} // namespace pumice

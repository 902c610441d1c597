#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/architecture.h"
#include "model/gguf_tensor.h"

namespace pumice {

// A tensor's name in each format, without the layer's prefix and the suffix ".weight". Empty if the format
// does not have it.
struct TensorName {
  std::string_view hugging_face;
  std::string_view gguf;
};

// How a tensor's values transform when the model is converted to GGUF; see GgufTensor.
struct GgufTransform {
  uint32_t rotary_heads = 0; // above 0: heads whose rotary pairs become neighbouring rows
  uint32_t rotary_dim = 0;   // rotated dimensions of a head; 0: all of them
  float offset = 0;
  float scale = 1;
  std::vector<float> part_scales = {};
  bool negative_exp = false;
  uint32_t tiled_groups = 0; // of heads of `tiled_dim` columns
  uint32_t tiled_dim = 0;
};

// Which rows of each expert a matrix has, where one tensor of Hugging Face's file holds several matrices of
// all experts: [experts, all, columns].
struct ExpertRows {
  uint64_t all = 0;
  uint64_t first = 0, run = 1, step = 1; // as in WeightView
  bool transposed = false;               // plain types are stored as [experts, columns, all]
};

// Describes a model once: its weights, with their names in both formats, and its graph. With a file, the
// weights are looked up in it and checked; without one, they are only listed. The first error is stored in
// status(); later calls continue with placeholders for missing weights.
class ModelBuilder {
public:
  // All tensor names of a Hugging Face file begin with `root`. If `bare`, "model." at their beginning is left
  // out: the file has the model without its head.
  ModelBuilder(bool gguf, const ModelFile* file, std::string root = {}, bool bare = false);

  bool gguf() const { return gguf_; }
  Graph& graph() { return graph_; }

  // Sets the prefixes of the names that follow.
  void prefix(std::string hugging_face, std::string gguf);
  void layer(uint32_t layer, std::string_view hugging_face, std::string_view gguf = "blk.{}.");
  // The prefix in the file's format, for the names of nodes.
  const std::string& prefix() const { return gguf_ ? gguf_prefix_ : hugging_face_prefix_; }

  // Weights.

  bool has(const TensorName& name, std::string_view suffix) const; // whether the file has the tensor
  // A tensor of the shape [rows, columns], or [rows] if `columns` is 0.
  WeightView tensor(const TensorName& name, std::string_view suffix, uint64_t rows, uint64_t columns,
                    std::string_view component, const GgufTransform& transform = {});
  // A tensor of any shape as a matrix: its rows are the first dimension, its columns all others.
  WeightView flat_tensor(const TensorName& name, std::string_view suffix, std::vector<uint64_t> shape,
                         std::string_view component);
  // A tensor of any shape as a matrix: its columns are the last dimension, its rows all others.
  WeightView shaped_tensor(const TensorName& name, std::string_view suffix, std::vector<uint64_t> shape,
                           std::string_view component, const GgufTransform& transform = {});
  // A tensor that Hugging Face's files store transposed, as [columns, rows].
  WeightView transposed_tensor(const TensorName& name, uint64_t rows, uint64_t columns,
                               std::string_view component, std::string_view suffix = ".weight");
  // A tensor without a suffix that both formats store transposed.
  WeightView transposed_in_both(const TensorName& name, uint64_t rows, uint64_t columns,
                                std::string_view component);
  // A vector, which GGUF has in the given shape.
  WeightView vector_tensor(const TensorName& name, std::string_view suffix, uint64_t size,
                           std::vector<uint64_t> gguf_shape, std::string_view component,
                           const GgufTransform& transform = {});
  // A matrix of one row, [1, columns]; GGUF has it as a vector.
  WeightView row_tensor(const TensorName& name, uint64_t columns, std::string_view component);
  // A vector that Hugging Face's file has as its only row. Without a suffix.
  WeightView row_as_vector(const TensorName& name, uint64_t count, std::string_view component);
  // The weights of a convolution of each channel by itself, [channels, taps].
  WeightView channel_taps(const TensorName& name, uint64_t channels, uint64_t taps,
                          std::string_view component);
  // Cuts one tensor into several matrices with `counts` rows each. GGUF stores one matrix after the other.
  // Hugging Face's file consists of `groups` groups; each has an equal part of each matrix.
  std::vector<WeightView> fused_tensor(const TensorName& name, std::string_view suffix,
                                       std::span<const uint64_t> counts, uint64_t columns, uint64_t groups,
                                       std::string_view component, const GgufTransform& transform = {});
  // Cuts one tensor of Hugging Face's file into several matrices with `rows` rows each, which GGUF has apart
  // under the given names.
  std::vector<WeightView> split_tensor(std::string_view hugging_face, std::span<const std::string_view> gguf,
                                       uint64_t rows, uint64_t columns, std::string_view component);
  // A matrix for each expert. Hugging Face's file has a tensor for each, with {} for the expert's number in
  // `name`; GGUF has one tensor of three dimensions.
  std::vector<WeightView> expert_tensors(const TensorName& name, uint32_t experts, uint64_t rows,
                                         uint64_t columns);
  // The same where Hugging Face's file has one tensor too, without a suffix.
  std::vector<WeightView> stacked_expert_tensors(const TensorName& name, uint32_t experts, uint64_t rows,
                                                 uint64_t columns, const ExpertRows& part);
  // The same of GGUF's tensor [experts, part.all, columns], which is not transposed.
  std::vector<WeightView> merged_gguf_experts(const TensorName& name, uint32_t experts, uint64_t rows,
                                              uint64_t columns, const ExpertRows& part);
  // A matrix for each head. Hugging Face's file has one tensor of all heads, [heads * part.all, columns], or
  // [heads * part.all, rows] if transposed, with this suffix; GGUF has a tensor [heads, rows, columns].
  std::vector<WeightView> head_tensors(const TensorName& name, uint32_t heads, uint64_t rows,
                                       uint64_t columns, const ExpertRows& part, std::string_view component,
                                       std::string_view suffix = ".weight");
  // The biases of such matrices, one after the other, [experts, part.all]. Hugging Face's name ends in _bias.
  WeightView stacked_expert_biases(const TensorName& name, uint32_t experts, uint64_t rows,
                                   const ExpertRows& part);
  // A tensor that `fill` computes of others, which were looked up before. Its name, after the prefix, must
  // not be one of the file's.
  WeightView derived_tensor(std::string_view name, std::vector<uint64_t> shape,
                            const std::function<void(std::span<float>)>& fill);
  WeightId weight(const WeightView& view, std::string_view component);

  // Operations.

  std::string node_name(const TensorName& name) const;
  TensorId project(TensorId x, const TensorName& name, uint32_t rows, bool bias, std::string_view component);
  TensorId project(TensorId x, const std::string& name, const WeightView& weight, const WeightView* bias,
                   std::string_view component);
  // The weight of a norm as the file stores it. The model uses weight + `weight_offset`; GGUF files have the
  // offset added already. Conversion to GGUF also multiplies the weight by `gguf_scale`.
  WeightId norm_weight(const TensorName& name, uint64_t size, float weight_offset = 0, float gguf_scale = 1);
  TensorId rms_norm(TensorId x, const TensorName& name, float eps, float weight_offset = 0);
  // The suffixes of the weight's and the bias's names. Without the latter there is no bias.
  TensorId layer_norm(TensorId x, const TensorName& name, float eps, std::string_view weight = ".weight",
                      std::string_view bias = ".bias", float weight_offset = 0);
  TensorId add(TensorId a, TensorId b, std::string_view name);

  // Results.

  void fail(Error error); // only the first error is stored
  const Status& status() const { return status_; }
  const std::vector<WeightSpec>& specs() const { return specs_; }
  const std::vector<GgufTensor>& gguf_tensors() const { return gguf_tensors_; } // for a Hugging Face file
  std::vector<OtherForm>& other_forms() { return other_forms_; }
  // Adds a tensor to the model's GGUF form, made of `slices` of the file's tensors, unless it has no name
  // there. The functions above call it; call it only for tensors that the graph does not use.
  void add_gguf_tensor(const TensorName& name, std::string_view suffix, std::vector<uint64_t> shape,
                       std::vector<WeightView> slices, const GgufTransform& transform = {});

private:
  const TensorView* find(const std::string& name, const std::vector<uint64_t>& shape,
                         std::string_view component);
  void add_other_form(const TensorName& name, const std::vector<WeightView>& parts,
                      const GgufTransform& transform);
  WeightView stored_transposed(const std::string& name, uint64_t rows, uint64_t columns,
                               std::string_view component);
  // A matrix for each expert of GGUF's tensor [experts, rows, columns].
  std::vector<WeightView> gguf_expert_tensors(const TensorName& name, uint32_t experts, uint64_t rows,
                                              uint64_t columns);
  std::string full_name(const TensorName& name, std::string_view suffix, bool gguf) const;
  std::string hugging_face_name(std::string name) const; // without "model." if the file's names lack it

  const bool gguf_;
  const ModelFile* file_;
  const std::string root_;
  const bool bare_;
  std::string hugging_face_prefix_, gguf_prefix_;
  Graph graph_;
  Status status_;
  std::vector<WeightSpec> specs_;
  std::vector<GgufTensor> gguf_tensors_;
  std::vector<OtherForm> other_forms_;
  std::map<std::string, const TensorView*> found_;
  std::deque<TensorView> placeholders_; // for weights that are missing or only listed
};

} // namespace pumice

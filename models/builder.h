#pragma once

#include <deque>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/architecture.h"
#include "model/gguf_tensor.h"

namespace pumice {

// A tensor's name in each format, without the layer's prefix and without ".weight".
struct TensorName {
  std::string_view hugging_face;
  std::string_view gguf;
};

// What a tensor's GGUF twin has done to it.
struct GgufChange {
  uint32_t rotary_heads = 0; // of the pairs that llama.cpp keeps as neighbours
  uint32_t rotary_dim = 0;   // the dimensions of a head that turn; 0: all of them
  float offset = 0;
  float scale = 1;
};

// Describes a model once: its weights, under the names of either format, and its graph. With a file the
// weights are found in it and checked; without one they are only listed. The first error is kept, and what
// follows goes on with weights that are not there.
class ModelBuilder {
public:
  // Every name of a Hugging Face file begins with `root`.
  ModelBuilder(bool gguf, const ModelFile* file, std::string root = {});

  bool gguf() const { return gguf_; }
  Graph& graph() { return graph_; }

  // Names that follow get this in front of them.
  void prefix(std::string hugging_face, std::string gguf);
  void layer(uint32_t layer, std::string_view hugging_face, std::string_view gguf = "blk.{}.");
  // Of the file's format: for the names of nodes.
  const std::string& prefix() const { return gguf_ ? gguf_prefix_ : hugging_face_prefix_; }

  // Weights.

  bool has(const TensorName& name, std::string_view suffix) const; // whether the file has it
  // A tensor of the shape [rows, columns], or [rows] where columns is 0.
  WeightView tensor(const TensorName& name, std::string_view suffix, uint64_t rows, uint64_t columns,
                    std::string_view component, const GgufChange& change = {});
  // One of any shape: rows along its first dimension.
  WeightView flat_tensor(const TensorName& name, std::string_view suffix, std::vector<uint64_t> shape,
                         std::string_view component);
  // One of any shape: rows of its last dimension, and a single row where only that one is above 1.
  WeightView shaped_tensor(const TensorName& name, std::string_view suffix, std::vector<uint64_t> shape,
                           std::string_view component, const GgufChange& change = {});
  // One that Hugging Face keeps the other way round, [columns, rows].
  WeightView transposed_tensor(const TensorName& name, uint64_t rows, uint64_t columns,
                               std::string_view component);
  // Parts of one tensor that are rows of their own, `counts` of each. Interleaved: Hugging Face's file has
  // `interleaved_run` rows of each part in turn, GGUF's one part after the other.
  std::vector<WeightView> fused_tensor(const TensorName& name, std::string_view suffix,
                                       std::span<const uint64_t> counts, uint64_t columns,
                                       uint64_t interleaved_run, std::string_view component);
  // A matrix for each expert: tensors of their own in Hugging Face's file, whose name has {} for the number,
  // and one of three dimensions in GGUF.
  std::vector<WeightView> expert_tensors(const TensorName& name, uint32_t experts, uint64_t rows,
                                         uint64_t columns);
  WeightId weight(const WeightView& view, std::string_view component);

  // Operations.

  std::string node_name(const TensorName& name) const;
  TensorId project(TensorId x, const TensorName& name, uint32_t rows, bool bias, std::string_view component);
  TensorId project(TensorId x, const std::string& name, const WeightView& weight, const WeightView* bias,
                   std::string_view component);
  // The weight of a norm as the file has it. It is `weight_offset` more than Hugging Face's file says; GGUF
  // has that added already.
  WeightId norm_weight(const TensorName& name, uint64_t size, float weight_offset = 0, float gguf_scale = 1);
  TensorId rms_norm(TensorId x, const TensorName& name, float eps, float weight_offset = 0);
  TensorId layer_norm(TensorId x, const TensorName& name, float eps, std::string_view weight = ".weight",
                      std::string_view bias = ".bias");
  TensorId add(TensorId a, TensorId b, std::string_view name);

  // Results.

  void fail(Error error); // unless something else has failed already
  const Status& status() const { return status_; }
  const std::vector<WeightSpec>& specs() const { return specs_; }
  const std::vector<GgufTensor>& gguf_tensors() const { return gguf_tensors_; } // of a Hugging Face file
  // A tensor of the GGUF twin that the graph itself has no use for.
  void twin(const TensorName& name, std::string_view suffix, std::vector<uint64_t> shape,
            std::vector<WeightView> parts, const GgufChange& change = {});

private:
  const TensorView* find(const std::string& name, const std::vector<uint64_t>& shape,
                         std::string_view component);
  std::string full_name(const TensorName& name, std::string_view suffix, bool gguf) const;

  const bool gguf_;
  const ModelFile* file_;
  const std::string root_;
  std::string hugging_face_prefix_, gguf_prefix_;
  Graph graph_;
  Status status_;
  std::vector<WeightSpec> specs_;
  std::vector<GgufTensor> gguf_tensors_;
  std::map<std::string, const TensorView*> found_;
  std::deque<TensorView> listed_; // stand-ins
};

} // namespace pumice

// Vectors of texts: PumiceEmbedder, and what a character remembers.
#pragma once

#include <pumice/pumice.h>

#include <memory>
#include <string>
#include <vector>

#include "tasks.h"

namespace godot {

// Of one model, used by one thread at a time.
class Embedding {
public:
  // Where and for how long it computes.
  struct Frames {
    Slices& slices;
    float budget_us;
    const std::atomic<bool>& leaving;
  };
  // Makes the embedder with the first call. Vectors have the length 1. Returns a sentence where it fails.
  std::string embed(pumice_model* model, const std::string& pooling, const std::vector<std::string>& texts,
                    const Frames& frames, std::vector<std::vector<float>>& vectors);
  void forget() { embedder_.reset(); }

private:
  struct Destroy {
    void operator()(pumice_embedder* embedder) const { pumice_embedder_destroy(embedder); }
  };
  std::unique_ptr<pumice_embedder, Destroy> embedder_;
};

// The cosine of the angle between two vectors; 0 where one is empty.
double cosine(const std::vector<float>& left, const std::vector<float>& right);

class Embedder : public TaskNode {
public:
  using TaskNode::TaskNode;
  ~Embedder() override { leave(); }
  static std::unique_ptr<Class> make_class();

private:
  void embed(const std::vector<std::string>& texts);
  void forget() override { embedding_.forget(); }

  Embedding embedding_;
};

} // namespace godot

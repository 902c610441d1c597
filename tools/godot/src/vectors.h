// Vectors of texts: PumiceEmbedder, and what a character remembers.
#pragma once

#include <pumice/pumice.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "class.h"
#include "model.h"
#include "worker.h"

namespace godot {

// Of one model, used by one thread at a time.
class Embedding {
public:
  // Makes the embedder with the first call. Vectors have the length 1. Returns a sentence where it fails.
  std::string embed(pumice_model* model, const std::string& pooling, const std::vector<std::string>& texts,
                    std::vector<std::vector<float>>& vectors);
  void forget() { embedder_.reset(); }

private:
  struct Destroy {
    void operator()(pumice_embedder* embedder) const { pumice_embedder_destroy(embedder); }
  };
  std::unique_ptr<pumice_embedder, Destroy> embedder_;
};

// The cosine of the angle between two vectors; 0 where one is empty.
double cosine(const std::vector<float>& left, const std::vector<float>& right);

class Embedder : public Instance {
public:
  Embedder(const Class& of_class, GDExtensionObjectPtr object) : Instance(of_class, object) {}
  ~Embedder() override {
    leaving_ = true;
    worker_.stop();
  }
  static std::unique_ptr<Class> make_class();
  void notified(int32_t what) override;
  void changed(const std::string& property) override;
  void release() override {
    leaving_ = true;
    worker_.stop();
    embedding_.forget();
  }

private:
  void embed(const std::vector<std::string>& texts);

  std::atomic<bool> leaving_ = false, stale_ = false;
  Embedding embedding_;
  Worker worker_;
};

} // namespace godot

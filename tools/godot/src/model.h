// PumiceModel: a file with a model, and the model on a device once it is loaded.
#pragma once

#include <pumice/pumice.h>

#include <atomic>
#include <future>
#include <memory>
#include <string>
#include <thread>

#include "class.h"

namespace godot {

// What a load has come to: a model, or a sentence that says why there is none.
struct Loaded {
  std::shared_ptr<pumice_model> model;
  bool on_engine_device = false;
  std::string failure;
};
using Loading = std::shared_future<Loaded>;

class Model : public Instance {
public:
  using Instance::Instance;
  ~Model() override { cancel(); }
  static std::unique_ptr<Class> make_class();

  // Starts to load in the background, if that has not been done.
  Loading load();
  void changed(const std::string& property) override;
  void release() override { cancel(); }

  // Loads in the background; nothing if the variant is no PumiceModel.
  static Loading load(const Variant& model);

private:
  struct Request;
  Loaded run(const Request& request);
  void cancel();
  void poll(); // on the main thread, until it is loaded
  Variant info();

  Loading loading_;
  std::thread thread_;
  std::atomic<bool> stop_ = false;
  std::atomic<uint64_t> done_ = 0, total_ = 0;
};

} // namespace godot

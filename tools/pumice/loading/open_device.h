#pragma once

#include <filesystem>
#include <functional>
#include <memory>

#include "kernel/device_context.h"
#include "model/model.h"
#include "options/options.h"
#include "terminal/terminal.h"
#include "tuning/tune_model.h"

namespace pumice::command {

// The device that a subcommand uses, and the folder of its compiled pipelines.
struct OpenedDevice {
  DeviceOptions options;
  DeviceContext context;
  std::filesystem::path cache;      // empty: none
  bool cache_was_asked_for = false; // by --cache
  bool tunes = false;               // whether loading a model measures kernel variants that are not known yet
  bool shared = false;              // as FoundDevice::shared
  std::vector<OpenedDevice> before; // with --devices: those of the stages before the last one, which is this
  struct Checking;                  // of a model's kernels, meanwhile
  std::shared_ptr<Checking> checking;
  struct MemoryNote;
  std::shared_ptr<const MemoryNote> at_end; // prints the most memory that was taken, for --verbose

  const Capabilities& capabilities() const { return context.device->capabilities(); }
  std::string name() const { return capabilities().name; }
  std::string driver() const; // name and version
  // Saves the compiled pipelines, and ends the check of kernels. If they cannot be saved, that is an error
  // for a folder of --cache, and only a note for the default folder.
  Status save_pipelines() const;
};

struct FoundDevice {
  DeviceContext context;
  bool beside_gpu = false; // or one itself
  bool shared = false;     // with other runs, which begin when this one has ended: nothing goes on beside it
};
// How a run comes to a device. `cache`: the folder, or empty.
using DeviceSource =
    std::function<Result<FoundDevice>(const DeviceOptions& options, const std::filesystem::path& cache)>;
// A new device, on an instance of its own.
Result<FoundDevice> new_device(const DeviceOptions& options, const std::filesystem::path& cache);
// For a run that begins: its devices come from here, from new_device() if it is empty. No kernels were
// compiled, and the validation layers have said nothing.
void use_devices(DeviceSource source);

Result<std::shared_ptr<Instance>> create_instance(const DeviceOptions& options);
// Prints a note on standard error if only a CPU device was found. With --devices it opens all of them.
Result<OpenedDevice> open_device(const DeviceOptions& options);

// Loads a model's weights to the device and shows a progress bar. Before that it measures the kernel variants
// that are not known yet, for a second (on a GPU, up to fifteen), in a child process. `size`: of the sessions
// to measure for; null: of usual ones.
Result<std::shared_ptr<const Model>> load_model(OpenedModel model, const OpenedDevice& device,
                                                const LoadOptions& options,
                                                const SizeOptions* size = nullptr);
// The same for sessions of this size. With --fit, it becomes what was chosen; a note says so where that is
// not what it was.
Result<std::shared_ptr<const Model>> load_fitting_model(OpenedModel model, const OpenedDevice& device,
                                                        SizeOptions& size);

// Saves the tuning results, prints a note for each blocked variant, and returns the new profile.
DeviceProfile apply_tuning(const Tuning& tuning, const OpenedDevice& device);

// Where compiled kernels and measurements are kept without --cache. Empty if the user has no such folder.
std::filesystem::path default_cache_folder();
#ifdef _WIN32
inline constexpr const char* default_cache_text = "%LOCALAPPDATA%\\pumice";
#else
inline constexpr const char* default_cache_text = "$XDG_CACHE_HOME/pumice or ~/.cache/pumice";
#endif

// The kernels that this run has compiled so far, and the seconds that it took.
struct CompiledKernels {
  uint64_t count = 0;
  double seconds = 0;
};
CompiledKernels compiled_kernels();
// "compiled 23 kernels in 3.214 s", as a line; empty if none was compiled.
std::string compiled_text();

// Measures computing alone: the seconds since its construction in which no kernels were compiled.
class ComputeWatch {
public:
  double seconds() const { return watch_.seconds() - (compiled_kernels().seconds - before_); }

private:
  Stopwatch watch_;
  double before_ = compiled_kernels().seconds;
};

// The number of messages from the validation layers so far.
uint64_t validation_messages();

} // namespace pumice::command

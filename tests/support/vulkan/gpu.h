#pragma once

#include <span>
#include <string>
#include <vector>

#include "gpu/buffer.h"
#include "gpu/commands.h"
#include "gpu/pipelines.h"
#include "kernel/device_profile.h"
#include "kernel/dispatch.h"
#include "kernel/launcher.h"
#include "kernel/probe/open_device.h"

// A row of the step block, as in shaders/common/step.h.
struct StepRow {
  uint32_t token = 0;
  uint32_t position = 0;
  uint32_t sequence = 0;
  uint32_t first_visible = 0;
};

// A device for tests of single kernels, with validation on. Every message of the validation layers is kept,
// and the test program fails if there was one (see main.cpp).
class TestGpu {
public:
  static TestGpu& get(); // made at first use; the test fails if there is no device

  pumice::BufferRef upload(std::span<const std::byte> bytes);
  template <class T>
  pumice::BufferRef upload(const std::vector<T>& values) {
    return upload(std::as_bytes(std::span(values)));
  }
  template <class T>
  std::vector<T> read(const pumice::BufferRef& ref) {
    std::vector<T> values(ref.bytes / sizeof(T));
    read_bytes(ref, std::as_writable_bytes(std::span(values)));
    return values;
  }
  // A step block for `rows` rows, `outputs` of them wanted; positions count up from `position`.
  pumice::BufferRef step(uint32_t rows, uint32_t outputs = 0, uint32_t position = 0);
  // One with these rows, and with these of them wanted; it has room for `capacity` rows.
  pumice::BufferRef step(std::span<const StepRow> rows, std::span<const uint32_t> outputs, uint32_t capacity);

  // Runs dispatches in order with a barrier between any two. Some are run in parts, as long ones are, which
  // changes no bit: which ones and how many parts depends on the kernel and its workgroups.
  void run(std::span<const pumice::Dispatch> dispatches);
  void run(const pumice::Dispatch& dispatch) { run(std::span(&dispatch, 1)); }
  // Seconds for one run of a dispatch: the median of several submissions of several copies each.
  double time(const pumice::Dispatch& dispatch, int copies = 8, int samples = 7);
  // Frees every buffer, and the pipelines where there are many on a CPU driver, which keeps megabytes for
  // some.
  void clear();

  const std::shared_ptr<pumice::Instance>& instance() { return instance_; }
  const std::shared_ptr<pumice::Device>& device() { return device_; }
  const pumice::DeviceContext& context() { return context_; }
  pumice::DeviceProfile profile; // as chosen for the device; a test may change its copy

private:
  TestGpu();
  void read_bytes(const pumice::BufferRef& ref, std::span<std::byte> bytes);
  pumice::Commands record(pumice::Launcher& launcher,
                          std::span<const std::vector<pumice::Dispatch>> launches);

  pumice::DeviceContext context_;
  std::shared_ptr<pumice::Instance> instance_;
  std::shared_ptr<pumice::Device> device_;
  std::shared_ptr<pumice::Pipelines> pipelines_;
  std::vector<pumice::Buffer> buffers_;
};

// Every profile this device can run, the chosen one first: kernels are tested in all of them. A short run has
// the plain one in every other call, and of the others one beside the chosen one.
std::vector<pumice::DeviceProfile> profiles_to_test();

// The profile of a common GPU, as far as this device can run it, in which a variant is demanded.
pumice::DeviceProfile forced_profile(std::string variant);

// What the validation layers have said in this process so far.
std::vector<std::string>& validation_messages();

// sqrt(sum (a-b)^2 / sum b^2): the error that the fixtures' bounds are stated in.
double relative_rms(std::span<const float> a, std::span<const float> b);

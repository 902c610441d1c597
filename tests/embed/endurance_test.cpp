// What is done many times leaves nothing behind: memory, files, threads.
#ifdef __linux__
#include <vulkan/vulkan.h>

#include <malloc.h>

#include <algorithm>
#include <array>
#include <utility>

#include "support/command/process.h"
#include "support/embedding.h"

namespace {

// What rounds of something left in the process.
struct Growth {
  ProcessUse before, after;
  double kib_per_round = 0;
};

// In five parts, after a first one that does not count. What leaks grows in every part; what grows in one or
// two of them is what is kept for good: the allocator's pools, a driver's tables. So the middle one of the
// five says how much a round leaves.
template <class Round>
Growth repeat(size_t rounds, const Round& round) {
  constexpr size_t parts = 5;
  mallopt(M_ARENA_MAX, 1); // else each thread that comes may find another pool to fill
  const auto part = [&] {
    for (size_t i = 0; i < rounds / parts; ++i) round();
    malloc_trim(0);
    return ProcessUse::now();
  };
  Growth growth;
  growth.before = growth.after = part();
  std::array<int64_t, parts> grown;
  for (int64_t& kib : grown) {
    const ProcessUse last = std::exchange(growth.after, part());
    kib = growth.after.anonymous_kib - last.anonymous_kib;
  }
  std::sort(grown.begin(), grown.end());
  growth.kib_per_round = static_cast<double>(grown[parts / 2]) / static_cast<double>(rounds / parts);
  return growth;
}

// AddressSanitizer keeps what is freed for a while, and finds leaks itself.
#if defined(__SANITIZE_ADDRESS__)
constexpr bool keeps_freed_memory = true;
#elif defined(__has_feature)
constexpr bool keeps_freed_memory = __has_feature(address_sanitizer);
#else
constexpr bool keeps_freed_memory = false;
#endif

// A leak grows each time; where a busy machine has the allocator's pools grow, another time shows it.
template <class Round>
void check_nothing_left(const std::string& what, double allowed_kib_per_round, size_t rounds,
                        const Round& round) {
  Growth growth;
  int left = 3;
  do {
    growth = repeat(rounds, round);
  } while (--left > 0 && growth.kib_per_round > allowed_kib_per_round);
  MESSAGE(what << ": " << growth.kib_per_round << " KiB a round, " << growth.after.files << " files, "
               << growth.after.threads << " threads");
  if (!keeps_freed_memory) CHECK(growth.kib_per_round <= allowed_kib_per_round);
  CHECK(growth.after.files == growth.before.files);
  CHECK(growth.after.threads == growth.before.threads);
}

void say_something(pumice_device* device) {
  const ModelHandle model = load(device);
  pumice_session_options options = {sizeof options};
  options.context = 64;
  options.chunk = 8;
  const SessionHandle session = make_session(model.get(), options);
  CHECK(tell(session.get(), "Once upon a time", 4).tokens.size() == 4);
}

// An instance and a device with one queue, without Pumice.
class BareDevice {
public:
  explicit BareDevice(PFN_vkGetInstanceProcAddr get) : get_(get) {
    VkApplicationInfo application{VK_STRUCTURE_TYPE_APPLICATION_INFO};
    application.apiVersion = VK_API_VERSION_1_2;
    VkInstanceCreateInfo instance{VK_STRUCTURE_TYPE_INSTANCE_CREATE_INFO};
    instance.pApplicationInfo = &application;
    REQUIRE(function<PFN_vkCreateInstance>("vkCreateInstance")(&instance, nullptr, &instance_) == VK_SUCCESS);
    uint32_t count = 1;
    VkPhysicalDevice physical = VK_NULL_HANDLE;
    REQUIRE(function<PFN_vkEnumeratePhysicalDevices>("vkEnumeratePhysicalDevices")(instance_, &count,
                                                                                   &physical) >= VK_SUCCESS);
    const float priority = 1;
    VkDeviceQueueCreateInfo queue{VK_STRUCTURE_TYPE_DEVICE_QUEUE_CREATE_INFO};
    queue.queueCount = 1;
    queue.pQueuePriorities = &priority;
    VkDeviceCreateInfo device{VK_STRUCTURE_TYPE_DEVICE_CREATE_INFO};
    device.queueCreateInfoCount = 1;
    device.pQueueCreateInfos = &queue;
    REQUIRE(function<PFN_vkCreateDevice>("vkCreateDevice")(physical, &device, nullptr, &device_) ==
            VK_SUCCESS);
  }
  ~BareDevice() {
    function<PFN_vkDestroyDevice>("vkDestroyDevice")(device_, nullptr);
    function<PFN_vkDestroyInstance>("vkDestroyInstance")(instance_, nullptr);
  }
  BareDevice(const BareDevice&) = delete;
  BareDevice& operator=(const BareDevice&) = delete;

private:
  template <class Function>
  Function function(const char* name) const {
    return reinterpret_cast<Function>(get_(instance_, name));
  }

  PFN_vkGetInstanceProcAddr get_;
  VkInstance instance_ = VK_NULL_HANDLE;
  VkDevice device_ = VK_NULL_HANDLE;
};

PFN_vkGetInstanceProcAddr loader() {
  const DeviceHandle device = make_device();
  pumice_vulkan vulkan = {sizeof vulkan};
  pumice_device_vulkan(device.get(), &vulkan, nullptr);
  return reinterpret_cast<PFN_vkGetInstanceProcAddr>(vulkan.get_instance_proc_addr);
}

// The validation layers keep something of every object that there was.
DeviceHandle make_plain_device() {
  pumice_device_options options = {sizeof options};
  pumice_device* device = nullptr;
  pumice_error error;
  require_ok(pumice_device_create(&options, &device, &error), error);
  return DeviceHandle(device);
}

} // namespace

TEST_CASE("a model that is loaded and unloaded a hundred times leaves nothing behind" *
          doctest::test_suite("long")) {
  const DeviceHandle device = make_plain_device();
  say_something(device.get());
  const uint64_t memory = allocated(device.get());
  check_nothing_left("a model", 2, 100, [&] {
    say_something(device.get());
    CHECK(allocated(device.get()) == memory);
  });
}

TEST_CASE("a device that is made and destroyed fifty times leaves no more behind than a bare one" *
          doctest::test_suite("long")) {
  const PFN_vkGetInstanceProcAddr get = loader();
  const Growth bare = repeat(50, [&] { const BareDevice device(get); });
  MESSAGE("a bare device: " << bare.kib_per_round << " KiB a round");
  check_nothing_left("a device", std::max(0.0, bare.kib_per_round) + 4, 50,
                     [] { CHECK(allocated(make_plain_device().get()) == 0); });
}
#endif

// Makes the pipelines of models' plans, in each kernel variant that the device can run, and writes what the
// driver's compiler says of them. Nothing runs, so the device need not exist: tools/compilers.sh uses Mesa's
// drm-shims.
//   kernel_statistics FILE SOURCE...
// SOURCE: a weight type ("Q4_0"), for llamas with such weights, of the size of common ones; a family of
// kernels that they lack ("delta_rule"), for models with it; or a folder with a config.json. FILE gets a line
// for each executable of each pipeline: the kernel, its constants, the seconds that compiling took (of a
// processor), and NAME=VALUE for each statistic, between tabs; "Bytes in flight" is ours (bytes_in_flight.h).
// FILE.order gets the order of variants that follows (variant_cost.h), and FILE.costs the costs, of the
// families of which the sources have all that decides: of products and attention all types of cost_models.h.
// Where they have all families, a variant without a cost is an error.
#include <cctype>
#include <cmath>
#include <ctime>
#include <fstream>
#include <iostream>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "compilers/bytes_in_flight.h"
#include "compilers/cost_models.h"
#include "compilers/variant_cost.h"
#include "gpu/kernel_table.h"
#include "kernel/choices.h"
#include "kernel/probe/open_device.h"
#include "step/cache/memory_needs.h"
#include "step/runner_layout.h"
#include "support/files/temporary_folder.h"

using namespace pumice;

namespace {

// The driver's functions, and what it said of the last pipeline. The table of a device has functions without
// a context of their own.
struct Driver {
  PFN_vkGetInstanceProcAddr get_instance_proc_addr = nullptr;
  VkInstance instance = VK_NULL_HANDLE;
  PFN_vkGetDeviceProcAddr get_device_proc_addr = nullptr;
  std::vector<std::string> statistics; // one for each executable
} driver;

template <class Function>
Function of_instance(const char* name) {
  return reinterpret_cast<Function>(driver.get_instance_proc_addr(driver.instance, name));
}

template <class Function>
Function of_device(VkDevice device, const char* name) {
  return reinterpret_cast<Function>(driver.get_device_proc_addr(device, name));
}

VKAPI_ATTR VkResult VKAPI_CALL create_device(VkPhysicalDevice physical, const VkDeviceCreateInfo* info,
                                             const VkAllocationCallbacks* allocation, VkDevice* device) {
  VkPhysicalDevicePipelineExecutablePropertiesFeaturesKHR feature{
      VK_STRUCTURE_TYPE_PHYSICAL_DEVICE_PIPELINE_EXECUTABLE_PROPERTIES_FEATURES_KHR};
  feature.pNext = const_cast<void*>(info->pNext);
  feature.pipelineExecutableInfo = VK_TRUE;
  std::vector<const char*> extensions(info->ppEnabledExtensionNames,
                                      info->ppEnabledExtensionNames + info->enabledExtensionCount);
  extensions.push_back(VK_KHR_PIPELINE_EXECUTABLE_PROPERTIES_EXTENSION_NAME);
  VkDeviceCreateInfo with = *info;
  with.pNext = &feature;
  with.ppEnabledExtensionNames = extensions.data();
  with.enabledExtensionCount = static_cast<uint32_t>(extensions.size());
  return of_instance<PFN_vkCreateDevice>("vkCreateDevice")(physical, &with, allocation, device);
}

std::string value_text(const VkPipelineExecutableStatisticKHR& statistic) {
  switch (statistic.format) {
  case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_BOOL32_KHR:
    return std::to_string(statistic.value.b32);
  case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_INT64_KHR:
    return std::to_string(statistic.value.i64);
  case VK_PIPELINE_EXECUTABLE_STATISTIC_FORMAT_UINT64_KHR:
    return std::to_string(statistic.value.u64);
  default:
    return std::to_string(statistic.value.f64);
  }
}

// Of the listing that bytes_in_flight() knows, if the driver has one.
std::optional<double> bytes_in_flight_of(VkDevice device, const VkPipelineExecutableInfoKHR& executable) {
  const auto listings = of_device<PFN_vkGetPipelineExecutableInternalRepresentationsKHR>(
      device, "vkGetPipelineExecutableInternalRepresentationsKHR");
  uint32_t count = 0;
  listings(device, &executable, &count, nullptr);
  std::vector<VkPipelineExecutableInternalRepresentationKHR> all(
      count, {VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INTERNAL_REPRESENTATION_KHR});
  listings(device, &executable, &count, all.data());
  std::vector<std::string> texts;
  texts.reserve(count); // short texts move with their strings
  for (auto& each : all) each.pData = texts.emplace_back(each.dataSize, '\0').data();
  listings(device, &executable, &count, all.data());
  for (size_t i = 0; i < all.size(); ++i) {
    if (!all[i].isText) continue;
    if (const auto bytes = bytes_in_flight(all[i].name, texts[i])) return bytes;
  }
  return {};
}

std::vector<std::string> statistics_of(VkDevice device, VkPipeline pipeline) {
  const auto properties =
      of_device<PFN_vkGetPipelineExecutablePropertiesKHR>(device, "vkGetPipelineExecutablePropertiesKHR");
  const auto statistics =
      of_device<PFN_vkGetPipelineExecutableStatisticsKHR>(device, "vkGetPipelineExecutableStatisticsKHR");
  const VkPipelineInfoKHR info{VK_STRUCTURE_TYPE_PIPELINE_INFO_KHR, nullptr, pipeline};
  uint32_t count = 0;
  properties(device, &info, &count, nullptr);
  std::vector<VkPipelineExecutablePropertiesKHR> executables(
      count, {VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_PROPERTIES_KHR});
  properties(device, &info, &count, executables.data());
  std::vector<std::string> lines;
  for (uint32_t i = 0; i < count; ++i) {
    const VkPipelineExecutableInfoKHR executable{VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_INFO_KHR, nullptr,
                                                 pipeline, i};
    uint32_t values = 0;
    statistics(device, &executable, &values, nullptr);
    std::vector<VkPipelineExecutableStatisticKHR> all(values,
                                                      {VK_STRUCTURE_TYPE_PIPELINE_EXECUTABLE_STATISTIC_KHR});
    statistics(device, &executable, &values, all.data());
    std::string& line = lines.emplace_back(fmt::format("Subgroup size={}", executables[i].subgroupSize));
    for (const auto& each : all) line += fmt::format("\t{}={}", each.name, value_text(each));
    if (const auto bytes = bytes_in_flight_of(device, executable))
      line += fmt::format("\tBytes in flight={}", *bytes);
  }
  return lines;
}

VKAPI_ATTR VkResult VKAPI_CALL create_pipelines(VkDevice device, VkPipelineCache cache, uint32_t count,
                                                const VkComputePipelineCreateInfo* infos,
                                                const VkAllocationCallbacks* allocation,
                                                VkPipeline* pipelines) {
  std::vector<VkComputePipelineCreateInfo> with(infos, infos + count);
  for (VkComputePipelineCreateInfo& info : with)
    info.flags |= VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR |
                  VK_PIPELINE_CREATE_CAPTURE_INTERNAL_REPRESENTATIONS_BIT_KHR;
  const auto create = of_device<PFN_vkCreateComputePipelines>(device, "vkCreateComputePipelines");
  const VkResult result = create(device, cache, count, with.data(), allocation, pipelines);
  driver.statistics.clear();
  if (result == VK_SUCCESS) driver.statistics = statistics_of(device, pipelines[0]);
  return result;
}

Result<DeviceContext> open_driver() {
  PUMICE_TRY(driver.get_instance_proc_addr, open_vulkan_loader());
  InstanceOptions options;
  options.table.vkGetInstanceProcAddr = driver.get_instance_proc_addr;
  options.table.vkCreateDevice = create_device;
  options.table.vkCreateComputePipelines = create_pipelines;
  PUMICE_TRY(std::shared_ptr<Instance> instance, Instance::create(options));
  driver.instance = instance->handle();
  driver.get_device_proc_addr = of_instance<PFN_vkGetDeviceProcAddr>("vkGetDeviceProcAddr");
  PUMICE_TRY(const Capabilities device, instance->choose());
  return open_device(std::move(instance), device, {});
}

// Of an executable: what statistics_of() wrote of it.
CompilerStatistics statistics_of_line(const std::string& line) {
  CompilerStatistics statistics;
  std::istringstream in(line);
  for (std::string each; std::getline(in, each, '\t');) {
    const size_t end = each.find('=');
    std::string name = each.substr(0, end);
    std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
    statistics[name] = std::stod(each.substr(end + 1));
  }
  return statistics;
}

void write_lines(std::filesystem::path path, const char* ending, const std::vector<std::string>& lines) {
  std::ofstream out(path += ending);
  for (const std::string& line : lines) out << line << '\n';
}

using Families = std::set<std::string, std::less<>>;

class Compiler {
public:
  Compiler(DeviceContext context, std::filesystem::path path)
      : context_(std::move(context)), path_(std::move(path)) {}

  const DeviceContext& context() const { return context_; }
  int failures() const { return failures_; }
  size_t made() const { return made_.size(); }
  const std::set<std::string>& kernels() const { return kernels_; }
  const VariantCosts& costs() const { return costs_; }
  // Of the models that are added from now on, the costs of these families count.
  void count_costs(Families families) { costs_count_ = std::move(families); }

  // All plans of sessions of this size, in each variant.
  Status add(const std::shared_ptr<const Model>& model, const SessionSize& size) {
    std::vector<std::string> variants = variant_names();
    variants.insert(variants.begin(), ""); // the plans' own choice, which says what is offered
    for (const std::string& variant : variants) {
      DeviceProfile profile = context_.profile;
      profile.forced = variant;
      PUMICE_CHECK(add_variant(*model->with_profile(profile), size));
    }
    return {};
  }

private:
  Status add_variant(const Model& model, const SessionSize& size) {
    PUMICE_TRY(const SessionRunners runners, usual_runners(model, size));
    std::optional<RunnerLayout> first;
    for (const RunnerOptions& runner : runners) {
      PUMICE_TRY(RunnerLayout layout, lay_out_runner(model, runner, first ? &first->memory : nullptr));
      const bool forced = !model.context().profile.forced.empty();
      for (const Plan& plan : layout.plans) PUMICE_CHECK(add(plan, forced));
      if (runner.part == ModelPart::decoder && size.sequences == 1) {
        const PlanContext context = layout.memory.plan_context(model.context(), model.weights());
        for (uint32_t tokens : {2u, 4u, 8u, 16u, 32u, 48u, 64u, 128u}) {
          if (tokens >= layout.memory.size.chunk) continue;
          PUMICE_TRY(const Plan plan, make_plan(layout.graph, context, {tokens, 1}));
          PUMICE_CHECK(add(plan, forced));
        }
      }
      if (!first) first = std::move(layout);
    }
    return {};
  }

  // `forced`: a variant that is named may run where a plan would not choose from it.
  Status add(const Plan& plan, bool forced) {
    std::vector<double> costs(plan.choices.size());
    for (const PlannedDispatch& each : plan.dispatches) {
      PUMICE_CHECK(add(each.dispatch));
      if (!each.choice) continue;
      costs[*each.choice] +=
          launch_cost(context_.profile.generation, each.dispatch,
                      made_[{each.dispatch.kernel, each.dispatch.constants}], context_.profile.busy_groups);
    }
    for (size_t i = 0; i < costs.size(); ++i) {
      const VariantChoice& choice = plan.choices[i];
      if (!costs_count_.contains(divide_class(choice.shape_class).family())) continue;
      std::set<std::string>& offered = offered_[choice.shape_class];
      if (!forced) offered.insert(choice.variants.begin(), choice.variants.end());
      if (offered.contains(choice.chosen)) costs_.add(choice, costs[i]);
    }
    return {};
  }

  // The file is opened for each line: Turnip closes descriptors that are not its own. The kernel's name is
  // there before it is compiled: it is what the last line ends with if the compiler dies.
  Status add(const Dispatch& dispatch) {
    kernels_.insert(dispatch.kernel);
    const auto [made, is_new] = made_.try_emplace({dispatch.kernel, dispatch.constants});
    if (!is_new) return {};
    const std::string begin = fmt::format("{}\t{}", dispatch.kernel, fmt::join(dispatch.constants, " "));
    std::ofstream(path_, std::ios::app) << begin;
    const std::clock_t start = std::clock(); // processor time: others' work does not count
    // The memory of a fake device is small, so only the last pipelines stay. Without any, RADV would give its
    // buffer back and take another, and the fake device gets none back.
    PUMICE_TRY(const std::shared_ptr<Pipelines> pipelines, Pipelines::create(context_.device, {}));
    const Result<VkPipeline> pipeline = pipelines->get(dispatch.kernel, dispatch.constants);
    const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    std::ofstream out(path_, std::ios::app);
    last_ = pipelines;
    if (!pipeline.ok()) {
      ++failures_;
      out << "\tFAILED: " << pipeline.error().text() << '\n';
      return {};
    }
    made->second = statistics_of_line(driver.statistics.empty() ? "" : driver.statistics.front());
    bool again = false;
    for (const std::string& statistics : driver.statistics) {
      out << (again ? begin : "") << fmt::format("\t{:.3f}\t{}\n", seconds, statistics);
      again = true;
    }
    return {};
  }

  DeviceContext context_;
  std::filesystem::path path_;
  std::shared_ptr<Pipelines> last_;
  std::map<std::pair<std::string, std::vector<uint32_t>>, CompilerStatistics> made_;
  VariantCosts costs_;
  Families costs_count_;
  std::map<std::string, std::set<std::string>> offered_; // variants by class of shapes
  std::set<std::string> kernels_;
  int failures_ = 0;
};

Status add_model(Compiler& compiler, ModelFile file) {
  PUMICE_TRY(const std::shared_ptr<const Model> model, Model::plan(std::move(file), compiler.context()));
  SessionSize size;
  size.chunk = 512;
  for (CacheType cache : {CacheType::f16, CacheType::f32, CacheType::q8_0}) {
    size.cache = cache;
    const Status added = compiler.add(model, size);
    // Not every cache can be quantised: a recurrent decoder's keeps its states.
    const bool refused = cache == CacheType::q8_0 && !added.ok() && added.error().code == Code::unsupported;
    if (!refused) PUMICE_CHECK(added);
  }
  size.cache = CacheType::f16;
  if (!model->shape().has_decoder()) return {};
  // Where a binding is small, the states of so many sequences may not fit one.
  for (size.chunk = size.sequences = 16;; size.chunk = size.sequences /= 2) {
    const Status added = compiler.add(model, size);
    const bool refused = !added.ok() && added.error().code == Code::unsupported;
    if (!refused || size.sequences == 2) return added;
  }
}

// A family in which a variant has no cost would keep an order that nobody estimated.
Status check_costs(const VariantCosts& costs) {
  std::set<std::string> missing = costs.missing();
  const std::vector<std::string> orders = costs.orders(GpuGeneration::unknown);
  for (const VariantSummary& each : kernel_variants()) {
    const std::string family = fmt::format(", {}, ", each.family);
    const bool known =
        std::ranges::any_of(orders, [&](const std::string& line) { return line.find(family) != line.npos; });
    if (!known) missing.insert(std::string(each.family));
  }
  if (missing.empty()) return {};
  return Error{Code::unsupported,
               fmt::format("no cost of {}: add its loops to kernel_loops.cpp, and a model to cost_models.cpp",
                           fmt::join(missing, ", "))};
}

Status add_source(Compiler& compiler, const std::string& source, bool all_types) {
  if (const TensorTypeInfo* type = find_type_named(source)) {
    const bool counts = all_types && std::ranges::count(cost_types, source) > 0;
    compiler.count_costs(counts ? Families{"attention", "matmul"} : Families{});
    for (const bool large : {false, true}) {
      PUMICE_TRY(ModelFile file, llama_model(type->type, large));
      PUMICE_CHECK(add_model(compiler, std::move(file)));
    }
    return {};
  }
  if (std::ranges::count(recurrence_families, source)) {
    compiler.count_costs({source});
    for (const bool large : {false, true}) {
      const TemporaryFolder folder;
      PUMICE_TRY(ModelFile file, recurrent_model(source, large, folder));
      PUMICE_CHECK(add_model(compiler, std::move(file)));
    }
    return {};
  }
  compiler.count_costs({});
  const TemporaryFolder folder;
  PUMICE_TRY(ModelFile file, folder_model(source, folder));
  return add_model(compiler, std::move(file));
}

Status run(const std::filesystem::path& path, std::span<char* const> sources) {
  PUMICE_TRY(DeviceContext context, open_driver());
  // A stand-in for a device says any number of cores, which busy_groups follows.
  context.profile.cores = 0;
  context.profile.busy_groups = DeviceProfile().busy_groups;
  Compiler compiler(std::move(context), path);
  const std::set<std::string> given(sources.begin(), sources.end());
  const auto is_prompt_row = [&](const char* source) { return given.contains(source); };
  const bool all_types = std::ranges::all_of(cost_types, is_prompt_row);
  const bool all_families = all_types && std::ranges::all_of(recurrence_families, is_prompt_row);
  for (const std::string source : sources) PUMICE_CHECK(add_source(compiler, source, all_types));
  Status priced;
  if (all_families) priced = check_costs(compiler.costs());
  write_lines(path, ".order", compiler.costs().orders(compiler.context().profile.generation));
  write_lines(path, ".costs", compiler.costs().costs());
  const Capabilities& device = compiler.context().device->capabilities();
  std::string never;
  const std::vector<std::string> tiers = device.tiers();
  for (const KernelBinary& kernel : kernel_binaries()) {
    const bool can = kernel.tier.empty() || std::ranges::count(tiers, kernel.tier) > 0;
    if (can && !compiler.kernels().contains(std::string(kernel.name)))
      never += fmt::format(" {}", kernel.name);
  }
  std::cerr << fmt::format("{} ({}): {} pipelines of {} kernels; in no plan:{}\n", device.name,
                           device.driver_version, compiler.made(), compiler.kernels().size(),
                           never.empty() ? " none" : never);
  if (compiler.failures() == 0) return priced;
  return Error{Code::unsupported, fmt::format("{} pipelines could not be made", compiler.failures())};
}

} // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::cerr << "usage: kernel_statistics FILE SOURCE...\n";
    return 2;
  }
  const Status status = run(argv[1], std::span(argv + 2, static_cast<size_t>(argc - 2)));
  if (status.ok()) return 0;
  std::cerr << "kernel_statistics: " << status.error().text() << '\n';
  return 1;
}

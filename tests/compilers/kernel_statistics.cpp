// Makes the pipelines of models' plans, in each kernel variant that the device can run, and writes what the
// driver's compiler says of them. Nothing runs, so the device need not exist: tools/compilers.sh uses Mesa's
// drm-shims.
//   kernel_statistics FILE SOURCE...
// SOURCE: a weight type ("Q4_0"), for llamas with such weights, of the size of common ones; or a folder with
// a config.json. FILE gets a line for each executable of each pipeline: the kernel, its constants, the
// seconds that compiling took (of a processor), and NAME=VALUE for each statistic, between tabs. FILE.order
// gets the order of variants that follows (variant_cost.h), and FILE.costs the costs, where the sources have
// all types of cost_types.
#include <cctype>
#include <cmath>
#include <ctime>
#include <fstream>
#include <iostream>
#include <set>
#include <sstream>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "compilers/variant_cost.h"
#include "gpu/kernel_table.h"
#include "kernel/probe/open_device.h"
#include "step/memory_needs.h"
#include "step/runner_layout.h"
#include "support/gguf_builder.h"
#include "support/temporary_folder.h"

using namespace pumice;

namespace {

// The types of weights whose costs decide the order of variants: plain ones, a block with a scale, and blocks
// with many.
constexpr const char* cost_types[] = {"F16", "Q4_0", "Q4_K", "Q6_K"};

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
  }
  return lines;
}

VKAPI_ATTR VkResult VKAPI_CALL create_pipelines(VkDevice device, VkPipelineCache cache, uint32_t count,
                                                const VkComputePipelineCreateInfo* infos,
                                                const VkAllocationCallbacks* allocation,
                                                VkPipeline* pipelines) {
  std::vector<VkComputePipelineCreateInfo> with(infos, infos + count);
  for (VkComputePipelineCreateInfo& info : with) info.flags |= VK_PIPELINE_CREATE_CAPTURE_STATISTICS_BIT_KHR;
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

// A llama whose matrices have this type, and zeros in them: as wide as one of 1 billion weights, or of 8. It
// has two layers: the last one computes only the rows of the output.
Result<ModelFile> llama(TensorType type, bool large) {
  constexpr uint32_t vocabulary = 32000, context = 1024;
  const uint32_t width = large ? 4096 : 2048, feed_forward = large ? 14336 : 8192,
                 head_dim = large ? 128 : 64;
  const uint32_t heads = width / head_dim, kv_width = width / 4;
  GgufBuilder file;
  file.string("general.architecture", "llama")
      .u32("llama.block_count", 2)
      .u32("llama.vocab_size", vocabulary);
  file.u32("llama.context_length", context).u32("llama.embedding_length", width);
  file.u32("llama.feed_forward_length", feed_forward).u32("llama.attention.head_count", heads);
  file.u32("llama.attention.head_count_kv", heads / 4);
  file.pair("llama.attention.layer_norm_rms_epsilon", GgufType::f32, 1e-5f);
  uint64_t bytes = 0;
  const auto tensor = [&](const std::string& name, std::vector<uint64_t> shape) {
    const TensorTypeInfo& kind = info(shape.size() == 1 ? TensorType::f32 : type);
    const std::vector<uint64_t> dims(shape.rbegin(), shape.rend());
    file.tensor({name, dims, kind.gguf_id, bytes});
    bytes = (bytes + tensor_bytes(kind.type, shape).value() + 31) / 32 * 32;
  };
  tensor("token_embd.weight", {vocabulary, width});
  tensor("output.weight", {vocabulary, width});
  tensor("output_norm.weight", {width});
  for (const std::string layer : {"blk.0.", "blk.1."}) {
    tensor(layer + "attn_norm.weight", {width});
    tensor(layer + "attn_q.weight", {width, width});
    tensor(layer + "attn_k.weight", {kv_width, width});
    tensor(layer + "attn_v.weight", {kv_width, width});
    tensor(layer + "attn_output.weight", {width, width});
    tensor(layer + "ffn_norm.weight", {width});
    tensor(layer + "ffn_gate.weight", {feed_forward, width});
    tensor(layer + "ffn_up.weight", {feed_forward, width});
    tensor(layer + "ffn_down.weight", {width, feed_forward});
  }
  const std::vector<std::byte> header = file.header();
  const ReadBytes read = [&](uint64_t at, std::span<std::byte> to) {
    for (size_t i = 0; i < to.size(); ++i) to[i] = at + i < header.size() ? header[at + i] : std::byte{0};
    return true;
  };
  return ModelFile::read_header(read, (header.size() + 31) / 32 * 32 + bytes,
                                fmt::format("llama of {}", info(type).name));
}

// The model that a config.json describes, with zeros for weights: the file has a hole where they would be.
Result<ModelFile> folder_model(const std::filesystem::path& config, const TemporaryFolder& folder) {
  for (const auto& each : std::filesystem::directory_iterator(config)) {
    if (each.path().extension() != ".json" || each.path().filename() == "weights.json") continue;
    std::filesystem::copy_file(each, folder.path() / each.path().filename());
  }
  PUMICE_TRY(const ModelFile bare, ModelFile::open(folder.path()));
  PUMICE_TRY(const std::unique_ptr<ModelDefinition> definition, open_model_definition(bare));
  nlohmann::json tensors;
  uint64_t bytes = 0;
  for (const WeightSpec& spec : definition->weights()) {
    const uint64_t end = bytes + tensor_bytes(TensorType::f16, spec.shape).value();
    tensors[spec.name] = {{"dtype", "F16"}, {"shape", spec.shape}, {"data_offsets", {bytes, end}}};
    bytes = end;
  }
  const std::string header = tensors.dump();
  ByteWriter begin;
  begin.number(static_cast<uint64_t>(header.size())).text(header);
  std::filesystem::resize_file(folder.write("model.safetensors", begin.bytes()), begin.size() + bytes);
  return ModelFile::open(folder.path());
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

class Compiler {
public:
  Compiler(DeviceContext context, std::filesystem::path path)
      : context_(std::move(context)), path_(std::move(path)) {}

  const DeviceContext& context() const { return context_; }
  int failures() const { return failures_; }
  size_t made() const { return made_.size(); }
  const std::set<std::string>& kernels() const { return kernels_; }
  const VariantCosts& costs() const { return costs_; }
  void costs_count(bool count) { costs_count_ = count; } // of the models that are added from now on

  // All plans of sessions of this size, in each variant.
  Status add(const std::shared_ptr<const Model>& model, const SessionSize& size) {
    std::vector<std::string> variants = variant_names();
    variants.emplace_back(); // the plans' own choice
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
      for (const Plan& plan : layout.plans) PUMICE_CHECK(add(plan));
      if (runner.part == ModelPart::decoder && size.sequences == 1) {
        const PlanContext context = layout.memory.plan_context(model.context(), model.weights());
        for (uint32_t tokens : {2u, 4u, 8u, 32u, 64u, 128u}) {
          if (tokens >= layout.memory.size.chunk) continue;
          PUMICE_TRY(const Plan plan, make_plan(layout.graph, context, {tokens, 1}));
          PUMICE_CHECK(add(plan));
        }
      }
      if (!first) first = std::move(layout);
    }
    return {};
  }

  Status add(const Plan& plan) {
    std::vector<double> costs(plan.choices.size());
    for (const PlannedDispatch& each : plan.dispatches) {
      PUMICE_CHECK(add(each.dispatch));
      if (!each.choice) continue;
      costs[*each.choice] +=
          launch_cost(context_.profile.generation, each.dispatch,
                      made_[{each.dispatch.kernel, each.dispatch.constants}], context_.profile.busy_groups);
    }
    for (size_t i = 0; i < costs.size(); ++i) {
      if (costs_count_ && std::isfinite(costs[i]) && costs[i] > 0) costs_.add(plan.choices[i], costs[i]);
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
  bool costs_count_ = true;
  std::set<std::string> kernels_;
  int failures_ = 0;
};

Status add_model(Compiler& compiler, ModelFile file) {
  PUMICE_TRY(const std::shared_ptr<const Model> model, Model::plan(std::move(file), compiler.context()));
  SessionSize size;
  size.chunk = 512;
  for (CacheType cache : {CacheType::f16, CacheType::f32, CacheType::q8_0}) {
    size.cache = cache;
    PUMICE_CHECK(compiler.add(model, size));
  }
  size.cache = CacheType::f16;
  size.chunk = size.sequences = 16;
  return model->shape().has_decoder() ? compiler.add(model, size) : Status();
}

Status run(const std::filesystem::path& path, std::span<char* const> sources) {
  PUMICE_TRY(DeviceContext context, open_driver());
  Compiler compiler(std::move(context), path);
  for (const std::string source : sources) {
    if (const TensorTypeInfo* type = find_type_named(source)) {
      compiler.costs_count(std::ranges::count(cost_types, source) > 0);
      for (const bool large : {false, true}) {
        PUMICE_TRY(ModelFile file, llama(type->type, large));
        PUMICE_CHECK(add_model(compiler, std::move(file)));
      }
    } else {
      compiler.costs_count(false);
      const TemporaryFolder folder;
      PUMICE_TRY(ModelFile file, folder_model(source, folder));
      PUMICE_CHECK(add_model(compiler, std::move(file)));
    }
  }
  const std::set<std::string> given(sources.begin(), sources.end());
  if (std::ranges::all_of(cost_types, [&](const char* type) { return given.contains(type); })) {
    write_lines(path, ".order", compiler.costs().orders(compiler.context().profile.generation));
    write_lines(path, ".costs", compiler.costs().costs());
  }
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
  if (compiler.failures() == 0) return {};
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

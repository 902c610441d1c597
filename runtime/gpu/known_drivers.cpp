#include "gpu/known_drivers.h"

#include <algorithm>

#include <fmt/format.h>

namespace pumice {

namespace {

// As Intel's drivers for Windows pack the last two parts of 32.0.101.8860.
constexpr uint32_t intel_windows(uint32_t major, uint32_t minor) {
  return major << 14 | minor;
}

// As NVIDIA's pack 595.58.03.
constexpr uint32_t nvidia(uint32_t major, uint32_t minor, uint32_t patch) {
  return major << 22 | minor << 14 | patch << 6;
}

constexpr auto kosmic_krisp = static_cast<VkDriverId>(28); // which older headers do not name

constexpr std::array<const char*, 2> matrices = {VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME,
                                                 VK_NV_COOPERATIVE_MATRIX_2_EXTENSION_NAME};
constexpr std::array<const char*, 2> host_import = {VK_EXT_EXTERNAL_MEMORY_HOST_EXTENSION_NAME};
constexpr std::array<const char*, 2> dot = {VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME};
constexpr std::array<const char*, 2> matrices_and_dot = {VK_KHR_COOPERATIVE_MATRIX_EXTENSION_NAME,
                                                         VK_KHR_SHADER_INTEGER_DOT_PRODUCT_EXTENSION_NAME};

constexpr KnownDriver drivers[] = {
    {.driver = VK_DRIVER_ID_INTEL_PROPRIETARY_WINDOWS,
     .first = intel_windows(101, 4096),
     .fixed = intel_windows(101, 4382),
     .versions = "101.4096 to 101.4381",
     .fault = "compute shaders are broken",
     .update = "101.4382 or later",
     .source = "https://github.com/yuzu-emu/yuzu/pull/10835"},
    {.driver = VK_DRIVER_ID_INTEL_PROPRIETARY_WINDOWS,
     .first = intel_windows(101, 5333),
     .fixed = intel_windows(101, 6790),
     .integrated_only = true,
     .versions = "101.5333 to 101.6789",
     .fault = "integrated GPUs are lost when work is submitted",
     .update = "101.6790 or later",
     .source = "https://github.com/ec-/Quake3e/pull/374"},
    {.driver = VK_DRIVER_ID_INTEL_PROPRIETARY_WINDOWS,
     .first = intel_windows(101, 8425),
     .fixed = intel_windows(101, 8860),
     .without = matrices,
     .versions = "101.8425 to 101.8859",
     .fault = "the device is lost while a model runs, mostly with cooperative matrices",
     .update = "101.8860 or later",
     .source = "https://github.com/ggml-org/llama.cpp/issues/22034"},
    {.driver = VK_DRIVER_ID_INTEL_PROPRIETARY_WINDOWS,
     .first = intel_windows(101, 6870),
     .fixed = intel_windows(101, 8425),
     .name = "B60",
     .without = matrices,
     .versions = "101.6870 to 101.8424",
     .fault = "the device is lost while a mixture of experts runs with cooperative matrices",
     .update = "101.8860 or later",
     .source = "https://github.com/ggml-org/llama.cpp/issues/22034"},
    {.driver = VK_DRIVER_ID_INTEL_OPEN_SOURCE_MESA,
     .name = "(PTL)",
     .without = matrices,
     .fault = "products by cooperative matrices are wrong on Panther Lake",
     .source = "https://github.com/tracel-ai/cubecl/pull/1444"},
    {.driver = VK_DRIVER_ID_INTEL_OPEN_SOURCE_MESA,
     .fixed = VK_MAKE_API_VERSION(0, 26, 2, 2),
     .name = "(BMG",
     .versions = "before Mesa 26.2.2",
     .fault = "numbers are wrong now and then on some machines; the short check of kernels may not see it",
     .update = "Mesa 26.2.2 or later",
     .source = "https://github.com/ggml-org/llama.cpp/issues/25767"},
    {.driver = VK_DRIVER_ID_AMD_PROPRIETARY,
     .first = VK_MAKE_API_VERSION(0, 2, 0, 388),
     .fixed = VK_MAKE_API_VERSION(0, 2, 0, 389),
     .integrated_only = true,
     .without = matrices,
     .versions = "2.0.388 (Adrenalin 26.3.1)",
     .fault = "asking an integrated GPU for its cooperative matrices ends the program",
     .update = "a later Adrenalin",
     .source = "https://github.com/ggml-org/llama.cpp/pull/22750"},
    {.driver = VK_DRIVER_ID_AMD_PROPRIETARY,
     .info = "26.5.",
     .without = matrices,
     .versions = "Adrenalin 26.5.1 and 26.5.2",
     .fault = "attention by cooperative matrices ends the program",
     .source = "https://github.com/ggml-org/whisper.cpp/issues/3806"},
    {.driver = VK_DRIVER_ID_AMD_PROPRIETARY,
     .vendor = vendor::amd,
     .name = "RX 6",
     .without = dot,
     .fault = "integer dot products are wrong on RDNA 2",
     .source = "https://github.com/0xShug0/audio.cpp/pull/193"},
    {.driver = VK_DRIVER_ID_AMD_PROPRIETARY,
     .vendor = vendor::amd,
     .name = "680M",
     .without = dot,
     .fault = "integer dot products are wrong on RDNA 2",
     .source = "https://github.com/0xShug0/audio.cpp/pull/193"},
    {.driver = VK_DRIVER_ID_AMD_PROPRIETARY,
     .vendor = vendor::amd,
     .name = "RX 5",
     .without = dot,
     .fault = "integer dot products are wrong on GCN and RDNA 1",
     .source = "https://github.com/0xShug0/audio.cpp/pull/193"},
    {.driver = VK_DRIVER_ID_AMD_PROPRIETARY,
     .vendor = vendor::amd,
     .name = "Vega",
     .without = dot,
     .fault = "integer dot products are wrong on GCN and RDNA 1",
     .source = "https://github.com/0xShug0/audio.cpp/pull/193"},
    {.driver = VK_DRIVER_ID_AMD_PROPRIETARY,
     .vendor = vendor::amd,
     .name = "RX 5700",
     .fault = "kernels that need many registers may write wrong numbers or hang; the short check of kernels "
              "leaves out those that are wrong",
     .source = "https://github.com/GPUOpen-Drivers/AMD-Gfx-Drivers/issues/59"},
    {.driver = VK_DRIVER_ID_MESA_RADV,
     .first = VK_MAKE_API_VERSION(0, 25, 0, 7),
     .fixed = VK_MAKE_API_VERSION(0, 26, 0, 5),
     .versions = "Mesa 25.0.7 to 26.0.4",
     .fault = "making pipelines can overwrite the program's memory",
     .update = "Mesa 26.0.5 or later",
     .source = "https://github.com/ggml-org/llama.cpp/issues/22128"},
    {.driver = VK_DRIVER_ID_MESA_RADV,
     .first = VK_MAKE_API_VERSION(0, 26, 1, 1),
     .fixed = VK_MAKE_API_VERSION(0, 26, 1, 3),
     .versions = "Mesa 26.1.1 and 26.1.2",
     .fault = "making a pipeline may never end",
     .update = "Mesa 26.1.3 or later",
     .source = "https://github.com/ggml-org/llama.cpp/issues/23755"},
    {.driver = VK_DRIVER_ID_MESA_RADV,
     .name = "NAVI10",
     .fault =
         "batches of 512 tokens hang the GPU in llama.cpp, and of 384 do not; --chunk 256 makes smaller ones",
     .source = "https://github.com/ggml-org/llama.cpp/issues/28808"},
    {.driver = VK_DRIVER_ID_NVIDIA_PROPRIETARY,
     .vendor = vendor::nvidia,
     .chips = {0x1e00, 0x2000},
     .left_out = "attention cm",
     .fault = "llama.cpp does without cooperative matrices in attention on Turing",
     .source = "https://github.com/ggml-org/llama.cpp/pull/19290"},
    {.driver = VK_DRIVER_ID_NVIDIA_PROPRIETARY,
     .first = nvidia(595, 58, 3),
     .fixed = nvidia(595, 58, 4),
     .name = "RTX 50",
     .left_out = "attention cm",
     .versions = "595.58.03",
     .fault = "compiling a kernel with cooperative matrices that exchanges numbers within subgroups may end "
              "the program",
     .source = "https://github.com/kvark/blade/issues/333"},
    {.driver = VK_DRIVER_ID_MOLTENVK,
     .vendor = vendor::amd,
     .subgroup_size = 32,
     .fault = "subgroups are said to have 64 lanes where 32 run, so that exchanges among them are wrong",
     .source = "https://github.com/ggml-org/llama.cpp/issues/20029"},
    {.driver = VK_DRIVER_ID_MOLTENVK,
     .without = host_import,
     .fault = "the host's memory is said to be importable, and making its buffers fails",
     .source = "https://github.com/KhronosGroup/MoltenVK/issues/2806"},
    {.driver = kosmic_krisp,
     .left_out = "matmul subgroup",
     .fault = "products that add within subgroups are wrong",
     .source = "https://github.com/ericcurtin/vllm-vulkan/pull/22"},
    {.driver = VK_DRIVER_ID_MESA_TURNIP,
     .name = "Adreno (TM) 702",
     .left_out = "matmul subgroup",
     .fault = "products of up to eight rows are wrong",
     .source = "https://github.com/ggml-org/llama.cpp/issues/25906"},
    {.driver = VK_DRIVER_ID_MESA_V3DV,
     .name = "V3D 7.1",
     .fault = "a kernel with 16-bit numbers may not compile; another kernel is then taken",
     .source = "https://github.com/nihui/waifu2x-ncnn-vulkan/issues/238"},
    {.driver = VK_DRIVER_ID_QUALCOMM_PROPRIETARY,
     .name = "Adreno (TM) 750",
     .left_out = "matmul subgroup",
     .fault = "compiling a product that adds within subgroups ends the program",
     .source = "https://github.com/ggml-org/llama.cpp/pull/29165"},
    {.driver = VK_DRIVER_ID_QUALCOMM_PROPRIETARY,
     .name = "Adreno (TM) 640",
     .no_exchanges = true,
     .fault = "exchanges within subgroups are wrong",
     .source = "https://github.com/Tencent/ncnn/issues/6778"},
    {.driver = VK_DRIVER_ID_MESA_TURNIP,
     .name = "Adreno (TM) 640",
     .no_exchanges = true,
     .fault = "exchanges within subgroups are wrong",
     .source = "https://github.com/Tencent/ncnn/issues/6778"},
    {.driver = VK_DRIVER_ID_QUALCOMM_PROPRIETARY,
     .name = "Adreno (TM) 840",
     .no_exchanges = true,
     .fault = "exchanges within subgroups are wrong",
     .source = "https://github.com/Tencent/ncnn/issues/6778"},
    {.driver = VK_DRIVER_ID_QUALCOMM_PROPRIETARY,
     .name = "Adreno (TM) 840",
     .without = matrices,
     .fault = "products by cooperative matrices are wrong",
     .source = "https://github.com/Tencent/ncnn/pull/6972"},
    {.driver = VK_DRIVER_ID_QUALCOMM_PROPRIETARY,
     .name = "Adreno (TM) 830",
     .fault = "a product in Q4_K may not compile; another kernel is then taken",
     .source = "https://github.com/ggml-org/llama.cpp/issues/28635"},
    {.driver = VK_DRIVER_ID_QUALCOMM_PROPRIETARY,
     .name = "Adreno (TM) 740",
     .fault = "the rounding to bytes may not compile; another kernel is then taken",
     .source = "https://github.com/ggml-org/llama.cpp/issues/19746"},
    {.driver = VK_DRIVER_ID_QUALCOMM_PROPRIETARY,
     .name = "Adreno (TM) 732",
     .fault = "numbers are wrong; the short check of kernels leaves out those that are",
     .source = "https://github.com/ggml-org/llama.cpp/issues/16881"},
    {.driver = VK_DRIVER_ID_ARM_PROPRIETARY,
     .name = "Mali-G720",
     .fault = "products of matrices are wrong; the short check of kernels leaves out those that are",
     .source = "https://github.com/ggml-org/llama.cpp/issues/23133"},
    {.driver = VK_DRIVER_ID_IMAGINATION_PROPRIETARY,
     .name = "PowerVR DXT",
     .without = matrices_and_dot,
     .fault = "products by cooperative matrices or integer dot products are wrong",
     .source = "https://github.com/ggml-org/llama.cpp/issues/28502"},
    {.driver = VK_DRIVER_ID_IMAGINATION_PROPRIETARY,
     .name = "PowerVR DXT",
     .compiles_anew = true,
     .fault = "reading what it compiled before may end the program",
     .source = "https://github.com/godotengine/godot/issues/115171"},
    {.driver = VK_DRIVER_ID_IMAGINATION_PROPRIETARY,
     .name = "PowerVR Rogue",
     .one_compiler = true,
     .fault = "threads that compile at the same time may end the program",
     .source = "https://github.com/godotengine/godot/pull/123614"},
    {.driver = VK_DRIVER_ID_IMAGINATION_PROPRIETARY,
     .name = "BXM-8-256",
     .one_compiler = true,
     .fault = "threads that compile at the same time may end the program",
     .source = "https://github.com/godotengine/godot/pull/123614"},
    {.driver = VK_DRIVER_ID_IMAGINATION_PROPRIETARY,
     .name = "PowerVR C-Series",
     .fault =
         "numbers are wrong, and long prompts end the GPU's firmware; the short check of kernels leaves out "
         "those that are wrong",
     .source = "https://github.com/ggml-org/llama.cpp/issues/28214"},
    {.driver = VK_DRIVER_ID_IMAGINATION_PROPRIETARY,
     .left_out = "matmul subgroup",
     .fault = "compiling a product that adds within subgroups fails",
     .source = "https://github.com/ggml-org/llama.cpp/pull/20565"},
};

} // namespace

bool KnownDriver::is(const Capabilities& device) const {
  return driver == device.driver_id && (vendor == 0 || vendor == device.vendor_id) &&
         device.driver_build >= first && device.driver_build < fixed &&
         device.driver_version.starts_with(info) && device.name.find(name) != std::string::npos &&
         device.device_id >= chips[0] && device.device_id < chips[1] &&
         (!integrated_only || device.type == VK_PHYSICAL_DEVICE_TYPE_INTEGRATED_GPU);
}

std::string KnownDriver::text() const {
  return fmt::format("{}: {} ({})", versions, fault, source);
}

std::span<const KnownDriver> known_drivers() {
  return drivers;
}

std::vector<KnownDriver> known_faults(const Capabilities& device) {
  std::vector<KnownDriver> found;
  std::ranges::copy_if(drivers, std::back_inserter(found),
                       [&](const KnownDriver& each) { return each.is(device); });
  return found;
}

} // namespace pumice

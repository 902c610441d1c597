#pragma once

#include <set>
#include <string>
#include <vector>

#include <nlohmann/json_fwd.hpp>

#include "base/result.h"
#include "io/quantised/folder_array.h"
#include "io/tensor_view.h"

namespace pumice {

// Weights that a quantised folder has in several arrays each, and the names of those arrays.
struct FolderWeights {
  std::vector<TensorView> tensors;
  std::set<std::string> taken;
};

// Finds the weights of folders whose config.json has a quantization_config:
//   fp8                 NAME.weight of F8_E4M3 and NAME.weight_scale_inv or weight_scale, of blocks or rows
//   gptq, awq           NAME.qweight, qzeros, scales and g_idx, of 2, 4 or 8 bits, which `dynamic` may say
//                       anew for some
//   compressed-tensors  NAME.weight_packed of 4 or 8 bits with weight_scale (pack-quantized), of NVFP4 with
//                       weight_global_scale, too (nvfp4-pack-quantized); NAME.weight of I8 (int-quantized)
//                       or F8_E4M3 (float-quantized) with weight_scale
//   modelopt            NAME.weight of NVFP4 with weight_scale and weight_scale_2, of F8_E4M3 with
//                       weight_scale; older folders of this kind have no quantization_config
//   bitsandbytes        NAME.weight of U8 with weight.absmax and its quant_state (NF4), of I8 with SCB
//   bitnet              NAME.weight of U8 with weight_scale, or of floats that are rounded (online)
// None loses a bit: a weight has a type that holds just what the arrays say (weight_types.def, from number
// 1000 on), or F32 where there is none: rows in the order of their importance, scales of fewer than 32
// weights, and zero points beside scales that are no halves. `names`: of all arrays. Errors: invalid_file,
// unsupported; they name `path` and the array, or the setting.
Result<FolderWeights> quantised_weights(const nlohmann::json& config, const std::vector<std::string>& names,
                                        const FindArray& find, const std::string& path);

} // namespace pumice

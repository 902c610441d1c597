#include "models/weight_finder.h"

#include <fmt/format.h>

#include "kernel/weight_packing.h"

namespace pumice {

Result<WeightFinder> WeightFinder::find(const ModelFile& file, std::span<const WeightSpec> specs,
                                        Graph& graph) {
  WeightFinder finder;
  for (const WeightSpec& spec : specs) {
    PUMICE_TRY(const TensorView* tensor, file.require(spec.name, spec.shape));
    if (spec.shape.size() > 1 && !can_pack(tensor->type)) {
      return Error{Code::unsupported,
                   fmt::format("{}: tensor '{}': products with {} weights are not supported", file.path(),
                               spec.name, info(tensor->type).name)};
    }
    finder.ids_.emplace(spec.name, graph.weight(WeightView::whole(*tensor), spec.component));
  }
  return finder;
}

} // namespace pumice

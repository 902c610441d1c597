#include "step/cache/position_shift.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/align.h"
#include "kernel/embedding/embedding.h"
#include "kernel/launcher.h"
#include "kernel/position/sinusoid.h"
#include "step/cache/cache_transfer.h"

namespace pumice {

namespace {

Error no_shift(const Model& model, const std::string& why) {
  return {Code::unsupported, fmt::format("{}: positions cannot be shifted: {}", model.file().path(), why)};
}

Status check_caches(const Runner& runner) {
  const Model& model = runner.model();
  if (runner.staged()) return no_shift(model, "the model is in stages");
  if (!runner.states().empty()) return no_shift(model, "its recurrent layers have a state of all tokens");
  for (const CacheRef& cache : runner.caches()) {
    const CacheLayout& layout = cache.layout;
    if (layout.window > 0) return no_shift(model, "layers with a window have not kept what lies before it");
    if (layout.split != CacheSplit::whole)
      return no_shift(model, "the keys of a layer are in parts on this device");
    if (layout.type != CacheType::f16 && layout.type != CacheType::f32)
      return no_shift(model, "keys and values must be both in F16 or both in F32: Q8_0 and Q4_0 would lose "
                             "precision each time");
  }
  return {};
}

// Whether positions are in the keys as rotations alone, and not in what layers read.
Status check_node(const Model& model, const Node& node) {
  const Operation* const operation = node.operation.get();
  if (const auto* embedding = dynamic_cast<const Embedding*>(operation);
      embedding && embedding->index == EmbeddingIndex::position)
    return no_shift(model, "its positions are learned, and a part of what each layer reads");
  if (dynamic_cast<const SinusoidalPositions*>(operation))
    return no_shift(model, "its positions are a part of what each layer reads");
  const auto* store = dynamic_cast<const RotaryStore*>(operation);
  if (!store) return {};
  if (store->rotary.places != PlaceKind::none)
    return no_shift(model, "a picture's places are a part of its rotary positions");
  if (store->key_norm && store->norm_after && !store->unit_norms)
    return no_shift(model, "its keys have weights behind the rotation");
  return {};
}

} // namespace

Result<PositionShift> PositionShift::create(const Runner& runner) {
  const Model& model = runner.model();
  PUMICE_CHECK(check_caches(runner));
  PUMICE_TRY(const DecoderGraph graph, model.definition().graph(model.file()));
  PositionShift shift;
  shift.layers_.resize(runner.caches().size());
  std::vector<float> tables;
  for (const Node& node : graph.graph.nodes()) {
    PUMICE_CHECK(check_node(model, node));
    const auto* store = dynamic_cast<const RotaryStore*>(node.operation.get());
    if (!store || store->rotary.pairs == RotaryPairs::none || store->layer >= shift.layers_.size()) continue;
    const std::vector<float> table = rotary_table(rotary_frequencies(store->rotary, runner.size().context));
    const uint64_t first = tables.size() * sizeof(float);
    shift.layers_[store->layer] = {
        store->rotary.pairs, store->rotary.dim, {Space::inputs, 0, first, table.size() * sizeof(float)}};
    tables.insert(tables.end(), table.begin(), table.end());
    tables.resize(align(tables.size(), size_t{64})); // descriptors begin at multiples of 256 bytes
  }
  if (tables.empty()) return shift;
  const std::shared_ptr<Device>& device = model.context().device;
  PUMICE_TRY(shift.tables_,
             Buffer::create(device, tables.size() * sizeof(float), MemoryUse::device, "rotations"));
  CacheTransfer transfer(device);
  PUMICE_CHECK(transfer.write(std::as_bytes(std::span(tables)), shift.tables_, 0));
  return shift;
}

// Positions that are read must not be written at the same time: so many move at once as are forgotten, or as
// a launch may have.
Status PositionShift::run(const Runner& runner, uint32_t sequence, uint32_t kept, uint32_t forgotten,
                          uint32_t end) {
  const DeviceContext& context = runner.model().context();
  const auto lookup = [&](const BufferRef& ref) -> const Buffer& {
    return ref.space == Space::inputs ? tables_ : runner.buffer(ref);
  };
  Launcher launcher(context.device, context.pipelines);
  PUMICE_TRY(Commands commands, Commands::create(context.device, "shifted positions"));
  PUMICE_CHECK(commands.begin());
  constexpr uint32_t most = 1 << 15;
  const uint32_t together = std::min(forgotten, most);
  for (uint32_t first = kept; first + forgotten < end; first += together) {
    commands.barrier();
    for (size_t i = 0; i < layers_.size(); ++i) {
      const CacheRef& cache = runner.caches()[i];
      if (cache.layout.kv_heads == 0 || !runner.holds(i)) continue;
      CacheShiftArgs args{cache, layers_[i].pairs, layers_[i].dim, layers_[i].table, sequence, first};
      args.count = std::min(together, end - forgotten - first);
      args.distance = forgotten;
      PUMICE_CHECK(launcher.record(commands, cache_shift(context.profile, args), lookup));
    }
  }
  commands.host_barrier();
  PUMICE_CHECK(commands.end());
  return commands.run_and_wait();
}

} // namespace pumice

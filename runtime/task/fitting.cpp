#include "task/fitting.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "step/cache/memory_needs.h"

namespace pumice {

namespace {

constexpr std::array usual_types = {CacheType::f32, CacheType::f16, CacheType::q8_0}; // the widest first
// A shorter context is of no use to anybody.
constexpr uint32_t shortest_context = 16;

double mebibytes(uint64_t bytes) {
  return static_cast<double>(bytes) / (1 << 20);
}

Error too_large(const Model& model, uint32_t context) {
  const Device& device = *model.context().device;
  return Error{Code::out_of_memory,
               fmt::format("{}: its weights take {:.1f} MiB, and {:.1f} MiB are free on {}: there is no room "
                           "for a context of {} tokens",
                           model.file().path(), mebibytes(model.weight_bytes()),
                           mebibytes(device.memory().available), device.capabilities().name,
                           std::max(context, shortest_context))};
}

// Whether there is room for a session of this size. A context beyond a limit of the device has none.
Result<bool> fits(const Model& model, const SessionSize& size, uint64_t others) {
  PUMICE_TRY(const SessionRunners runners, usual_runners(model, size));
  const Result<MemoryNeeds> needs = memory_needs(model, runners, others);
  if (needs.ok()) return needs->fits();
  if (needs.error().code == Code::unsupported || needs.error().code == Code::out_of_memory) return false;
  return needs.error();
}

// Much of a session's scratch is as large as a chunk is long. Shorter ones change no result; reading takes
// longer.
std::vector<uint32_t> chunks(const SizeWish& wish, const Capabilities& device) {
  std::vector<uint32_t> chunks = {wish.chunk_chosen ? wish.size.chunk : default_chunk(device)};
  while (!wish.chunk_chosen && chunks.back() / 2 >= small_chunk) chunks.push_back(chunks.back() / 2);
  return chunks;
}

} // namespace

uint32_t default_chunk(const Capabilities& device) {
  return device.type == VK_PHYSICAL_DEVICE_TYPE_DISCRETE_GPU ? 512 : SessionSize().chunk;
}

Result<SessionSize> with_longest_chunk(const Model& model, const SessionSize& size, uint32_t longest,
                                       uint64_t others) {
  SessionSize tried = size;
  tried.context = context_for(size.context, model.shape());
  for (uint32_t chunk = longest; chunk > size.chunk; chunk /= 2) {
    tried.chunk = chunk;
    PUMICE_TRY(const bool room, fits(model, tried, others));
    if (room) break;
    tried.chunk = size.chunk;
  }
  SessionSize result = size;
  result.chunk = tried.chunk;
  return result;
}

Result<std::vector<FittingContext>> fitting_contexts(const Model& model, const SessionSize& size) {
  std::vector<FittingContext> fitting;
  for (CacheType cache : usual_types) {
    SessionSize tried = size;
    tried.cache = cache;
    PUMICE_TRY(const uint32_t longest, longest_context(model, tried));
    fitting.push_back({cache, longest});
  }
  return fitting;
}

Result<SessionSize> fitting_size(const Model& model, const SizeWish& wish) {
  SessionSize whole = wish.size, best = wish.size;
  whole.context = context_for(wish.size.context, model.shape());
  best.context = 0;
  std::vector<CacheType> types = {wish.size.cache};
  if (!wish.cache_chosen) types.assign(std::ranges::find(usual_types, wish.size.cache), usual_types.end());
  for (const CacheType cache : types) {
    whole.cache = cache;
    for (uint32_t chunk : chunks(wish, model.context().device->capabilities())) {
      whole.chunk = chunk;
      PUMICE_TRY(const bool room, fits(model, whole, wish.others));
      if (room) return whole;
    }
    PUMICE_TRY(const uint32_t longest, longest_context(model, whole, {}, wish.others));
    if (longest > best.context) {
      best = whole;
      best.context = longest;
    }
  }
  return best;
}

Result<SessionSize> require_fitting_size(const Model& model, const SizeWish& wish) {
  PUMICE_TRY(SessionSize best, fitting_size(model, wish));
  const uint32_t asked = wish.size.context, wanted = context_for(asked, model.shape());
  if (best.context < (asked ? wanted : std::min(shortest_context, wanted))) return too_large(model, asked);
  return best;
}

} // namespace pumice

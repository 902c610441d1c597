#include "loading/fitting_size.h"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "base/path.h"
#include "step/cache/memory_needs.h"
#include "terminal/terminal.h"

namespace pumice::command {

namespace {

constexpr std::array kv_types = {"f32", "f16", "q8_0"}; // the widest first
// A shorter context is of no use to anybody.
constexpr uint32_t shortest_context = 16;

double mebibytes(uint64_t bytes) {
  return static_cast<double>(bytes) / (1 << 20);
}

Error too_large(const Model& model, const SizeOptions& options) {
  const DeviceContext& context = model.context();
  return Error{
      Code::out_of_memory,
      fmt::format("{}: its weights take {:.1f} MiB, and {:.1f} MiB are free on {}: there is no room for "
                  "a context of {} tokens. Choose another device with --device, or a smaller type of "
                  "weights with --weights",
                  model.file().path(), mebibytes(model.weight_bytes()),
                  mebibytes(context.device->memory().available), context.device->capabilities().name,
                  std::max(options.context, shortest_context))};
}

Result<FittingContext> fitting_context(const Model& model, SizeOptions options, const char* kv) {
  options.kv = kv;
  PUMICE_TRY(const uint32_t longest, longest_context(model, session_size(options, model.shape())));
  return FittingContext{kv, longest};
}

// Whether there is room for a session of this size. A context beyond a limit of the device has none.
Result<bool> fits(const Model& model, const SessionSize& size) {
  PUMICE_TRY(const SessionRunners runners, usual_runners(model, size));
  const Result<MemoryNeeds> needs = memory_needs(model, runners);
  if (needs.ok()) return needs->fits();
  if (needs.error().code == Code::unsupported || needs.error().code == Code::out_of_memory) return false;
  return needs.error();
}

// Much of a session's scratch is as large as a chunk is long. Shorter ones change no result; reading takes
// longer.
std::vector<uint32_t> chunks(const SizeOptions& options) {
  std::vector<uint32_t> chunks = {options.chunk};
  while (!options.chunk_given && chunks.back() / 2 >= small_chunk) chunks.push_back(chunks.back() / 2);
  return chunks;
}

} // namespace

Result<std::vector<FittingContext>> fitting_contexts(const Model& model, const SizeOptions& options) {
  std::vector<FittingContext> fitting;
  for (const char* kv : kv_types) {
    PUMICE_TRY(FittingContext each, fitting_context(model, options, kv));
    fitting.push_back(std::move(each));
  }
  return fitting;
}

Result<FittingSize> fitting_size(const Model& model, const SizeOptions& options) {
  const uint32_t wanted = session_size(options, model.shape()).context;
  FittingSize best{options.kv, options.chunk, 0};
  for (auto kv = std::ranges::find(kv_types, options.kv); kv != kv_types.end(); ++kv) {
    SizeOptions tried = options;
    tried.kv = *kv;
    for (uint32_t chunk : chunks(options)) {
      tried.chunk = chunk;
      PUMICE_TRY(const bool whole, fits(model, session_size(tried, model.shape())));
      if (whole) return FittingSize{tried.kv, chunk, wanted};
    }
    PUMICE_TRY(const FittingContext longest, fitting_context(model, tried, *kv));
    if (longest.context > best.context) best = {*kv, tried.chunk, longest.context};
    if (options.kv_given) break;
  }
  return best;
}

Result<SizeOptions> fitting_size(const SizeOptions& options, const std::string& path,
                                 const OpenedDevice& device) {
  if (!options.fit) return options;
  PUMICE_TRY(ModelFile file, ModelFile::open(path_of(path)));
  PUMICE_TRY(const std::shared_ptr<const Model> model,
             Model::plan(std::move(file), device.context, options.load));
  const uint32_t wanted = session_size(options, model->shape()).context;
  PUMICE_TRY(const FittingSize best, fitting_size(*model, options));
  SizeOptions chosen = options;
  chosen.kv = best.kv;
  chosen.chunk = best.chunk;
  chosen.context = best.context;
  if (chosen.context < (options.context ? wanted : std::min(shortest_context, wanted))) {
    return too_large(*model, options);
  }
  if (chosen.context < wanted || chosen.kv != options.kv || chosen.chunk != options.chunk) {
    print_note(fmt::format("--fit: a context of {} tokens with keys and values in {}, read in chunks of {}",
                           chosen.context, chosen.kv, chosen.chunk));
  }
  return chosen;
}

Error with_fit_advice(Error error, const SizeOptions& options) {
  if (error.code == Code::out_of_memory && !options.fit) {
    error.message += ": --fit chooses a context that fits, or choose one with --context";
  }
  return error;
}

} // namespace pumice::command

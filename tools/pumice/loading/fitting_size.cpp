#include "loading/fitting_size.h"

#include <fmt/format.h>

#include "terminal/terminal.h"

namespace pumice::command {

SizeWish size_wish(const SizeOptions& options, const ModelShape& shape) {
  SizeWish wish{session_size(options, shape), options.kv_given, options.chunk_given};
  wish.size.context = options.context;
  return wish;
}

Result<SizeOptions> fitting_size(const SizeOptions& options, const Model& planned) {
  const Result<SessionSize> best = require_fitting_size(planned, size_wish(options, planned.shape()));
  if (!best.ok() && best.error().code == Code::out_of_memory) {
    return Error{Code::out_of_memory, best.error().message +
                                          ". Choose another device with --device, or a smaller type of "
                                          "weights with --weights"};
  }
  if (!best.ok()) return best.error();
  SizeOptions chosen = options;
  chosen.kv = to_string(best->cache);
  chosen.chunk = best->chunk;
  chosen.context = best->context;
  if (chosen.context < session_size(options, planned.shape()).context || chosen.kv != options.kv ||
      chosen.chunk != options.chunk) {
    print_note(fmt::format("--fit: a context of {} tokens with keys and values in {}, read in chunks of {}",
                           chosen.context, chosen.kv, chosen.chunk));
  }
  return chosen;
}

Result<SizeOptions> default_size(const SizeOptions& options, const Model& planned) {
  SizeOptions chosen = options;
  if (options.chunk_given) return chosen;
  const uint32_t longest = default_chunk(planned.context().device->capabilities());
  PUMICE_TRY(const SessionSize size,
             with_longest_chunk(planned, session_size(options, planned.shape()), longest));
  chosen.chunk = size.chunk;
  return chosen;
}

Error with_fit_advice(Error error, const SizeOptions& options) {
  if (error.code == Code::out_of_memory && !options.fit) {
    error.message += ": --fit chooses a context that fits, or choose one with --context";
  }
  return error;
}

} // namespace pumice::command

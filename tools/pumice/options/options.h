#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "io/fields.h"
#include "kernel/sampling/sampling.h"
#include "model/architecture.h"
#include "model/model.h"
#include "model/session_memory.h"
#include "text/tokenizer.h"

// Options that several subcommands share. Each is in a group of the help.
namespace pumice::command {

struct DeviceOptions {
  std::string device;               // an index, a part of a name, or a UUID
  std::vector<std::string> devices; // of a model in stages, the first stage's first; empty: one device
  std::vector<uint32_t> split;      // layers of each of them; empty: chosen
  double timeout = 5;               // of other processes, see add_timeout_option()
  uint32_t replicas = 1;            // copies of the model, see add_replica_option()
  std::string cache;                // empty: the user's cache folder
  uint64_t memory_limit = 0;        // most bytes of device memory at a time; 0: no limit
  bool no_cache = false;
  bool no_tune = false;
  std::string kernel_variant; // to be used wherever it runs; empty: none
  std::string loader;
  bool validate = false;
  bool measures = false; // the command measures times: nothing else is to run meanwhile
};
void add_device_options(CLI::App& app, DeviceOptions& options);
// Those of them that say which device is opened, how, and where its cache is.
void add_open_options(CLI::App& app, DeviceOptions& options);
// Adds --devices, --split and --timeout, for commands whose models can be cut into stages.
void add_stage_options(CLI::App& app, DeviceOptions& options);
void add_timeout_option(CLI::App& app, DeviceOptions& options);
// Adds --replicas, for commands that answer each of many lines.
void add_replica_option(CLI::App& app, DeviceOptions& options);
// A line for each kernel variant: its name, its family, what it is.
std::string kernel_variant_list();
// Adds --vulkan-loader and --validate alone: the options that a Vulkan instance needs.
void add_loader_options(CLI::App& app, DeviceOptions& options);

struct SizeOptions {
  uint32_t context = 0; // tokens; 0: the model's context, at most default_context
  uint32_t chunk = 128;
  uint32_t drafts = 0;
  double max_stall_ms = 0;   // 0: no limit
  uint32_t cache_tokens = 0; // of all texts of a batch; 0: each may fill its context
  std::string draft_model;   // empty: none
  std::string kv = "f16";
  bool kv_given = false, chunk_given = false;
  bool fit = false;
  LoadOptions load;
};
void add_size_options(CLI::App& app, SizeOptions& options, const std::string& kv_default);
// Adds --override-kv and the options of rotary positions: changes of a decoder's settings.
void add_settings_options(CLI::App& app, LoadOptions& options);
// Adds --drafts and --draft-model.
void add_drafts_option(CLI::App& app, SizeOptions& options);
// Adds --max-stall-ms.
void add_max_stall_option(CLI::App& app, SizeOptions& options);
// Adds --cache-tokens.
void add_cache_tokens_option(CLI::App& app, SizeOptions& options);
// The pages that it asks for, of SessionSize.
uint32_t cache_pages(const SizeOptions& options);
// Adds --fit.
void add_fit_option(CLI::App& app, SizeOptions& options);
// The size that the options ask for. The default context comes from the model.
SessionSize session_size(const SizeOptions& options, const ModelShape& shape);

// Adds --quiet and --verbose, which take effect when they are read.
void add_verbosity_options(CLI::App& app);

// Adds --weights, the type that weights are quantised to while they are loaded.
void add_weights_option(CLI::App& app, LoadOptions& options);
void add_layers_option(CLI::App& app, LoadOptions& options);

// Adds --batch-tokens, the maximum number of tokens that an encoder reads in one step. `tokens` stays 0 if
// the option is not given; batch_tokens() then returns the default.
void add_batch_option(CLI::App& app, uint32_t& tokens, const std::string& group);
inline constexpr uint32_t default_batch_tokens = 2048;
inline uint32_t batch_tokens(uint32_t tokens) {
  return tokens ? tokens : default_batch_tokens;
}

struct SamplingOptions {
  SamplingParams params;
  std::optional<uint64_t> seed;
  std::vector<std::string> dry_breakers; // empty: see set_dry_breakers()

  SamplingParams resolved() const;                                   // with a random seed if none was given
  Result<SamplingParams> resolved(const Tokenizer& tokenizer) const; // and what ends repetitions
};
// Those of a request in JSON; what it lacks stays as it is.
Status read_sampling_fields(const Fields& fields, SamplingParams& params);
// Error unless the tokens of --logit-bias are in the model's vocabulary.
Status check_biases(const SamplingOptions& options, uint32_t vocabulary);
void add_sampling_options(CLI::App& app, SamplingOptions& options, const SamplingParams& defaults);

} // namespace pumice::command

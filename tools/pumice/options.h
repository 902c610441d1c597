#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include "kernel/sampling/sampling.h"
#include "model/architecture.h"
#include "model/model.h"
#include "model/session_memory.h"

// Options that several subcommands share, each with its group in the help.
namespace pumice::command {

struct DeviceOptions {
  std::string device; // an index, a part of a name, or a UUID
  std::string cache;  // empty: the user's cache folder
  bool no_cache = false;
  bool no_tune = false;
  std::string kernel_variant; // to be used wherever it runs; empty: none
  std::string loader;
  bool validate = false;
};
void add_device_options(CLI::App& app, DeviceOptions& options);
// Those without which an instance cannot be made: --vulkan-loader and --validate.
void add_loader_options(CLI::App& app, DeviceOptions& options);

struct SizeOptions {
  uint32_t context = 0; // 0: the model's own, up to default_context
  uint32_t chunk = 128;
  std::string kv = "f16";
  LoadOptions load;
};
inline constexpr uint32_t default_context = 4096;
void add_size_options(CLI::App& app, SizeOptions& options, const std::string& kv_default);
// What the options ask for, with the context filled in from the model.
SessionSize session_size(const SizeOptions& options, const ModelShape& shape);

// The type that weights are quantised to.
void add_weights_option(CLI::App& app, LoadOptions& options);

// Most tokens that an encoder reads in one step; what was not given is 0.
void add_batch_option(CLI::App& app, uint32_t& tokens, const std::string& group);
inline constexpr uint32_t default_batch_tokens = 2048;
inline uint32_t batch_tokens(uint32_t given) {
  return given ? given : default_batch_tokens;
}

struct SamplingOptions {
  SamplingParams params;
  std::optional<uint64_t> seed;

  SamplingParams resolved() const; // with a random seed where none was given
};
void add_sampling_options(CLI::App& app, SamplingOptions& options, const SamplingParams& defaults);

// The last lines of a subcommand's help.
inline std::string example(const std::string& lines) {
  return "Example:\n  " + lines;
}

} // namespace pumice::command

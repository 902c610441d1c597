#pragma once

#include <filesystem>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "generate/session.h"
#include "kernel/probe/open_device.h"

// The device that model tests run on, opened once, with validation as in support/vulkan/gpu.h.
const pumice::DeviceContext& test_context();

// Fails the test if the model cannot be loaded.
std::shared_ptr<const pumice::Model> load_model(const std::filesystem::path& path,
                                                const pumice::LoadOptions& options = {});

// The same, to compare the bits of steps of several sizes (support/vulkan/row_bits.h).
std::shared_ptr<const pumice::Model> load_one_kernel_model(const std::filesystem::path& path);

struct ForwardOptions {
  uint32_t chunk = 128;
  pumice::CacheType cache = pumice::CacheType::f32;
  std::vector<std::string> readable = {"logits"};
  uint32_t beside = 0; // sequences of other tokens that every step has too, before it and after it
};

// Each readable tensor of one sequence, [tokens, columns].
std::map<std::string, std::vector<float>> forward(const std::shared_ptr<const pumice::Model>& model,
                                                  const std::vector<uint32_t>& ids,
                                                  const ForwardOptions& options);

// Logits [tokens, vocabulary] of one sequence, computed in steps of `chunk`, with a 32-bit cache.
std::vector<float> forward(const std::shared_ptr<const pumice::Model>& model,
                           const std::vector<uint32_t>& ids, uint32_t chunk);

// The greedy continuation of a prompt, with a 32-bit cache.
std::vector<uint32_t> continue_greedily(const std::shared_ptr<const pumice::Model>& model,
                                        const std::vector<uint32_t>& prompt, size_t count, uint32_t chunk);

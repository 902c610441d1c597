#pragma once

#include <filesystem>
#include <memory>
#include <vector>

#include "kernel/device_context.h"
#include "session/session.h"

// The device that model tests run on, opened once, with validation as in support/gpu.h.
const pumice::DeviceContext& test_context();

// Fails the test if the model cannot be loaded.
std::shared_ptr<const pumice::Model> load_model(const std::filesystem::path& path,
                                                const pumice::LoadOptions& options = {});

// Logits [tokens, vocabulary] of one sequence, computed in steps of `chunk`, with a 32-bit cache.
std::vector<float> forward(const std::shared_ptr<const pumice::Model>& model,
                           const std::vector<uint32_t>& ids, uint32_t chunk);

// The greedy continuation of a prompt, with a 32-bit cache.
std::vector<uint32_t> continue_greedily(const std::shared_ptr<const pumice::Model>& model,
                                        const std::vector<uint32_t>& prompt, size_t count, uint32_t chunk);

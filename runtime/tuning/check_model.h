#pragma once

#include <filesystem>
#include <span>
#include <string>

#include "model/model.h"

namespace pumice {

// A small llama with random weights in 16 bits, whose most probable tokens are known. It needs no tokenizer.

// Writes it to a folder, as Hugging Face models are.
Status write_check_model(const std::filesystem::path& folder);

// What it is asked to continue, and how it does.
std::span<const uint32_t> check_model_prompt();
std::span<const uint32_t> check_model_answer();

// Lets it continue on the model's device. Returns what is wrong with the tokens; empty if they are right.
Result<std::string> check_model(const std::shared_ptr<const Model>& model);

} // namespace pumice

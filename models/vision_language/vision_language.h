#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "model/architecture.h"

// What decoders that read pictures in their prompts have in common.
namespace pumice {

// An object of config.json, with what it leaves out because it is its class's default.
nlohmann::json with_defaults(const ModelFile& file, const char* name, nlohmann::json defaults);
// "text_config" with the defaults of LLaMA's class.
nlohmann::json llama_text_settings(const ModelFile& file);

// The first prefix of these with which the file has the tensor; without any, the first one.
std::string prefix_of(const ModelFile& file, std::string_view tensor,
                      std::initializer_list<std::string_view> prefixes);

// A special token that tokenizer_config.json names for pictures ("image_token"), beside the other fields or
// in "extra_special_tokens".
Result<std::string> picture_token(const ModelFile& file, std::string_view name, std::string_view fallback);

} // namespace pumice

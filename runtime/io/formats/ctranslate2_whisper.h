#pragma once

#include <filesystem>

#include <nlohmann/json.hpp>

#include "base/result.h"
#include "io/formats/ctranslate2.h"
#include "io/formats/ctranslate2_file.h"

namespace pumice {

// A speech model of CTranslate2, the kind "WhisperSpec". `own`: the folder's config.json. The settings of
// generation_config.json are in the result's config and, as an object of that name without its ending, those
// of preprocessor_config.json where the folder has no such file.
Result<Ctranslate2Model> read_ctranslate2_whisper(const Ctranslate2File& file,
                                                  const std::filesystem::path& folder,
                                                  const nlohmann::json& own);

} // namespace pumice

#pragma once

#include "base/result.h"
#include "io/formats/gguf_array.h"
#include "io/mapped_file.h"

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

namespace pumice {

// The small files of a model, such as tokenizer_config.json, by their names: those of a folder, or those that
// a GGUF file has in its metadata. A name may have folders before it, "1_Pooling/config.json".
class ModelFolder {
public:
  using Arrays = std::map<std::string, GgufArray, std::less<>>;
  static constexpr std::string_view gguf_prefix = "pumice.file."; // of the key with a file's bytes
  // Whether a GGUF file's metadata holds a model's small files. It has then the version of their form, too.
  static constexpr const char* gguf_version = "pumice.files";
  static constexpr uint32_t version = 1; // that is written and read

  // A folder need not exist: it has no files then.
  ModelFolder(std::filesystem::path folder); // not explicit: a path is a folder wherever one is expected
  // The arrays of a GGUF file, which must outlive the result. Errors: a file's name or type that is none.
  static Result<ModelFolder> of_gguf(const Arrays& arrays, const std::string& file);

  bool in_gguf() const { return in_gguf_; }
  const std::string& path() const { return path_; } // of the folder or the GGUF file, for messages
  std::string path(std::string_view name) const;    // of a file, for messages
  // The folder; only if the files are not in a GGUF file.
  const std::filesystem::path& on_disk() const { return folder_; }

  bool has(std::string_view name) const;
  // Errors: those of MappedFile; not_found if there is no such file.
  Result<MappedFile> open(std::string_view name) const;
  // A JSON object; nothing if there is no such file.
  Result<std::optional<nlohmann::json>> object(std::string_view name) const;

private:
  ModelFolder() = default;

  std::filesystem::path folder_;
  std::string path_;
  bool in_gguf_ = false;
  std::map<std::string, std::span<const std::byte>, std::less<>> files_; // in a GGUF file
};

// Whether a name is that of a file in a model's folder, or in a folder of it: it leads nowhere else.
bool is_file_of_model(std::string_view name);

} // namespace pumice

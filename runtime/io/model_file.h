#pragma once

#include "base/result.h"
#include "io/fields.h"
#include "io/gguf_array.h"
#include "io/mapped_file.h"
#include "io/tensor_view.h"

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace pumice {

// A model as it is on disk: its settings and its tensors, under the names and in the layout that the file
// has. It owns the mappings that the tensors point into. Moving it moves no tensor, so pointers and Fields
// stay good.
class ModelFile {
public:
  enum class Format { gguf, hugging_face };

  // Opens one of:
  //   - a .gguf file (by its name or its first four bytes);
  //   - a Hugging Face folder: config.json, and either model.safetensors or model.safetensors.index.json with
  //     its shards; with neither, it opens and has no weights;
  //   - a config.json by itself: no weights.
  // Errors: not_found, io, invalid_file, unsupported, out_of_memory.
  static Result<ModelFile> open(const std::filesystem::path& path);

  // A GGUF file that is a part of another file, such as a game's packed data.
  static Result<ModelFile> open(const std::filesystem::path& path, FileRange range);

  // A GGUF file of `bytes`, or else the text of a config.json, that an application reads: into memory of the
  // host, which goes with the ModelFile. `progress` counts bytes.
  static Result<ModelFile> read(const ReadBytes& source, uint64_t bytes, std::string name,
                                const Progress& progress = {});
  // The same to plan with: reads little more than the header, and large tensors are zeros.
  static Result<ModelFile> read_header(const ReadBytes& source, uint64_t bytes, std::string name);

  // A GGUF file, or else the text of a config.json, in the caller's memory, which must outlive the ModelFile.
  static Result<ModelFile> from_memory(std::span<const std::byte> bytes, std::string name);

  Format format() const { return format_; }
  const std::string& path() const { return path_; } // as it was opened, UTF-8
  std::string architecture() const; // general.architecture or model_type; empty where the file does not say

  // config.json, or GGUF's metadata as one flat object.
  const nlohmann::json& config() const { return *config_; }
  Fields fields() const { return Fields(*config_, config_path_); }

  std::span<const TensorView> tensors() const { return tensors_; }
  const TensorView* find(std::string_view name) const; // null if there is none

  // A tensor that must be there with this shape (outermost first). Errors: not_found, with the names that are
  // most like it; invalid_file, with both shapes; unsupported, for a type that weights cannot have.
  Result<const TensorView*> require(std::string_view name, std::span<const uint64_t> shape) const;

  // A metadata array of a GGUF file, of any length; null if there is none, and for Hugging Face.
  const GgufArray* array(std::string_view key) const;

  bool has_weights() const { return !tensors_.empty(); }
  uint64_t file_bytes() const; // of the files that hold the weights; 0 without weights
  // The weights are not read any more: what read() took for them is given back. Their data may be zeros.
  void forget_weights();

  // tokenizer.json in the folder of the model; empty if there is none.
  std::filesystem::path tokenizer_path() const { return tokenizer_path_; }

private:
  // A tensor of a type that weights cannot have, such as the position ids in many real files.
  struct Unreadable {
    std::string dtype;
    std::vector<uint64_t> shape;
  };

  ModelFile() = default;
  static Result<ModelFile> open_path(const std::filesystem::path& path);
  static Result<ModelFile> from_bytes(MappedFile file);
  static Result<ModelFile> from_gguf(MappedFile file);
  static Result<ModelFile> from_config(const MappedFile& file);
  Status add_shards(const std::filesystem::path& folder);
  Status add_shard(const std::filesystem::path& folder, const std::string& shard,
                   const std::map<std::string, std::string>* listed);
  void index_names();
  void find_tokenizer(const std::filesystem::path& folder);
  Error missing(std::string_view name) const;

  Format format_ = Format::gguf;
  std::string path_;
  std::string config_path_;                      // the file that config_ came from, for messages
  std::shared_ptr<const nlohmann::json> config_; // behind a pointer so that Fields outlive a move
  std::vector<MappedFile> files_;                // those with weights
  std::vector<TensorView> tensors_;
  std::unordered_map<std::string_view, size_t> index_; // names in tensors_
  std::map<std::string, Unreadable, std::less<>> unreadable_;
  std::map<std::string, GgufArray, std::less<>> arrays_;
  std::filesystem::path tokenizer_path_;
};

} // namespace pumice

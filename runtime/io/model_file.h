#pragma once

#include "base/result.h"
#include "io/fields.h"
#include "io/formats/gguf_array.h"
#include "io/formats/ranked_tokens.h"
#include "io/formats/safetensors.h"
#include "io/mapped_file.h"
#include "io/model_folder.h"
#include "io/setting_changes.h"
#include "io/tensor_view.h"

#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <nlohmann/json_fwd.hpp>

namespace pumice {

struct GgufFile;

// A model's settings and tensors, with the names and the layout that the file gives them. It owns the mapped
// memory that the tensors point into. Moving the object does not move the tensors, so pointers to them and
// Fields stay valid.
class ModelFile {
public:
  enum class Format { gguf, hugging_face };

  // Opens one of:
  //   - a .gguf file (by its name or its first four bytes), or any part of one that was split
  //   (NAME-00001-of-00003.gguf) with the others beside it;
  //   - a .gguf file that holds a Hugging Face folder, as `pumice convert` writes it: as if it were the
  //   folder;
  //   - a ggml-*.bin file of whisper.cpp (by its first four bytes), as if it were a Hugging Face folder;
  //   - a Hugging Face folder: config.json, and model.safetensors, model.safetensors.index.json with its
  //     shards, or the same with pytorch_model.bin, or another name of weight_files::names; with none of
  //     these, it opens and has no weights;
  //   - a config.json by itself: no weights.
  // Errors: not_found, io, invalid_file, unsupported, out_of_memory.
  static Result<ModelFile> open(const std::filesystem::path& path);

  // The files that hold the weights of what open() would open. Without those that do not exist.
  static std::vector<std::filesystem::path> weight_files(const std::filesystem::path& path);

  // Opens a GGUF file that is a range of another file, such as a game's packed data.
  static Result<ModelFile> open(const std::filesystem::path& path, FileRange range);

  // Reads a GGUF file, or the text of a config.json, of `bytes` through the application's `source`, into host
  // memory that the ModelFile owns. `progress` counts bytes.
  static Result<ModelFile> read(const ReadBytes& source, uint64_t bytes, std::string name,
                                const Progress& progress = {});
  // The same for estimates of memory: reads little more than the header, and large tensors are zeros.
  static Result<ModelFile> read_header(const ReadBytes& source, uint64_t bytes, std::string name);

  // Uses a GGUF file, or the text of a config.json, in the caller's memory, which must outlive the ModelFile.
  static Result<ModelFile> from_memory(std::span<const std::byte> bytes, std::string name);

  // Makes a model of all files that a split GGUF file lies in, in any order; or of one as read() has it.
  // Errors: not_found, with the parts that are missing; invalid_file.
  static Result<ModelFile> join(std::vector<MappedFile> files);
  // What read_header() reads, of a model or of a part of it.
  static Result<MappedFile> read_header_bytes(const ReadBytes& source, uint64_t bytes,
                                              const std::string& name);

  // Takes llama.cpp's GGUF file of the encoder of a GGUF decoder's pictures, its "mmproj" file. Errors:
  // unsupported, unless the two files are such.
  Status attach_mmproj(ModelFile mmproj);
  const ModelFile* mmproj() const { return mmproj_.get(); } // null if there is none
  bool is_mmproj() const;                                   // whether this is such a file itself

  // Makes the settings say something else than the file. Errors: invalid_argument.
  Status change_settings(const SettingChanges& changes);
  // What to say of settings that were changed so, and that nothing has asked for since: a sentence for each.
  std::vector<std::string> unread_changes() const;

  Format format() const { return format_; }
  const std::string& path() const { return path_; } // the path that was opened, in UTF-8
  std::string architecture() const; // general.architecture or model_type; empty if the file has none

  // The contents of config.json, or GGUF's metadata as one flat object.
  const nlohmann::json& config() const { return *config_; }
  Fields fields() const { return Fields(*config_, config_path_, "", asked_); }
  // The settings of the text model: all of them, or those in config.json's text_config, which models have
  // that also see or hear. Such a model's text tensors are found under the names that a text model has.
  Fields text_fields() const;
  bool has_text_fields() const;          // whether there is a text_config
  std::string text_architecture() const; // its model_type; empty if there is none

  std::span<const TensorView> tensors() const { return tensors_; }
  const TensorView* find(std::string_view name) const; // null if there is none
  // The names of tensors of types that weights cannot have.
  std::vector<std::string> unreadable() const;

  // Finds a tensor that the model needs, of this shape (outermost first). Errors: not_found, with the most
  // similar names; invalid_file, with both shapes; unsupported, if weights cannot have the tensor's type.
  Result<const TensorView*> require(std::string_view name, std::span<const uint64_t> shape) const;

  // A tensor of this name and shape in F32 that `fill` computes of the file's tensors when it is first asked
  // for. From any thread. The name must not be one of the file's.
  const TensorView& derive(const std::string& name, const std::vector<uint64_t>& shape,
                           const std::function<void(std::span<float>)>& fill) const;

  // A metadata array of a GGUF file, of any length. Null if there is none or if the model is not GGUF.
  const GgufArray* array(std::string_view key) const;

  bool has_weights() const { return !tensors_.empty(); }
  uint64_t file_bytes() const; // of the files that hold the weights; 0 without weights
  // Frees the memory that read() took for the weights, but for those whose names begin with one of `kept`.
  // Call it when they will not be read any more: their data may then be zeros.
  void forget_weights(std::span<const std::string_view> kept);

  // The vocabulary of a file of whisper.cpp; null for all others.
  const RankedTokens* ranked_tokens() const;
  // The model's own small files: those of the folder that was opened, or those in its GGUF file. Any other
  // file has none.
  const ModelFolder& folder() const { return folder_; }
  // The path of tokenizer.json in the model's folder; empty if there is none.
  std::filesystem::path tokenizer_path() const { return tokenizer_path_; }

private:
  // A tensor of a type that weights cannot have, such as the integer position ids in many files.
  struct Unreadable {
    std::string dtype;
    std::vector<uint64_t> shape;
    std::span<const std::byte> data;
  };

  struct Derived; // what derive() has made, and what few files have

  ModelFile();
  static Result<ModelFile> open_path(const std::filesystem::path& path);
  static Result<ModelFile> from_bytes(MappedFile file);
  // `parts`: the files that a split one lies in, if their names say so.
  static Result<ModelFile> from_gguf(MappedFile file, const std::vector<std::filesystem::path>& parts = {});
  static Result<ModelFile> from_parts(std::vector<MappedFile> parts); // in order
  static Result<ModelFile> from_whole_gguf(GgufFile gguf, MappedFile file);
  Status add_part(MappedFile file, uint32_t number, uint32_t count);
  Status become_folder();
  void set_path(const std::string& path);
  static Result<ModelFile> from_ggml(MappedFile file);
  static Result<ModelFile> from_config(const MappedFile& file);
  Status add_shards(const std::filesystem::path& folder);
  Status add_shard(const std::filesystem::path& folder, const std::string& shard,
                   const std::map<std::string, std::string>* listed);
  Result<std::vector<SafetensorsFile::Entry>> read_entries(const MappedFile& file);
  void add_microscaled();
  void apply_factors();
  Status add_quantised();
  void index_names();
  void index_text_names();
  void find_tokenizer(const std::filesystem::path& folder);
  Error missing(std::string_view name) const;

  Format format_ = Format::gguf;
  std::string path_;
  std::string config_path_;                      // the file that config_ was read from, for messages
  std::shared_ptr<const nlohmann::json> config_; // a pointer, so that Fields stay valid after a move
  SettingChanges changes_;                       // that were made in config_
  std::shared_ptr<AskedFields> asked_;           // since then; null if there were none
  std::vector<MappedFile> files_;                // the files that hold weights
  std::deque<std::vector<std::byte>> copies_;    // of tensors that no file holds side by side
  std::vector<TensorView> tensors_;
  std::unordered_map<std::string_view, size_t> index_; // name to index in tensors_
  std::deque<std::string> text_names_;                 // more names in index_
  std::map<std::string, Unreadable, std::less<>> unreadable_;
  std::map<std::string, GgufArray, std::less<>> arrays_;
  ModelFolder folder_;
  std::filesystem::path tokenizer_path_;
  std::shared_ptr<Derived> derived_;
  std::unique_ptr<ModelFile> mmproj_;
};

} // namespace pumice

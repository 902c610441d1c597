#pragma once

#include <string>
#include <vector>

#include "io/model_file.h"
#include "kernel/activation.h"

namespace pumice {

// The largest values that a config may have, so that sizes computed from them fit 64 bits.
namespace limits {
inline constexpr uint32_t layers = 1000;
inline constexpr uint32_t heads = 4096;
inline constexpr uint32_t columns = 1 << 20;
inline constexpr uint32_t tokens = 1 << 24;
inline constexpr uint32_t context = 1 << 24;
inline constexpr uint32_t head_dim = 576; // limit of the attention kernels
} // namespace limits

// A setting's name in config.json, and in GGUF after "ARCHITECTURE.". An empty name means that the format
// does not have the setting; then the fallback is used.
struct SettingName {
  std::string_view hugging_face;
  std::string_view gguf;
};

// A model's settings, in either format.
class Settings {
public:
  explicit Settings(const ModelFile& file);
  // Those of a text model, which may be a part of the file's model.
  static Settings of_text(const ModelFile& file);
  // For a model whose settings are an object inside config.json.
  Settings(const ModelFile& file, Fields fields);

  bool gguf() const { return gguf_; }
  const ModelFile& file() const { return file_; }
  const Fields& fields() const { return fields_; }
  std::string architecture() const;                   // the file's, or the text model's
  std::string name(const SettingName& setting) const; // the full name in the file's format
  bool names(const SettingName& setting) const;       // whether the file's format has a name for it
  bool has(const SettingName& setting) const;
  bool has_tensor(std::string_view end) const; // whether a tensor's name in the file ends so

  Result<uint32_t> u32(const SettingName& setting, uint32_t min, uint32_t max) const;
  Result<uint32_t> u32_or(const SettingName& setting, uint32_t min, uint32_t max, uint32_t fallback) const;
  // A value for each of `count` layers. The file has a list of them, or one value for all.
  Result<std::vector<uint32_t>> u32_each(const SettingName& setting, uint32_t count, uint32_t min,
                                         uint32_t max, uint32_t fallback) const;
  Result<float> f32_or(const SettingName& setting, float min, float max, float fallback) const;
  Result<bool> boolean_or(const SettingName& setting, bool fallback) const;
  // An error unless a setting of config.json has the only value that is supported.
  Status expect(std::string_view hugging_face, bool fallback, bool supported) const;
  // An activation, by any of its names in config.json. GGUF has no such setting.
  Result<Activation> activation_or(const SettingName& setting, Activation fallback) const;

  Error error(const SettingName& setting, std::string_view what) const;

private:
  const ModelFile& file_;
  const bool gguf_;
  const Fields fields_;
  const std::string prefix_;
};

// An object of config.json, with what it leaves out because it is its class's default.
nlohmann::json with_defaults(const ModelFile& file, const char* name, nlohmann::json defaults);

} // namespace pumice

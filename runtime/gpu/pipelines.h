#pragma once

#include <condition_variable>
#include <filesystem>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "gpu/cache_folder/device_file.h"
#include "gpu/cache_folder/trial_note.h"
#include "gpu/device.h"

namespace pumice {

// The compute pipelines of one device: each kernel with each set of specialisation constants is made once.
// All share one layout: 128 bytes of push constants and one descriptor set of storage buffers and texels, as
// many as kernels have on this device. Safe to use from several threads, which make different pipelines at
// the same time.
class Pipelines {
public:
  static constexpr uint32_t push_constant_bytes = 128;

  // `cache_folder` keeps compiled pipelines and tuning results between runs (gpu/cache_folder/device_file.h);
  // empty for none. A folder that cannot be written is reported by save(), never here. Notes of processes
  // that ended while they tried something (gpu/cache_folder/trial_note.h) are tuning results from then on.
  static Result<std::shared_ptr<Pipelines>> create(std::shared_ptr<Device> device,
                                                   const std::filesystem::path& cache_folder);
  ~Pipelines();
  Pipelines(const Pipelines&) = delete;
  Pipelines& operator=(const Pipelines&) = delete;

  // The pipeline of a kernel named as in kernel_table.h; `constants[i]` is the specialisation constant with
  // id i. May be called from any thread; different pipelines are made at the same time.
  Result<VkPipeline> get(const std::string& kernel, const std::vector<uint32_t>& constants);
  const Device& device() const { return *device_; }
  VkPipelineLayout layout() const { return layout_; }
  VkDescriptorSetLayout set_layout() const { return set_layout_; }
  uint32_t descriptor_slots() const; // storage buffers of the set
  uint32_t texel_slots() const;      // and buffers that are read as texels (shaders/common/texels.h)
  size_t count() const;
  // Whether a kernel has run, so that every driver has compiled it. set_compiled() says that it has.
  bool compiled(const std::string& kernel, const std::vector<uint32_t>& constants) const;
  void set_compiled(const std::string& kernel, const std::vector<uint32_t>& constants);

  // Those of the device's file, and those of this run.
  TuningResults tuning_results() const;
  void set_tuning_result(const std::string& name, const std::string& value);
  // Several at once: sets `values` and removes `gone`.
  void change_tuning_results(const TuningResults& values, const std::set<std::string>& gone);
  // Adds those whose names are not known yet.
  void add_tuning_results(const TuningResults& more);

  // Writes the driver's pipeline cache and the tuning results to the folder if they have changed since it was
  // read. Tuning results that another process has added there meanwhile are kept, and known from then on.
  Status save();
  // Whether save() has a folder that can be written to now.
  bool can_save() const;
  // The device's file in the folder; empty: none.
  const std::filesystem::path& file() const { return cache_file_; }
  // The names of the tuning results that came from notes when this was made.
  const std::vector<std::string>& noted() const { return noted_; }

private:
  explicit Pipelines(std::shared_ptr<Device> device) : device_(std::move(device)) {}
  Status make_layouts();
  Result<VkPipeline> make(const std::string& kernel, const std::vector<uint32_t>& constants);
  void read_notes();

  std::shared_ptr<Device> device_;
  std::filesystem::path cache_file_;
  VkDescriptorSetLayout set_layout_ = VK_NULL_HANDLE;
  VkPipelineLayout layout_ = VK_NULL_HANDLE;
  VkPipelineCache cache_ = VK_NULL_HANDLE;
  mutable std::mutex mutex_;
  TuningResults tuning_results_;
  TuningResults stored_;        // those of the file when it was read or written last
  std::vector<LeftNote> notes_; // that are not in the file yet
  std::vector<std::string> noted_;
  std::condition_variable made_;
  using Key = std::pair<std::string, std::vector<uint32_t>>; // a kernel with its constants
  std::map<Key, VkPipeline> pipelines_;                      // null while a thread makes it
  std::set<Key> compiled_;
  bool unsaved_ = false;
};

} // namespace pumice

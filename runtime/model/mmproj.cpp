#include "model/mmproj.h"

#include "base/path.h"
#include "model/architecture.h"
#include "model/vocabulary.h"

namespace pumice {

namespace {

namespace fs = std::filesystem;

// The model with the file, unless they do not belong together.
Result<ModelFile> open_pair(const fs::path& model, const fs::path& mmproj) {
  PUMICE_TRY(ModelFile file, ModelFile::open(model));
  PUMICE_TRY(ModelFile pictures, ModelFile::open(mmproj));
  PUMICE_CHECK(file.attach_mmproj(std::move(pictures)));
  PUMICE_CHECK(open_model_definition(file));
  return file;
}

} // namespace

bool is_mmproj_name(const fs::path& path) {
  const std::string name = path_text(path.filename());
  return name.starts_with("mmproj") && name.ends_with(".gguf");
}

std::vector<fs::path> mmproj_files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code failed;
  fs::directory_iterator entry(folder.empty() ? fs::path(".") : folder, failed);
  for (; !failed && entry != fs::directory_iterator(); entry.increment(failed)) {
    if (is_mmproj_name(entry->path())) files.push_back(folder / entry->path().filename());
  }
  return files;
}

Result<PairedFile> open_with_mmproj(const fs::path& model, const fs::path& mmproj) {
  if (!mmproj.empty()) {
    PUMICE_TRY(ModelFile pair, open_pair(model, mmproj));
    return PairedFile{std::move(pair), ""};
  }
  PUMICE_TRY(ModelFile file, ModelFile::open(model));
  if (file.format() != ModelFile::Format::gguf || file.is_mmproj()) return PairedFile{std::move(file), ""};
  const ModelFolder folder = folder_of(file);
  if (folder.in_gguf()) return PairedFile{std::move(file), ""};
  const std::vector<fs::path> beside = mmproj_files_in(folder.on_disk());
  if (beside.size() != 1) return PairedFile{std::move(file), ""};
  Result<ModelFile> pair = open_pair(model, beside.front());
  if (!pair.ok()) return PairedFile{std::move(file), ""}; // it is another model's
  return PairedFile{std::move(*pair), path_text(beside.front().filename())};
}

std::string tower_path(const ModelFile& model) {
  return model.mmproj() ? model.mmproj()->path() : model.path();
}

} // namespace pumice

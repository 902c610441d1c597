#include "commands/mmproj.h"

#include <algorithm>
#include <filesystem>
#include <vector>

#include <fmt/format.h>

#include "model/architecture.h"
#include "model/vocabulary.h"
#include "terminal/terminal.h"

namespace pumice::command {

namespace {

namespace fs = std::filesystem;

std::vector<fs::path> mmproj_files_in(const fs::path& folder) {
  std::vector<fs::path> files;
  std::error_code failed;
  fs::directory_iterator entry(folder.empty() ? fs::path(".") : folder, failed);
  for (; !failed && entry != fs::directory_iterator(); entry.increment(failed)) {
    const std::string name = path_text(entry->path().filename());
    if (name.starts_with("mmproj") && name.ends_with(".gguf"))
      files.push_back(folder / entry->path().filename());
  }
  return files;
}

// The model with the file, unless they do not belong together.
Result<ModelFile> open_pair(const std::string& model, const fs::path& mmproj) {
  PUMICE_TRY(ModelFile file, ModelFile::open(path_of(model)));
  PUMICE_TRY(ModelFile pictures, ModelFile::open(mmproj));
  PUMICE_CHECK(file.attach_mmproj(std::move(pictures)));
  PUMICE_CHECK(open_model_definition(file));
  return file;
}

} // namespace

void add_mmproj_option(CLI::App& sub, std::string& mmproj, const std::string& group) {
  sub.add_option("--mmproj", mmproj,
                 "File with the encoder of a GGUF model's pictures. Without it, the only "
                 "mmproj*.gguf beside MODEL that fits it")
      ->type_name("FILE")
      ->group(group);
}

Result<ModelFile> open_with_mmproj(const std::string& model, const std::string& mmproj) {
  if (!mmproj.empty()) return open_pair(model, path_of(mmproj));
  PUMICE_TRY(ModelFile file, ModelFile::open(path_of(model)));
  if (file.format() != ModelFile::Format::gguf || file.is_mmproj()) return file;
  const ModelFolder folder = folder_of(file);
  if (folder.in_gguf()) return file;
  const std::vector<fs::path> beside = mmproj_files_in(folder.on_disk());
  if (beside.size() != 1) return file;
  Result<ModelFile> pair = open_pair(model, beside.front());
  if (!pair.ok()) return file; // it is another model's
  print_note(fmt::format("{}: its pictures are read with {}, which lies beside it", model,
                         path_text(beside.front().filename())));
  return pair;
}

std::string tower_path(const ModelFile& model) {
  return model.mmproj() ? model.mmproj()->path() : model.path();
}

} // namespace pumice::command

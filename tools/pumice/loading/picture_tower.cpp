#include "loading/picture_tower.h"

#include <fmt/format.h>

namespace pumice::command {

void add_mmproj_option(CLI::App& sub, std::string& mmproj, const std::string& group) {
  sub.add_option("--mmproj", mmproj,
                 "File with the encoder of a GGUF model's pictures. Without it, the only "
                 "mmproj*.gguf beside MODEL that fits it")
      ->type_name("FILE")
      ->group(group);
}

Result<ModelFile> open_with_mmproj(const std::string& model, const std::string& mmproj) {
  PUMICE_TRY(PairedFile pair, pumice::open_with_mmproj(path_of(model), path_of(mmproj)));
  if (!pair.found.empty())
    print_note(fmt::format("{}: its pictures are read with {}, which lies beside it", model, pair.found));
  return std::move(pair.file);
}

Result<std::shared_ptr<const Model>> load_tower(const std::string& path, const OpenedDevice& device,
                                                LoadOptions load) {
  PUMICE_TRY(ModelFile file, ModelFile::open(path_of(path)));
  load.tower = Tower::pictures;
  return load_model(std::move(file), device, load);
}

Result<PictureRows> load_picture_tower(const std::string& path, const PictureTokens& shape,
                                       const OpenedDevice& device, const LoadOptions& load) {
  PUMICE_TRY(std::shared_ptr<const Model> tower, load_tower(path, device, load));
  return PictureRows::create(std::move(tower), shape);
}

} // namespace pumice::command

#include "loading/draft_model.h"

#include "base/path.h"
#include "task/load_model.h"

namespace pumice::command {

Result<std::shared_ptr<const Model>> load_draft_model(const SizeOptions& size, const OpenedDevice& device,
                                                      const Model& model) {
  if (size.draft_model.empty()) return std::shared_ptr<const Model>();
  if (size.draft_model == "own") {
    LoadOptions load = size.load;
    load.tower = Tower::prediction;
    PUMICE_TRY(ModelFile file, ModelFile::open(path_of(model.file().path())));
    return load_model(std::move(file), device, load, &size);
  }
  PUMICE_TRY(OpenedModel opened, OpenedModel::open(path_of(size.draft_model)));
  return load_model(std::move(opened), device, {}, &size);
}

} // namespace pumice::command

#include "task/load_model.h"

namespace pumice {

Result<std::shared_ptr<const Model>> load_model(std::shared_ptr<const Model> planned,
                                                const Progress& progress, const KernelTrials* trials) {
  std::optional<DeviceProfile> profile;
  if (trials && trials->measure_before) {
    PUMICE_TRY(profile, trials->measure_before(*planned));
  }
  PUMICE_TRY(std::shared_ptr<const Model> model,
             Model::upload(std::move(planned), progress, std::move(profile)));
  if (!trials) return model;
  PUMICE_TRY(model, checked_model(model, trials->check, trials->how_to_go_on, trials->checked));
  PUMICE_TRY(DeviceProfile measured, trials->measure(model));
  return model->with_profile(std::move(measured));
}

} // namespace pumice

#include "task/load_model.h"

#include "model/model_facts.h"
#include "model/vocabulary.h"

namespace pumice {

namespace {

// What uploading put on the blocklist.
ShortCheck check_of(const Model& model, const std::shared_ptr<const Blocklist>& before) {
  ShortCheck check;
  const std::shared_ptr<const Blocklist>& after = model.context().profile.blocklist;
  for (const auto& [key, blocked] : after ? *after : Blocklist()) {
    if (before && before->contains(key)) continue;
    check.warning += (check.warning.empty() ? "" : "; ") + blocked_text(key, blocked);
  }
  return check;
}

} // namespace

Result<std::shared_ptr<const Model>> load_model(std::shared_ptr<const Model> planned,
                                                const Progress& progress, const KernelTrials* trials) {
  std::optional<DeviceProfile> profile;
  if (trials && trials->measure_before) {
    PUMICE_TRY(profile, trials->measure_before(*planned));
  }
  const std::shared_ptr<const Blocklist> before =
      profile ? profile->blocklist : planned->context().profile.blocklist;
  PUMICE_TRY(std::shared_ptr<const Model> model,
             Model::upload(std::move(planned), progress, std::move(profile)));
  if (!trials) return model;
  if (const ShortCheck check = check_of(*model, before); !check.warning.empty()) trials->checked(check);
  PUMICE_TRY(model, checked_model(model, trials->check, trials->how_to_go_on, trials->checked));
  if (!trials->measure) return model;
  PUMICE_TRY(DeviceProfile measured, trials->measure(model));
  return model->with_profile(std::move(measured));
}

std::vector<std::string> unread_settings(const ModelFile& file) {
  if (file.unread_changes().empty()) return {};
  (void)load_tokenizer(file);
  (void)end_tokens(file, nullptr);
  (void)has_chat_template(file);
  return file.unread_changes();
}

} // namespace pumice

#pragma once

#include <memory>
#include <span>
#include <string>

#include "io/model_file.h"
#include "loading/open_device.h"
#include "stage/processes.h"

// Several processes of this command that mpirun started, which run one model in stages.
namespace pumice::command {

// Whether mpirun started this process beside others.
bool started_with_others();
// Opens the plug-in with MPI and finds the others. `timeout`: see add_timeout_option(). `replicas`: copies of
// the model that they have together.
Status join_others(double timeout, uint32_t replicas);
// The processes that have this one's copy of the model, itself among them. Null where mpirun started none.
Processes* others();
// At the end of the command.
void leave_others();
// Where there are several copies: waits until all have ended.
Status wait_for_copies();

// The device options of this process's stage.
Result<DeviceOptions> own_options(const DeviceOptions& options);

// In process 0: loads the last stage, and makes sure that the others have the others.
Result<std::shared_ptr<const Model>> load_last_stage(OpenedModel opened, const OpenedDevice& device,
                                                     const LoadOptions& options);
// In the others: loads the stage and computes its steps until the end.
Status serve_stage(const std::string& model, const DeviceOptions& device, const LoadOptions& options);

} // namespace pumice::command

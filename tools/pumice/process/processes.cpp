#include "process/processes.h"

#include <cstdlib>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#ifndef _WIN32
#include <dlfcn.h>
#endif

#include "process/replicas.h"
#include "process/this_process.h"
#include "stage/stage_ring.h"
#include "stage/stage_server.h"
#include "terminal/counted.h"
#include "terminal/version.h"

namespace pumice::command {

namespace {

// The processes with one copy of the model, among all. They keep the names that they have there.
class Copy : public Processes {
public:
  Copy(Processes& world, uint32_t first, uint32_t size) : world_(world), first_(first), size_(size) {}
  uint32_t rank() const override { return world_.rank() - first_; }
  uint32_t size() const override { return size_; }
  std::string host(uint32_t rank) const override { return world_.host(first_ + rank); }
  std::string name(uint32_t rank) const override { return world_.name(first_ + rank); }
  Result<std::unique_ptr<Hop>> hop_to(uint32_t rank) override { return world_.hop_to(first_ + rank); }
  Result<std::unique_ptr<Hop>> hop_from(uint32_t rank) override { return world_.hop_from(first_ + rank); }
  void leave() override { world_.leave(); }
  Status wait_for_all() override { return world_.wait_for_all(); }
  uint32_t number() const { return first_ / size_; }
  uint32_t copies() const { return world_.size() / size_; }

private:
  Processes& world_;
  const uint32_t first_, size_;
};

std::unique_ptr<Processes> world;
std::unique_ptr<Copy> all; // those of this process's copy

uint32_t stage_of(uint32_t rank) {
  return (rank + all->size() - 1) % all->size();
}

// The plug-in is beside the program, or where it is installed.
Result<OpenProcesses> open_plugin() {
#ifdef _WIN32
  return Error{Code::unsupported, "several processes of one model are not supported on Windows"};
#else
  const std::filesystem::path folder = path_of(this_program()).parent_path();
  std::string reasons;
  for (const std::filesystem::path& path :
       {folder / "libpumice_mpi.so", folder.parent_path() / "lib" / "pumice" / "libpumice_mpi.so"}) {
    void* plugin = dlopen(path.c_str(), RTLD_NOW | RTLD_GLOBAL); // MPI libraries open further ones
    if (plugin) {
      if (void* symbol = dlsym(plugin, open_processes_symbol)) return reinterpret_cast<OpenProcesses>(symbol);
    }
    const char* reason = dlerror();
    reasons += fmt::format("\n  {}", reason ? reason : path_text(path));
  }
  return Error{Code::unsupported,
               "mpirun started this program, and it has no plug-in for MPI: build it where libopenmpi-dev or "
               "libmpich-dev is installed, or start it without mpirun" +
                   reasons};
#endif
}

struct Cuts {
  ModelShape shape;
  std::vector<uint32_t> layers;
  std::vector<Stage> stages;
};

// `opened`: with its definition.
Result<Cuts> cuts_of(const OpenedModel& opened, const DeviceOptions& options) {
  const ModelFile& file = opened.file;
  const ModelShape shape = opened.definition->shape();
  Cuts cuts{shape, options.split, {}};
  if (cuts.layers.empty()) {
    PUMICE_TRY(cuts.layers, even_split(file.path(), shape, all->size()));
  }
  PUMICE_TRY(cuts.stages, stages_of(file.path(), shape, cuts.layers));
  if (cuts.stages.size() == all->size()) return cuts;
  return Error{
      Code::invalid_argument,
      fmt::format("--split has {}, and mpirun started {} processes: give as many numbers as processes",
                  counted(cuts.stages.size(), "number"), all->size())};
}

Agreement agreement(const Model& model, const Cuts& cuts) {
  return {{"version", version_number()},
          {"model", fmt::format("{:016x}", model.identity())},
          {"layers of the stages", fmt::format("{}", fmt::join(cuts.layers, ", "))}};
}

std::string stage_name(const Cuts& cuts, uint32_t rank) {
  return fmt::format("{} ({})", all->name(rank), layers_text(cuts.stages[stage_of(rank)], cuts.shape));
}

// The other processes' stages, as process 0 sees them.
class RemoteStages : public StageRing {
public:
  RemoteStages(std::unique_ptr<Hop> first, std::unique_ptr<Hop> last, std::vector<std::string> names,
               std::string own_name)
      : StageRing(*first, *last, std::move(names), 0, std::move(own_name)), first_hop_(std::move(first)),
        last_hop_(std::move(last)) {}
  ~RemoteStages() override { quit(); }

private:
  std::unique_ptr<Hop> first_hop_, last_hop_;
};

} // namespace

bool started_with_others() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}) {
    if (const char* size = std::getenv(name); size && std::atoi(size) > 1) return true;
  }
  const char* tasks = std::getenv("SLURM_NTASKS"); // srun --mpi=pmix says the number in no other way
  return std::getenv("PMIX_RANK") && tasks && std::atoi(tasks) > 1;
}

Status join_others(double timeout, uint32_t replicas) {
  PUMICE_TRY(const OpenProcesses open, open_plugin());
  std::string why;
  world.reset(open(version_number(), timeout, &why));
  if (!world) return Error{Code::unsupported, "the plug-in for MPI cannot be used: " + why};
  if (world->size() == 1) {
    return Error{Code::unsupported,
                 "several processes were started, and the plug-in for MPI finds only this one: start them "
                 "with the mpirun of the MPI library that the plug-in was built with"};
  }
  if (world->size() % replicas != 0) {
    return Error{
        Code::invalid_argument,
        fmt::format("--replicas {}: mpirun started {} processes, which {} copies cannot divide: start "
                    "as many for each copy",
                    replicas, world->size(), replicas)};
  }
  const uint32_t stages = world->size() / replicas;
  all = std::make_unique<Copy>(*world, world->rank() / stages * stages, stages);
  if (replicas > 1 && all->rank() == 0) return begin_replicas(*world, replicas, stages);
  return {};
}

Processes* others() {
  return all.get();
}

// Copies end at different times, and MPI takes one that ends early for a failure.
Status wait_for_copies() {
  return all && all->copies() > 1 ? world->wait_for_all() : Status();
}

void leave_others() {
  forget_replicas();
  all.reset();
  world.reset();
}

Result<DeviceOptions> own_options(const DeviceOptions& options) {
  DeviceOptions result = options;
  if (result.devices.empty()) return result;
  const bool of_all = result.devices.size() == world->size();
  if (!of_all && result.devices.size() != all->size()) {
    return Error{
        Code::invalid_argument,
        fmt::format("--devices has {}, and each of {} of the model has {} stages: give as many devices, "
                    "one for each stage, or one for each stage of each copy",
                    counted(result.devices.size(), "device"),
                    all->copies() == 1 ? "1 copy" : fmt::format("{} copies", all->copies()), all->size())};
  }
  result.device = result.devices[(of_all ? all->number() * all->size() : 0) + stage_of(all->rank())];
  result.devices.clear();
  return result;
}

Result<std::shared_ptr<const Model>> load_last_stage(OpenedModel opened, const OpenedDevice& device,
                                                     const LoadOptions& options) {
  if (!opened.definition) {
    PUMICE_TRY(opened, OpenedModel::open(std::move(opened.file), options.settings));
  }
  PUMICE_TRY(const Cuts cuts, cuts_of(opened, device.options));
  std::vector<std::string> names;
  for (uint32_t rank = 1; rank < all->size(); ++rank) names.push_back(stage_name(cuts, rank));
  PUMICE_TRY(std::unique_ptr<Hop> first, all->hop_to(1));
  PUMICE_TRY(std::unique_ptr<Hop> last, all->hop_from(all->size() - 1));
  const auto stages = std::make_shared<RemoteStages>(std::move(first), std::move(last), std::move(names),
                                                     stage_name(cuts, 0));
  LoadOptions stage_options = options;
  stage_options.stage = cuts.stages.back();
  stage_options.upstream = stages;
  ProgressBar bar("loading the model");
  Result<std::shared_ptr<const Model>> loaded =
      Model::load(std::move(opened), device.context, bar.callback(), stage_options);
  bar.erase();
  if (!loaded.ok()) {
    return loaded.error().code == Code::cancelled ? loaded.error() : stages->tell(loaded.error());
  }
  std::shared_ptr<const Model> model = *std::move(loaded);
  for (const std::string& name : stages->describe()) print_detail(name);
  print_detail(stage_name(cuts, 0));
  PUMICE_CHECK(stages->greet(agreement(*model, cuts)));
  return model;
}

Status serve_stage(const std::string& path, const DeviceOptions& options, const LoadOptions& load) {
  const uint32_t rank = all->rank();
  PUMICE_TRY(const std::unique_ptr<Hop> from, all->hop_from(rank - 1));
  PUMICE_TRY(const std::unique_ptr<Hop> to, all->hop_to((rank + 1) % all->size()));
  Cuts cuts;
  std::optional<OpenedDevice> device;
  const auto loaded = [&]() -> Result<std::shared_ptr<const Model>> {
    PUMICE_TRY(OpenedModel opened, OpenedModel::open(path_of(path), load.settings));
    PUMICE_TRY(cuts, cuts_of(opened, options));
    PUMICE_TRY(device, open_device(options));
    LoadOptions stage_options = load;
    stage_options.stage = cuts.stages[stage_of(rank)];
    return Model::load(std::move(opened), device->context, {}, stage_options);
  };
  const Result<std::shared_ptr<const Model>> model = loaded();
  if (!model.ok()) {
    StageServer server(nullptr, all->name(rank), *from, *to);
    return server.run(model.error());
  }
  StageServer server(*model, stage_name(cuts, rank), *from, *to, agreement(**model, cuts));
  PUMICE_CHECK(server.run());
  return device->save_pipelines();
}

} // namespace pumice::command

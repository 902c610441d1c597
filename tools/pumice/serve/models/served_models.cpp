#include "serve/models/served_models.h"

#include <algorithm>
#include <ctime>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "base/guarded.h"
#include "base/path.h"
#include "gpu/memory.h"
#include "loading/picture_tower.h"
#include "serve/http/error.h"
#include "task/inspection/models_below.h"
#include "terminal/counted.h"
#include "terminal/terminal.h"

namespace pumice::serve {

namespace {

constexpr std::chrono::milliseconds pause(100); // between two looks at who waits

std::string usual_name(const std::string& path) {
  std::filesystem::path given = path_of(path);
  if (!given.has_filename()) given = given.parent_path(); // it ends with a slash
  return path_text(given.extension() == ".gguf" ? given.stem() : given.filename());
}

bool has_name(const std::string& own, const std::string& name) {
  return own == name || own + ":latest" == name;
}

double mebibytes(uint64_t bytes) {
  return static_cast<double>(bytes) / (1 << 20);
}

} // namespace

ServedModels::ServedModels(const command::OpenedDevice& device, ModelOptions options, Limits limits)
    : device_(device), on_demand_(device), options_(std::move(options)), folder_options_(options_),
      limits_(limits) {
  folder_options_.own_context = true;
  folder_options_.search.clear();
  folder_options_.size.draft_model.clear(); // one model's
  folder_options_.adapters.clear();
  on_demand_.shared = true; // no check goes on beside a model, and keeps it
  const MemoryReport report = device.context.device->memory();
  // A part of what is free is left to the driver, and to what requests need for a moment.
  if (limits_.memory == 0) limits_.memory = report.allocated + report.available / 10 * 8;
}

ServedModels::~ServedModels() {
  {
    const std::lock_guard lock(mutex_);
    ending_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

Status ServedModels::load(const std::string& path, std::string name) {
  auto entry = std::make_shared<Entry>();
  entry->name = name.empty() ? usual_name(path) : std::move(name);
  entry->path = path;
  entry->stays = true;
  if (std::ranges::any_of(all_, [&](const SharedEntry& each) { return each->name == entry->name; })) {
    return Error{Code::invalid_argument,
                 fmt::format("two models have the name '{}': give names with --alias", entry->name)};
  }
  ModelOptions options = options_;
  if (adapts()) options.adapters.clear(); // they are the first model's
  PUMICE_TRY(entry->model, ServedModel::load(path, entry->name, device_, options,
                                             searches() ? std::string() : options.search));
  entry->kind = entry->model->kind;
  entry->bytes = weight_bytes(path_of(path));
  entry->created = std::time(nullptr);
  entry->loads = 1;
  all_.push_back(std::move(entry));
  return {};
}

bool ServedModels::searches() const {
  return std::ranges::any_of(all_, [](const SharedEntry& each) {
    return each->model && each->model->vectors && each->model->vectors->searches();
  });
}

bool ServedModels::adapts() const {
  return std::ranges::any_of(all_, [](const SharedEntry& each) {
    return each->model && each->model->text && !each->model->text->adapters().empty();
  });
}

bool ServedModels::speaks() const {
  return std::ranges::any_of(all_,
                             [](const SharedEntry& each) { return each->kind.can(ServedKind::Use::voice); });
}

Result<std::vector<ServedModels::SharedEntry>>
ServedModels::entries_below(const std::vector<SharedEntry>& known) const {
  PUMICE_TRY(const std::vector<ModelBelow> found, models_below(path_of(folder_)));
  std::vector<SharedEntry> entries;
  for (const ModelBelow& model : found) {
    const auto before = std::ranges::find(known, model.name, &Entry::name);
    const bool there = before != known.end();
    if (there && ((*before)->stays || (*before)->stamp == model.stamp)) {
      if ((*before)->stays)
        command::print_note(
            fmt::format("{}: a model that was given by name is called '{}', too: it is left out",
                        path_text(model.path), model.name));
      else
        entries.push_back(*before);
      continue;
    }
    const std::string path = path_text(model.path);
    const auto read = [&]() -> Result<ServedKind> {
      PUMICE_TRY(ModelFile file, command::open_with_mmproj(path, ""));
      PUMICE_TRY(const OpenedModel opened, OpenedModel::open(std::move(file), options_.size.load.settings));
      return ServedKind::read(opened);
    };
    const Result<ServedKind> kind = guarded(read);
    auto entry = std::make_shared<Entry>();
    entry->name = model.name;
    entry->path = path;
    entry->stamp = model.stamp;
    entry->bytes = model.bytes;
    entry->created = model.modified;
    if (kind.ok())
      entry->kind = *kind;
    else
      entry->wrong = kind.error();
    if (!kind.ok())
      command::print_note(fmt::format("'{}' cannot be served: {}", model.name, kind.error().text()));
    entries.push_back(std::move(entry));
  }
  return entries;
}

Status ServedModels::add_folder(const std::string& folder) {
  folder_ = folder;
  PUMICE_TRY(std::vector<SharedEntry> entries, entries_below(all_));
  if (entries.empty()) command::print_note(fmt::format("{}: there is no model below this folder", folder));
  all_.insert(all_.end(), entries.begin(), entries.end());
  return guarded([&] { thread_ = std::thread([this] { run(); }); });
}

void ServedModels::reload() {
  const std::lock_guard lock(mutex_);
  reload_ = true;
  changed_.notify_all();
}

Result<ServedModels::SharedEntry> ServedModels::look_up(const std::string& name, ServedKind::Use use) const {
  std::vector<std::string> names;
  SharedEntry first;
  for (const SharedEntry& each : all_) {
    names.push_back(each->name);
    if (name.empty()) {
      const bool better = !first || (!first->model && each->model);
      if (!each->wrong && each->kind.can(use) && better) first = each;
      continue;
    }
    if (!has_name(each->name, name)) continue;
    if (each->wrong) return *each->wrong;
    if (each->kind.can(use)) return each;
    return Error{Code::unsupported,
                 fmt::format("{}: '{}' {}", request_field("model"), each->name, each->kind.refusal(use))};
  }
  if (first) return first;
  if (name.empty() && all_.size() == 1) return look_up(all_[0]->name, use); // which says what it does
  if (name.empty()) {
    return Error{Code::unsupported, fmt::format("{}: each of this server's, {}, {}", request_field("model"),
                                                fmt::join(names, ", "), cannot(use))};
  }
  return Error{Code::not_found, fmt::format("{} is '{}': expected one of this server's, {}",
                                            request_field("model"), name, fmt::join(names, ", "))};
}

ServedModels::Use::~Use() {
  if (!owner) return;
  const std::lock_guard lock(owner->mutex_);
  --entry->uses;
  entry->used = Clock::now();
  owner->changed_.notify_all();
}

// Under the lock: nothing can fail once the use is there, whose end takes it.
UsedModel ServedModels::take(const SharedEntry& entry) {
  const auto use = std::make_shared<Use>();
  ++entry->uses;
  entry->unwanted = false;
  entry->used = Clock::now();
  use->owner = this;
  use->entry = entry;
  return UsedModel(use, entry->model.get());
}

Result<UsedModel> ServedModels::find(const std::string& name, ServedKind::Use use,
                                     const std::function<bool()>& wait) {
  Lock lock(mutex_);
  PUMICE_TRY(const SharedEntry entry, look_up(name, use));
  if (entry->model && !entry->leaving) return take(entry);
  Waiting own{name, use};
  const auto place = waiting_.insert(waiting_.end(), &own);
  changed_.notify_all();
  while (!own.found) {
    lock.unlock();
    const bool waits = guarded([&] { return wait() ? Status() : Error{Code::cancelled, ""}; }).ok();
    lock.lock();
    if (!own.found && !waits) own.found = Error{Code::cancelled, "the client is gone"};
    if (!own.found) answered_.wait_for(lock, pause);
  }
  waiting_.erase(place);
  changed_.notify_all();
  lock.unlock(); // a model that was taken may go back at once
  return *std::move(own.found);
}

ServedModels::Listed ServedModels::listed(const Entry& entry) const {
  Listed made{entry.name, entry.kind, entry.bytes, entry.created, entry.loads, entry.model.get(), {}};
  if (entry.model && !entry.stays && limits_.idle_minutes > 0) {
    const Clock::time_point now = Clock::now();
    const auto left = (entry.uses > 0 ? now : entry.used) + idle_time() - now;
    made.leaves = std::time(nullptr) + std::chrono::duration_cast<std::chrono::seconds>(left).count();
  }
  return made;
}

void ServedModels::list(const Look& look) const {
  const std::lock_guard lock(mutex_);
  for (const SharedEntry& each : all_) {
    if (!each->wrong) look(listed(*each));
  }
}

Status ServedModels::show(const std::string& name, const Look& look) const {
  const std::lock_guard lock(mutex_);
  PUMICE_TRY(const SharedEntry entry, look_up(name, ServedKind::Use::any));
  look(listed(*entry));
  return {};
}

Status ServedModels::let_go(const std::string& name) {
  const std::lock_guard lock(mutex_);
  PUMICE_TRY(const SharedEntry entry, look_up(name, ServedKind::Use::any));
  entry->unwanted = !entry->stays;
  changed_.notify_all();
  return {};
}

ServedModels::Memory ServedModels::memory() const {
  return {device_.context.device->allocated_bytes(), limits_.memory};
}

// The thread's own: what follows.
void ServedModels::run() {
  Lock lock(mutex_);
  while (!ending_) {
    const Status status = guarded([&] { work(lock); });
    if (!lock.owns_lock()) lock.lock();
    if (!status.ok())
      changed_.wait_for(lock, pause); // mostly the host's memory, which may be there again then
  }
}

// What is to be done next; or waits until there may be something.
void ServedModels::work(Lock& lock) {
  if (std::exchange(reload_, false)) read_folder(lock);
  if (let_go_unwanted(lock)) return;
  answer_waiting();
  if (serve_first(lock) || ending_ || reload_) return;
  if (const std::optional<Clock::time_point> end = idle_end())
    changed_.wait_until(lock, *end);
  else
    changed_.wait(lock);
}

void ServedModels::read_folder(Lock& lock) {
  const std::vector<SharedEntry> before = all_;
  lock.unlock();
  Result<std::vector<SharedEntry>> entries = guarded([&] { return entries_below(before); });
  command::print_note(
      entries.ok() ? fmt::format("SIGHUP: {} has {}", folder_, command::counted(entries->size(), "model"))
                   : "SIGHUP: " + entries.error().text());
  lock.lock();
  if (!entries.ok()) return;
  std::vector<SharedEntry> all;
  for (const SharedEntry& each : all_) {
    if (each->stays)
      all.push_back(each);
    else if (each->model && std::ranges::count(*entries, each) == 0)
      gone_.push_back(each);
  }
  all.insert(all.end(), entries->begin(), entries->end());
  all_ = std::move(all);
}

// Those whose models are there, or are none.
void ServedModels::answer_waiting() {
  for (Waiting* each : waiting_) {
    if (each->found) continue;
    const Result<SharedEntry> entry = look_up(each->name, each->use);
    if (!entry.ok())
      each->found = entry.error();
    else if ((*entry)->model && !(*entry)->leaving)
      each->found = take(*entry);
  }
  answered_.notify_all();
}

// After answer_waiting(). False: there is nothing to do before something changes.
bool ServedModels::serve_first(Lock& lock) {
  const auto first = std::ranges::find_if(waiting_, [](const Waiting* each) { return !each->found; });
  if (first == waiting_.end()) {
    for (const SharedEntry& each : all_) each->leaving = false;
    return false;
  }
  const SharedEntry entry = *look_up((*first)->name, (*first)->use);
  if (std::exchange(entry->leaving, false)) return true; // it was to go, and its turn has come before that
  const Room room = make_room(entry, lock);
  if (room == Room::wait) return false;
  if (room == Room::none) {
    fail(entry, too_large(*entry));
    return true;
  }
  const bool alone = on_demand().empty() && gone_.empty();
  const int64_t before = MemoryCount::of_thread(); // others may take memory meanwhile, too
  lock.unlock();
  Result<std::unique_ptr<ServedModel>> loaded =
      guarded([&] { return ServedModel::load(entry->path, entry->name, on_demand_, folder_options_, ""); });
  const int64_t needs = MemoryCount::of_thread() - before;
  lock.lock();
  if (!loaded.ok()) {
    // What is free is not known to the byte: another one may have to go.
    const SharedEntry other = loaded.error().code == Code::out_of_memory ? least_recent() : nullptr;
    if (other)
      let_go(other, lock);
    else
      fail(entry, loaded.error());
    return true;
  }
  // It may take more than its files.
  const auto over = [&] { return memory().used > limits_.memory; };
  while (over() && least_recent()) let_go(least_recent(), lock);
  entry->needs = static_cast<uint64_t>(std::max<int64_t>(needs, 1));
  entry->used = Clock::now();
  entry->unwanted = false;
  entry->model = *std::move(loaded);
  ++entry->loads;
  if (!over()) return true;
  let_go(entry, lock); // until there is room
  if (alone) fail(entry, too_large(*entry));
  return true;
}

std::vector<ServedModels::SharedEntry> ServedModels::on_demand() const {
  std::vector<SharedEntry> loaded;
  for (const SharedEntry& each : all_) {
    if (each->model && !each->stays) loaded.push_back(each);
  }
  return loaded;
}

// `wait`: for those that go once no request uses them.
ServedModels::Room ServedModels::make_room(const SharedEntry& wanted, Lock& lock) {
  const uint64_t needs = needs_of(*wanted);
  for (;;) {
    for (const SharedEntry& each : all_) each->leaving = false;
    if (needs > limits_.memory) return Room::none;
    uint64_t used = memory().used;
    if (used <= limits_.memory - needs) return Room::there;
    if (const SharedEntry idle = least_recent()) {
      let_go(idle, lock);
      if (ending_) return Room::wait;
      continue;
    }
    std::vector<SharedEntry> others = on_demand();
    if (others.empty() && gone_.empty()) return Room::none;
    std::ranges::sort(others, {}, &Entry::used);
    for (const SharedEntry& each : others) {
      if (used <= limits_.memory - needs) break;
      used -= std::min(used, each->needs);
      each->leaving = true;
    }
    return Room::wait;
  }
}

// Before it was loaded, its files say what it needs; not where they become smaller on the way.
uint64_t ServedModels::needs_of(const Entry& entry) const {
  const LoadOptions& load = options_.size.load;
  const bool smaller =
      load.weights || load.experts != ExpertPlacement::automatic || load.device_layers != UINT32_MAX;
  return entry.needs > 0 ? entry.needs : smaller ? 0 : entry.bytes;
}

Error ServedModels::too_large(const Entry& entry) const {
  return {Code::out_of_memory,
          fmt::format(
              "{} needs {:.1f} MiB of the device's memory, of which models may take {:.1f}, and others "
              "have {:.1f}: see --models-memory, or choose a shorter --context or fewer --sequences",
              entry.path, mebibytes(needs_of(entry)), mebibytes(limits_.memory), mebibytes(memory().used))};
}

ServedModels::SharedEntry ServedModels::least_recent() const {
  SharedEntry least;
  for (const SharedEntry& each : all_) {
    if (is_idle(*each) && (!least || each->used < least->used)) least = each;
  }
  return least;
}

bool ServedModels::let_go_unwanted(Lock& lock) {
  const auto gone = std::ranges::find(gone_, size_t{0}, &Entry::uses);
  if (gone != gone_.end()) {
    const SharedEntry entry = *gone;
    gone_.erase(gone);
    let_go(entry, lock);
    return true;
  }
  if (memory().used > limits_.memory && on_demand().size() > 1) { // a task took more
    if (const SharedEntry idle = least_recent()) {
      let_go(idle, lock);
      return true;
    }
  }
  for (const SharedEntry& each : all_) {
    if (!is_idle(*each)) continue;
    const bool late = limits_.idle_minutes > 0 && Clock::now() >= each->used + idle_time();
    if (!late && !each->unwanted) continue;
    let_go(SharedEntry(each), lock);
    return true;
  }
  return false;
}

ServedModels::Clock::duration ServedModels::idle_time() const {
  return std::chrono::duration_cast<Clock::duration>(
      std::chrono::duration<double, std::ratio<60>>(limits_.idle_minutes));
}

std::optional<ServedModels::Clock::time_point> ServedModels::idle_end() const {
  std::optional<Clock::time_point> end;
  for (const SharedEntry& each : all_) {
    if (limits_.idle_minutes > 0 && is_idle(*each))
      end = std::min(end.value_or(Clock::time_point::max()), each->used + idle_time());
  }
  return end;
}

// Its memory is free when this returns. No request uses it: under the lock none can begin to.
void ServedModels::let_go(const SharedEntry& entry, Lock& lock) {
  std::unique_ptr<ServedModel> model = std::move(entry->model);
  entry->leaving = entry->unwanted = false;
  lock.unlock();
  model.reset();
  command::print_detail(fmt::format("let go of {}", entry->path));
  lock.lock();
}

void ServedModels::fail(const SharedEntry& entry, const Error& error) {
  Error told = error;
  if (told.message.find(entry->path) == std::string::npos)
    told.message = fmt::format("{}: {}", entry->path, told.message);
  for (Waiting* each : waiting_) {
    if (each->found) continue;
    const Result<SharedEntry> wanted = look_up(each->name, each->use);
    if (wanted.ok() && *wanted == entry) each->found = told;
  }
  answered_.notify_all();
}

} // namespace pumice::serve

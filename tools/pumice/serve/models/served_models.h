#pragma once

#include <chrono>
#include <condition_variable>
#include <ctime>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "serve/models/served_model.h"

namespace pumice::serve {

// A model that a request uses. It is not let go while there is one.
using UsedModel = std::shared_ptr<ServedModel>;

// The models of the server. Those that were given by name are loaded when it starts, and stay. Those below a
// folder are loaded when a request wants them, by a thread that does nothing else, one after the other: first
// come, first served. Where one needs memory, others are let go once no request uses them, the least recently
// used first.
class ServedModels {
public:
  struct Limits {
    uint64_t memory = 0;     // most bytes of the device that all models take; 0: what it has
    double idle_minutes = 0; // after which a model of the folder is let go; 0: never
  };

  // The device must outlive it.
  ServedModels(const command::OpenedDevice& device, ModelOptions options, Limits limits);
  ~ServedModels(); // no request may be there any more

  // A model that stays.
  Status load(const std::string& path, std::string name);
  bool searches() const; // one of them does
  bool adapts() const;   // one of them has adapters
  bool speaks() const;   // one of them does
  // Of those that speak: profiles by their names.
  const std::map<std::string, std::string>& voices() const { return options_.voices; }
  // Those below a folder, which are not loaded. Prints a note for what is no model.
  Status add_folder(const std::string& folder);
  // Reads the folder again, soon and on another thread: what has changed is loaded anew for the next request,
  // what is gone goes, both once no request uses them. Without a folder nothing happens.
  void reload();

  // The model of a request, once it is loaded; without a name one that can do it, a loaded one first. `wait`
  // is called every now and then meanwhile; false: nobody waits any more. not_found, with the names that
  // there are; unsupported for a model of another kind; cancelled; and what is wrong with the model.
  Result<UsedModel> find(const std::string& name, ServedKind::Use use, const std::function<bool()>& wait);
  // What a model is, whether it is loaded or not.
  struct Listed { // as long as one looks at it
    std::string name;
    ServedKind kind;
    uint64_t bytes = 0;                 // of its files
    int64_t created = 0;                // when it was loaded, or its files were written
    uint64_t loads = 0;                 // so far
    const ServedModel* model = nullptr; // null: it is not loaded
    std::optional<std::time_t> leaves;  // when it is let go, if no request comes
  };
  // Looks at each model, or at one. That is no use of it. `look` must not call any of these functions.
  using Look = std::function<void(const Listed&)>;
  void list(const Look& look) const;
  Status show(const std::string& name, const Look& look) const;
  // The model is let go once no request uses it, if none comes before that.
  Status let_go(const std::string& name);

  struct Memory {
    uint64_t used = 0, most = 0; // bytes of the device
  };
  Memory memory() const;

private:
  using Clock = std::chrono::steady_clock;
  struct Entry {
    std::string name, path, stamp;
    bool stays = false;
    std::optional<Error> wrong; // why it cannot be served
    ServedKind kind;
    uint64_t bytes = 0;
    int64_t created = 0;
    uint64_t loads = 0;
    std::unique_ptr<ServedModel> model; // null: it is not loaded
    size_t uses = 0;                    // of it, by requests
    bool leaving = false;               // its memory is needed: requests wait for it again
    bool unwanted = false;              // it goes once it is not used
    uint64_t needs = 0;                 // bytes of the device that it took; 0: it was never loaded
    Clock::time_point used = {};        // the last time
  };
  using SharedEntry = std::shared_ptr<Entry>;
  struct Use { // of a model by a request
    ServedModels* owner = nullptr;
    SharedEntry entry;
    ~Use();
  };
  struct Waiting { // a request
    const std::string& name;
    ServedKind::Use use;
    std::optional<Result<UsedModel>> found = {};
  };
  using Lock = std::unique_lock<std::mutex>;

  Result<SharedEntry> look_up(const std::string& name, ServedKind::Use use) const;
  Listed listed(const Entry& entry) const;
  UsedModel take(const SharedEntry& entry);
  void run();
  void work(Lock& lock);
  void read_folder(Lock& lock);
  void answer_waiting();
  bool serve_first(Lock& lock);
  std::vector<SharedEntry> on_demand() const; // those that are loaded and need not stay
  enum class Room { there, wait, none };
  Room make_room(const SharedEntry& wanted, Lock& lock);
  Error too_large(const Entry& entry) const;
  uint64_t needs_of(const Entry& entry) const;
  SharedEntry least_recent() const; // that is idle; null: none
  bool let_go_unwanted(Lock& lock);
  void let_go(const SharedEntry& entry, Lock& lock);
  void fail(const SharedEntry& entry, const Error& error);
  Clock::duration idle_time() const;
  std::optional<Clock::time_point> idle_end() const;
  static bool is_idle(const Entry& entry) { return entry.model && !entry.stays && entry.uses == 0; }
  Result<std::vector<SharedEntry>> entries_below(const std::vector<SharedEntry>& known) const;

  const command::OpenedDevice& device_;
  command::OpenedDevice on_demand_; // for what is loaded while others run
  const ModelOptions options_;
  ModelOptions folder_options_; // for those below the folder
  Limits limits_;
  std::string folder_; // empty: none

  mutable std::mutex mutex_;
  std::condition_variable changed_, answered_;
  std::vector<SharedEntry> all_;
  std::vector<SharedEntry> gone_; // from the folder, and not let go yet
  std::list<Waiting*> waiting_;
  bool reload_ = false, ending_ = false;
  std::thread thread_; // with a folder
};

} // namespace pumice::serve

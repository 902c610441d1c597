#pragma once

#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "model/adapter.h"
#include "model/model.h"

namespace pumice::command {

// Adds --lora.
void add_adapter_option(CLI::App& app, std::vector<std::string>& uses);

// The adapters that --lora names, as PATH or PATH=SCALE.
class NamedAdapters {
public:
  static Result<NamedAdapters> load(const std::vector<std::string>& uses, const OpenedModel& model);

  // Those of --lora, together as one: for texts that say nothing else. With a scale of 0, none.
  const AdapterChoice& usual() const { return usual_; }
  // Some of them, as a request names them.
  Result<AdapterChoice> choose(const std::vector<std::string>& uses);
  // Those of --lora in their order, and all of them with other scales: of 0, without.
  struct Use {
    std::string path;
    float scale = 1;
  };
  const std::vector<Use>& uses() const { return uses_; }
  AdapterChoice choose(const std::vector<float>& scales);
  // What steps need, with so many adapters at a time; null without --lora. `any`: several of them together
  // are one, whichever they are.
  std::shared_ptr<const AdapterRoom> room(uint32_t places, bool any = false) const;

private:
  std::vector<Use> uses_;
  std::map<std::string, std::shared_ptr<const Adapter>> adapters_; // by path
  std::map<std::vector<std::string>, AdapterChoice> chosen_;       // so that texts with the same share it
  std::map<std::vector<float>, AdapterChoice> scaled_;             // by their scales
  AdapterChoice usual_;
};

} // namespace pumice::command

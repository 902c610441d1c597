#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

namespace pumice::text {

// Ids of calls that models write none for, as a template wants them.
class CallIds {
public:
  // `wanted`: an id as the template wants it, or empty. `messages`: whose ids are taken.
  CallIds(std::string wanted, const nlohmann::ordered_json& messages);

  // A new id where one is wanted; else empty.
  std::string make(const std::string& tool);
  void take(std::string id) { taken_.push_back(std::move(id)); }
  // Gives calls their ids, and their results, which follow them in their order.
  void complete(nlohmann::ordered_json& messages);

private:
  std::string wanted_;
  std::vector<std::string> taken_;
};

} // namespace pumice::text

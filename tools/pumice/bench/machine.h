#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

// What else the machine does while something is measured.
namespace pumice::command {

// Shares are of all processors together, 0 to 1. Empty where the system does not say.
struct MachineUse {
  std::optional<double> others; // used by other programs
  std::optional<double> stolen; // taken by the host of this virtual machine
  std::optional<double> load;   // programs that run or wait to run, averaged over the last minute
};

// From its construction to each call of use().
class MachineWatch {
public:
  MachineWatch();
  MachineUse use() const;

private:
  // Seconds of all processors together since the system started.
  struct Times {
    double all = 0, busy = 0, stolen = 0;
    double ours = 0; // of this program and of those that it has started and waited for
  };
  static std::optional<Times> now();

  std::optional<Times> start_;
};

// A machine is busy if others use more than this.
inline constexpr double busy_others = 0.1, busy_stolen = 0.03;
bool is_busy(const MachineUse& use);
// "busy", "quiet", or "not watched" where the system says nothing.
std::string_view busy_or_quiet(const MachineUse& use);

// "other programs used 42 % of the processors, the host of this virtual machine took 3 %, load 2.7".
// Empty if nothing is known.
std::string in_words(const MachineUse& use);

} // namespace pumice::command

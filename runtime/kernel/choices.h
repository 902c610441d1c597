#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace pumice {

class Pipelines;

// The variant that was measured to be the fastest on a device, by class of shapes. A class is named by its
// kernel family, a type of numbers, a class of rows and the rest: "matmul q8_0 1 x 3072 x 768". The value is
// the variant's name: "tiled".
using Choices = std::map<std::string, std::string>;

// A class's name, divided at its rows: "matmul q8_0 ", 128, " x 3072 x 768".
struct ClassName {
  std::string_view before, after;
  uint32_t rows = 0; // 0: it names none

  std::string_view family() const { return before.substr(0, before.find(' ')); }
};
ClassName divide_class(std::string_view name);

// Products of so many rows and of more may be different kernels.
inline constexpr uint32_t few_rows = 8;
// The most rows of the class that so many rows are in.
uint32_t rows_class(uint32_t rows);
// What was measured for a class; for more than eight rows also for the nearest class of more than eight rows
// that differs in nothing else. Null: nothing.
const std::string* find_choice(const Choices& choices, std::string_view shape_class);

// Why a variant is not used on a device.
struct Blocked {
  std::string reason;     // a sentence without its full stop: "its results are not finite"
  bool dangerous = false; // trying it again may end the process or lose the device

  bool operator==(const Blocked&) const = default;
};
// Variants that are not used on a device, by family and name: "matmul cm".
using Blocklist = std::map<std::string, Blocked>;

// The key of a variant in the blocklist: the family, which is the class's first word, and the name.
std::string blocklist_key(std::string_view shape_class, std::string_view variant);

// A choice of a variant while a plan was made. `variants` are those that run on this device, in the family's
// order; the last is the plain one.
struct VariantChoice {
  std::string shape_class;
  std::vector<std::string> variants;
  std::string chosen;
  bool settled = false; // the order is known to be that of speed: nothing has to be measured
};

// Choices and blocklist as they are kept among the tuning results in the device's file.
Choices stored_choices(const Pipelines& pipelines);
Blocklist stored_blocklist(const Pipelines& pipelines);
// Adds to what is kept, or replaces it. `allowed`: keys of variants that are on the blocklist no longer.
void store_choices(Pipelines& pipelines, const Choices& choices, const Blocklist& blocklist,
                   const std::set<std::string>& allowed);
// The name among the tuning results of a variant that is blocked as dangerous.
std::string dangerous_result(std::string_view key);
// A sentence for each variant that is blocked because an earlier process ended while it was tried, which
// nobody was told of yet.
std::vector<std::string> newly_blocked(const Pipelines& pipelines);
// "the kernel variant 'matmul cm' is not used: its results are not finite".
std::string blocked_text(std::string_view key, const Blocked& blocked);

// A variant as the help text shows it.
struct VariantSummary {
  std::string_view family; // "matmul"
  std::string_view name;
  std::string_view summary; // a sentence: what it is, and on which devices it runs
};

// Every variant of every family, for all devices: families by name, variants in the family's order.
std::vector<VariantSummary> kernel_variants();
// Their names, each once.
std::vector<std::string> variant_names();

// Adds a family of kernels with variants to kernel_variants(). It must be a static object in the file that
// defines the family's function: a program that links the function then has the registration too.
class FamilyRegistration {
public:
  using List = std::vector<VariantSummary> (*)(); // list_variants() in kernel/variant.h makes one
  FamilyRegistration(std::string_view family, List list);
  FamilyRegistration(const FamilyRegistration&) = delete;
  FamilyRegistration& operator=(const FamilyRegistration&) = delete;

private:
  friend std::vector<VariantSummary> kernel_variants();

  std::string_view family_;
  List list_;
  const FamilyRegistration* next_;
};

} // namespace pumice

#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace pumice {

class Pipelines;

// Which way of doing its work was found the fastest on a device, for each kernel family and class of shapes.
// Families name their classes ("matmul q8_0 1 x 3072 x 768") and their variants ("tiled").
using Choices = std::map<std::string, std::string>;

// Variants that gave wrong answers on a device, by family and name ("matmul cm"), and what was wrong.
using Blocklist = std::map<std::string, std::string>;

// How a variant is named among the blocklist: a class begins with its family.
std::string blocklist_key(std::string_view shape_class, std::string_view variant);

// A choice that was made while a plan was: the variants that can do the work on this device, in the family's
// order, the last of them the plain one.
struct VariantChoice {
  std::string shape_class;
  std::vector<std::string> variants;
  std::string chosen;
};

// What is kept of both among the tuning results of the device's file.
Choices stored_choices(const Pipelines& pipelines);
Blocklist stored_blocklist(const Pipelines& pipelines);
void store_choices(Pipelines& pipelines, const Choices& choices, const Blocklist& blocklist);

// What people are told of a variant.
struct VariantSummary {
  std::string_view family; // "matmul"
  std::string_view name;
  std::string_view summary; // a sentence: what it is, and on which devices it runs
};

// Every variant of every family, whatever device it needs: families by name, variants in the family's order.
std::vector<VariantSummary> kernel_variants();
// Their names, each once.
std::vector<std::string> variant_names();

// Makes a family of kernels with variants known to kernel_variants(). A static object in the file that
// defines the family's function: whoever is linked with the one has the other.
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

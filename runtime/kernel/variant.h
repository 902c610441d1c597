#pragma once

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "kernel/device_profile.h"
#include "kernel/lowering.h"
#include "kernel/variant_order.h"

namespace pumice {

// One implementation of a kernel family's operation. Args: the family's arguments (MatmulArgs,
// AttentionArgs).
template <class Args>
struct KernelVariant {
  std::string_view name;
  std::string_view summary; // for the help text: the devices it is for, then what it is
  // Whether this variant can do this work on this device.
  bool (*runs)(const DeviceProfile& profile, const Args& args);
  // Emits the dispatches.
  Status (*lower)(Lowering& lowering, const Args& args);
  // True if it rounds what it multiplies to fewer than 32 bits. Such a variant is chosen only after a
  // measurement or by name, never by an order.
  bool rounds = false;
  // Whether CPU drivers take it without being told to. A row's bits are the same for any number of rows,
  // which those of different variants are not.
  bool for_cpus = false;
  // The variant of which this is a form for some shapes, with the same kernels. It is blocked with it, and
  // measured for a class of which this shape is one, it gives way to it where it is not offered.
  std::string_view form_of = {};

  // Whether a device has this way to do the work.
  bool offered(const DeviceProfile& profile, const Args& args) const {
    return (!profile.cpu || for_cpus || profile.forced == name) && runs(profile, args);
  }
  bool blocked(const DeviceProfile& profile, const std::string& shape_class) const {
    const bool itself = profile.blocklist && profile.blocklist->contains(blocklist_key(shape_class, name));
    return itself || blocked_with_another(profile, shape_class);
  }
  bool blocked_with_another(const DeviceProfile& profile, const std::string& shape_class) const {
    return profile.blocklist && !form_of.empty() &&
           profile.blocklist->contains(blocklist_key(shape_class, form_of));
  }
};

// Chooses, in this order: the variant that the profile forces, if it is offered; the one that was measured to
// be the fastest for this class of shapes or the nearest one, or what that is a form of; the first that is
// offered, is not blocked and does not round, in the order that is estimated for GPUs like this one, and then
// in the family's. A family's last variant is the plain one, which always runs. The shape class begins with
// the family's name.
template <class Args>
const KernelVariant<Args>& choose_variant(std::span<const KernelVariant<Args>* const> variants,
                                          const DeviceProfile& profile, const Args& args,
                                          const std::string& shape_class) {
  const auto named = [&](std::string_view name) {
    const auto at = std::find_if(variants.begin(), variants.end(),
                                 [&](const KernelVariant<Args>* variant) { return variant->name == name; });
    return at == variants.end() ? nullptr : *at;
  };
  const auto find = [&](std::string_view name) {
    const KernelVariant<Args>* variant = named(name);
    return variant && variant->offered(profile, args) ? variant : nullptr;
  };
  if (const KernelVariant<Args>* forced = find(profile.forced)) return *forced;
  if (profile.choices) {
    const std::string* choice = find_choice(*profile.choices, shape_class);
    const KernelVariant<Args>* measured = choice ? named(*choice) : nullptr;
    if (measured && !measured->offered(profile, args)) measured = find(measured->form_of);
    if (measured && !measured->blocked(profile, shape_class)) return *measured;
  }
  for (const std::string_view name : estimated_order(profile.generation, shape_class)) {
    const KernelVariant<Args>* variant = find(name);
    if (variant && !variant->rounds && !variant->blocked(profile, shape_class)) return *variant;
  }
  for (const KernelVariant<Args>* variant : variants) {
    if (variant->rounds || !variant->offered(profile, args)) continue;
    if (!variant->blocked(profile, shape_class)) return *variant;
  }
  return *variants.back();
}

// Lowers with the variant of choose_variant(), and tells the plan which variants were possible. `settled`: as
// VariantChoice has it.
template <class Args>
Status lower_variant(Lowering& lowering, std::span<const KernelVariant<Args>* const> variants,
                     const Args& args, const std::string& shape_class, bool settled = false) {
  const KernelVariant<Args>& chosen = choose_variant(variants, lowering.profile(), args, shape_class);
  VariantChoice choice{shape_class, {}, std::string(chosen.name), settled};
  for (const KernelVariant<Args>* variant : variants) {
    if (!variant->offered(lowering.profile(), args)) continue;
    if (variant->blocked_with_another(lowering.profile(), shape_class)) continue; // nothing to try
    choice.variants.emplace_back(variant->name);
  }
  lowering.begin_choice(std::move(choice));
  const Status status = chosen.lower(lowering, args);
  lowering.end_choice();
  return status;
}

// The summaries of a family's variants, for FamilyRegistration: list_variants<matmul_variants>.
template <auto variants>
std::vector<VariantSummary> list_variants() {
  std::vector<VariantSummary> list;
  for (const auto* variant : variants()) list.push_back({{}, variant->name, variant->summary});
  return list;
}

} // namespace pumice

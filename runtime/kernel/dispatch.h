#pragma once

#include <array>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

namespace pumice {

// The kinds of memory that a plan uses. While a plan is made, nothing is allocated yet: it names a range by
// space, number of the allocation and offset.
enum class Space : uint8_t {
  step,    // the StepBlock
  results, // what sampling leaves for the host
  scratch, // activations
  inputs,  // tensors that the host writes before a step
  outputs, // tensors that the host reads after a step
  cache,   // keys and values
  weights,
  adapters, // matrices of low-rank adapters
};

struct BufferRef {
  Space space = Space::scratch;
  uint32_t allocation = 0; // its number among the allocations of the space
  uint64_t offset = 0;
  uint64_t bytes = 0;

  BufferRef at(uint64_t more, uint64_t size) const { return {space, allocation, offset + more, size}; }
};

enum class Access : uint8_t { read, write, read_write };

// One kernel launch for a device. Its buffers are not bound to memory yet.
struct Dispatch {
  struct Binding {
    uint32_t slot = 0; // in the descriptor set, named in the kernel's params header
    BufferRef buffer;
    Access access = Access::read;
  };
  // A buffer whose device address is written into the parameters.
  struct Address {
    uint32_t param_offset = 0;
    BufferRef buffer;
  };

  // A binding that the kernel reads as texels too (shaders/common/texels.h).
  struct Texels {
    uint32_t texel_slot = 0;
    uint32_t slot = 0; // the binding's
  };

  std::string kernel;              // name in the kernel table
  std::vector<uint32_t> constants; // specialisation constants by id; the kernel may lack some of them
  std::vector<std::byte> params;   // the kernel's parameter struct, its addresses still zero
  std::vector<Binding> bindings;
  std::vector<Address> addresses;
  std::vector<Texels> texels;
  std::array<uint32_t, 3> groups = {1, 1, 1};
  // The number of the first workgroup on each axis: not 0 in a launch that is a part of a larger one.
  std::array<uint32_t, 3> first_group = {};
  double flops = 0; // floating-point operations, an estimate
  double bytes = 0; // bytes that must move to or from memory, an estimate
  std::string label;

  template <class Params>
  void set_params(const Params& values) {
    static_assert(std::is_trivially_copyable_v<Params> && sizeof(Params) <= 128);
    params.resize(sizeof(Params));
    std::memcpy(params.data(), &values, sizeof(Params));
  }
  void set_constant(uint32_t id, uint32_t value) {
    if (constants.size() <= id) constants.resize(id + 1);
    constants[id] = value;
  }
  void bind(uint32_t slot, const BufferRef& buffer, Access access) {
    bindings.push_back({slot, buffer, access});
  }
  void read_texels(uint32_t texel_slot, uint32_t slot) { texels.push_back({texel_slot, slot}); }
  void pass_address(size_t param_offset, const BufferRef& buffer) {
    addresses.push_back({static_cast<uint32_t>(param_offset), buffer});
  }
};

} // namespace pumice

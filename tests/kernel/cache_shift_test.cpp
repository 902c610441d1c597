// Keys and values that move to earlier positions, against keys that are rotated to these by the CPU.
#include "kernel/position/cache_shift.h"

#include <array>
#include <cmath>
#include <cstring>
#include <random>

#include <doctest/doctest.h>

#include "kernel/attention/cache_reference.h"
#include "kernel/attention/position_reference.h"
#include "support/in_turn.h"
#include "support/vulkan/gpu.h"

using namespace pumice;
using cache_reference::Place;
using cache_reference::Side;

namespace {

constexpr uint32_t capacity = 96, sequences = 2, kv_heads = 3, sequence = 1;
constexpr uint32_t kept = 10, end = 83; // positions

float element(const CacheLayout& layout, Side side, const Place& place, size_t d,
              const std::vector<uint8_t>& bytes) {
  const uint8_t* at = bytes.data() + cache_reference::element_offset(layout, side, place, d);
  float value = 0;
  if (layout.type == CacheType::f32) {
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  uint16_t half = 0;
  std::memcpy(&half, at, sizeof half);
  return cache_reference::from_half(half);
}

} // namespace

TEST_CASE("keys and values move to earlier positions, and keys are rotated to these") {
  const std::array dims = {std::pair(64u, 64u), std::pair(80u, 32u), std::pair(36u, 20u)};
  const std::array pairs = {RotaryPairs::none, RotaryPairs::neighbouring, RotaryPairs::half_split};
  for (const DeviceProfile& profile : profiles_to_test()) {
    for (const auto& each :
         in_turn(std::array{CacheType::f32, CacheType::f16}, pairs, dims, std::array{5u, 12u, 40u})) {
      const CacheType type = std::get<0>(each);
      const RotaryPairs pair = std::get<1>(each);
      const std::pair<uint32_t, uint32_t> dim = std::get<2>(each);
      const uint32_t forgotten = std::get<3>(each);
      CAPTURE(to_string(type));
      CAPTURE(to_string(pair));
      CAPTURE(dim.first);
      CAPTURE(forgotten);
      CacheLayout layout;
      layout.type = type;
      layout.sequences = sequences;
      layout.capacity = capacity;
      layout.kv_heads = kv_heads;
      layout.head_dim = dim.first;
      RotaryConfig rotary;
      rotary.pairs = pair;
      rotary.dim = dim.second;
      const std::vector<double> frequencies = rotary_frequencies(rotary);
      std::vector<uint8_t> keys(layout.longer_bytes()), values(layout.longer_bytes());
      std::mt19937 random(forgotten);
      std::uniform_real_distribution<double> number(-0.7, 0.7);
      std::vector<std::vector<double>> heads; // before the rotation, and the value, of each place
      const auto each_place = [&](const auto& use) {
        for (size_t s = 0; s < sequences; ++s) {
          for (size_t head = 0; head < kv_heads; ++head) {
            for (size_t position = 0; position < capacity; ++position) use(Place{s, head, position});
          }
        }
      };
      const auto at = [](const Place& place) {
        return 2 * ((place.sequence * kv_heads + place.head) * capacity + place.position);
      };
      each_place([&](const Place& place) {
        for (int i = 0; i < 2; ++i) {
          for (double& a : heads.emplace_back(dim.first)) a = number(random);
        }
        const auto position = static_cast<uint32_t>(place.position);
        const std::vector<double> key = rotary_reference(heads[at(place)], pair, frequencies, position);
        const std::vector<double>& value = heads[at(place) + 1];
        cache_reference::store(layout, Side::keys, place, std::vector<float>(key.begin(), key.end()), keys);
        cache_reference::store(layout, Side::values, place, std::vector<float>(value.begin(), value.end()),
                               values);
      });

      TestGpu& gpu = TestGpu::get();
      CacheShiftArgs args;
      args.cache = {layout, gpu.upload(keys), gpu.upload(values)};
      args.pairs = pair;
      args.rotary_dim = dim.second;
      args.table = gpu.upload(rotary_table(frequencies));
      args.sequence = sequence;
      args.distance = forgotten;
      std::vector<Dispatch> dispatches;
      for (args.first = kept; args.first + forgotten < end; args.first += forgotten) {
        args.count = std::min(forgotten, end - forgotten - args.first);
        dispatches.push_back(cache_shift(profile, args));
      }
      gpu.run(dispatches);
      const std::vector<uint8_t> new_keys = gpu.read<uint8_t>(args.cache.keys);
      const std::vector<uint8_t> new_values = gpu.read<uint8_t>(args.cache.values);
      double worst = 0;
      size_t changed = 0;
      each_place([&](const Place& place) {
        const bool moved =
            place.sequence == sequence && place.position >= kept && place.position < end - forgotten;
        Place from = place;
        if (moved) from.position += forgotten;
        const std::vector<double> key =
            rotary_reference(heads[at(from)], pair, frequencies, static_cast<uint32_t>(place.position));
        for (size_t d = 0; d < dim.first; ++d) {
          const double found = element(layout, Side::keys, place, d, new_keys);
          if (moved) worst = std::max(worst, std::abs(found - key[d]));
          changed += !moved && found != element(layout, Side::keys, place, d, keys);
          changed += element(layout, Side::values, place, d, new_values) !=
                     element(layout, Side::values, from, d, values);
        }
      });
      CHECK(worst < (type == CacheType::f32 ? 2e-6 : 1e-3));
      CHECK(changed == 0);
      gpu.clear();
    }
  }
}

#include "plan/hazards.h"

#include <doctest/doctest.h>

using namespace pumice;

namespace {

Dispatch touch(std::initializer_list<Dispatch::Binding> bindings) {
  Dispatch dispatch;
  dispatch.bindings = bindings;
  return dispatch;
}

BufferRef scratch(uint64_t offset, uint64_t bytes) {
  return {Space::scratch, 0, offset, bytes};
}

} // namespace

TEST_CASE("a barrier comes before a read or a write of what was written, and a write of what was read") {
  struct Pair {
    Access first, second;
    bool hazard;
  };
  const Pair pairs[] = {{Access::write, Access::read, true},
                        {Access::write, Access::write, true},
                        {Access::read, Access::write, true},
                        {Access::read, Access::read, false},
                        {Access::read_write, Access::read, true}};
  for (const auto& [first, second, hazard] : pairs) {
    HazardTracker tracker;
    CHECK_FALSE(tracker.add(touch({{0, scratch(0, 512), first}})));
    CHECK(tracker.add(touch({{0, scratch(256, 512), second}})) == hazard);
  }
}

TEST_CASE("ranges that only touch, other allocations and weights need none") {
  HazardTracker tracker;
  CHECK_FALSE(tracker.add(touch({{0, scratch(0, 256), Access::write}})));
  CHECK_FALSE(tracker.add(touch({{0, scratch(256, 256), Access::read}})));
  CHECK_FALSE(tracker.add(touch({{0, {Space::cache, 0, 0, 256}, Access::read}})));
  CHECK_FALSE(tracker.add(touch({{0, {Space::scratch, 1, 0, 256}, Access::read}})));
  CHECK_FALSE(tracker.add(touch({{0, {Space::weights, 0, 0, 256}, Access::read}})));
}

TEST_CASE("a barrier settles everything before it") {
  HazardTracker tracker;
  CHECK_FALSE(
      tracker.add(touch({{0, scratch(0, 256), Access::write}, {1, scratch(256, 256), Access::write}})));
  CHECK(tracker.add(touch({{0, scratch(0, 256), Access::read}, {1, scratch(512, 256), Access::write}})));
  CHECK_FALSE(tracker.add(touch({{0, scratch(256, 256), Access::read}})));
  CHECK(tracker.add(touch({{0, scratch(512, 256), Access::read}})));
}

TEST_CASE("a launch is another one where it reads, writes or computes something else") {
  const auto launch = [](uint64_t from, uint64_t to, uint32_t constant) {
    Dispatch dispatch = touch({{0, scratch(from, 256), Access::read}, {1, scratch(to, 256), Access::write}});
    dispatch.kernel = "halve_rows";
    dispatch.constants = {constant};
    return dispatch;
  };
  const Dispatch first = launch(0, 512, 1);
  CHECK(same_launch(first, launch(0, 512, 1)));
  CHECK(!same_launch(first, launch(0, 512, 2)));
  CHECK(!same_launch(first, launch(256, 512, 1)));
  CHECK(!same_launch(first, launch(0, 1024, 1)));
  Dispatch labelled = first;
  labelled.label = "values"; // of another operation
  CHECK(same_launch(first, labelled));
  CHECK(overwrites(launch(1024, 0, 1), first));   // what it read
  CHECK(overwrites(launch(1024, 600, 1), first)); // and what it wrote
  CHECK(!overwrites(launch(512, 1024, 1), first));
}

// Slices on a Vulkan device that the program renders with: in its command buffers, and with its semaphores.
#include "support/vulkan/timeline.h"
#include "support/vulkan/vulkan_program.h"

TEST_CASE("slices in the program's own command buffers give the same text") {
  VulkanProgram program;
  const DeviceHandle device = program.device();
  const ModelHandle model = load(device.get());
  const SessionHandle session = small_session(model.get());
  const Story expected = expected_story(30);
  CHECK(tell(session.get(), prompt, 30) == expected);
  for (const int under_way : {1, 3, 6}) { // frames; more than four, and there is nothing to record into
    CAPTURE(under_way);
    Frames frames(program);
    begin(session.get(), prompt, 30);
    Story story;
    pumice_slice slice = {sizeof slice};
    pumice_error error;
    int frame = 0;
    do {
      const VkCommandBuffer commands = frames.begin();
      require_ok(pumice_work_record(pumice_session_work(session.get()), commands, 1000, &slice, &error),
                 error);
      frames.end(commands);
      take_events(session.get(), story);
      program.submit(commands);
      if (++frame % under_way == 0) program.wait();
    } while (slice.active && frame < 5000);
    CHECK(story == expected);
    CHECK(slice.finished > 0);
    CHECK(slice.measured_us > 0);
  }
  CHECK(program.locks > 0);
}

TEST_CASE("slices that were recorded and not submitted can be discarded") {
  VulkanProgram program;
  const DeviceHandle device = program.device();
  const ModelHandle model = load(device.get());
  const SessionHandle session = small_session(model.get());
  const Story expected = expected_story(20);
  Frames frames(program);
  begin(session.get(), prompt, 20);
  Story story;
  pumice_slice slice = {sizeof slice};
  pumice_error error;
  for (int frame = 0; frame == 0 || (slice.active && frame < 5000); ++frame) {
    const VkCommandBuffer commands = frames.begin();
    require_ok(pumice_work_record(pumice_session_work(session.get()), commands, 1500, &slice, &error), error);
    frames.end(commands);
    take_events(session.get(), story);
    // Not so often that a step never comes to its end.
    if ((frame == 2 || frame == 31 || frame == 77) && slice.dispatches > 0) {
      CHECK(pumice_session_run(session.get(), &error) == PUMICE_NOT_READY);
      pumice_request again = {sizeof again};
      again.text = prompt;
      CHECK(pumice_session_generate(session.get(), &again, &error) == PUMICE_NOT_READY);
      require_ok(pumice_work_discard(pumice_session_work(session.get()), &error), error);
    } else {
      program.submit(commands);
      program.wait();
    }
  }
  CHECK(story == expected);
}

TEST_CASE("all chunks of a prompt that were recorded together can be discarded") {
  VulkanProgram program;
  const DeviceHandle device = program.device();
  const ModelHandle model = load(device.get());
  const SessionHandle session = small_session(model.get());
  const std::string chunks = std::string(prompt) + " " + prompt + " " + prompt; // more than can be under way
  const Story expected = tell(session.get(), chunks.c_str(), 5);
  Frames frames(program);
  tell(session.get(), "Once", 1); // in place of the prompt's keys and values
  begin(session.get(), chunks.c_str(), 5);
  Story story;
  pumice_slice slice = {sizeof slice};
  pumice_error error;
  for (int frame = 0; frame == 0 || (slice.active && frame < 500); ++frame) {
    const VkCommandBuffer commands = frames.begin();
    require_ok(pumice_work_record(pumice_session_work(session.get()), commands, 1e6f, &slice, &error), error);
    frames.end(commands);
    take_events(session.get(), story);
    if (frame == 0) {
      require_ok(pumice_work_discard(pumice_session_work(session.get()), &error), error);
    } else {
      program.submit(commands);
      program.wait();
    }
  }
  CHECK(story == expected);
}

TEST_CASE("submissions wait for semaphores and signal them") {
  VulkanProgram program;
  const DeviceHandle device = program.device();
  const ModelHandle model = load(device.get());
  const SessionHandle session = small_session(model.get());
  const Timeline timeline(device.get());
  const Story expected = expected_story(10);
  begin(session.get(), prompt, 10);
  Story story;
  pumice_slice slice = {sizeof slice};
  pumice_error error;
  uint64_t value = 0;
  do {
    require_ok(timeline.advance(session.get(), 2000, value, value + 1, &slice, &error), error);
    take_events(session.get(), story);
    CHECK(timeline.reaches(++value));
  } while (slice.active);
  CHECK(story == expected);
}

TEST_CASE("semaphores are signalled when too many slices are under way for another one") {
  VulkanProgram program;
  const DeviceHandle device = program.device();
  const ModelHandle model = load(device.get());
  const SessionHandle session = small_session(model.get());
  const Story expected = expected_story(5);
  begin(session.get(), prompt, 5);
  Story story;
  pumice_slice slice = {sizeof slice};
  pumice_error error;
  {
    const Timeline timeline(device.get());
    uint64_t value = 1; // for which the first one waits
    do {
      require_ok(timeline.advance(session.get(), 2000, value, value + 1, &slice, &error), error);
      ++value;
    } while (slice.dispatches > 0 && value < 20);
    CHECK(slice.dispatches == 0);
    CHECK(slice.active);
    timeline.signal(1);
    CHECK(timeline.reaches(value));
  }
  require_ok(pumice_session_run(session.get(), &error), error);
  take_events(session.get(), story);
  CHECK(story == expected);
}

// Every Vulkan call that can fail, failing, through the interface that programs use: it comes back as an
// error, and the program goes on.
#include <cstdlib>

#include "support/command/program.h"
#include "support/skip.h"
#include "support/vulkan/fault_phase.h"

namespace {

constexpr const char* prompt = "Once upon a time there was a little girl";
constexpr uint32_t longer = 5; // tokens, after the first

using Owner = FaultyProgram::Owner;
using Drive = pumice_status (FaultyProgram::*)(pumice_error*);

// What a session says where nothing fails.
struct Expected {
  Story first; // the prompt's first token
  Story rest;  // what follows
  Story whole;
};

Story finish(FaultyProgram& program, Drive drive) {
  pumice_error error;
  require_ok((program.*drive)(&error), error);
  return program.story();
}

Story tell(FaultyProgram& program, const char* text, uint32_t max_tokens, Drive drive = &FaultyProgram::run) {
  program.begin(text, max_tokens);
  return finish(program, drive);
}

Expected expected_of(FaultyProgram& program) {
  Expected expected;
  expected.first = tell(program, prompt, 1);
  expected.rest = tell(program, nullptr, longer);
  expected.whole = tell(program, prompt, 1 + longer);
  CHECK(expected.whole.tokens.size() == 1 + longer);
  return expected;
}

FaultPhase creating_a_device(FaultyProgram& program) {
  FaultPhase phase{"creating a device", {}, {}, {}};
  phase.before = [&program] { program.device.reset(); };
  phase.during = [&program](pumice_error* error) { return program.open_device(error); };
  phase.after = [&program](pumice_status) {
    pumice_error error;
    require_ok(program.open_device(&error), error);
  };
  return phase;
}

FaultPhase loading(FaultyProgram& program, const Expected& expected) {
  FaultPhase phase{"loading a model", {}, {}, {}};
  phase.before = [&program] {
    pumice_error error;
    program.session.reset();
    program.model.reset();
    require_ok(program.open_device(&error), error);
  };
  phase.during = [&program](pumice_error* error) { return program.load(error); };
  phase.after = [&program, &expected](pumice_status status) {
    pumice_error error;
    if (status != PUMICE_OK) CHECK(program.allocated() == 0);
    if (status == PUMICE_DEVICE_LOST) require_ok(program.open_device(&error), error);
    if (status != PUMICE_OK) return require_ok(program.load(&error), error);
    require_ok(program.open_session(&error), error);
    CHECK(tell(program, prompt, 1) == expected.first);
  };
  phase.most_calls = 4; // on a new device each
  return phase;
}

// The first session that a model has; it compiles what is left.
FaultPhase creating_a_session(FaultyProgram& program, std::string name, Drive create,
                              const Expected& expected) {
  FaultPhase phase{std::move(name), {}, {}, {}};
  phase.before = [&program] {
    program.session.reset();
    program.open_world();
  };
  phase.during = [&program, create](pumice_error* error) {
    const uint64_t before = program.allocated();
    const pumice_status status = (program.*create)(error);
    if (status != PUMICE_OK) CHECK(program.allocated() == before);
    return status;
  };
  phase.after = [&program, &expected](pumice_status status) {
    pumice_error error;
    if (status == PUMICE_DEVICE_LOST) program.open_world();
    if (status != PUMICE_OK) require_ok(program.open_session(&error), error);
    CHECK(tell(program, prompt, 1) == expected.first);
  };
  phase.most_calls = 4;
  return phase;
}

FaultPhase prefill(FaultyProgram& program, std::string name, Drive drive, const Expected& expected) {
  FaultPhase phase{std::move(name), {}, {}, {}};
  phase.before = [&program] {
    pumice_error error;
    require_ok(program.open_session(&error), error);
    program.begin(prompt, 1);
  };
  phase.during = [&program, drive](pumice_error* error) { return (program.*drive)(error); };
  phase.after = [&program, drive, &expected](pumice_status status) {
    program.recover(status);
    CHECK(finish(program, drive) == expected.first);
  };
  return phase;
}

// In a session that goes on from one case to the next.
FaultPhase decoding(FaultyProgram& program, std::string name, Drive drive, const Expected& expected) {
  FaultPhase phase{std::move(name), {}, {}, {}};
  phase.before = [&program, drive, &expected] {
    CHECK(tell(program, prompt, 1, drive) == expected.first);
    program.begin(nullptr, longer);
  };
  phase.during = [&program, drive](pumice_error* error) { return (program.*drive)(error); };
  phase.after = [&program, drive, &expected](pumice_status status) {
    program.recover(status);
    CHECK(finish(program, drive) == expected.rest);
  };
  return phase;
}

// What an error left is made again, and that fails too.
FaultPhase coming_back(FaultyVulkan& vulkan, FaultyProgram& program, const Expected& expected) {
  FaultPhase phase{"coming back after an error", {}, {}, {}};
  phase.before = [&vulkan, &program] {
    pumice_error error;
    program.begin(prompt, 1 + longer);
    vulkan.fail_next("vkQueueSubmit", VK_ERROR_OUT_OF_HOST_MEMORY);
    CHECK(program.run(&error) == PUMICE_OUT_OF_MEMORY);
    vulkan.rest();
  };
  phase.during = [&program](pumice_error* error) { return program.run(error); };
  phase.after = [&program, &expected](pumice_status status) {
    program.recover(status);
    CHECK(finish(program, &FaultyProgram::run) == expected.whole);
  };
  phase.most_calls = 6;
  return phase;
}

FaultPhase suspending(FaultyProgram& program, const Expected& expected) {
  FaultPhase phase{"suspending", {}, {}, {}};
  phase.most_calls = 6;
  phase.before = [&program] {
    program.begin(prompt, 1 + longer);
    program.go_midway();
  };
  phase.during = [&program](pumice_error* error) {
    return pumice_session_suspend(program.session.get(), error);
  };
  phase.after = [&program, &expected](pumice_status status) {
    pumice_error error;
    program.recover(status);
    if (status == PUMICE_OK) {
      require_ok(pumice_session_resume(program.session.get(), program.model.get(), &error), error);
    }
    CHECK(finish(program, &FaultyProgram::advance) == expected.whole);
  };
  return phase;
}

FaultPhase resuming(FaultyProgram& program, const Expected& expected) {
  FaultPhase phase{"resuming", {}, {}, {}};
  phase.most_calls = 6;
  phase.before = [&program] {
    pumice_error error;
    program.begin(prompt, 1 + longer);
    program.go_midway();
    require_ok(pumice_session_suspend(program.session.get(), &error), error);
  };
  phase.during = [&program](pumice_error* error) {
    return pumice_session_resume(program.session.get(), program.model.get(), error);
  };
  phase.after = [&program, &expected](pumice_status status) {
    pumice_error error;
    program.recover(status);
    if (status != PUMICE_OK && status != PUMICE_DEVICE_LOST) {
      require_ok(pumice_session_resume(program.session.get(), program.model.get(), &error), error);
    }
    CHECK(finish(program, &FaultyProgram::run) == expected.whole);
  };
  return phase;
}

// Where a session is saved to, and restored from.
struct Store {
  using Use = std::function<pumice_status(pumice_session*, pumice_error*)>;

  std::string name;
  Use save, restore;
};

Store file(const std::string& path) {
  return {"a file",
          [path](pumice_session* session, pumice_error* error) {
            return pumice_session_save(session, path.c_str(), error);
          },
          [path](pumice_session* session, pumice_error* error) {
            return pumice_session_restore(session, path.c_str(), error);
          }};
}

Store memory() {
  const auto bytes = std::make_shared<std::vector<unsigned char>>();
  return {"memory",
          [bytes](pumice_session* session, pumice_error* error) {
            bytes->clear();
            const pumice_write_function append = [](void* user, const void* more, size_t count) {
              const auto* first = static_cast<const unsigned char*>(more);
              auto& all = *static_cast<std::vector<unsigned char>*>(user);
              all.insert(all.end(), first, first + count);
              return true;
            };
            return pumice_session_write(session, append, bytes.get(), error);
          },
          [bytes](pumice_session* session, pumice_error* error) {
            return pumice_session_read(session, bytes->data(), bytes->size(), error);
          }};
}

FaultPhase saving(FaultyProgram& program, const Store& store, const Expected& expected) {
  FaultPhase phase{"saving to " + store.name, {}, {}, {}};
  phase.most_calls = 6;
  phase.before = [&program] {
    program.begin(prompt, 1 + longer);
    program.go_midway();
  };
  phase.during = [&program, store](pumice_error* error) { return store.save(program.session.get(), error); };
  phase.after = [&program, &expected](pumice_status status) {
    if (status == PUMICE_OK) return; // the text has ended with it
    program.recover(status);
    CHECK(finish(program, &FaultyProgram::advance) == expected.whole);
  };
  return phase;
}

FaultPhase restoring(FaultyProgram& program, const Store& store, const Expected& expected) {
  FaultPhase phase{"restoring from " + store.name, {}, {}, {}};
  phase.most_calls = 6;
  phase.before = [&program, store, &expected] {
    pumice_error error;
    CHECK(tell(program, prompt, 1) == expected.first);
    require_ok(store.save(program.session.get(), &error), error);
    program.begin("The dog ran to the park and", 1 + longer);
    program.go_midway();
  };
  phase.during = [&program, store](pumice_error* error) {
    return store.restore(program.session.get(), error);
  };
  phase.after = [&program, store, &expected](pumice_status status) {
    pumice_error error;
    program.recover(status);
    if (status != PUMICE_OK) {
      CHECK(finish(program, &FaultyProgram::advance).tokens.size() == 1 + longer);
      require_ok(store.restore(program.session.get(), &error), error);
    }
    CHECK(tell(program, nullptr, longer) == expected.rest);
  };
  return phase;
}

// The session that is forked goes on, whatever becomes of the fork.
FaultPhase forking(FaultyProgram& program, const Expected& expected) {
  FaultPhase phase{"forking", {}, {}, {}};
  phase.most_calls = 6;
  phase.before = [&program] {
    program.begin(prompt, 1 + longer);
    program.go_midway();
  };
  phase.during = [&program](pumice_error* error) {
    pumice_session* made = nullptr;
    const pumice_status status = pumice_session_fork(program.session.get(), nullptr, &made, error);
    CHECK((made != nullptr) == (status == PUMICE_OK));
    const SessionHandle fork(made);
    return status;
  };
  phase.after = [&program, &expected](pumice_status status) {
    program.recover(status);
    CHECK(finish(program, &FaultyProgram::advance) == expected.whole);
  };
  return phase;
}

FaultPhase taking_down(FaultyProgram& program) {
  FaultPhase phase{"taking down", {}, {}, {}, false};
  phase.before = [&program] {
    program.open_all();
    program.begin(prompt, 1 + longer);
    program.go_midway();
  };
  phase.during = [&program](pumice_error*) {
    program.session.reset();
    program.model.reset();
    program.device.reset();
    return PUMICE_OK;
  };
  phase.after = [](pumice_status) {};
  return phase;
}

// A program with a device of Pumice's own, and what its sessions say.
struct Scene {
  TemporaryFolder cache, folder;
  FaultyProgram program;
  Expected expected;

  explicit Scene(Owner owner, bool validate = false) : program(owner, validate) {
    if (owner == Owner::pumice) program.cache_folder = cache.path().string();
    program.open_all();
    expected = expected_of(program);
  }
  // Phases one after the other, after each of which the next session is as the first one.
  FaultCount inject(FaultyVulkan& vulkan, const std::vector<FaultPhase>& phases,
                    const FaultEffort& effort = {}) {
    FaultCount count;
    for (const FaultPhase& phase : phases) {
      count += ::inject(vulkan, phase, effort);
      program.open_all();
      CHECK(tell(program, prompt, 1 + longer) == expected.whole);
    }
    return count;
  }
  std::string saved() const { return (folder.path() / "saved").string(); }
};

std::vector<FaultPhase> texts(FaultyVulkan& vulkan, Scene& scene) {
  FaultyProgram& program = scene.program;
  const Expected& expected = scene.expected;
  return {prefill(program, "a prompt, at once", &FaultyProgram::run, expected),
          decoding(program, "going on, at once", &FaultyProgram::run, expected),
          prefill(program, "a prompt, in slices", &FaultyProgram::advance, expected),
          decoding(program, "going on, in slices", &FaultyProgram::advance, expected),
          coming_back(vulkan, program, expected),
          suspending(program, expected),
          resuming(program, expected),
          saving(program, file(scene.saved()), expected),
          restoring(program, file(scene.saved()), expected),
          saving(program, memory(), expected),
          restoring(program, memory(), expected),
          forking(program, expected)};
}

std::vector<FaultPhase> recordings(Scene& scene) {
  return {prefill(scene.program, "a prompt, recorded", &FaultyProgram::record, scene.expected),
          decoding(scene.program, "going on, recorded", &FaultyProgram::record, scene.expected)};
}

} // namespace

// Whichever Vulkan call fails, and how, a program gets an error, and goes on as if nothing had been.

TEST_CASE("faults while a device is created, a model loaded, and all taken down" *
          doctest::test_suite("long")) {
  FaultyVulkan vulkan;
  vulkan.split_memory(true);
  FaultyProgram program(Owner::pumice, false);
  FaultCount count = inject(vulkan, creating_a_device(program));
  Scene scene(Owner::pumice);
  count += scene.inject(vulkan, {loading(scene.program, scene.expected),
                                 creating_a_session(scene.program, "creating a session",
                                                    &FaultyProgram::open_session, scene.expected),
                                 creating_a_session(scene.program, "creating a session on a thread",
                                                    &FaultyProgram::start_session, scene.expected),
                                 taking_down(scene.program)});
  check_count(count, 200);
}

TEST_CASE("faults while a text is generated, a session suspended or saved, and brought back" *
          doctest::test_suite("long")) {
  FaultyVulkan vulkan;
  vulkan.split_memory(true);
  Scene scene(Owner::pumice);
  check_count(scene.inject(vulkan, texts(vulkan, scene)), 200);
}

TEST_CASE("faults while steps are recorded into a program's own command buffers") {
  FaultyVulkan vulkan;
  vulkan.split_memory(false);
  Scene scene(Owner::application);
  check_count(scene.inject(vulkan, recordings(scene)), 50);
}

TEST_CASE("after a fault, a recorded slice that has not run is waited for, or discarded") {
  FaultyVulkan vulkan;
  vulkan.split_memory(false);
  Scene scene(Owner::application);
  FaultyProgram& program = scene.program;
  for (const bool discarded : {false, true}) {
    CAPTURE(discarded);
    pumice_error error;
    program.begin(prompt, 1 + longer);
    const VkCommandBuffer commands = program.application().begin();
    const auto record = [&] {
      return pumice_work_record(pumice_session_work(program.session.get()), commands, 1, nullptr, &error);
    };
    require_ok(record(), error);
    vulkan.fail_next("vkGetEventStatus", VK_ERROR_OUT_OF_HOST_MEMORY);
    CHECK(record() == PUMICE_OUT_OF_MEMORY);
    vulkan.rest();
    CHECK(record() == PUMICE_NOT_READY);
    if (discarded) {
      require_ok(pumice_work_discard(pumice_session_work(program.session.get()), &error), error);
    } else {
      program.application().run();
    }
    CHECK(finish(program, &FaultyProgram::record) == scene.expected.whole);
  }
}

// Its synchronisation and the lives of its objects are watched, of each function once.
TEST_CASE("faults with Vulkan's validation layers looking on") {
  if (std::getenv("PUMICE_TEST_NO_VALIDATION")) return skip("told to do without validation");
  FaultyVulkan vulkan;
  vulkan.split_memory(false);
  Scene scene(Owner::pumice, true);
  check_count(scene.inject(vulkan, texts(vulkan, scene), {1, false}), 30);
}

TEST_CASE("faults while loading and recording with Vulkan's validation layers looking on" *
          doctest::test_suite("long")) {
  if (std::getenv("PUMICE_TEST_NO_VALIDATION")) return skip("told to do without validation");
  const FaultEffort once = {1, false};
  FaultyVulkan vulkan;
  vulkan.split_memory(false);
  FaultCount count;
  {
    Scene scene(Owner::pumice, true);
    count += scene.inject(vulkan, {loading(scene.program, scene.expected)}, once);
  }
  Scene external(Owner::application, true);
  count += external.inject(vulkan, recordings(external), once);
  check_count(count, 20);
}

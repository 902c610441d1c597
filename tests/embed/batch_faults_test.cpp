// As faults_test.cpp, for batches.
#include <cstdlib>
#include <map>

#include "support/skip.h"
#include "support/vulkan/fault_subject.h"

namespace {

using Owner = FaultyProgram::Owner;
using Texts = std::vector<std::string>;

// A batch of the program's, and what two characters say in it.
class Speaking : public FaultSubject {
public:
  explicit Speaking(FaultyProgram& program) : FaultSubject(program) {}

  pumice_status create(pumice_error* error) override {
    pumice_batch_options options = {sizeof options};
    options.texts = 2;
    options.context = 64;
    options.chunk = 8;
    pumice_batch* made = nullptr;
    const pumice_status status = pumice_batch_create(program_.model.get(), &options, &made, error);
    batch_.reset(made);
    return status;
  }
  void destroy() override { batch_.reset(); }

  pumice_status in_steps(Texts& texts, pumice_error* error) {
    return run(texts, error,
               [&](bool& active, int) { return pumice_batch_step(batch_.get(), &active, error); });
  }
  pumice_status in_slices(Texts& texts, pumice_error* error) {
    return run(texts, error, [&](bool& active, int number) {
      pumice_slice slice = {sizeof slice};
      const pumice_status status =
          pumice_work_advance(pumice_batch_work(batch_.get()), program_.budget_us, nullptr, &slice, error);
      if (number % 2) program_.wait_for_device(); // two are under way now and then
      active = slice.active;
      return status;
    });
  }
  // One of the slices is thrown away.
  pumice_status recorded(Texts& texts, pumice_error* error) {
    return run(texts, error, [&](bool& active, int number) {
      pumice_slice slice = {sizeof slice};
      const pumice_status status = pumice_work_record(
          pumice_batch_work(batch_.get()), program_.application().begin(), program_.budget_us, &slice, error);
      active = slice.active;
      if (status != PUMICE_OK) return status;
      if (number == 7) return pumice_work_discard(pumice_batch_work(batch_.get()), error);
      program_.application().run();
      return PUMICE_OK;
    });
  }

private:
  template <class Run>
  pumice_status run(Texts& texts, pumice_error* error, const Run& run) {
    std::map<uint32_t, std::string> said;
    for (const char* prompt : {"Once upon a time there was a big dog. The dog", "One day, a little fox"}) {
      pumice_request request = {sizeof request};
      request.text = prompt;
      request.max_tokens = 6;
      uint32_t text = 0;
      const pumice_status status = pumice_batch_add(batch_.get(), &request, &text, error);
      if (status != PUMICE_OK) return clear(status);
      said[text] = "";
    }
    bool active = true;
    for (int number = 0; active; ++number) {
      const pumice_status status = run(active, number);
      if (status != PUMICE_OK) return clear(status);
    }
    while (const pumice_event* event = pumice_batch_poll(batch_.get())) said[event->text_id] += event->text;
    texts.clear();
    for (const auto& [text, words] : said) texts.push_back(words);
    return PUMICE_OK;
  }
  // What there was has ended.
  pumice_status clear(pumice_status status) {
    pumice_work_cancel(pumice_batch_work(batch_.get()));
    (void)pumice_work_discard(pumice_batch_work(batch_.get()), nullptr);
    bool active = true;
    (void)pumice_batch_step(batch_.get(), &active, nullptr);
    CHECK_FALSE(active);
    while (pumice_batch_poll(batch_.get())) {
    }
    return status;
  }

  BatchHandle batch_;
};

// On a device of Pumice's own, or of the program's, whose command buffers the slices are then recorded into.
FaultCount inject_into_batch(FaultyVulkan& vulkan, Owner owner, bool validate,
                             const FaultEffort& effort = {}) {
  FaultyProgram program(owner, validate);
  Speaking speaking(program);
  speaking.open_all();
  pumice_error error;
  Texts expected;
  require_ok(speaking.in_steps(expected, &error), error);
  if (owner == Owner::application) {
    return inject(vulkan, running("two texts, recorded", speaking, &Speaking::recorded, expected), effort);
  }
  FaultCount count = inject(vulkan, creating("a batch", speaking, 2), effort);
  count += inject(vulkan, running("two texts, in steps", speaking, &Speaking::in_steps, expected), effort);
  count += inject(vulkan, running("two texts, in slices", speaking, &Speaking::in_slices, expected), effort);
  return count;
}

} // namespace

TEST_CASE("faults while a batch is made and used" * doctest::test_suite("long")) {
  FaultyVulkan vulkan;
  vulkan.split_memory(true);
  check_count(inject_into_batch(vulkan, Owner::pumice, false), 50);
}

TEST_CASE("faults while a batch's slices are recorded into a program's own command buffers") {
  FaultyVulkan vulkan;
  vulkan.split_memory(false);
  // A fast device needs few slices, and each makes few calls.
  check_count(inject_into_batch(vulkan, Owner::application, false), 5);
}

TEST_CASE("faults in a batch with Vulkan's validation layers looking on" * doctest::test_suite("long")) {
  if (std::getenv("PUMICE_TEST_NO_VALIDATION")) return skip("told to do without validation");
  FaultyVulkan vulkan;
  vulkan.split_memory(false);
  FaultCount count;
  for (const Owner owner : {Owner::pumice, Owner::application}) {
    count += inject_into_batch(vulkan, owner, true, {1, false});
  }
  check_count(count, 20);
}

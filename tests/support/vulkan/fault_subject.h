#pragma once

#include "support/command/program.h"
#include "support/vulkan/fault_phase.h"

// What a program makes of a model and runs, while Vulkan calls fail: an encoder, a translator, a batch.
class FaultSubject {
public:
  FaultSubject(FaultyProgram& program, std::string path = stories)
      : program_(program), path_(std::move(path)) {}
  virtual ~FaultSubject() = default;

  // In place of what there is, if anything.
  virtual pumice_status create(pumice_error* error) = 0;
  virtual void destroy() = 0;

  // A new device, and the model on it.
  void open_world() {
    pumice_error error;
    destroy();
    program_.model.reset();
    require_ok(program_.open_device(&error), error);
    require_ok(program_.load(&error, path_), error);
  }
  void open_all() {
    pumice_error error;
    open_world();
    require_ok(create(&error), error);
  }
  // After an error: everything on a new device, where the old one is lost.
  void recover(pumice_status status) {
    if (status == PUMICE_DEVICE_LOST) open_all();
  }

protected:
  FaultyProgram& program_;

private:
  std::string path_;
};

inline FaultPhase creating(const std::string& what, FaultSubject& subject, int most_calls) {
  FaultPhase phase{"creating " + what, {}, {}, {}};
  phase.before = [&subject] { subject.open_world(); };
  phase.during = [&subject](pumice_error* error) { return subject.create(error); };
  phase.after = [&subject](pumice_status status) {
    pumice_error error;
    if (status == PUMICE_DEVICE_LOST) subject.open_world();
    if (status != PUMICE_OK) require_ok(subject.create(&error), error);
  };
  phase.most_calls = most_calls;
  return phase;
}

// `run` makes something of the same input each time.
template <class Subject, class Made>
FaultPhase running(std::string name, Subject& subject, pumice_status (Subject::*run)(Made&, pumice_error*),
                   const Made& expected, int most_calls = 12) {
  FaultPhase phase{std::move(name), {}, {}, {}};
  phase.before = [] {};
  phase.during = [&subject, run](pumice_error* error) {
    Made made;
    return (subject.*run)(made, error);
  };
  phase.after = [&subject, run, &expected](pumice_status status) {
    pumice_error error;
    Made made;
    subject.recover(status);
    require_ok((subject.*run)(made, &error), error);
    CHECK(made == expected);
  };
  phase.most_calls = most_calls;
  return phase;
}

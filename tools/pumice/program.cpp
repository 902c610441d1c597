#include "program.h"

#include "command.h"
#include "doctor/part.h"
#include "process/measuring_child.h"
#include "terminal/descriptor.h"

namespace pumice::command {

int run_program(std::span<const std::string> arguments) {
  prepare_standard_streams();
  const auto is_child = [&](const char* argument) {
    return arguments.size() == 1 && arguments[0] == argument;
  };
  if (is_child(measuring_argument)) return measure_as_child();
  if (is_child(doctor_part_argument)) return run_doctor_part();
  watch_interrupts();
  return run(arguments);
}

} // namespace pumice::command

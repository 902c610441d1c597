#include <string_view>
#include <vector>

#include "command.h"
#include "doctor/part.h"
#include "process/measuring_child.h"
#include "terminal/descriptor.h"

using namespace pumice::command;

int main(int argc, char** argv) {
  prepare_standard_streams();
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments == std::vector<std::string>{measuring_argument}) return measure_as_child();
  if (arguments == std::vector<std::string>{doctor_part_argument}) return run_doctor_part();
  watch_interrupts();
  return run(arguments);
}

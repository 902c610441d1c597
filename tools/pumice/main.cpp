#include <vector>

#include "program.h"

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  return pumice::command::run_program(arguments);
}

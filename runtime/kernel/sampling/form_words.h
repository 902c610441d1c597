#pragma once

#include <cstdint>
#include <vector>

#include "form/form_table.h"

namespace pumice {

// A form's table as the device reads it (shaders/sampling/sampling.params.h).
std::vector<uint32_t> form_words(const FormTable& table);

} // namespace pumice

#pragma once

#include <map>
#include <string>

namespace pumice {

// Which way of doing its work was found the fastest on a device, for each kernel family and class of shapes.
// Families name their classes ("matmul q8_0 1 x 3072 x 768") and their variants ("tiled").
using Choices = std::map<std::string, std::string>;

} // namespace pumice

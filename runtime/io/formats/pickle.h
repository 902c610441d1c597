#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace pumice {

// What a pickle of PyTorch's describes, without running anything: a pickle is a program for a machine with a
// stack (https://github.com/python/cpython/blob/main/Lib/pickletools.py), which may call any function of
// Python. This machine knows the instructions that build dictionaries, lists, texts and numbers, and the few
// functions that torch.save() names for tensors; every other instruction or function is an error.
class Pickle {
public:
  enum class Kind : uint8_t {
    none,
    boolean,
    integer,
    real,
    text,
    function,
    sequence,
    dictionary,
    storage,
    tensor
  };

  // `index` is the place in the pickle's list of that kind.
  struct Value {
    Kind kind = Kind::none;
    int64_t integer = 0; // and of a boolean
    size_t index = 0;
  };
  using Dictionary = std::vector<std::pair<Value, Value>>;

  // Numbers of one type that stand elsewhere in the file, under a key.
  struct Storage {
    std::string dtype; // as safetensors names it; empty: the tensor says it
    std::string key;
    uint64_t count = 0;
  };
  struct Tensor {
    size_t storage = 0;
    std::string dtype;
    uint64_t offset = 0;                  // in elements of the storage
    std::vector<uint64_t> shape, strides; // the same; outermost first
  };

  // Runs a pickle to its end. `bytes` may go on behind it; `used` is then its length. Errors: invalid_file;
  // unsupported, with the name of the function or the instruction.
  static Result<Pickle> parse(std::span<const std::byte> bytes, const std::string& file,
                              uint64_t* used = nullptr);

  Value result;
  std::deque<std::string> texts; // also the names of functions, "MODULE NAME"
  std::deque<std::vector<Value>> sequences;
  std::deque<Dictionary> dictionaries;
  std::deque<Storage> storages;
  std::deque<Tensor> tensors;
};

} // namespace pumice

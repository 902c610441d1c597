#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "io/formats/ctranslate2_file.h"
#include "io/mapped_file.h"
#include "io/tensor_view.h"

namespace pumice {

// Collects the arrays of a model.bin as tensors of Hugging Face's names and form. The file must outlive it.
class Ctranslate2Tensors {
public:
  explicit Ctranslate2Tensors(const Ctranslate2File& file) : file_(file) {}

  Error error(const std::string& what) const; // that the file is unsupported
  // The name, of these, of the activation that the file has as a number.
  Result<std::string> activation(const std::string& from, double fallback,
                                 const std::array<const char*, 4>& names) const;
  // invalid_file if there is none of that name.
  Result<const Ctranslate2File::Array*> array(const std::string& name) const;

  // Adds rows of an array, [rows, ...] or [rows], as one tensor; with `rows` 0 all of them. Zeros can stand
  // before and after them.
  Status add(const std::string& name, const std::string& from, uint64_t first = 0, uint64_t rows = 0,
             uint64_t zeros_before = 0, uint64_t zeros_after = 0);
  // A linear layer, or rows of one: part `part` of several that are stored as one.
  Status add_linear(const std::string& name, const std::string& from, uint64_t part = 0, uint64_t rows = 0);
  Status add_norm(const std::string& name, const std::string& from);
  // The projections of an attention of so many columns, under names such as {"q_proj", "k_proj", "v_proj",
  // "out_proj"}. Without `key_biases`, what the file has for them is left out.
  Status add_attention(const std::string& prefix, const std::string& from, bool cross, uint64_t columns,
                       const std::array<const char*, 4>& names, bool key_biases = true);
  // All layers of the "encoder" or the "decoder" under BART's names. Returns how many there are.
  Result<uint64_t> add_bart_layers(const std::string& side, uint64_t columns, bool key_biases = true);
  // Gives the last tensor a dimension of one before its others.
  void add_leading_dimension();

  // The tensors, and the memory that they point into.
  struct Written {
    MappedFile weights;
    std::vector<TensorView> tensors;
  };
  Result<Written> write() const;

private:
  // A tensor, made of some rows of an array.
  struct Piece {
    std::string name;
    const Ctranslate2File::Array* from = nullptr;
    // Of integers: what numbers were multiplied with, one for each row or one for all.
    const Ctranslate2File::Array* scale = nullptr;
    uint64_t first = 0, rows = 0, columns = 1;
    uint64_t zeros_before = 0, zeros_after = 0; // rows
    std::vector<uint64_t> shape;
    TensorType type = TensorType::f32;

    uint64_t row_bytes() const;
    uint64_t bytes() const { return (zeros_before + rows + zeros_after) * row_bytes(); }
    void write_row(uint64_t row, std::byte* to) const; // in the piece's type
  };

  const Ctranslate2File& file_;
  std::vector<Piece> pieces_;
};

} // namespace pumice

// A build tool: packs the SPIR-V of kernels as runtime/gpu/packed_code.h says, and writes them as a C++
// table.
//   embed_kernels LIST OUTPUT FUNCTION
// LIST has a line for each kernel, sorted by name: its name, its tier or '-', and the file.
// pumice::FUNCTION() returns the table.
#include "gpu/packed_code.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

using namespace pumice;
using namespace pumice::packed_code;

namespace {

using Code = std::vector<uint32_t>;
using Packed = std::vector<uint16_t>;

constexpr size_t header_words = 5;
constexpr size_t longest_base = 0x10000; // places in it have 16 bits
constexpr int most_depth = 4;            // of bases that have bases

[[noreturn]] void fail(const std::string& message) {
  std::fprintf(stderr, "embed_kernels: %s\n", message.c_str());
  std::exit(1);
}

Code read_code(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  if (!file || bytes.size() % 4 != 0 || bytes.size() < header_words * 4) fail(path + ": this is no SPIR-V");
  Code code(bytes.size() / 4);
  for (size_t i = 0; i < bytes.size(); ++i) // little-endian, whatever the machine is
    code[i / 4] |= uint32_t{static_cast<unsigned char>(bytes[i])} << i % 4 * 8;
  return code;
}

// Where the instructions of a module begin, and what tells each from others whatever its results are called.
struct Instructions {
  std::vector<size_t> begin; // and, after the last one, the end
  std::vector<uint64_t> kind;

  Instructions(const Code& code, const std::string& name) {
    CodeBuilder reader({});
    for (size_t i = 0; i < header_words; ++i) reader.add(code[i]);
    for (size_t at = header_words; at < code.size();) {
      const size_t words = code[at] >> 16;
      if (words == 0 || words > code.size() - at) fail(name + ": an instruction goes past the end");
      begin.push_back(at);
      uint64_t hash = 0xcbf29ce484222325;
      for (size_t i = 0; i < words; ++i) {
        if (!reader.at_result()) hash = (hash ^ code[at + i]) * 0x100000001b3 ^ hash >> 29;
        reader.add(code[at + i]);
      }
      kind.push_back(hash);
      at += words;
    }
    begin.push_back(code.size());
  }

  size_t count() const { return kind.size(); }
  // How many instructions are alike from here on, up to a limit.
  size_t alike(size_t own, const Instructions& other, size_t at, size_t most) const {
    size_t length = 0;
    while (length < most && own + length < count() && at + length < other.count() &&
           kind[own + length] == other.kind[at + length]) {
      ++length;
    }
    return length;
  }
};

struct Kernel {
  std::string name, tier, family;
  Code code;
  Instructions instructions;
  Packed packed;
  int base = -1;
  int depth = 0; // how many kernels are unpacked before this one
};

// Writes a kernel's words, or those of a base that they can be copied from.
class Packer {
public:
  Packer(const Kernel& kernel, const Kernel* base)
      : kernel_(kernel), base_(base),
        builder_(base ? std::span<const uint32_t>(base->code) : std::span<const uint32_t>()) {
    if (base_) {
      for (size_t i = 0; i + pair <= base_->instructions.count(); ++i)
        places_[key(base_->instructions, i)].push_back(i);
    }
  }

  Packed pack() {
    for (size_t i = 0; i < header_words; ++i) {
      if (base_) {
        put_beside(kernel_.code[i], i);
      } else {
        put(kernel_.code[i]);
      }
    }
    size_t next = 0; // of the base's instructions
    for (size_t i = 0; i < kernel_.instructions.count(); ++i) {
      const size_t begin = kernel_.instructions.begin[i], end = kernel_.instructions.begin[i + 1];
      if (base_ && find_like(i, next)) {
        move_to(base_->instructions.begin[next]);
        for (size_t word = begin; word < end; ++word) put_beside(kernel_.code[word], at_);
        ++next;
      } else {
        for (size_t word = begin; word < end; ++word) put(kernel_.code[word]);
      }
    }
    flush();
    return std::move(out_);
  }

private:
  static constexpr size_t pair = 2;    // instructions that are looked for together
  static constexpr size_t most = 40;   // that are compared
  static constexpr size_t enough = 12; // after which nothing better is looked for

  static uint64_t key(const Instructions& all, size_t i) { return all.kind[i] * 31 + all.kind[i + 1]; }

  // Whether the base has an instruction to copy instruction i from, at `next` or elsewhere.
  bool find_like(size_t i, size_t& next) const {
    const Instructions& own = kernel_.instructions;
    size_t longest = own.alike(i, base_->instructions, next, most), best = next;
    if (longest < enough && i + pair <= own.count()) {
      const auto places = places_.find(key(own, i));
      if (places != places_.end()) {
        for (size_t place : places->second) {
          // A jump takes a number or two. Of those that are as good, the nearest one behind is the likeliest.
          const size_t length = own.alike(i, base_->instructions, place, most);
          const bool nearer = place >= next && (best < next || place < best);
          if (length > longest + (best == next ? 1 : 0) || (best != next && length == longest && nearer)) {
            longest = length;
            best = place;
          }
        }
      }
    }
    next = best;
    return longest > 0;
  }

  void move_to(size_t place) {
    if (place == at_) return;
    flush();
    if (place > at_ && place - at_ <= most_skipped) {
      out_.push_back(static_cast<uint16_t>(skipped + (place - at_)));
    } else if (place < at_ && at_ - place <= most_back) {
      out_.push_back(static_cast<uint16_t>(back + (at_ - place)));
    } else {
      out_.push_back(jump);
      out_.push_back(static_cast<uint16_t>(place));
    }
    at_ = place;
  }

  // A word that stands for the base's word `at`.
  void put_beside(uint32_t word, size_t at) {
    if (builder_.copy_of(at) == word) {
      if (++copies_ == most_copied) flush();
    } else {
      flush();
      out_.push_back(replaced);
      write(word);
    }
    builder_.add(word, at);
    at_ = at + 1;
  }

  void put(uint32_t word) {
    flush();
    write(word);
    builder_.add(word);
  }

  void write(uint32_t word) {
    if (word < joined) {
      out_.push_back(static_cast<uint16_t>(word));
    } else if (word >> 16 < joined_uppers && (word & 0xffff) < 0x200) {
      out_.push_back(static_cast<uint16_t>(joined | word >> 16 << 9 | (word & 0x1ff)));
    } else {
      out_.push_back(whole);
      out_.push_back(static_cast<uint16_t>(word >> 16));
      out_.push_back(static_cast<uint16_t>(word));
    }
  }

  void flush() {
    if (copies_ > 0) out_.push_back(static_cast<uint16_t>(copied + copies_));
    copies_ = 0;
  }

  const Kernel& kernel_;
  const Kernel* base_;
  CodeBuilder builder_;
  std::unordered_map<uint64_t, std::vector<size_t>> places_;
  Packed out_;
  size_t at_ = 0; // in the base
  size_t copies_ = 0;
};

std::vector<Kernel> read_list(const std::string& path) {
  std::ifstream list(path);
  std::vector<Kernel> kernels;
  for (std::string line; std::getline(list, line);) {
    std::istringstream words(line);
    std::string name, tier, file;
    words >> name >> tier;
    std::getline(words >> std::ws, file);
    Code code = read_code(file);
    Instructions instructions(code, name);
    kernels.push_back({name,
                       tier == "-" ? "" : tier,
                       name.substr(0, name.find_first_of("._")),
                       std::move(code),
                       std::move(instructions),
                       {}});
  }
  if (kernels.empty()) fail(path + ": there are no kernels");
  return kernels;
}

// A variant's name without the type of weights.
std::string_view stem_of(std::string_view name) {
  return name.substr(0, name.rfind('.'));
}

// Chooses each kernel's base among those of its family before it, whichever packs it best. Of kernels of
// other files only those that have no base themselves: their variants would need too many.
void pack_all(std::vector<Kernel>& kernels) {
  for (size_t i = 0; i < kernels.size(); ++i) {
    Kernel& kernel = kernels[i];
    kernel.packed = Packer(kernel, nullptr).pack();
    for (size_t j = 0; j < i; ++j) {
      const Kernel& base = kernels[j];
      const int most = stem_of(base.name) == stem_of(kernel.name) ? most_depth : 1;
      if (base.family != kernel.family || base.depth >= most || base.code.size() >= longest_base) continue;
      Packed beside = Packer(kernel, &base).pack();
      if (beside.size() >= kernel.packed.size()) continue;
      kernel.packed = std::move(beside);
      kernel.base = static_cast<int>(j);
    }
    if (kernel.base >= 0) kernel.depth = kernels[kernel.base].depth + 1;
    const Code none;
    if (unpack_code(kernel.packed, kernel.base < 0 ? none : kernels[kernel.base].code) != kernel.code)
      fail(kernel.name + ": unpacks to something else");
  }
}

uint64_t hash_of(const Code& code) {
  uint64_t hash = 0xcbf29ce484222325;
  for (uint32_t word : code) {
    for (int byte = 0; byte < 4; ++byte) hash = (hash ^ (word >> byte * 8 & 255)) * 0x100000001b3;
  }
  return hash;
}

std::string numbers(const std::vector<Kernel>& kernels) {
  std::string text;
  size_t count = 0;
  for (const Kernel& kernel : kernels) {
    for (uint16_t number : kernel.packed) {
      text += std::to_string(number);
      text += ++count % 24 == 0 ? ",\n" : ",";
    }
  }
  return text;
}

std::string rows(const std::vector<Kernel>& kernels) {
  std::string text;
  size_t begin = 0;
  for (const Kernel& kernel : kernels) {
    char hash[32];
    std::snprintf(hash, sizeof hash, "0x%016llxu", static_cast<unsigned long long>(hash_of(kernel.code)));
    text += "    {\"" + kernel.name + "\", \"" + kernel.tier + "\", {code + " + std::to_string(begin) + ", " +
            std::to_string(kernel.packed.size()) + "}, " + hash + ", " +
            (kernel.base < 0 ? "nullptr" : "table + " + std::to_string(kernel.base)) + "},\n";
    begin += kernel.packed.size();
  }
  return text;
}

} // namespace

int main(int count, char** arguments) {
  if (count != 4) fail("expected LIST OUTPUT FUNCTION");
  std::vector<Kernel> kernels = read_list(arguments[1]);
  pack_all(kernels);
  const std::string size = std::to_string(kernels.size());
  std::ofstream out(arguments[2]);
  out << "// Made by tools/embed_kernels.cpp.\n#include \"gpu/kernel_table.h\"\n\n"
         "namespace pumice {\nnamespace {\n\nconst uint16_t code[] = {\n"
      << numbers(kernels) << "};\n\nextern const KernelBinary table[" << size
      << "];\nconst KernelBinary table[" << size << "] = {\n"
      << rows(kernels) << "};\n\n} // namespace\n\nstd::span<const KernelBinary> " << arguments[3]
      << "() { return table; }\n\n} // namespace pumice\n";
  if (!out.flush()) fail(std::string(arguments[2]) + ": cannot be written");
}

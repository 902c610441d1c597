#include "io/formats/pickle.h"

#include <algorithm>
#include <map>
#include <optional>

#include <fmt/format.h>

#include "io/bytes.h"

namespace pumice {

namespace {

using Value = Pickle::Value;
using Kind = Pickle::Kind;

// The types of torch's storages and of its dtypes, and safetensors' names for them.
struct TypeName {
  std::string_view storage, dtype, name;
};
constexpr TypeName types[] = {{"torch FloatStorage", "torch float32", "F32"},
                              {"torch HalfStorage", "torch float16", "F16"},
                              {"torch BFloat16Storage", "torch bfloat16", "BF16"},
                              {"torch DoubleStorage", "torch float64", "F64"},
                              {"torch LongStorage", "torch int64", "I64"},
                              {"torch IntStorage", "torch int32", "I32"},
                              {"torch ShortStorage", "torch int16", "I16"},
                              {"torch CharStorage", "torch int8", "I8"},
                              {"torch ByteStorage", "torch uint8", "U8"},
                              {"torch BoolStorage", "torch bool", "BOOL"},
                              {"", "torch float8_e4m3fn", "F8_E4M3"},
                              {"", "torch float8_e5m2", "F8_E5M2"},
                              {"torch.storage UntypedStorage", "", ""}};

constexpr std::string_view ordered_dictionary = "collections OrderedDict", size = "torch Size",
                           rebuild = "torch._utils _rebuild_tensor",
                           rebuild2 = "torch._utils _rebuild_tensor_v2",
                           rebuild3 = "torch._utils _rebuild_tensor_v3",
                           parameter = "torch._utils _rebuild_parameter";

// The type's name; nothing: there is no such storage, or no such dtype.
std::optional<std::string_view> type_of(std::string_view function, std::string_view TypeName::*column) {
  for (const TypeName& type : types) {
    if (!(type.*column).empty() && type.*column == function) return type.name;
  }
  return {};
}

bool is_known(std::string_view function) {
  constexpr std::string_view functions[] = {ordered_dictionary, size, rebuild, rebuild2, rebuild3, parameter};
  return std::ranges::find(functions, function) != std::end(functions) ||
         type_of(function, &TypeName::storage) || type_of(function, &TypeName::dtype);
}

class Machine {
public:
  Machine(std::span<const std::byte> bytes, const std::string& file)
      : in_(bytes), bytes_(bytes), file_(file) {}

  Result<Pickle> run(uint64_t* used) {
    for (;;) {
      uint8_t instruction = 0;
      PUMICE_CHECK(read(instruction));
      if (instruction == '.') break;
      PUMICE_CHECK(step(instruction));
    }
    if (used) *used = in_.position();
    PUMICE_TRY(pickle_.result, pop());
    return std::move(pickle_);
  }

private:
  Error error(std::string_view what, Code code = Code::invalid_file) const {
    return {code, fmt::format("{}: its pickle, before byte {}: {}", file_, in_.position(), what)};
  }
  template <class T>
  Status read(T& value) {
    return in_.read(value) ? Status() : Status(error("it ends too early"));
  }
  template <class Length>
  Result<std::string_view> counted_text() {
    Length length = 0;
    PUMICE_CHECK(read(length));
    std::span<const std::byte> bytes;
    if (!in_.take(length, bytes)) return error("it ends too early");
    return as_text(bytes);
  }
  Result<std::string_view> line() {
    const std::string_view rest = as_text(bytes_.subspan(in_.position()));
    const size_t end = rest.find('\n');
    std::span<const std::byte> bytes;
    if (end == rest.npos || !in_.take(end + 1, bytes)) return error("it ends too early");
    return rest.substr(0, end);
  }

  void push(Value value) { stack_.push_back(value); }
  Result<Value> pop() {
    if (stack_.empty() || (!marks_.empty() && marks_.back() == stack_.size()))
      return error("its stack is empty");
    const Value value = stack_.back();
    stack_.pop_back();
    return value;
  }
  // What lies above the last mark.
  Result<std::vector<Value>> pop_marked() {
    if (marks_.empty()) return error("there is no mark");
    const auto begin = stack_.begin() + static_cast<ptrdiff_t>(marks_.back());
    std::vector<Value> values(begin, stack_.end());
    stack_.erase(begin, stack_.end());
    marks_.pop_back();
    return values;
  }
  Result<std::vector<Value>> pop_last(size_t count) {
    std::vector<Value> values(count);
    for (size_t i = count; i-- > 0;) {
      PUMICE_TRY(values[i], pop());
    }
    return values;
  }

  void push_integer(int64_t value) { push({Kind::integer, value, 0}); }
  void push_text(std::string_view text, Kind kind = Kind::text) {
    pickle_.texts.emplace_back(text);
    push({kind, 0, pickle_.texts.size() - 1});
  }
  void push_sequence(std::vector<Value> values) {
    pickle_.sequences.push_back(std::move(values));
    push({Kind::sequence, 0, pickle_.sequences.size() - 1});
  }
  void push_dictionary() {
    pickle_.dictionaries.emplace_back();
    push({Kind::dictionary, 0, pickle_.dictionaries.size() - 1});
  }
  Status push_function(std::string_view module, std::string_view name) {
    const std::string function = fmt::format("{} {}", module, name);
    if (!is_known(function)) {
      return error(fmt::format("it names {}, and nothing that a file names is run: expected a dictionary of "
                               "tensors alone, as model.state_dict() is",
                               in_quotes(fmt::format("{}.{}", module, name))),
                   Code::unsupported);
    }
    push_text(function, Kind::function);
    return {};
  }

  Status add_items(std::vector<Value> items) {
    PUMICE_TRY(const Value target, pop());
    push(target);
    if (target.kind != Kind::dictionary || items.size() % 2) return error("expected a dictionary");
    for (size_t i = 0; i < items.size(); i += 2)
      pickle_.dictionaries[target.index].emplace_back(items[i], items[i + 1]);
    return {};
  }
  Status append(const std::vector<Value>& items) {
    PUMICE_TRY(const Value target, pop());
    push(target);
    if (target.kind != Kind::sequence) return error("expected a list");
    std::vector<Value>& list = pickle_.sequences[target.index];
    list.insert(list.end(), items.begin(), items.end());
    return {};
  }

  Status keep(uint64_t place) {
    if (stack_.empty()) return error("its stack is empty");
    memo_[place] = stack_.back();
    return {};
  }
  Status recall(uint64_t place) {
    const auto found = memo_.find(place);
    if (found == memo_.end()) return error("it reads what it has not kept");
    push(found->second);
    return {};
  }

  Result<const std::vector<Value>*> sequence(const Value& value) const {
    if (value.kind != Kind::sequence) return error("expected a tuple");
    return &pickle_.sequences[value.index];
  }
  Result<std::string_view> text(const Value& value, Kind kind = Kind::text) const {
    if (value.kind != kind) return error(kind == Kind::text ? "expected a text" : "expected a class");
    return std::string_view(pickle_.texts[value.index]);
  }
  Result<uint64_t> count(const Value& value) const {
    if (value.kind != Kind::integer || value.integer < 0) return error("expected a number from 0 on");
    return static_cast<uint64_t>(value.integer);
  }
  Result<std::vector<uint64_t>> counts(const Value& value) const {
    PUMICE_TRY(const std::vector<Value>* const values, sequence(value));
    std::vector<uint64_t> result;
    for (const Value& each : *values) {
      PUMICE_TRY(const uint64_t number, count(each));
      result.push_back(number);
    }
    return result;
  }

  // ('storage', class, key, device, elements), in old files with one more.
  Status push_storage() {
    PUMICE_TRY(const Value id, pop());
    PUMICE_TRY(const std::vector<Value>* const parts, sequence(id));
    if (parts->size() < 5) return error("expected a storage");
    PUMICE_TRY(const std::string_view what, text((*parts)[0]));
    PUMICE_TRY(const std::string_view type, text((*parts)[1], Kind::function));
    PUMICE_TRY(const std::string_view key, text((*parts)[2]));
    PUMICE_TRY(const uint64_t elements, count((*parts)[4]));
    const auto dtype = type_of(type, &TypeName::storage);
    if (what != "storage" || !dtype) return error("expected a storage");
    if (parts->size() > 5 && (*parts)[5].kind != Kind::none)
      return error("views of storages are not supported", Code::unsupported);
    pickle_.storages.push_back({std::string(*dtype), std::string(key), elements});
    push({Kind::storage, 0, pickle_.storages.size() - 1});
    return {};
  }

  // (storage, offset, shape, strides, ...)
  Status push_tensor(std::string_view function, const std::vector<Value>& given) {
    const bool typed = function == rebuild3;
    if (given.size() < (typed ? 7u : 4u) || given[0].kind != Kind::storage) return error("expected a tensor");
    Pickle::Tensor tensor;
    tensor.storage = given[0].index;
    PUMICE_TRY(tensor.offset, count(given[1]));
    PUMICE_TRY(tensor.shape, counts(given[2]));
    PUMICE_TRY(tensor.strides, counts(given[3]));
    if (tensor.shape.size() != tensor.strides.size()) return error("expected a stride for each dimension");
    tensor.dtype = pickle_.storages[tensor.storage].dtype;
    if (typed) {
      PUMICE_TRY(const std::string_view name, text(given[6], Kind::function));
      tensor.dtype = type_of(name, &TypeName::dtype).value_or("");
    }
    if (tensor.dtype.empty()) return error("expected a tensor's type");
    pickle_.tensors.push_back(std::move(tensor));
    push({Kind::tensor, 0, pickle_.tensors.size() - 1});
    return {};
  }

  Status call() {
    PUMICE_TRY(const Value arguments, pop());
    PUMICE_TRY(const Value callee, pop());
    PUMICE_TRY(const std::string_view function, text(callee, Kind::function));
    PUMICE_TRY(const std::vector<Value>* const given, sequence(arguments));
    if (function == ordered_dictionary && given->empty()) {
      push_dictionary();
      return {};
    }
    if (function == size && given->size() == 1 && (*given)[0].kind == Kind::sequence) {
      push((*given)[0]);
      return {};
    }
    if (function == parameter && !given->empty() && (*given)[0].kind == Kind::tensor) {
      push((*given)[0]);
      return {};
    }
    if (function.starts_with(rebuild)) return push_tensor(function, *given);
    return error(fmt::format("it calls {} in a way that is not supported", in_quotes(function)),
                 Code::unsupported);
  }

  // The attributes of an object. Those of a dictionary, such as PyTorch's versions of modules, say nothing.
  Status build() {
    PUMICE_CHECK(pop());
    PUMICE_TRY(const Value target, pop());
    push(target);
    if (target.kind == Kind::dictionary) return {};
    return error("it sets the attributes of an object that is no dictionary", Code::unsupported);
  }

  template <class Number>
  Status integer() {
    Number value = 0;
    PUMICE_CHECK(read(value));
    push_integer(value);
    return {};
  }
  Status long_integer() {
    uint8_t length = 0;
    PUMICE_CHECK(read(length));
    std::span<const std::byte> bytes;
    if (length > 8 || !in_.take(length, bytes)) return error("expected a number of at most 8 bytes");
    uint64_t value = length && std::to_integer<uint8_t>(bytes.back()) & 0x80 ? ~uint64_t{0} : 0;
    std::memcpy(&value, bytes.data(), bytes.size());
    push_integer(static_cast<int64_t>(value));
    return {};
  }
  template <class Length>
  Status add_text() {
    PUMICE_TRY(const std::string_view text, counted_text<Length>());
    push_text(text);
    return {};
  }
  template <class Place, class Use>
  Status at_place(Use use) {
    Place place = 0;
    PUMICE_CHECK(read(place));
    return (this->*use)(place);
  }
  Status tuple(size_t count) {
    PUMICE_TRY(std::vector<Value> values, pop_last(count));
    push_sequence(std::move(values));
    return {};
  }

  // The instructions have the names of pickletools.
  Status step(uint8_t instruction) {
    switch (instruction) {
    case 0x80: { // PROTO
      uint8_t version = 0;
      PUMICE_CHECK(read(version));
      return version <= 5 ? Status() : Status(error("its protocol is too new", Code::unsupported));
    }
    case 0x95: { // FRAME
      uint64_t length = 0;
      return read(length);
    }
    case '(': // MARK
      marks_.push_back(stack_.size());
      return {};
    case '0': // POP
      return pop().ok() ? Status() : Status(error("its stack is empty"));
    case 'N': // NONE
      push({});
      return {};
    case 0x88: // NEWTRUE
    case 0x89: // NEWFALSE
      push({Kind::boolean, instruction == 0x88, 0});
      return {};
    case 'J': // BININT
      return integer<int32_t>();
    case 'K': // BININT1
      return integer<uint8_t>();
    case 'M': // BININT2
      return integer<uint16_t>();
    case 0x8a: // LONG1
      return long_integer();
    case 'G': { // BINFLOAT
      uint64_t bits = 0;
      push({Kind::real, 0, 0});
      return read(bits);
    }
    case 'X': // BINUNICODE
    case 'T': // BINSTRING
      return add_text<uint32_t>();
    case 0x8c: // SHORT_BINUNICODE
    case 'U':  // SHORT_BINSTRING
      return add_text<uint8_t>();
    case 0x8d: // BINUNICODE8
      return add_text<uint64_t>();
    case '}': // EMPTY_DICT
      push_dictionary();
      return {};
    case ']': // EMPTY_LIST
    case ')': // EMPTY_TUPLE
      push_sequence({});
      return {};
    case 't':   // TUPLE
    case 'l': { // LIST
      PUMICE_TRY(std::vector<Value> values, pop_marked());
      push_sequence(std::move(values));
      return {};
    }
    case 0x85: // TUPLE1
    case 0x86: // TUPLE2
    case 0x87: // TUPLE3
      return tuple(instruction - 0x84u);
    case 's': { // SETITEM
      PUMICE_TRY(std::vector<Value> items, pop_last(2));
      return add_items(std::move(items));
    }
    case 'u': { // SETITEMS
      PUMICE_TRY(std::vector<Value> items, pop_marked());
      return add_items(std::move(items));
    }
    case 'a': { // APPEND
      PUMICE_TRY(const std::vector<Value> items, pop_last(1));
      return append(items);
    }
    case 'e': { // APPENDS
      PUMICE_TRY(const std::vector<Value> items, pop_marked());
      return append(items);
    }
    case 'q': // BINPUT
      return at_place<uint8_t>(&Machine::keep);
    case 'r': // LONG_BINPUT
      return at_place<uint32_t>(&Machine::keep);
    case 0x94: // MEMOIZE
      return keep(memo_.size());
    case 'h': // BINGET
      return at_place<uint8_t>(&Machine::recall);
    case 'j': // LONG_BINGET
      return at_place<uint32_t>(&Machine::recall);
    case 'c': { // GLOBAL
      PUMICE_TRY(const std::string_view module, line());
      PUMICE_TRY(const std::string_view name, line());
      return push_function(module, name);
    }
    case 0x93: { // STACK_GLOBAL
      PUMICE_TRY(const std::vector<Value> names, pop_last(2));
      PUMICE_TRY(const std::string_view module, text(names[0]));
      PUMICE_TRY(const std::string_view name, text(names[1]));
      return push_function(module, name);
    }
    case 'Q': // BINPERSID
      return push_storage();
    case 'R': // REDUCE
      return call();
    case 'b': // BUILD
      return build();
    default:
      return error(
          fmt::format("instruction 0x{:02x} is not read: expected what torch.save() writes for tensors",
                      instruction),
          Code::unsupported);
    }
  }

  ByteReader in_;
  const std::span<const std::byte> bytes_;
  const std::string& file_;
  std::vector<Value> stack_;
  std::vector<size_t> marks_;
  std::map<uint64_t, Value> memo_;
  Pickle pickle_;
};

} // namespace

Result<Pickle> Pickle::parse(std::span<const std::byte> bytes, const std::string& file, uint64_t* used) {
  return Machine(bytes, file).run(used);
}

} // namespace pumice

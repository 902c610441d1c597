#include "io/formats/torch_file.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "io/bytes.h"
#include "io/formats/pickle.h"
#include "io/formats/stored_zip.h"

namespace pumice {

namespace {

using Bytes = std::span<const std::byte>;
using Value = Pickle::Value;
using Kind = Pickle::Kind;

// The pickled number that the old form begins with; then comes its version, 1001.
constexpr std::string_view old_magic("\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.");

// The length of that number's pickle, of protocol 2 to 5; those from 4 on may have a frame. 0: there is none.
size_t old_beginning(std::string_view text) {
  if (text.size() < 3 || text[0] != '\x80' || text[1] < 2 || text[1] > 5) return 0;
  const size_t at = text[2] == '\x95' ? 11 : 2;
  return at < text.size() && text.substr(at).starts_with(old_magic) ? at + old_magic.size() : 0;
}

Error wrong(const std::string& file, std::string_view what, Code code = Code::invalid_file) {
  return {code, fmt::format("{}: {}", file, what)};
}

// Bytes of the copies of a file whose tensors repeat what they hold: a small one could name more than there
// is memory.
constexpr uint64_t most_copied = uint64_t{1} << 30;

// What the file has: a pickle, and the bytes of each storage that it names.
struct Contents {
  Pickle pickle;
  std::map<std::string, Bytes> storages;
};

Result<Contents> read_archive(Bytes bytes, const std::string& file) {
  PUMICE_TRY(const auto members, read_stored_zip(bytes, file));
  Contents contents;
  constexpr std::string_view name = "/data.pkl";
  const auto pickle =
      std::ranges::find_if(members, [&](const auto& member) { return member.first.ends_with(name); });
  if (pickle == members.end()) return wrong(file, "expected data.pkl in the archive; found none");
  const std::string root = pickle->first.substr(0, pickle->first.size() - name.size() + 1);
  const auto order = members.find(root + "byteorder");
  if (order != members.end() && as_text(order->second) != "little") {
    return wrong(file,
                 fmt::format("expected the byte order little, found {}", in_quotes(as_text(order->second))),
                 Code::unsupported);
  }
  PUMICE_TRY(contents.pickle, Pickle::parse(pickle->second, file));
  const std::string data = root + "data/";
  for (const auto& [member, content] : members) {
    if (member.starts_with(data)) contents.storages.emplace(member.substr(data.size()), content);
  }
  return contents;
}

// Pickles one after the other: a number, a version, the machine, the tensors, the storages' keys. Then each
// storage: its number of elements, and these.
class OldFile {
public:
  OldFile(Bytes bytes, const std::string& file) : rest_(bytes), file_(file) {}

  Result<Contents> read() {
    rest_ = rest_.subspan(old_beginning(as_text(rest_)));
    PUMICE_TRY(const Pickle version, next());
    if (version.result.kind != Kind::integer || version.result.integer != 1001)
      return wrong(file_, "expected version 1001", Code::unsupported);
    PUMICE_TRY(const Pickle machine, next());
    PUMICE_CHECK(check_order(machine));
    Contents contents;
    PUMICE_TRY(contents.pickle, next());
    PUMICE_TRY(const Pickle keys, next());
    if (keys.result.kind != Kind::sequence) return wrong(file_, "expected a list of storages");
    ByteReader in(rest_);
    for (const Value& key : keys.sequences[keys.result.index]) {
      if (key.kind != Kind::text) return wrong(file_, "expected the name of a storage");
      const std::string& name = keys.texts[key.index];
      uint64_t count = 0, bytes = 0;
      Bytes content;
      const uint64_t size = safetensors_dtype_bytes(dtype_of(contents.pickle, name));
      if (!size || !in.read(count) || !multiply(count, size, bytes) || !in.take(bytes, content))
        return wrong(file_, fmt::format("storage {} is not complete", in_quotes(name)));
      contents.storages.emplace(name, content);
    }
    return contents;
  }

private:
  Result<Pickle> next() {
    uint64_t used = 0;
    PUMICE_TRY(Pickle pickle, Pickle::parse(rest_, file_, &used));
    rest_ = rest_.subspan(used);
    return pickle;
  }
  Status check_order(const Pickle& machine) const {
    if (machine.result.kind != Kind::dictionary) return wrong(file_, "expected what machine wrote it");
    for (const auto& [key, value] : machine.dictionaries[machine.result.index]) {
      if (key.kind == Kind::text && machine.texts[key.index] == "little_endian" && !value.integer)
        return wrong(file_, "expected the byte order little, found big", Code::unsupported);
    }
    return {};
  }
  static std::string dtype_of(const Pickle& pickle, const std::string& key) {
    const auto found = std::ranges::find(pickle.storages, key, &Pickle::Storage::key);
    return found == pickle.storages.end() ? "" : found->dtype;
  }

  Bytes rest_;
  const std::string& file_;
};

// The dictionary with tensors: the file's own, or one that training programs put it into.
const Pickle::Dictionary* find_tensors(const Pickle& pickle) {
  constexpr std::string_view inner[] = {"state_dict", "model_state_dict", "model", "module"};
  const auto dictionary = [&](const Value& value) {
    return value.kind == Kind::dictionary ? &pickle.dictionaries[value.index] : nullptr;
  };
  const Pickle::Dictionary* whole = dictionary(pickle.result);
  if (!whole ||
      std::ranges::any_of(*whole, [](const auto& each) { return each.second.kind == Kind::tensor; }))
    return whole;
  for (const auto& [key, value] : *whole) {
    const bool named = key.kind == Kind::text && std::ranges::count(inner, pickle.texts[key.index]);
    if (const Pickle::Dictionary* found = dictionary(value); named && found) return found;
  }
  return whole;
}

bool in_order(const Pickle::Tensor& tensor) {
  uint64_t stride = 1;
  for (size_t i = tensor.shape.size(); i-- > 0; stride *= tensor.shape[i]) {
    if (tensor.shape[i] > 1 && tensor.strides[i] != stride) return false;
  }
  return true;
}

// Copies elements that do not lie side by side, the last dimension fastest.
void copy_elements(const Pickle::Tensor& tensor, Bytes storage, uint64_t size, std::vector<std::byte>& to) {
  std::vector<uint64_t> place(tensor.shape.size());
  for (uint64_t at = 0; at < to.size(); at += size) {
    uint64_t from = tensor.offset;
    for (size_t i = 0; i < place.size(); ++i) from += place[i] * tensor.strides[i];
    std::memcpy(to.data() + at, storage.data() + from * size, size);
    for (size_t i = place.size(); i-- > 0 && ++place[i] == tensor.shape[i];) place[i] = 0;
  }
}

Status add_tensor(const Contents& contents, const std::string& file, const std::string& name, size_t index,
                  TorchFile& result) {
  const Pickle::Tensor& tensor = contents.pickle.tensors[index];
  const Pickle::Storage& storage = contents.pickle.storages[tensor.storage];
  const auto error = [&](std::string_view what) {
    return wrong(file, fmt::format("tensor {}: {}", in_quotes(name), what));
  };
  const auto found = contents.storages.find(storage.key);
  if (found == contents.storages.end())
    return error(fmt::format("its storage {} is not in the file", in_quotes(storage.key)));
  const uint64_t size = safetensors_dtype_bytes(tensor.dtype);
  const uint64_t held = size ? found->second.size() / size : 0;
  uint64_t count = 1, last = tensor.offset;
  for (size_t i = 0; i < tensor.shape.size(); ++i) {
    uint64_t step = 0;
    const bool fits = multiply(count, tensor.shape[i], count) &&
                      (tensor.shape[i] == 0 || multiply(tensor.shape[i] - 1, tensor.strides[i], step));
    if (!fits || step > held) return error("it is larger than its storage");
    last += step;
  }
  if (count && last >= held) return error("it is larger than its storage");
  uint64_t copied = 0;
  for (const std::vector<std::byte>& copy : result.copies) copied += copy.size();
  if (count > held && (count > most_copied || copied + count * size > most_copied))
    return error("it repeats its elements, as expand() does, more often than is read");
  Bytes data;
  if (in_order(tensor)) {
    if (count) data = found->second.subspan(tensor.offset * size, count * size);
  } else {
    result.copies.emplace_back(count * size);
    copy_elements(tensor, found->second, size, result.copies.back());
    data = result.copies.back();
  }
  result.entries.push_back({name, tensor.dtype, tensor.shape, data});
  return {};
}

// Early files of BERT have TensorFlow's names of a norm's weight and bias.
std::string usual_name(const std::string& name) {
  for (const auto& [early, usual] : {std::pair(".gamma", ".weight"), std::pair(".beta", ".bias")}) {
    if (name.ends_with(early)) return name.substr(0, name.rfind('.')) + usual;
  }
  return name;
}

} // namespace

bool TorchFile::begins(Bytes bytes) {
  const std::string_view text = as_text(bytes);
  return text.starts_with("PK\x03\x04") || old_beginning(text);
}

Result<TorchFile> TorchFile::parse(Bytes bytes, const std::string& file) {
  if (!begins(bytes)) return wrong(file, "expected what torch.save() writes, a zip archive or a pickle");
  const bool archive = as_text(bytes).starts_with("PK");
  PUMICE_TRY(const Contents contents, archive ? read_archive(bytes, file) : OldFile(bytes, file).read());
  const Pickle::Dictionary* tensors = find_tensors(contents.pickle);
  if (!tensors) return wrong(file, "expected a dictionary of tensors", Code::unsupported);
  TorchFile result;
  for (const auto& [key, value] : *tensors) {
    if (value.kind != Kind::tensor || key.kind != Kind::text) continue;
    PUMICE_CHECK(
        add_tensor(contents, file, usual_name(contents.pickle.texts[key.index]), value.index, result));
  }
  if (result.entries.empty()) return wrong(file, "expected a dictionary of tensors; found none in it");
  // What DataParallel and its kin put before each name.
  constexpr std::string_view wrapper = "module.";
  const auto wrapped = [&](const auto& entry) { return entry.name.starts_with(wrapper); };
  if (std::ranges::all_of(result.entries, wrapped)) {
    for (SafetensorsFile::Entry& entry : result.entries) entry.name.erase(0, wrapper.size());
  }
  return result;
}

} // namespace pumice

#include "model/adapter.h"

#include <algorithm>
#include <cmath>
#include <set>
#include <unordered_map>

#include <fmt/format.h>

#include "io/model_file.h"
#include "io/nearest_names.h"
#include "kernel/adapter/adapter_packing.h"
#include "kernel/matmul/linear.h"
#include "model/adapter_file.h"

namespace pumice {

namespace {

// Hugging Face's row of a row of GGUF's matrix, whose heads' rotary pairs are neighbours.
uint64_t hugging_face_row(const OtherForm& form, uint64_t rows, uint64_t row) {
  if (form.rotary_heads == 0) return row;
  const uint64_t head = rows / form.rotary_heads;
  const uint64_t rotated = form.rotary_dim ? form.rotary_dim : head;
  const uint64_t of_head = row % head;
  if (of_head >= rotated) return row;
  return row - of_head + of_head / 2 + (of_head % 2 ? rotated / 2 : 0);
}

// Which row of an adapter's matrix each row of a model's has, and a factor of what is added.
struct Rows {
  std::vector<uint64_t> from;
  float factor = 1;
};

// Finds what the pairs of an adapter's file are added to.
class PairPlacer {
public:
  PairPlacer(const AdapterFile& adapter, const ModelFile& file, const DecoderGraph& decoder)
      : adapter_(adapter), file_(file), decoder_(decoder) {
    for (const Node& node : decoder.graph.nodes()) {
      const auto* linear = dynamic_cast<const Linear*>(node.operation.get());
      const size_t matrices = linear ? linear->matrices : 0;
      for (size_t i = 0; i < node.weights.size(); ++i) {
        const WeightView& view = decoder.graph.weight(node.weights[i]).view;
        if (!linear) elsewhere_.insert(view.tensor->name);
        if (i < matrices && std::ranges::count(products_, view) == 0) products_.push_back(view);
      }
    }
  }

  Status place(const AdapterPair& pair, std::map<AdapterTarget, AdapterMatrix>& matrices) const {
    const bool same_form = adapter_.gguf_names == (file_.format() == ModelFile::Format::gguf);
    PUMICE_TRY(const auto found, same_form ? in_file(pair) : in_other_form(pair));
    for (const auto& [view, rows] : found) {
      if (view.columns != pair.columns) {
        return mismatch(pair, view.columns, pair.columns, "columns", pair.down_name);
      }
      AdapterMatrix matrix;
      matrix.rank = pair.rank;
      matrix.rows = static_cast<uint32_t>(view.rows);
      matrix.columns = pair.columns;
      matrix.scales.assign(pair.rank, pair.scaling * rows.factor);
      matrix.down = pair.down;
      matrix.up.resize(size_t{pair.rank} * matrix.rows);
      for (uint32_t row = 0; row < matrix.rows; ++row) {
        for (uint32_t r = 0; r < pair.rank; ++r)
          matrix.up[size_t{r} * matrix.rows + row] = pair.up[rows.from[row] * pair.rank + r];
      }
      if (!matrices.emplace(AdapterTarget::of(view), std::move(matrix)).second) {
        return Error{Code::invalid_file, fmt::format("{}: tensor '{}': another one is for the same weights",
                                                     adapter_.path, pair.down_name)};
      }
    }
    return {};
  }

private:
  using Found = std::vector<std::pair<WeightView, Rows>>;

  Error mismatch(const AdapterPair& pair, uint64_t expected, uint64_t found, const char* what,
                 const std::string& tensor) const {
    return {Code::invalid_file,
            fmt::format("{}: tensor '{}': '{}' of {} has {} {}, and the adapter {}: it is another model's",
                        adapter_.path, tensor, pair.name, file_.path(), expected, what, found)};
  }

  Error missing(const AdapterPair& pair) const {
    std::vector<std::string_view> names;
    if (adapter_.gguf_names == (file_.format() == ModelFile::Format::gguf)) {
      for (const WeightView& view : products_) names.push_back(view.tensor->name);
    } else {
      for (const OtherForm& form : decoder_.other_forms) names.push_back(form.name);
    }
    std::string hint;
    for (const std::string_view other : nearest_names(pair.name + ".weight", names))
      hint += fmt::format("{}'{}'", hint.empty() ? "; the nearest names are " : ", ", other);
    return {Code::not_found, fmt::format("{}: tensor '{}': {} has no product with '{}'{}", adapter_.path,
                                         pair.down_name, file_.path(), pair.name, hint)};
  }

  Error not_adaptable(const AdapterPair& pair) const {
    return {Code::unsupported,
            fmt::format("{}: tensor '{}': '{}' of {} is not only a product's matrix (it is a table of "
                        "embeddings, or of experts): adapters cannot be added to it",
                        adapter_.path, pair.down_name, pair.name, file_.path())};
  }

  // The products with a tensor of the file's own name.
  Result<Found> in_file(const AdapterPair& pair) const {
    Found found;
    const TensorView* tensor = file_.find(pair.name + ".weight");
    if (!tensor) tensor = file_.find(pair.name); // as some names have no suffix
    if (tensor && elsewhere_.contains(tensor->name)) return not_adaptable(pair);
    for (const WeightView& view : products_) {
      if (view.tensor != tensor) continue;
      const WeightView whole = WeightView::whole(*tensor);
      const uint64_t rows = view.transposed ? whole.columns : whole.rows;
      if (rows != pair.rows) return mismatch(pair, rows, pair.rows, "rows", pair.down_name);
      Rows own;
      for (uint64_t row = 0; row < view.rows; ++row) own.from.push_back(view.source_row(row));
      found.emplace_back(view, std::move(own));
    }
    if (found.empty()) return missing(pair);
    return found;
  }

  // The products with the tensors that have the name in the model's other form.
  Result<Found> in_other_form(const AdapterPair& pair) const {
    Found found;
    uint64_t before = 0; // rows of the parts before
    for (const OtherForm& form : decoder_.other_forms) {
      if (form.name != pair.name) continue;
      uint64_t rows = 0;
      for (const WeightView& part : form.parts) rows += part.rows;
      for (uint64_t offset = 0; const WeightView& part : form.parts) {
        if (elsewhere_.contains(part.tensor->name)) return not_adaptable(pair);
        std::unordered_map<uint64_t, uint64_t> at; // by the tensor's row
        for (uint64_t row = 0; row < part.rows; ++row) at[part.source_row(row)] = offset + row;
        for (const WeightView& view : products_) {
          if (view.tensor != part.tensor || !at.contains(view.source_row(0))) continue;
          if (!form.rows_only) return not_adaptable(pair);
          PUMICE_TRY(Rows of_view, rows_of(pair, form, rows, before, view, at));
          found.emplace_back(view, std::move(of_view));
        }
        offset += part.rows;
      }
      before += rows;
    }
    if (found.empty()) return missing(pair);
    if (before != pair.rows) return mismatch(pair, before, pair.rows, "rows", pair.down_name);
    return found;
  }

  Result<Rows> rows_of(const AdapterPair& pair, const OtherForm& form, uint64_t rows, uint64_t before,
                       const WeightView& view, const std::unordered_map<uint64_t, uint64_t>& at) const {
    // By GGUF's row, where the file is Hugging Face's: the row there that it comes from, the other way round.
    std::vector<uint64_t> gguf_row;
    if (adapter_.gguf_names) {
      gguf_row.resize(rows);
      for (uint64_t row = 0; row < rows; ++row) gguf_row[hugging_face_row(form, rows, row)] = row;
    }
    Rows result;
    result.factor = adapter_.gguf_names ? 1 / form.scale : form.scale;
    for (uint64_t row = 0; row < view.rows; ++row) {
      const auto stacked = at.find(view.source_row(row));
      if (stacked == at.end()) return not_adaptable(pair);
      const uint64_t from =
          adapter_.gguf_names ? gguf_row[stacked->second] : hugging_face_row(form, rows, stacked->second);
      result.from.push_back(before + from);
      if (result.from.back() >= pair.rows)
        return mismatch(pair, before + rows, pair.rows, "rows", pair.down_name);
    }
    return result;
  }

  const AdapterFile& adapter_;
  const ModelFile& file_;
  const DecoderGraph& decoder_;
  std::vector<WeightView> products_;
  std::set<std::string> elsewhere_; // tensors that other operations read
};

} // namespace

Result<std::shared_ptr<const Adapter>>
Adapter::load(const std::filesystem::path& path, const ModelDefinition& definition, const ModelFile& file) {
  PUMICE_TRY(const AdapterFile read, AdapterFile::read(path));
  const ModelShape shape = definition.shape();
  if (!shape.has_decoder() || shape.encoder) {
    return Error{Code::unsupported,
                 fmt::format("{}: adapters are for models that continue texts, and {} is none", read.path,
                             file.path())};
  }
  PUMICE_TRY(const DecoderGraph decoder, definition.graph(file));
  auto adapter = std::make_shared<Adapter>();
  adapter->path_ = read.path;
  adapter->numbers_ = read.numbers;
  const PairPlacer placer(read, file, decoder);
  for (const AdapterPair& pair : read.pairs) {
    PUMICE_CHECK(placer.place(pair, adapter->matrices_));
    adapter->rank_ = std::max(adapter->rank_, pair.rank);
  }
  return std::shared_ptr<const Adapter>(std::move(adapter));
}

// The products' sums are one product of the ranks together.
AdapterChoice combined(std::span<const AdapterChoice> choices) {
  if (choices.empty()) return {};
  if (choices.size() == 1) return choices[0];
  auto sum = std::make_shared<Adapter>();
  const TensorType numbers = choices[0].adapter->numbers_;
  const auto same = [&](const AdapterChoice& choice) { return choice.adapter->numbers_ == numbers; };
  sum->numbers_ = std::ranges::all_of(choices, same) ? numbers : TensorType::f32;
  for (const auto& [adapter, scale] : choices) {
    sum->path_ += (sum->path_.empty() ? "" : " and ") + adapter->path_;
    for (const auto& [target, matrix] : adapter->matrices_) {
      AdapterMatrix& into = sum->matrices_[target];
      into.rank += matrix.rank;
      into.rows = matrix.rows;
      into.columns = matrix.columns;
      into.down.insert(into.down.end(), matrix.down.begin(), matrix.down.end());
      into.up.insert(into.up.end(), matrix.up.begin(), matrix.up.end());
      for (float value : matrix.scales) into.scales.push_back(value * scale);
      sum->rank_ = std::max(sum->rank_, into.rank);
    }
  }
  return {std::move(sum), 1};
}

std::shared_ptr<const AdapterRoom> room_for(std::span<const std::shared_ptr<const Adapter>> adapters,
                                            uint32_t places) {
  auto room = std::make_shared<AdapterRoom>();
  room->places = places;
  if (!adapters.empty()) room->numbers = adapters[0]->numbers();
  for (const std::shared_ptr<const Adapter>& adapter : adapters) {
    if (adapter->numbers() != room->numbers) room->numbers = TensorType::f32;
    room->rank = std::max(room->rank, adapter->rank());
    for (const auto& [target, matrix] : adapter->matrices()) room->targets.insert(target);
  }
  return room;
}

Status check_room(const Adapter& adapter, const AdapterRoom& room) {
  if (adapter.rank() > padded_adapter_rank(room.rank)) {
    return Error{
        Code::invalid_argument,
        fmt::format("{}: its rank is {}, and the session was made for adapters of at most {}: make it "
                    "when this adapter is there",
                    adapter.path(), adapter.rank(), padded_adapter_rank(room.rank))};
  }
  if (room.numbers != TensorType::f32 && adapter.numbers() != room.numbers) {
    return Error{
        Code::invalid_argument,
        fmt::format("{}: its numbers are {}, and the session was made for adapters of {} numbers: make it "
                    "when this adapter is there",
                    adapter.path(), info(adapter.numbers()).name, info(room.numbers).name)};
  }
  for (const auto& [target, matrix] : adapter.matrices()) {
    if (room.targets.contains(target)) continue;
    return Error{
        Code::invalid_argument,
        fmt::format("{}: it changes '{}', and the session was made for adapters that do not: make it "
                    "when this adapter is there",
                    adapter.path(), target.tensor)};
  }
  return {};
}

Status check_scale(float scale) {
  constexpr float most = 1000;
  if (std::abs(scale) <= most) return {};
  return Error{Code::invalid_argument,
               fmt::format("an adapter's scale is {}: expected a number from {} to {}", scale, -most, most)};
}

} // namespace pumice

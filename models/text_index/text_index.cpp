#include <fmt/format.h>

#include "models/builder.h"
#include "models/registry.h"
#include "models/settings.h"

namespace pumice {

namespace {

constexpr uint32_t most_vectors = 1 << 24;

// The vectors of texts that `pumice search` keeps, in a folder as a model has it. config.json has model_type
// "text_index", `vectors` and `dimensions`; the tensor "embeddings" is [vectors, dimensions]. Its encoder
// reads the vector of a query and gives "scores", the product with each vector.
class TextIndexModel : public ModelDefinition {
public:
  TextIndexModel(uint32_t vectors, uint32_t dimensions) : vectors_(vectors), dimensions_(dimensions) {}

  ModelShape shape() const override {
    EncoderShape encoder;
    encoder.kind = InputKind::features;
    encoder.context = 1;
    encoder.input_shape = {dimensions_};
    encoder.hidden = vectors_;
    ModelShape shape;
    shape.encoder = std::move(encoder);
    return shape;
  }
  std::vector<Hyperparameter> hyperparameters() const override {
    return {{"vectors", fmt::format("{}", vectors_)}, {"dimensions", fmt::format("{}", dimensions_)}};
  }
  std::vector<WeightSpec> weights() const override {
    ModelBuilder builder(false, nullptr);
    build(builder);
    return builder.specs();
  }
  Result<EncoderGraph> encoder_graph(const ModelFile& file) const override {
    ModelBuilder builder(false, &file);
    const TensorId scores = build(builder);
    PUMICE_CHECK(builder.status());
    ReadableTensors readable;
    readable.add("scores", scores);
    return EncoderGraph{std::move(builder.graph()), std::move(readable)};
  }

private:
  TensorId build(ModelBuilder& builder) const {
    const TensorId query = builder.graph().input("query", RowKind::outputs, dimensions_);
    const WeightView all = builder.tensor({"embeddings", ""}, "", vectors_, dimensions_, "embedding");
    return builder.project(query, "scores", all, nullptr, "embedding");
  }

  uint32_t vectors_, dimensions_;
};

OpenedDefinition open_text_index(const ModelFile& file) {
  if (file.find("weights") && !file.find("embeddings")) {
    return Error{Code::unsupported,
                 fmt::format("{} is an index of sparse vectors that pumice search has made, and no model: "
                             "give the model, and the index with --index",
                             file.path())};
  }
  const Settings settings(file);
  PUMICE_TRY(const uint32_t vectors, settings.u32({"vectors", ""}, 1, most_vectors));
  PUMICE_TRY(const uint32_t dimensions, settings.u32({"dimensions", ""}, 1, limits::columns));
  return std::unique_ptr<ModelDefinition>(std::make_unique<TextIndexModel>(vectors, dimensions));
}

} // namespace

Architectures text_index_models() {
  return {{"text_index", {"text_index"}, {}, open_text_index}};
}

} // namespace pumice

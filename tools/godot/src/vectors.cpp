#include "vectors.h"

#include <cmath>

#include "wait.h"

namespace godot {

std::string Embedding::embed(pumice_model* model, const std::string& pooling,
                             const std::vector<std::string>& texts, const Frames& frames,
                             std::vector<std::vector<float>>& vectors) {
  if (!embedder_) {
    pumice_embedder_options options{};
    options.struct_size = sizeof options;
    options.pooling = pooling.empty() ? nullptr : pooling.c_str();
    options.normalize = 1;
    pumice_creation_options creation{};
    creation.embedder = &options;
    pumice_created created;
    if (const std::string failure = create(model, creation, frames.leaving, created); !failure.empty())
      return failure;
    embedder_.reset(created.embedder);
  }
  pumice_embedder* const embedder = embedder_.get();
  std::vector<const char*> pointers;
  for (const std::string& text : texts) pointers.push_back(text.c_str());
  const size_t columns = pumice_embedder_columns(embedder);
  std::vector<float> values(texts.size() * columns);
  const bool sliced = frames.budget_us > 0;
  const Slices::End end =
      frames.slices.run(pumice_embedder_work(embedder), frames.budget_us, [&](pumice_error* failure) {
        if (sliced)
          return pumice_embedder_begin(embedder, pointers.data(), pointers.size(), nullptr, failure);
        return pumice_embedder_embed(embedder, pointers.data(), pointers.size(), values.data(), nullptr,
                                     failure);
      });
  if (end.failed()) return end.message;
  pumice_error error;
  if (sliced && pumice_embedder_read(embedder, values.data(), values.size(), nullptr, &error) != PUMICE_OK)
    return error.message;
  vectors.clear();
  for (size_t i = 0; i < texts.size(); ++i) {
    const auto row = values.begin() + static_cast<std::ptrdiff_t>(i * columns);
    vectors.emplace_back(row, row + static_cast<std::ptrdiff_t>(columns));
  }
  return {};
}

double cosine(const std::vector<float>& left, const std::vector<float>& right) {
  if (left.empty() || left.size() != right.size()) return 0;
  double product = 0, of_left = 0, of_right = 0;
  for (size_t i = 0; i < left.size(); ++i) {
    product += double{left[i]} * right[i];
    of_left += double{left[i]} * left[i];
    of_right += double{right[i]} * right[i];
  }
  return of_left > 0 && of_right > 0 ? product / std::sqrt(of_left * of_right) : 0;
}

void Embedder::embed(const std::vector<std::string>& texts) {
  worker_.post([this, texts, loading = Model::load(value("model")), pooling = value("pooling").text(),
                frame = budget()] {
    Loaded loaded;
    if (const std::string failure = wait_for(loading, leaving_, loaded); !failure.empty())
      return fail(failure);
    forget_if_stale();
    std::vector<std::vector<float>> vectors;
    if (const std::string failure =
            embedding_.embed(loaded.model.get(), pooling, texts, {slices_, frame, leaving_}, vectors);
        !failure.empty())
      return fail(failure);
    worker_.deliver([this, vectors] {
      const Variant list = Variant::empty(GDEXTENSION_VARIANT_TYPE_ARRAY);
      for (const std::vector<float>& vector : vectors) list.append(Variant(vector));
      emit("embedded", list);
    });
  });
}

std::unique_ptr<Class> Embedder::make_class() {
  using Arguments = std::vector<Variant>;
  constexpr auto floats = GDEXTENSION_VARIANT_TYPE_PACKED_FLOAT32_ARRAY;
  auto made = std::make_unique<Class>(class_of("PumiceEmbedder"));
  made->make = [](const Class& of_class, GDExtensionObjectPtr object) {
    return std::make_unique<Embedder>(of_class, object);
  };
  made->properties.push_back({"pooling", GDEXTENSION_VARIANT_TYPE_STRING, ""});
  made->methods = {{"embed",
                    {{"texts", GDEXTENSION_VARIANT_TYPE_PACKED_STRING_ARRAY}},
                    GDEXTENSION_VARIANT_TYPE_NIL,
                    [](Instance& self, const Arguments& given) {
                      return static_cast<Embedder&>(self).embed(given[0].texts()), Variant();
                    }},
                   {"similarity",
                    {{"left", floats}, {"right", floats}},
                    GDEXTENSION_VARIANT_TYPE_FLOAT,
                    [](Instance&, const Arguments& given) {
                      return Variant(cosine(given[0].floats(), given[1].floats()));
                    },
                    {},
                    true},
                   cancel_method()};
  made->signals.push_back({"embedded", {{"vectors", GDEXTENSION_VARIANT_TYPE_ARRAY}}});
  return made;
}

} // namespace godot

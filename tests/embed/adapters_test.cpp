// One model, several characters: adapters in the C interface.
#include <map>

#include "support/embedding.h"
#include "support/files/fixtures.h"
#include "support/files/made_adapter.h"
#include "support/files/temporary_folder.h"

namespace {

using AdapterHandle = std::unique_ptr<pumice_adapter, Destroy<pumice_adapter_destroy>>;

// Three adapters of the stories; the last one changes what the others do not.
class Characters {
public:
  Characters() {
    const pumice::ModelFile file = require(pumice::ModelFile::open(stories));
    const auto own_name = [](const std::string& module) { return module; };
    for (uint32_t i = 0; i < 2; ++i)
      write_gguf_adapter(make_adapter(file, {"attn_q", "attn_v", "ffn_down"}, 4 + 4 * i, 60 + i), path(i),
                         own_name);
    write_gguf_adapter(make_adapter(file, {"ffn_up"}, 4, 62), path(2), own_name);
  }
  std::string path(size_t i) const { return (folder_.path() / ("character" + std::to_string(i))).string(); }

private:
  TemporaryFolder folder_;
};

AdapterHandle load_adapter(pumice_model* model, const std::string& path) {
  pumice_error error = {};
  pumice_adapter* adapter = nullptr;
  require_ok(pumice_adapter_load(model, path.c_str(), &adapter, &error), error);
  return AdapterHandle(adapter);
}

pumice_request request_for(const pumice_adapter* adapter, float scale) {
  pumice_request request = {sizeof request};
  request.text = "Once upon a time there was a little girl named Lily. She";
  request.new_conversation = true;
  request.max_tokens = 12;
  request.ignore_end = true;
  request.adapter = adapter;
  request.adapter_scale = scale;
  return request;
}

} // namespace

TEST_CASE("characters of one model: sessions, batches, whole steps and slices") {
  const Characters characters;
  const ModelHandle model = load(shared_device().get());
  AdapterHandle first = load_adapter(model.get(), characters.path(0));
  const AdapterHandle second = load_adapter(model.get(), characters.path(1));
  pumice_session_options options = {sizeof options};
  options.context = 100;
  const Story plain = generated_story(make_session(model.get(), options).get(), request_for(nullptr, 0));
  options.adapters = 1;
  const SessionHandle session = make_session(model.get(), options);
  struct Part {
    const pumice_adapter* adapter;
    float scale;
  };
  const Part parts[] = {{nullptr, 0}, {first.get(), 3}, {second.get(), 0}, {first.get(), -3}};
  std::vector<Story> alone;
  for (const Part& part : parts) {
    alone.push_back(generated_story(session.get(), request_for(part.adapter, part.scale)));
    CHECK(generated_story(session.get(), request_for(part.adapter, part.scale), true) == alone.back());
  }
  CHECK(alone[0] == plain);
  for (size_t i = 1; i < alone.size(); ++i) CHECK(alone[i] != alone[i - 1]);

  pumice_batch_options batch_options = {sizeof batch_options};
  batch_options.texts = 4;
  batch_options.context = 100;
  batch_options.adapters = 2;
  for (bool in_slices : {false, true}) {
    const BatchHandle batch = make_batch(model.get(), batch_options);
    std::map<uint32_t, Story> stories_of;
    std::vector<uint32_t> ids;
    pumice_error error = {};
    for (const Part& part : parts) {
      const pumice_request request = request_for(part.adapter, part.scale);
      require_ok(pumice_batch_add(batch.get(), &request, &ids.emplace_back(), &error), error);
    }
    for (bool active = true; active;) {
      if (in_slices) {
        pumice_slice slice = {sizeof slice};
        require_ok(pumice_work_advance(pumice_batch_work(batch.get()), 500, nullptr, &slice, &error), error);
        active = slice.active;
      } else {
        require_ok(pumice_batch_step(batch.get(), &active, &error), error);
      }
      while (const pumice_event* event = pumice_batch_poll(batch.get()))
        add_event(*event, stories_of[event->text_id]);
    }
    for (size_t i = 0; i < ids.size(); ++i) {
      CAPTURE(i);
      CHECK(stories_of[ids[i]] == alone[i]);
    }
  }

  // A text goes on with its adapter when that is destroyed.
  pumice_error error = {};
  const pumice_request request = request_for(first.get(), 3);
  require_ok(pumice_session_generate(session.get(), &request, &error), error);
  first.reset();
  require_ok(pumice_session_run(session.get(), &error), error);
  Story story;
  take_events(session.get(), story);
  CHECK(story == alone[1]);
}

TEST_CASE("wrong uses of adapters") {
  const Characters characters;
  const ModelHandle model = load(shared_device().get()), other = load(shared_device().get());
  pumice_error error = {};
  pumice_session_options options = {sizeof options};
  options.context = 100;
  options.adapters = 1;
  pumice_session* none = nullptr;
  CHECK(pumice_session_create(model.get(), &options, &none, &error) == PUMICE_INVALID_ARGUMENT);
  CHECK(std::string(error.message).find("options.adapters") != std::string::npos);
  pumice_adapter* adapter = nullptr;
  CHECK(pumice_adapter_load(model.get(), "nothing", &adapter, &error) == PUMICE_NOT_FOUND);
  CHECK(pumice_adapter_load(model.get(), stories.c_str(), &adapter, &error) == PUMICE_INVALID_FILE);
  CHECK(pumice_adapter_load(nullptr, "nothing", &adapter, &error) == PUMICE_INVALID_ARGUMENT);
  CHECK(pumice_adapter_load(model.get(), nullptr, &adapter, &error) == PUMICE_INVALID_ARGUMENT);
  CHECK(adapter == nullptr);
  pumice_adapter_destroy(nullptr);

  const AdapterHandle first = load_adapter(model.get(), characters.path(0)),
                      foreign = load_adapter(other.get(), characters.path(0));
  const SessionHandle session = make_session(model.get(), options);
  const AdapterHandle larger = load_adapter(model.get(), characters.path(1)),
                      wider = load_adapter(model.get(), characters.path(2));
  const auto refused = [&](pumice_session* by, const pumice_adapter* with, float scale) {
    const pumice_request request = request_for(with, scale);
    CHECK(pumice_session_generate(by, &request, &error) == PUMICE_INVALID_ARGUMENT);
    return std::string(error.message);
  };
  CHECK(refused(session.get(), foreign.get(), 1).find("another model") != std::string::npos);
  CHECK(refused(session.get(), first.get(), 1e9f).find("adapter_scale") != std::string::npos);
  CHECK(refused(session.get(), wider.get(), 1).find("ffn_up") != std::string::npos);
  options.adapters = 0;
  const SessionHandle without = make_session(model.get(), options);
  CHECK(refused(without.get(), first.get(), 1).find("room") != std::string::npos);
  options.adapters = 2000;
  CHECK(pumice_session_create(model.get(), &options, &none, &error) == PUMICE_INVALID_ARGUMENT);

  // Together as one.
  pumice_adapter* both = nullptr;
  const pumice_adapter* list[] = {first.get(), larger.get()};
  const float scales[] = {1, 0.5f};
  CHECK(pumice_adapter_combine(list, scales, 0, &both, &error) == PUMICE_INVALID_ARGUMENT);
  const pumice_adapter* mixed[] = {first.get(), foreign.get()};
  CHECK(pumice_adapter_combine(mixed, scales, 2, &both, &error) == PUMICE_INVALID_ARGUMENT);
  const pumice_adapter* nothing[] = {first.get(), nullptr};
  CHECK(pumice_adapter_combine(nothing, scales, 2, &both, &error) == PUMICE_INVALID_ARGUMENT);
  require_ok(pumice_adapter_combine(list, scales, 2, &both, &error), error);
  const AdapterHandle sum(both);
  options.adapters = 1;
  const SessionHandle together = make_session(model.get(), options);
  const Story story = generated_story(together.get(), request_for(sum.get(), 0));
  CHECK(story.tokens.size() == 12);
  CHECK(story != generated_story(together.get(), request_for(first.get(), 0)));
}

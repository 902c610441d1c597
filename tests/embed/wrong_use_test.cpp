// What a program can do wrong: each is a status with a sentence that names it, and changes nothing.
#include <cmath>
#include <cstddef>
#include <functional>
#include <limits>

#include "support/command/chats.h"
#include "support/embedding.h"

namespace {

constexpr const char* prompt = "Once upon a time there was a little girl named Lily. She loved to";
constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN();
constexpr float infinite = std::numeric_limits<float>::infinity();

// A later version may put a field after the last one: an older program must not have set it by accident.
template <class Structure, class Field>
constexpr bool ends_with(size_t offset, Field Structure::*) {
  return offset + sizeof(Field) == sizeof(Structure);
}
#define ENDS_WITH(structure, field)                                                                          \
  static_assert(ends_with(offsetof(structure, field), &structure::field), "padding at the end "              \
                                                                          "of " #structure)
ENDS_WITH(pumice_vulkan, has_copy_queue);
ENDS_WITH(pumice_submission, queue_family);
ENDS_WITH(pumice_allocator, map);
ENDS_WITH(pumice_device_options, tuning_bytes);
ENDS_WITH(pumice_source, part_count);
ENDS_WITH(pumice_load_options, budget_bytes);
ENDS_WITH(pumice_session_options, reserved);
ENDS_WITH(pumice_sampling, samplers);
ENDS_WITH(pumice_form, grammar);
ENDS_WITH(pumice_request, reserved);
ENDS_WITH(pumice_chat_options, thinking_marks);
ENDS_WITH(pumice_message, sound_count);
ENDS_WITH(pumice_picture, reserved);
ENDS_WITH(pumice_sound, reserved);
ENDS_WITH(pumice_vulkan_image, array_layer);
ENDS_WITH(pumice_sync, reserved);
ENDS_WITH(pumice_encoder_options, output_buffer);
ENDS_WITH(pumice_input, reserved);
ENDS_WITH(pumice_writing_options, sampling);
ENDS_WITH(pumice_translator_options, writing);
ENDS_WITH(pumice_captioner_options, form);
ENDS_WITH(pumice_transcriber_options, form);
ENDS_WITH(pumice_speaker_options, reserved);
ENDS_WITH(pumice_batch_options, cache_tokens);
ENDS_WITH(pumice_embedder_options, reserved);
ENDS_WITH(pumice_reranker_options, reserved);
ENDS_WITH(pumice_classifier_options, reserved);
ENDS_WITH(pumice_tagger_options, batch_tokens);
ENDS_WITH(pumice_answerer_options, batch_tokens);
ENDS_WITH(pumice_filler_options, reserved);
ENDS_WITH(pumice_index_options, reserved);
ENDS_WITH(pumice_creation_options, reserved);
ENDS_WITH(pumice_created, speaker);
ENDS_WITH(pumice_tune_options, reserved);
static_assert(sizeof(pumice_error) == 1024);

struct Player {
  DeviceHandle device = make_device();
  ModelHandle model = load(device.get());
  SessionHandle session = [this] {
    pumice_session_options options = {sizeof options};
    options.context = 64;
    options.chunk = 16;
    return make_session(model.get(), options);
  }();

  // What a request says when it is refused with this status; else "".
  std::string refused(const pumice_request& request, pumice_status expected = PUMICE_INVALID_ARGUMENT) const {
    pumice_error error;
    const pumice_status status = pumice_session_generate(session.get(), &request, &error);
    CHECK(error.status == status);
    return status == expected ? error.message : "";
  }
};

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

} // namespace

TEST_CASE("sampling values out of their range are named") {
  const Player player;
  const Story expected = tell(player.session.get(), prompt, 12);
  begin(player.session.get(), prompt, 12);
  const uint32_t out = 1u << 20, in = 5;
  const std::vector<uint32_t> many = [] {
    std::vector<uint32_t> tokens(1025);
    for (uint32_t i = 0; i < tokens.size(); ++i) tokens[i] = i;
    return tokens;
  }();
  const pumice_logit_bias no_number = {5, not_a_number}, no_token = {out, 1};
  struct Wrong {
    const char* names;
    std::function<void(pumice_sampling&)> set;
  };
  const Wrong wrongs[] = {
      {"temperature is -1", [](auto& s) { s.temperature = -1; }},
      {"temperature is nan", [](auto& s) { s.temperature = not_a_number; }},
      {"temperature is inf", [](auto& s) { s.temperature = infinite; }},
      {"top_p is 2", [](auto& s) { s.top_p = 2; }},
      {"top_p is nan", [](auto& s) { s.top_p = not_a_number; }},
      {"min_p is -0.5", [](auto& s) { s.min_p = -0.5f; }},
      {"typical_p is 1.5", [](auto& s) { s.typical_p = 1.5f; }},
      {"top_k is 4294967295", [](auto& s) { s.top_k = UINT32_MAX; }},
      {"repeat_penalty is -3", [](auto& s) { s.repeat_penalty = -3; }},
      {"frequency_penalty is 101", [](auto& s) { s.frequency_penalty = 101; }},
      {"presence_penalty is nan", [](auto& s) { s.presence_penalty = not_a_number; }},
      {"repeat_window is 4097", [](auto& s) { s.repeat_window = 4097; }},
      {"mirostat 1 is not supported", [](auto& s) { s.mirostat = 1; }},
      {"mirostat is 3", [](auto& s) { s.mirostat = 3; }},
      {"xtc_threshold is 2", [](auto& s) { s.xtc_threshold = 2; }},
      {"dry_allowed_length is 257", [](auto& s) { s.dry_allowed_length = 257; }},
      {"dry_sequence_breakers is NULL, and its count is 3",
       [](auto& s) { s.dry_multiplier = 1, s.dry_sequence_breaker_count = 3; }},
      {"no token contains",
       [](auto& s) {
         static const char* const breaker = "a breaker that is long";
         s.dry_multiplier = 1, s.dry_sequence_breakers = &breaker, s.dry_sequence_breaker_count = 1;
       }},
      {"samplers: there is no sampler 'top_q'", [](auto& s) { s.samplers = "top_k;top_q"; }},
      {"samplers: 'dry' comes after others", [](auto& s) { s.samplers = "temperature;dry"; }},
      {"log_probabilities is 65", [](auto& s) { s.log_probabilities = 65; }},
      {"stop_tokens is NULL, and its count is 3", [](auto& s) { s.stop_token_count = 3; }},
      {"banned_tokens is NULL, and its count is 3", [](auto& s) { s.banned_token_count = 3; }},
      {"logit_biases is NULL, and its count is 3", [](auto& s) { s.logit_bias_count = 3; }},
      {"stop_tokens[0] is 1048576", [&](auto& s) { s.stop_tokens = &out, s.stop_token_count = 1; }},
      {"banned_tokens[0] is 1048576", [&](auto& s) { s.banned_tokens = &out, s.banned_token_count = 1; }},
      {"logit_biases[0].token is 1048576",
       [&](auto& s) { s.logit_biases = &no_token, s.logit_bias_count = 1; }},
      {"logit_biases[0].bias is not a number",
       [&](auto& s) { s.logit_biases = &no_number, s.logit_bias_count = 1; }},
      {"count of request.sampling->stop_tokens is 18446744073709551615",
       [&](auto& s) { s.stop_tokens = &in, s.stop_token_count = SIZE_MAX; }},
      {"the model's own", [&](auto& s) { s.stop_tokens = many.data() + 10, s.stop_token_count = 16; }},
      {"more than 1024", [&](auto& s) { s.banned_tokens = many.data(), s.banned_token_count = many.size(); }},
      {"request.sampling.struct_size is 0", [](auto& s) { s.struct_size = 0; }},
      {"newer than the library", [](auto& s) { s.struct_size = sizeof s + 8; }},
  };
  for (const Wrong& wrong : wrongs) {
    CAPTURE(wrong.names);
    pumice_sampling sampling = {sizeof sampling};
    wrong.set(sampling);
    pumice_request request = {sizeof request};
    request.text = prompt;
    request.sampling = &sampling;
    const std::string message = player.refused(request);
    CAPTURE(message);
    CHECK(contains(message, wrong.names));
  }
  // What is at a limit is allowed.
  pumice_sampling most = {sizeof most};
  most.temperature = 1000;
  most.top_p = most.min_p = most.typical_p = 1;
  most.repeat_window = 4096;
  most.stop_tokens = many.data() + 10;
  most.stop_token_count = 15; // the model has one of its own
  most.banned_tokens = many.data();
  most.banned_token_count = 1024;
  most.log_probabilities = 64;
  CHECK(tell(player.session.get(), prompt, 3, &most).tokens.size() <= 3);
  CHECK(tell(player.session.get(), prompt, 12) == expected);
}

TEST_CASE("requests that make no sense are named") {
  const Player player;
  const uint32_t in = 5, out = 1u << 20;
  const char* const none = nullptr;
  const char* const empty = "";
  struct Wrong {
    const char* names;
    std::function<void(pumice_request&)> set;
  };
  const Wrong wrongs[] = {
      {"the conversation is empty", [](auto&) {}},
      {"request.tokens is NULL, and its count is 4", [](auto& r) { r.token_count = 4; }},
      {"the count of request.tokens is 18446744073709551615",
       [&](auto& r) { r.tokens = &in, r.token_count = SIZE_MAX; }},
      {"request.tokens[0] is 1048576", [&](auto& r) { r.tokens = &out, r.token_count = 1; }},
      {"request.stops is NULL", [](auto& r) { r.text = "a", r.stop_count = 1; }},
      {"request.stops[0] is NULL", [&](auto& r) { r.text = "a", r.stops = &none, r.stop_count = 1; }},
      {"request.stops[0] is empty", [&](auto& r) { r.text = "a", r.stops = &empty, r.stop_count = 1; }},
      {"request.stop_count is 65", [&](auto& r) { r.text = "a", r.stops = &empty, r.stop_count = 65; }},
  };
  for (const Wrong& wrong : wrongs) {
    CAPTURE(wrong.names);
    pumice_request request = {sizeof request};
    wrong.set(request);
    const std::string message = player.refused(request);
    CAPTURE(message);
    CHECK(contains(message, wrong.names));
  }
  pumice_request request = {sizeof request};
  request.tokens = &in;
  request.token_count = 64;
  CHECK(contains(player.refused(request, PUMICE_CONTEXT_FULL), "has room for 63 more"));
}

TEST_CASE("nulls, counts and sizes are named as the program knows them") {
  const Player player;
  pumice_error error;
  const auto says = [&](pumice_status status, const char* words) {
    CAPTURE(error.message);
    CHECK(status == PUMICE_INVALID_ARGUMENT);
    CHECK(contains(error.message, words));
  };
  pumice_model* model = nullptr;
  pumice_session* session = nullptr;
  size_t count = 0;
  uint32_t token = 5;
  char text[8];
  says(pumice_model_load(player.device.get(), nullptr, nullptr, &model, &error), "source is NULL");
  says(pumice_model_detokenize(player.model.get(), nullptr, 3, text, 8, &count, &error),
       "tokens is NULL, and its count is 3");
  says(pumice_model_detokenize(player.model.get(), &token, SIZE_MAX, text, 8, &count, &error),
       "no memory holds");
  const uint32_t beyond = UINT32_C(1) << 31;
  says(pumice_model_detokenize(player.model.get(), &beyond, 1, text, 8, &count, &error),
       "tokens[0] is 2147483648");
  says(pumice_model_tokenize(player.model.get(), "a", 4, &token, 1, &count, &error), "flags is 4");
  says(pumice_model_tokenize(player.model.get(), nullptr, 0, &token, 1, &count, &error), "text is NULL");
  says(pumice_model_role_tokens(player.model.get(), static_cast<pumice_token_role>(99), &token, 1, &count,
                                &error),
       "role is 99");
  says(pumice_model_token_name(player.model.get(), 1u << 20, nullptr, text, 8, &count, &error),
       "token is 1048576");
  says(pumice_session_create(nullptr, nullptr, &session, &error), "model is NULL");
  pumice_session_options options = {sizeof options};
  options.context = 1;
  says(pumice_session_create(player.model.get(), &options, &session, &error), "context is 1");
  options.context = 2;
  CHECK(pumice_session_create(player.model.get(), &options, &session, &error) == PUMICE_OK);
  CHECK(tell(session, "", 0).finish_reason == PUMICE_FINISH_CONTEXT);
  pumice_session_destroy(session);
  options.cache = static_cast<pumice_cache_type>(-3);
  says(pumice_session_create(player.model.get(), &options, &session, &error), "cache is -3");
  says(pumice_work_advance(pumice_session_work(player.session.get()), not_a_number, nullptr, nullptr, &error),
       "budget_us is nan");
  pumice_sync sync = {sizeof sync};
  sync.wait_count = 2;
  says(pumice_work_advance(pumice_session_work(player.session.get()), 100, &sync, nullptr, &error),
       "sync.wait is NULL");
  pumice_memory_report report = {};
  says(pumice_device_memory(player.device.get(), &report, &error), "report.struct_size is 0");
}

TEST_CASE("a structure of an older header does without the fields that came later") {
  const Player player;
  const Story expected = tell(player.session.get(), prompt, 8);
  pumice_request request = {offsetof(pumice_request, stops)};
  request.text = prompt;
  request.new_conversation = true;
  request.max_tokens = 8;
  request.stop_count = 3; // outside of what it says it has
  pumice_error error;
  require_ok(pumice_session_generate(player.session.get(), &request, &error), error);
  require_ok(pumice_session_run(player.session.get(), &error), error);
  Story story;
  take_events(player.session.get(), story);
  CHECK(story == expected);
}

TEST_CASE("an empty request, nothing to run, an early cancel and a full context") {
  const Player player;
  pumice_session* session = player.session.get();
  pumice_error error;
  CHECK(pumice_session_run(session, &error) == PUMICE_OK);
  CHECK(pumice_session_poll(session) == nullptr);

  pumice_work_cancel(pumice_session_work(session));
  CHECK(pumice_session_run(session, &error) == PUMICE_OK);
  pumice_work_cancel(pumice_session_work(session)); // what is asked for after it is not concerned
  Story whole = tell(session, prompt, 0);
  CHECK(whole.finish_reason == PUMICE_FINISH_CONTEXT);
  CHECK(pumice_session_run(session, &error) == PUMICE_OK);
  CHECK(pumice_session_poll(session) == nullptr);

  pumice_request request = {sizeof request};
  CHECK(contains(player.refused(request, PUMICE_CONTEXT_FULL), "context"));
  CHECK(std::string(pumice_status_name(PUMICE_CONTEXT_FULL)) == "context full");
  request.text = "and";
  CHECK(contains(player.refused(request, PUMICE_CONTEXT_FULL), "context"));
  request.text = nullptr;
  request.new_conversation = true;
  CHECK(contains(player.refused(request), "the conversation is empty"));
  CHECK(tokens_of(session).size() == 64); // what was refused has changed nothing
}

namespace {

// Calls everything from within on_event.
struct Caller {
  pumice_session* session = nullptr;
  pumice_model* model = nullptr;
  size_t tokens = 0;
  std::string text;
  bool destroys = false;

  static void hear(void* user, const pumice_event* event) {
    auto& self = *static_cast<Caller*>(user);
    self.text += event->text;
    pumice_error error;
    pumice_slice slice = {sizeof slice};
    pumice_request request = {sizeof request};
    request.text = "Another story";
    request.new_conversation = true;
    const auto refuses = [&](pumice_status status) {
      CHECK(status == PUMICE_NOT_READY);
      CHECK(contains(error.message, "on_event"));
    };
    refuses(pumice_session_generate(self.session, &request, &error));
    refuses(pumice_session_run(self.session, &error));
    refuses(pumice_work_advance(pumice_session_work(self.session), 100, nullptr, &slice, &error));
    refuses(pumice_work_discard(pumice_session_work(self.session), &error));
    refuses(pumice_session_save(self.session, "session", &error));
    refuses(pumice_session_restore(self.session, "session", &error));
    refuses(pumice_session_suspend(self.session, &error));
    refuses(pumice_session_resume(self.session, self.model, &error));
    CHECK(pumice_session_tokens(self.session, nullptr, 0, &self.tokens, &error) == PUMICE_OK);
    CHECK(pumice_session_poll(self.session) == nullptr);
    if (self.destroys) pumice_session_destroy(self.session);
  }
};

} // namespace

TEST_CASE("calls from within on_event change nothing") {
  const Player player;
  const Story expected = tell(player.session.get(), prompt, 12);
  Caller caller;
  pumice_session_options options = {sizeof options};
  options.on_event = Caller::hear;
  options.user = &caller;
  options.context = 64;
  options.chunk = 16;
  SessionHandle session = make_session(player.model.get(), options);
  caller.session = session.get();
  caller.model = player.model.get();
  tell(session.get(), prompt, 12);
  CHECK(caller.text == expected.text);
  CHECK(caller.tokens > 12);

  caller.text.clear();
  caller.destroys = true;
  begin(session.get(), prompt, 12);
  pumice_error error;
  CHECK(pumice_session_run(session.release(), &error) == PUMICE_CANCELLED);
  CHECK(caller.text.size() < expected.text.size());
}

namespace {

// Creates something, and destroys it again if that worked. A size that is too large is no defect of Pumice's.
template <class Handle, class Options>
void try_to_create(pumice_status (*create)(pumice_model*, const Options*, Handle**, pumice_error*),
                   void (*destroy)(Handle*), pumice_model* model, const Options& options) {
  Handle* made = nullptr;
  pumice_error error;
  const pumice_status status = create(model, &options, &made, &error);
  CAPTURE(error.message);
  CHECK((made != nullptr) == (status == PUMICE_OK));
  const bool expected = status == PUMICE_OK || status == PUMICE_INVALID_ARGUMENT ||
                        status == PUMICE_UNSUPPORTED || status == PUMICE_OUT_OF_MEMORY;
  CHECK(expected);
  CHECK((status == PUMICE_OK) == (error.message[0] == 0));
  destroy(made);
}

} // namespace

TEST_CASE("the largest sizes are refused, or do no harm") {
  pumice_device_options limited = {sizeof limited};
  limited.memory_limit = 256u << 20; // the machine's memory is not what is tested
  const DeviceHandle device = make_device(limited);
  const ModelHandle model = load(device.get());
  for (const uint32_t largest : {UINT32_MAX, uint32_t{INT32_MAX}}) {
    CAPTURE(largest);
    pumice_session_options session = {sizeof session};
    session.context = largest;
    try_to_create(pumice_session_create, pumice_session_destroy, model.get(), session);
    session.context = 64;
    session.chunk = largest;
    try_to_create(pumice_session_create, pumice_session_destroy, model.get(), session);
    session.chunk = 16;
    session.threads = largest;
    try_to_create(pumice_session_create, pumice_session_destroy, model.get(), session);
    pumice_batch_options batch = {sizeof batch};
    batch.texts = largest;
    try_to_create(pumice_batch_create, pumice_batch_destroy, model.get(), batch);
    batch.chunk = largest;
    try_to_create(pumice_batch_create, pumice_batch_destroy, model.get(), batch);
  }
  const ModelHandle translating = load(device.get(), dates);
  for (const uint32_t largest : {UINT32_MAX, uint32_t{INT32_MAX}}) {
    CAPTURE(largest);
    pumice_writing_options writing = {sizeof writing};
    pumice_translator_options translator = {sizeof translator};
    translator.writing = &writing;
    for (uint32_t pumice_writing_options::*field :
         {&pumice_writing_options::beams, &pumice_writing_options::n_best,
          &pumice_writing_options::no_repeat_ngram, &pumice_writing_options::max_tokens,
          &pumice_writing_options::inputs}) {
      writing.*field = largest;
      try_to_create(pumice_translator_create, pumice_translator_destroy, translating.get(), translator);
      writing.*field = 1;
    }
    translator.input_tokens = largest;
    try_to_create(pumice_translator_create, pumice_translator_destroy, translating.get(), translator);
  }
}

TEST_CASE("handles that were destroyed or are of another kind are told apart, and destroyed once") {
  Player player;
  pumice_error error;
  const auto says = [&](pumice_status status, const char* name) {
    return status == PUMICE_INVALID_ARGUMENT && contains(error.message, std::string(name) + " is no handle");
  };
  pumice_session* const session = player.session.release();
  pumice_work* const work = pumice_session_work(session);
  const auto as_session = [](auto* handle) { return reinterpret_cast<pumice_session*>(handle); };
  CHECK(says(pumice_session_run(as_session(player.model.get()), &error), "session"));
  CHECK(says(pumice_session_suspend(as_session(player.device.get()), &error), "session"));
  CHECK(pumice_session_poll(as_session(player.model.get())) == nullptr);
  begin(session, prompt, 4);
  pumice_session_destroy(session);
  pumice_session_destroy(session);
  CHECK(says(pumice_session_run(session, &error), "session"));
  CHECK(says(pumice_work_advance(work, 100, nullptr, nullptr, &error), "work"));
  CHECK(pumice_session_work(session) == nullptr);
  pumice_work_cancel(work);

  ChatHandle chat = make_chat(player.model.get(), "{{ messages }}");
  pumice_chat* const dead = chat.get();
  chat.reset();
  pumice_chat_destroy(dead);
  CHECK(pumice_chat_count(dead) == 0);
  const SessionHandle other = make_session(player.model.get());
  pumice_request request = {sizeof request};
  request.chat = dead;
  CHECK(says(pumice_session_generate(other.get(), &request, &error), "request.chat"));

  pumice_model* const model = player.model.release();
  pumice_model_destroy(model);
  pumice_model_destroy(model);
  pumice_session* made = nullptr;
  CHECK(says(pumice_session_create(model, nullptr, &made, &error), "model"));
  pumice_device* const device = player.device.release();
  pumice_device_destroy(device);
  pumice_device_destroy(device);
  CHECK(pumice_device_name(device) == std::string());
  // What was made of them goes on.
  begin(other.get(), prompt, 4);
  require_ok(pumice_session_run(other.get(), &error), error);
}

TEST_CASE("every function takes nulls") {
  pumice_error error;
  const auto invalid = [&](pumice_status status) {
    CHECK(status == PUMICE_INVALID_ARGUMENT);
    CHECK(error.status == status);
    CHECK(contains(error.message, " is NULL"));
    error = {};
  };
  invalid(pumice_features_create(nullptr, nullptr, nullptr, nullptr, nullptr, &error));
  invalid(pumice_device_create(nullptr, nullptr, &error));
  invalid(pumice_device_vulkan(nullptr, nullptr, &error));
  invalid(pumice_device_memory(nullptr, nullptr, &error));
  invalid(pumice_model_load(nullptr, nullptr, nullptr, nullptr, &error));
  invalid(pumice_load_start(nullptr, nullptr, nullptr, nullptr, &error));
  invalid(pumice_load_finish(nullptr, nullptr, &error));
  invalid(pumice_model_get_info(nullptr, nullptr, &error));
  invalid(pumice_model_tokenize(nullptr, nullptr, 0, nullptr, 0, nullptr, &error));
  invalid(pumice_model_detokenize(nullptr, nullptr, 0, nullptr, 0, nullptr, &error));
  invalid(pumice_model_role_tokens(nullptr, PUMICE_ROLE_END, nullptr, 0, nullptr, &error));
  invalid(pumice_model_find_token(nullptr, nullptr, nullptr, &error));
  invalid(pumice_model_token_name(nullptr, 0, nullptr, nullptr, 0, nullptr, &error));
  invalid(pumice_session_estimate_memory(nullptr, nullptr, nullptr, nullptr, nullptr, &error));
  invalid(pumice_session_create(nullptr, nullptr, nullptr, &error));
  invalid(pumice_session_creation_start(nullptr, nullptr, nullptr, &error));
  invalid(pumice_session_creation_finish(nullptr, nullptr, &error));
  invalid(pumice_session_fork(nullptr, nullptr, nullptr, &error));
  invalid(pumice_session_generate(nullptr, nullptr, &error));
  invalid(pumice_session_run(nullptr, &error));
  invalid(pumice_session_tokens(nullptr, nullptr, 0, nullptr, &error));
  invalid(pumice_session_save(nullptr, nullptr, &error));
  invalid(pumice_session_restore(nullptr, nullptr, &error));
  invalid(pumice_session_write(nullptr, nullptr, nullptr, &error));
  invalid(pumice_session_read(nullptr, nullptr, 0, &error));
  invalid(pumice_session_suspend(nullptr, &error));
  invalid(pumice_session_resume(nullptr, nullptr, &error));
  invalid(pumice_batch_create(nullptr, nullptr, nullptr, &error));
  invalid(pumice_batch_creation_start(nullptr, nullptr, nullptr, &error));
  invalid(pumice_batch_creation_finish(nullptr, nullptr, &error));
  invalid(pumice_batch_add(nullptr, nullptr, nullptr, &error));
  invalid(pumice_batch_fork(nullptr, nullptr, nullptr, nullptr, &error));
  invalid(pumice_batch_tokens(nullptr, 0, nullptr, 0, nullptr, &error));
  invalid(pumice_batch_save(nullptr, 0, nullptr, &error));
  invalid(pumice_batch_write(nullptr, 0, nullptr, nullptr, &error));
  invalid(pumice_batch_restore(nullptr, nullptr, nullptr, nullptr, &error));
  invalid(pumice_batch_read(nullptr, nullptr, 0, nullptr, nullptr, &error));
  invalid(pumice_batch_drop(nullptr, 0, &error));
  invalid(pumice_batch_step(nullptr, nullptr, &error));
  invalid(pumice_batch_estimate_memory(nullptr, nullptr, nullptr, nullptr, nullptr, &error));
  invalid(pumice_encoder_create(nullptr, nullptr, nullptr, &error));
  invalid(pumice_encoder_encode(nullptr, nullptr, 0, nullptr, 0, nullptr, &error));
  invalid(pumice_encoder_begin(nullptr, nullptr, 0, &error));
  invalid(pumice_encoder_read(nullptr, nullptr, 0, nullptr, &error));
  invalid(pumice_embedder_create(nullptr, nullptr, nullptr, &error));
  invalid(pumice_embedder_embed(nullptr, nullptr, 0, nullptr, nullptr, &error));
  invalid(pumice_embedder_embed_pictures(nullptr, nullptr, 0, nullptr, &error));
  invalid(pumice_embedder_begin(nullptr, nullptr, 0, nullptr, &error));
  invalid(pumice_embedder_read(nullptr, nullptr, 0, nullptr, &error));
  invalid(pumice_reranker_create(nullptr, nullptr, nullptr, &error));
  invalid(pumice_reranker_score(nullptr, nullptr, nullptr, 0, nullptr, nullptr, &error));
  invalid(pumice_classifier_create(nullptr, nullptr, nullptr, &error));
  invalid(pumice_classifier_classify(nullptr, nullptr, 0, nullptr, nullptr, &error));
  invalid(pumice_classifier_classify_pictures(nullptr, nullptr, 0, nullptr, &error));
  invalid(pumice_tagger_create(nullptr, nullptr, nullptr, &error));
  invalid(pumice_tagger_tag(nullptr, nullptr, 0, nullptr, nullptr, &error));
  invalid(pumice_answerer_create(nullptr, nullptr, nullptr, &error));
  invalid(pumice_answerer_answer(nullptr, nullptr, nullptr, 0, nullptr, nullptr, &error));
  invalid(pumice_filler_create(nullptr, nullptr, nullptr, &error));
  invalid(pumice_filler_fill(nullptr, nullptr, 0, nullptr, nullptr, nullptr, &error));
  invalid(pumice_index_create(nullptr, nullptr, nullptr, &error));
  invalid(pumice_index_update(nullptr, nullptr, nullptr, &error));
  invalid(pumice_index_search(nullptr, nullptr, 0, nullptr, nullptr, &error));
  invalid(pumice_translator_create(nullptr, nullptr, nullptr, &error));
  invalid(pumice_translator_translate(nullptr, nullptr, 0, &error));
  invalid(pumice_translator_result(nullptr, 0, nullptr, &error));
  invalid(pumice_translator_begin(nullptr, nullptr, 0, &error));
  invalid(pumice_captioner_create(nullptr, nullptr, nullptr, &error));
  invalid(pumice_captioner_caption(nullptr, nullptr, 0, &error));
  invalid(pumice_captioner_result(nullptr, 0, nullptr, nullptr, &error));
  invalid(pumice_captioner_begin(nullptr, nullptr, 0, &error));
  invalid(pumice_transcriber_create(nullptr, nullptr, nullptr, &error));
  invalid(pumice_transcriber_transcribe(nullptr, nullptr, 0, 0, nullptr, nullptr, &error));
  invalid(pumice_transcriber_detect(nullptr, nullptr, 0, 0, &error));
  invalid(pumice_transcriber_begin(nullptr, nullptr, 0, 0, nullptr, nullptr, &error));
  invalid(pumice_speaker_create(nullptr, nullptr, nullptr, &error));
  invalid(pumice_speaker_speak(nullptr, nullptr, nullptr, nullptr, &error));
  invalid(pumice_speaker_begin(nullptr, nullptr, nullptr, nullptr, &error));
  invalid(pumice_creation_start(nullptr, nullptr, nullptr, &error));
  invalid(pumice_creation_finish(nullptr, nullptr, &error));
  invalid(pumice_work_advance(nullptr, 1, nullptr, nullptr, &error));
  invalid(pumice_work_record(nullptr, nullptr, 1, nullptr, &error));
  invalid(pumice_work_discard(nullptr, &error));

  CHECK(pumice_session_work(nullptr) == nullptr);
  CHECK(pumice_batch_work(nullptr) == nullptr);
  CHECK(pumice_encoder_work(nullptr) == nullptr);
  CHECK(pumice_embedder_work(nullptr) == nullptr);
  CHECK(pumice_translator_work(nullptr) == nullptr);
  CHECK(pumice_transcriber_work(nullptr) == nullptr);
  CHECK(pumice_speaker_work(nullptr) == nullptr);
  CHECK(pumice_speaker_rate(nullptr) == 0);
  CHECK(pumice_speaker_finish_reason(nullptr) == PUMICE_FINISH_NONE);
  CHECK(pumice_tune_work(nullptr) == nullptr);
  CHECK(pumice_features_chain(nullptr) == nullptr);
  CHECK(pumice_features_extensions(nullptr, nullptr) == nullptr);
  CHECK(std::string(pumice_device_name(nullptr)).empty());
  CHECK(pumice_encoder_columns(nullptr) == 0);
  CHECK(pumice_session_poll(nullptr) == nullptr);
  CHECK(pumice_batch_poll(nullptr) == nullptr);
  CHECK(pumice_load_poll(nullptr, nullptr, nullptr));
  CHECK(pumice_session_creation_poll(nullptr, nullptr, nullptr));
  CHECK(pumice_batch_creation_poll(nullptr, nullptr, nullptr));
  CHECK(pumice_creation_poll(nullptr, nullptr, nullptr));
  pumice_load_cancel(nullptr);
  pumice_session_creation_cancel(nullptr);
  pumice_batch_creation_cancel(nullptr);
  pumice_creation_cancel(nullptr);
  pumice_work_cancel(nullptr);
  pumice_features_destroy(nullptr);
  pumice_device_destroy(nullptr);
  pumice_model_destroy(nullptr);
  pumice_load_destroy(nullptr);
  pumice_session_destroy(nullptr);
  pumice_session_creation_destroy(nullptr);
  pumice_batch_destroy(nullptr);
  pumice_batch_creation_destroy(nullptr);
  pumice_creation_destroy(nullptr);
  pumice_encoder_destroy(nullptr);
  pumice_translator_destroy(nullptr);
  pumice_captioner_destroy(nullptr);
  pumice_transcriber_destroy(nullptr);
  pumice_speaker_destroy(nullptr);
  pumice_version(nullptr, nullptr, nullptr);
}

#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <nlohmann/json.hpp>

#include "form/form.h"
#include "io/fields.h"
#include "kernel/sampling/sampling.h"
#include "model/adapter.h"
#include "options/options.h"
#include "serve/http/error.h"
#include "serve/http/exchange.h"

namespace pumice::serve {

using Json = nlohmann::ordered_json;

class TextModel;

// invalid_argument that names a field.
Error bad_field(const std::string& field, const std::string& what);

// The object that a request is, and its fields.
class RequestBody {
public:
  static Result<RequestBody> read(const HttpRequest& request);
  explicit RequestBody(Json object);

  const Json& object() const { return object_; }
  // Those that are no lists of messages, prompts, inputs or tools.
  Fields fields() const { return Fields(settings_, request_name); }
  // A field; null if there is none.
  const Json& operator[](const char* field) const;
  bool has(const char* field) const { return !(*this)[field].is_null(); }
  Result<std::string> string_or(const char* field, const std::string& usual) const;
  Result<bool> boolean_or(const char* field, bool usual) const;
  // A text or a list of texts; neither: an empty list.
  Result<std::vector<std::string>> texts(const char* field) const;
  Error error(const std::string& field, const std::string& what) const;

private:
  Json object_;
  nlohmann::json settings_;
};

// How texts are to be continued, whichever interface asks.
struct TextWish {
  SamplingParams sampling;
  uint32_t max_tokens = UINT32_MAX;
  uint32_t count = 1; // texts; the seeds follow each other
  std::vector<std::string> stops;
  bool ignores_ends = false;         // goes on after the model's own end tokens
  std::vector<uint32_t> stop_tokens; // beside them
  FormSource form;
  AdapterChoice adapter;
  bool log_probabilities = false;
  uint32_t top = 0; // most probable tokens that are reported beside each
};

// Reads what OpenAI's interfaces call so, and the fields of `pumice generate --requests`.
Result<TextWish> read_wish(const RequestBody& body, TextModel& model);
Status read_stops(const RequestBody& body, const char* field, std::vector<std::string>& stops);
Status read_seed(const RequestBody& body, SamplingParams& sampling);
Status read_biases(const RequestBody& body, uint32_t vocabulary, SamplingParams& sampling);
// The form that OpenAI's "response_format" asks for.
Status read_response_format(const Json& format, const std::string& field, FormSource& form);

} // namespace pumice::serve

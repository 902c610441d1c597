#pragma once

#include <ctime>
#include <optional>
#include <string>

#include "base/result.h"
#include "text/chat/answer_marks.h"

namespace pumice {

// How a model writes a call. Its own template shows it: it writes one for the next prompt as the model wrote
// it. A call is
//   begin NAME middle ARGUMENTS end
// and where several may follow each other in one, `between` stands between the arguments and the next name.
struct WrittenCall {
  enum class Arguments {
    json,   // an object
    python, // (a="text", b=1)
    tags    // for each: before_name, its name, before_text or before_other, its value, after_value
  };
  Arguments arguments = Arguments::json;
  std::string begin, middle, end, between;
  std::string before_name, before_text, before_other, after_value; // of tags
  bool bare = false;                                               // no mark begins it: it begins an answer

  // unsupported, with a sentence: the template does not show calls, or in a way that is not known.
  static Result<WrittenCall> of(const ChatTemplate& chat_template, const AnswerMarks& marks,
                                const std::tm& now);

  // The text of a call; nothing for tags.
  std::optional<std::string> text(const std::string& name, const nlohmann::ordered_json& values) const;
};

// The next id of a call in a text that a template wrote with those that were looked for, with what belongs to
// it: [CALL_ID]a1b2c3d4e, or , "id": "a1b2c3d4e".
struct WrittenId {
  size_t begin = std::string::npos, end = 0;
  size_t value = 0, value_end = 0; // the id itself
};
WrittenId find_id(std::string_view text);

} // namespace pumice

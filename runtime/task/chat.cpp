#include "task/chat.h"

#include <algorithm>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "form/chat_form.h"
#include "model/vocabulary.h"
#include "text/chat/argument_types.h"
#include "text/unicode/unicode.h"

namespace pumice {

namespace {

using nlohmann::ordered_json;

constexpr const char* source = "the prompt that the chat template makes";

} // namespace

Result<ModelChat> ModelChat::open(const ModelFile& file, const ModelShape& shape, ChatTemplate chosen,
                                  std::shared_ptr<const Tokenizer> tokenizer,
                                  const ModelChatOptions& options) {
  PUMICE_TRY(ChatMedia media, ChatMedia::open(file, shape, options.most_patches));
  std::vector<uint32_t> ends = end_tokens(file, tokenizer.get());
  return ModelChat(Chat(std::move(chosen), std::move(tokenizer), std::move(ends), options.now),
                   std::move(media), shape.pictures, file.path(), options.other_template);
}

bool ModelChat::Prompt::encoded() const {
  return std::ranges::all_of(media, [](const auto& each) { return each->encoded(); });
}

Result<ModelChat::Prompt> ModelChat::prompt(std::string begun) const {
  Prompt made;
  PUMICE_TRY(made.text, chat_.prompt(media_.places(messages()), std::move(begun)));
  made.tokens = made.text.ids.size();
  if (!shape_) return made;
  PUMICE_TRY(made.media, media_.shown_by(messages()));
  if (!made.media.empty() && std::ranges::count(made.text.ids, shape_->token) == 0) {
    return Error{Code::invalid_argument,
                 fmt::format("{}: its chat template writes no token {} for a picture, which is where this "
                             "model sees it: {}",
                             model_, shape_->token, other_template_)};
  }
  PUMICE_TRY(made.tokens, length_with_pictures(*shape_, made.text.ids, grids_of(made.media), source));
  return made;
}

Result<TextForm> ModelChat::form_of_answer(const AnswerOptions& options, const Prompt& prompt,
                                           LazyFormVocabulary& forms) {
  const ordered_json tools = chat_.tools();
  const bool usual = options.tool_choice == "auto" && !has_form(options.form);
  if (usual && text::names_of_tools(tools).empty()) return TextForm();
  const std::string_view rendered = text::trimmed(prompt.text.rendered());
  constexpr size_t most_end = 200; // of a prompt: what may have begun the answer
  const ordered_json key = {
      options.tool_choice,  options.form.choices,
      options.form.regex,   options.form.json_schema,
      options.form.grammar, tools,
      chat_.may_think(),    rendered.substr(rendered.size() - std::min(rendered.size(), most_end))};
  const std::string spelled = key.dump(-1, ' ', false, ordered_json::error_handler_t::replace);
  if (!form_ || form_->key != spelled) {
    std::vector<std::string> notes;
    Result<form::Grammar> grammar =
        chat_grammar({chat_.marks(), chat_.written_call(), *chat_.tokenizer(), prompt.text.rendered(),
                      chat_.may_think(), tools, options.tool_choice, options.form, chat_.ends()},
                     notes);
    Result<std::shared_ptr<Form>> made =
        grammar.ok() ? Form::create(*grammar, forms.get()) : Result<std::shared_ptr<Form>>(grammar.error());
    if (!made.ok() && !usual) return made.error();
    form_ = {spelled, made.ok() ? *made : nullptr};
  }
  if (!form_->form) return TextForm();
  TextForm result{form_->form, spelled_bytes(*chat_.tokenizer(), prompt.text.begun), usual};
  if (result.begun.empty()) return result;
  FormPlace place = result.form->start();
  PUMICE_TRY(const bool fits, result.form->accept(place, result.begun));
  if (fits) return result;
  if (usual) return TextForm();
  return Error{
      Code::invalid_argument,
      fmt::format("the answer is to begin with '{}', which does not fit its form", prompt.text.begun)};
}

Status ModelChat::check_calls() const {
  const ordered_json tools = chat_.tools();
  if (text::names_of_tools(tools).empty()) return Error{Code::not_found, "the chat has no tools"};
  std::vector<std::string> notes;
  const Result<form::Grammar> grammar =
      chat_grammar({chat_.marks(), chat_.written_call(), *chat_.tokenizer(), "<|start|>assistant",
                    chat_.may_think(), tools, "auto", FormSource(), chat_.ends()},
                   notes);
  if (!grammar.ok()) {
    return Error{grammar.error().code,
                 "calls of tools are not held to their schemas: " + grammar.error().message};
  }
  if (notes.empty()) return {};
  return Error{Code::unsupported, fmt::format("{}", fmt::join(notes, "; "))};
}

Result<PicturePrompt> ModelChat::with_rows(const Prompt& prompt) const {
  if (prompt.media.empty()) return PicturePrompt{prompt.text.ids, {}};
  std::vector<std::vector<float>> rows;
  for (const std::shared_ptr<MediumPart>& each : prompt.media) rows.push_back(each->rows);
  return with_pictures(*shape_, prompt.text.ids, rows, source, grids_of(prompt.media));
}

Result<ModelChat::Room> ModelChat::make_room(uint32_t context, uint32_t max_tokens,
                                             const std::string& begun) {
  Room room;
  PUMICE_TRY(room.prompt, prompt(begun));
  room.before = room.now = chat_.check_room(room.prompt.tokens, context, max_tokens);
  const bool full = !room.now.ok();
  while (full && (!room.now.ok() || room.prompt.tokens > context / 2)) {
    const size_t forgotten = chat_.forget_oldest_turn();
    if (forgotten == 0) break;
    room.forgotten += forgotten;
    PUMICE_TRY(room.prompt, prompt(begun));
    room.now = chat_.check_room(room.prompt.tokens, context, max_tokens);
  }
  return room;
}

ArrivingAnswer::ArrivingAnswer(const Chat& chat, const ChatPrompt& prompt, std::vector<std::string> stops)
    : answer_(chat, prompt), text_(chat.tokenizer(), true), stops_(std::move(stops)) {
  // The first token of a text may be spelled without the space before it: that of an answer that was begun is
  // not the first.
  constexpr size_t enough = 8; // for whole characters
  const std::vector<uint32_t>& ids = prompt.ids;
  for (size_t i = prompt.begun.empty() ? ids.size() : ids.size() - std::min(ids.size(), enough);
       i < ids.size(); ++i)
    (void)text_.push(ids[i]);
}

std::vector<AnswerPart> ArrivingAnswer::push(uint32_t token) {
  const std::string text = stops_.push(text_.push(token));
  if (stops_.found()) answer_.cut_text();
  return answer_.push(token, text);
}

std::vector<AnswerPart> ArrivingAnswer::finish() {
  std::string text = stops_.push(text_.flush());
  return answer_.finish(text + stops_.flush());
}

} // namespace pumice

#include "character.h"

#include <algorithm>
#include <cctype>
#include <set>

#include "wait.h"

namespace godot {

namespace {

// Its words of more than two letters, in small letters where they are ASCII's.
std::set<std::string> words_of(const std::string& text) {
  std::set<std::string> words;
  std::string word;
  for (const char letter : text + " ") {
    const auto byte = static_cast<unsigned char>(letter);
    if (byte >= 0x80 || std::isalnum(byte)) {
      word += byte < 0x80 ? static_cast<char>(std::tolower(byte)) : letter;
    } else {
      if (word.size() > 2) words.insert(word);
      word.clear();
    }
  }
  return words;
}

} // namespace

Character::Memory Character::memory() const {
  Memory memory;
  memory.texts = value("memories").texts();
  memory.heading = value("memory_heading").text();
  memory.count = static_cast<size_t>(std::max<int64_t>(0, value("recall_count").integer()));
  if (!memory.texts.empty() && value("memory_model").object())
    memory.model = Model::load(value("memory_model"));
  memory.budget_us = frame_budget(static_cast<float>(value("frame_budget_us").number()));
  return memory;
}

Chat::Settings Character::settings() {
  Memory now = memory();
  const std::lock_guard lock(memory_mutex_);
  memory_ = std::move(now);
  return Chat::settings();
}

std::string Character::system_message(const Settings& settings, const std::string& question) {
  Memory memory;
  {
    const std::lock_guard lock(memory_mutex_);
    memory = memory_;
  }
  std::string message = settings.system_prompt;
  const std::vector<std::string> recalled = best(memory, question, memory.count);
  if (recalled.empty()) return message;
  message += (message.empty() ? "" : "\n\n") + memory.heading;
  for (const std::string& text : recalled) message += "\n- " + text;
  return message;
}

std::vector<std::string> Character::best(const Memory& memory, const std::string& question, size_t count) {
  std::vector<std::string> texts(memory.texts.rbegin(), memory.texts.rend()); // the latest first
  count = std::min(count, texts.size());
  std::map<std::string, double> worth;
  if (count > 0 && memory.model.valid()) {
    Loaded loaded;
    std::vector<std::string> wanted = {question};
    for (const std::string& text : texts)
      if (!vectors_.count(text)) wanted.push_back(text);
    std::vector<std::vector<float>> vectors;
    std::string failure = wait_for(memory.model, leaving_, loaded);
    const Embedding::Frames frames = {slices_, memory.budget_us, leaving_};
    if (failure.empty()) failure = embedding_.embed(loaded.model.get(), "", wanted, frames, vectors);
    if (!failure.empty()) {
      if (!cancelled_) worker_.deliver([this, failure] { emit("failed", failure); });
    } else {
      for (size_t i = 1; i < wanted.size(); ++i) vectors_[wanted[i]] = vectors[i];
      for (const std::string& text : texts) worth[text] = cosine(vectors_[text], vectors[0]);
    }
  } else {
    const std::set<std::string> asked = words_of(question);
    for (const std::string& text : texts)
      for (const std::string& word : words_of(text)) worth[text] += asked.count(word) ? 1 : 0;
  }
  std::stable_sort(texts.begin(), texts.end(), [&](const std::string& left, const std::string& right) {
    return worth[left] > worth[right];
  });
  texts.resize(count);
  return texts;
}

void Character::recall(const std::string& question, size_t count) {
  worker_.post([this, question, count, now = memory()] {
    worker_.deliver([this, texts = best(now, question, count)] {
      const Variant list = Variant::empty(GDEXTENSION_VARIANT_TYPE_PACKED_STRING_ARRAY);
      for (const std::string& text : texts) list.append(text);
      emit("recalled", list);
    });
  });
}

std::unique_ptr<Class> Character::make_class(const Class& chat) {
  using Arguments = std::vector<Variant>;
  constexpr auto string = GDEXTENSION_VARIANT_TYPE_STRING, integer = GDEXTENSION_VARIANT_TYPE_INT,
                 strings = GDEXTENSION_VARIANT_TYPE_PACKED_STRING_ARRAY, none = GDEXTENSION_VARIANT_TYPE_NIL;
  auto made = std::make_unique<Class>();
  made->name = "PumiceCharacter";
  made->parent = chat.name;
  made->engine_parent = chat.engine_parent;
  made->base = &chat;
  made->make = [](const Class& of_class, GDExtensionObjectPtr object) {
    return std::make_unique<Character>(of_class, object);
  };
  made->properties = {
      {"memories", strings, Variant::empty(strings), 0, "", "Memory"},
      {"memory_model", GDEXTENSION_VARIANT_TYPE_OBJECT, Variant(), 17, "PumiceModel"},
      {"recall_count", integer, 3, 1, "0,20,1,or_greater"},
      {"memory_heading", string, "What you remember:"},
  };
  made->methods = {
      {"remember",
       {{"text", string}},
       none,
       [](Instance& self, const Arguments& given) {
         Variant memories = self.value("memories").call("duplicate");
         memories.append(given[0]);
         return self.set_value("memories", memories), Variant();
       }},
      {"recall",
       {{"question", string}, {"count", integer}},
       none,
       [](Instance& self, const Arguments& given) {
         return static_cast<Character&>(self).recall(
                    given[0].text(), static_cast<size_t>(std::max<int64_t>(0, given[1].integer()))),
                Variant();
       },
       {3}},
  };
  made->signals = {{"recalled", {{"memories", strings}}}};
  return made;
}

} // namespace godot

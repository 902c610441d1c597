// PumiceChat: a conversation with a model, whose answers come as signals.
#pragma once

#include <pumice/pumice.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "class.h"
#include "model.h"
#include "slices.h"
#include "worker.h"

namespace godot {

class Chat : public Instance {
public:
  Chat(const Class& of_class, GDExtensionObjectPtr object) : Instance(of_class, object) {}
  ~Chat() override { leave(); }
  static std::unique_ptr<Class> make_class();

  void notified(int32_t what) override;
  void changed(const std::string& property) override;
  void release() override;

protected:
  // The properties as they were when something was asked: what the worker may read.
  struct Settings {
    Loading model;
    std::string system_prompt, chat_template, schema, regex, grammar, tools, tool_choice, prefill;
    std::vector<std::string> choices, stops;
    pumice_sampling sampling{};
    uint32_t context = 0, max_tokens = 0;
    pumice_thinking thinking = PUMICE_THINKING_DEFAULT;
    float budget_us = 0;  // 0: as fast as it can, on the worker
    uint64_t session = 0; // of the settings that a session is made with
  };
  virtual Settings settings();
  // What the first message says, on the worker. `question` is the last message of the user.
  virtual std::string system_message(const Settings& settings, const std::string& question);
  // Before the members of a derived class go: nothing runs afterwards.
  void leave();

  Worker worker_;
  Slices slices_;
  std::atomic<bool> leaving_ = false;
  std::atomic<bool> cancelled_ = false; // since the answer under way began

private:
  struct Session {
    void operator()(pumice_session* session) const { pumice_session_destroy(session); }
  };
  struct Conversation {
    void operator()(pumice_chat* chat) const { pumice_chat_destroy(chat); }
  };

  struct Message {
    std::string role, content, members; // JSON of what else the template reads
  };
  void add(const Message& message);
  // Has the conversation answered, after a message if there is one.
  void answer(const std::vector<Message>& message, const std::vector<std::string>& choices = {});
  void set_messages(const Variant& messages);
  void cancel();
  void clear();
  bool is_answering() const { return answers_ > 0; }

  // On the worker. What can fail returns a sentence, which is empty where it has not.
  std::string prepare(const Settings& settings);
  std::string append(const Message& message);
  std::string generate(const Settings& settings);
  std::string say_first(const Settings& settings);
  void report(const std::string& failure);
  void take_snapshot();
  std::string messages() const;
  void on_event(const pumice_event& event);

  // Used by the worker; in slices, by the main thread.
  std::unique_ptr<pumice_session, Session> session_;
  std::unique_ptr<pumice_chat, Conversation> chat_;
  uint64_t made_for_ = 0;
  std::string made_tools_;
  std::string first_message_, question_, answer_;

  int answers_ = 0;      // asked for and not there yet
  std::string snapshot_; // the messages as JSON, for the main thread
  uint64_t version_ = 1; // of what a session is made with
};

} // namespace godot

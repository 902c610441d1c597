// Vulkan calls that fail while a chat is answered: the chat stays as it was, or the answer goes on.
#include "support/command/chats.h"
#include "support/command/program.h"
#include "support/vulkan/fault_phase.h"

namespace {

// A program that has one chat, over all devices that are lost.
struct Talk {
  FaultyProgram program{FaultyProgram::Owner::pumice, false};
  ChatHandle chat;
  std::string expected;

  Talk() {
    program.model_path = (pretrained_folder() / "chat-2m.gguf").string();
    program.open_all();
    chat = make_chat(program.model.get());
    pumice_error error;
    pumice_message message = {sizeof message};
    message.role = "user";
    message.content = "What is 2 plus 3?";
    require_ok(pumice_chat_add(chat.get(), &message, &error), error);
    require_ok(ask(&error), error);
    require_ok(program.run(&error), error);
    expected = answer();
    CHECK(expected == "2 plus 3 is 5.");
  }

  pumice_status ask(pumice_error* error) const {
    pumice_request request = {sizeof request};
    request.chat = chat.get();
    return pumice_session_generate(program.session.get(), &request, error);
  }

  // The answer, which is taken out of the chat again.
  std::string answer() {
    pumice_error error;
    std::string text;
    while (const pumice_event* event = pumice_session_poll(program.session.get())) {
      if (event->part == PUMICE_PART_CONTENT) text += event->text;
      CHECK(event->finish_reason != PUMICE_FINISH_CANCELLED);
    }
    CHECK(pumice_chat_count(chat.get()) == 2);
    require_ok(pumice_chat_remove(chat.get(), 1, 1, &error), error);
    return text;
  }

  FaultPhase answering(const char* name, pumice_status (FaultyProgram::*drive)(pumice_error*)) {
    FaultPhase phase{name, {}, {}, {}};
    phase.before = [this] {
      pumice_error error;
      require_ok(program.open_session(&error), error);
      require_ok(ask(&error), error);
    };
    phase.during = [this, drive](pumice_error* error) { return (program.*drive)(error); };
    phase.after = [this, drive](pumice_status status) {
      pumice_error error;
      program.recover(status);
      require_ok((program.*drive)(&error), error);
      CHECK(answer() == expected);
    };
    phase.most_calls = 4;
    return phase;
  }
};

} // namespace

TEST_CASE("faults while a chat is answered") {
  FaultyVulkan vulkan;
  vulkan.split_memory(true);
  Talk talk;
  FaultCount count = inject(vulkan, talk.answering("an answer, at once", &FaultyProgram::run));
  count += inject(vulkan, talk.answering("an answer, in slices", &FaultyProgram::advance));
  check_count(count, 20);
}

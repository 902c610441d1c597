// PumiceTranslator and PumiceTranscriber: texts to texts, and speech to texts.
#pragma once

#include <pumice/pumice.h>

#include <atomic>
#include <memory>

#include "class.h"
#include "model.h"
#include "slices.h"
#include "worker.h"

namespace godot {

// What both and an embedder have: a model, a thread, a part of each frame, and a way to end.
class TaskNode : public Instance {
public:
  TaskNode(const Class& of_class, GDExtensionObjectPtr object) : Instance(of_class, object) {}
  void notified(int32_t what) override;
  void changed(const std::string& property) override;
  void release() override {
    leave();
    forget();
  }

protected:
  virtual void forget() = 0;
  // On the worker: forgets what was made for other settings.
  void forget_if_stale();
  void leave();
  // Of a frame, now.
  float budget() const { return frame_budget(static_cast<float>(value("frame_budget_us").number())); }
  void fail(const std::string& message);
  static Class class_of(const char* name);
  static Method cancel_method();

  std::atomic<bool> leaving_ = false, stale_ = false;
  Slices slices_;
  Worker worker_;
};

class Translator : public TaskNode {
public:
  using TaskNode::TaskNode;
  ~Translator() override { leave(); }
  static std::unique_ptr<Class> make_class();

private:
  void translate(const std::string& text);
  void forget() override { translator_.reset(); }

  struct Destroy {
    void operator()(pumice_translator* translator) const { pumice_translator_destroy(translator); }
  };
  std::unique_ptr<pumice_translator, Destroy> translator_;
};

class Transcriber : public TaskNode {
public:
  using TaskNode::TaskNode;
  ~Transcriber() override { leave(); }
  static std::unique_ptr<Class> make_class();

private:
  void transcribe(std::vector<float> samples, uint32_t rate);
  void forget() override { transcriber_.reset(); }

  struct Destroy {
    void operator()(pumice_transcriber* transcriber) const { pumice_transcriber_destroy(transcriber); }
  };
  std::unique_ptr<pumice_transcriber, Destroy> transcriber_;
  std::string text_; // of the sound, so far
};

} // namespace godot

// PumiceTranslator and PumiceTranscriber: texts to texts, and speech to texts. Each computes on a thread.
#pragma once

#include <pumice/pumice.h>

#include <atomic>
#include <memory>
#include <mutex>

#include "class.h"
#include "model.h"
#include "worker.h"

namespace godot {

// What both have: a model, a thread, and a way to end.
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
  virtual pumice_work* work() = 0;
  void leave();
  void cancel();
  void fail(const std::string& message);
  static Class class_of(const char* name);
  static Method cancel_method();

  std::atomic<bool> leaving_ = false, stale_ = false;
  std::mutex mutex_; // of what is made and destroyed by the worker, and cancelled by others
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
  pumice_work* work() override { return translator_ ? pumice_translator_work(translator_.get()) : nullptr; }

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
  pumice_work* work() override {
    return transcriber_ ? pumice_transcriber_work(transcriber_.get()) : nullptr;
  }

  struct Destroy {
    void operator()(pumice_transcriber* transcriber) const { pumice_transcriber_destroy(transcriber); }
  };
  std::unique_ptr<pumice_transcriber, Destroy> transcriber_;
  std::string text_; // of the sound, so far
};

} // namespace godot

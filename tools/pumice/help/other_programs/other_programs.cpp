#include "help/other_programs/parts.h"

namespace pumice::command {

std::span<const OtherOption> other_options() {
  static const std::vector<OtherOption> all = [] {
    std::vector<OtherOption> options;
    for (const auto part :
         {llama_text_options(), llama_device_options(), llama_tools_options(), whisper_options()})
      options.insert(options.end(), part.begin(), part.end());
    // CTranslate2 and transformers.
    options.push_back({.names = {"-bs", "--beam-size"}, .target = "--beams"});
    options.push_back({.names = {"--num-hypotheses"}, .target = "--n-best"});
    return options;
  }();
  return all;
}

std::span<const OtherCommand> other_commands() {
  static constexpr OtherCommand all[] = {
      {"main", "run"},
      {"completion", "run"},
      {"batched-bench", "bench"},
      {"whisper-cli", "transcribe"},
      {"whisper-server", "serve"},
      {"whisper-bench", "bench"},
      {"convert_hf_to_gguf.py", "convert"},
      {"mtmd-cli", "", "'pumice chat --image FILE' asks about pictures, 'pumice caption' describes them"},
      {"gguf-split", "", "parts are read as they are, and 'pumice convert --split-max-size' makes some"},
      {"rpc-server", "", "mpirun spreads a model over machines"},
      {"export-lora", "", "--lora applies an adapter while the model runs"},
      {"finetune", "", "models are run, and not trained"},
      {"talk", "chat"},
      {"complete", "run"},
      {"completions", "run"},
      {"cli", "run"},
      {"quantize", "convert"},
      {"quantise", "convert"},
      {"export", "convert"},
      {"embedding", "embed"},
      {"embeddings", "embed"},
      {"encode", "embed"},
      {"whisper", "transcribe"},
      {"speech", "transcribe"},
      {"describe", "caption"},
      {"ocr", "caption"},
      {"benchmark", "bench"},
      {"info", "inspect"},
      {"show", "inspect"},
      {"gpus", "devices"},
      {"evaluate", "eval"},
      {"ppl", "perplexity"},
      {"detokenize", "tokenize"},
      {"score", "rerank"},
      {"version", "--version"},
      {"pull", "", no_download},
      {"push", "", "models are files and folders: copy them"},
      {"rm", "", "models are files and folders: remove them"},
      {"list", "devices", "models are files and folders, wherever you keep them"},
      {"ls", "", "models are files and folders, wherever you keep them"},
      {"ps", "", "a model is loaded for one command, and ends with it"},
      {"stop", "", "a model is loaded for one command, and ends with it"},
      {"server", "serve"},
      {"cp", "", "models are files and folders: copy them"},
      {"signin", "", no_download},
      {"launch", "", "'pumice serve' answers other programs"},
      {"imatrix", "",
       "'pumice perplexity --imatrix-out FILE' writes one, and 'pumice convert --imatrix' reads it"},
      {"create", "", "options of 'pumice chat' do what a Modelfile does"},
  };
  return all;
}

} // namespace pumice::command

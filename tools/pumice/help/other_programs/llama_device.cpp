// Options of llama.cpp about sizes, memory, devices and messages.
#include "help/other_programs/parts.h"

namespace pumice::command {

namespace {

constexpr std::string_view all_on_device = "all layers are computed on the device (see --device)";
constexpr std::string_view all_computed = "keys, values and all operations are the device's; --gpu-layers "
                                          "leaves layers' weights in the host's memory";
constexpr std::string_view weights_on_device = "weights are read once into the device's memory";
constexpr std::string_view chunk_instead = "--chunk is how many tokens of a prompt are read in one step";
constexpr std::string_view no_rope = "settings are as the model's file has them";
constexpr std::string_view batches_itself = "what is computed together follows from the command's options";
constexpr std::string_view no_yarn_mix = "yarn's mix is a whole one: --rope-scaling linear has none";

} // namespace

std::span<const OtherOption> llama_device_options() {
  using enum OtherOption::Takes;
  static const std::vector<OtherOption> all = {
      // Sizes, memory and devices.
      {.names = {"-c", "--ctx-size"}, .target = "--context"},
      {.names = {"-ub", "--ubatch-size"}, .target = "--chunk"},
      {.names = {"-b", "--batch-size"}, .no_effect = chunk_instead, .takes = a_value},
      {.names = {"-ctk", "--cache-type-k"}, .target = "--kv"},
      {.names = {"-ctv", "--cache-type-v"}, .target = "--kv"},
      {.names = {"-dev"}, .target = "--device"},
      {.names = {"-fa", "--flash-attn"},
       .no_effect = "attention is always computed in tiles",
       .takes = a_word},
      {.names = {"-nkvo", "--no-kv-offload", "-nopo", "--no-op-offload"},
       .no_effect = all_computed,
       .takes = a_word,
       .only = {"bench"}},
      {.names = {"--no-host", "-dio", "--direct-io", "--mmap", "--repack"},
       .no_effect = weights_on_device,
       .takes = a_word,
       .only = {"bench"}},
      {.names = {"-embd", "--embeddings"},
       .no_effect = "an encoder's vectors are measured, a decoder's tokens",
       .takes = a_word,
       .only = {"bench"}},
      {.names = {"-fit", "-fitt", "-fitc", "--fit-target", "--fit-ctx"},
       .instead = "--fit chooses what fits the device, where a command has it",
       .takes = a_value},
      {.names = {"-rpc", "--rpc"}, .instead = "mpirun spreads a model over machines", .takes = a_value},
      {.names = {"--poll", "--prio", "-C", "--cpu-mask", "-Cr", "--cpu-range", "--cpu-strict", "-Cb",
                 "--cpu-mask-batch", "-Crb", "--cpu-range-batch", "--cpu-strict-batch", "--prio-batch",
                 "--poll-batch"},
       .no_effect = driver_threads,
       .takes = a_value},
      {.names = {"-ngl", "--n-gpu-layers"}, .target = "--gpu-layers"},
      {.names = {"-ngl", "--gpu-layers", "--n-gpu-layers"}, .no_effect = all_on_device, .takes = a_value},
      {.names = {"-t", "--threads", "-tb", "--threads-batch"}, .no_effect = driver_threads, .takes = a_value},
      {.names = {"-nkvo", "--no-kv-offload", "-kvo", "--kv-offload", "--op-offload", "--no-op-offload"},
       .no_effect = all_computed},
      {.names = {"-nocb", "--no-cont-batching", "-cb", "--cont-batching", "-kvu", "--kv-unified", "-dt",
                 "--defrag-thold", "--swa-full", "-dkvc", "--dump-kv-cache"},
       .no_effect = batches_itself},
      {.names = {"--offline"}, .no_effect = "models are not downloaded"},
      {.names = {"--mlock", "--no-mmap", "--mmap", "-nommq", "-nr", "--no-repack", "--repack", "--no-host",
                 "-dio", "--direct-io", "--check-tensors"},
       .no_effect = weights_on_device},
      {.names = {"-mmp", "--numa", "-lm", "--load-mode", "-lzm", "--lazy-mode"},
       .no_effect = weights_on_device,
       .takes = a_value},
      {.names = {"-mg", "--main-gpu"},
       .no_effect = "--device chooses one by its number or a part of its name, as 'pumice devices' has them",
       .takes = a_value},
      {.names = {"-sm", "--split-mode"},
       .no_effect = "one device has the whole model, unless --devices and --split divide it by layers",
       .takes = a_value},
      {.names = {"-ts", "--tensor-split"},
       .instead = "--devices and --split divide a model",
       .takes = a_value},
      {.names = {"-ncffn", "--n-cpu-ffn"},
       .instead = "--gpu-layers keeps the matrices of the first layers in the host's memory",
       .takes = a_value},
      {.names = {"--n-cpu-moe", "-ncmoe"},
       .instead = "--experts host keeps experts in the host's memory",
       .takes = a_value},
      {.names = {"--cpu-moe", "-cmoe"}, .target = "--experts", .value = "host"},
      {.names = {"-ot", "--override-tensor"},
       .instead = "--experts says where experts are",
       .takes = a_value,
       .only = {"run", "chat", "generate", "bench", "perplexity"}},
      {.names = {"--yarn-ext-factor"}, .instead = no_yarn_mix, .takes = a_value},
      {.names = {"--override-kv", "--rope-scaling", "--rope-scale", "--rope-freq-base", "--rope-freq-scale",
                 "--yarn-orig-ctx", "--yarn-attn-factor", "--yarn-beta-slow", "--yarn-beta-fast"},
       .instead = no_rope,
       .takes = a_value},
      {.names = {"--control-vector", "--control-vector-scaled", "--control-vector-layer-range"},
       .instead = "there are no control vectors; adapters (LoRA) are given with --lora",
       .takes = a_value,
       .only = {"run", "chat", "generate"}},
      {.names = {"--lora-scaled"},
       .instead = "--lora PATH=SCALE scales an adapter",
       .takes = a_value,
       .only = {"run", "chat", "generate", "perplexity"}},
      {.names = {"-cram", "--cache-ram", "-ctxcp", "--ctx-checkpoints", "--swa-checkpoints", "--cache-reuse"},
       .no_effect = "what of a text is kept follows from its length",
       .takes = a_value,
       .only = {"run", "chat", "generate"}},
      {.names = {"--lora", "--lora-scaled", "--control-vector"},
       .instead = "adapters are not supported: merge them into the model first",
       .takes = a_value},
      {.names = {"--insecure"}, .no_effect = "models are not downloaded", .only = {"run", "chat"}},
      {.names = {"--keepalive"}, .no_effect = "the model is loaded for each command", .takes = a_value},

      // Messages.
      {.names = {"-v", "--log-verbose"}, .target = "--verbose"},
      {.names = {"-lv", "--verbosity", "--log-verbosity"},
       .no_effect = "--quiet and --verbose say how much is told",
       .takes = a_value},
      {.names = {"--log-file"}, .instead = "'2> FILE' writes what is told to a file", .takes = a_value},
      {.names = {"--log-colors", "--log-prefix", "--log-timestamps", "--no-log-prefix", "--no-log-timestamps",
                 "--log-jsonl", "--no-log-jsonl"},
       .no_effect = "--quiet and --verbose say how much is told",
       .takes = a_word},
      {.names = {"--version"}, .instead = "'pumice --version' prints it"},
      {.names = {"-co", "--color", "--nowordwrap", "--simple-io", "--no-perf", "--perf", "--show-timings",
                 "--no-show-timings", "--display-prompt"},
       .no_effect = "the terminal says what it can show",
       .only = {"run", "chat", "generate", "transcribe"}},
      {.names = {"--log-disable", "-np", "--no-prints"}, .target = "--quiet", .only = {"transcribe"}},
      {.names = {"--log-disable"}, .target = "--quiet"},
  };
  return all;
}

} // namespace pumice::command

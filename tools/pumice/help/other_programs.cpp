#include "help/other_programs.h"

namespace pumice::command {

namespace {

using enum OtherOption::Takes;

constexpr std::string_view all_on_device = "all layers are computed on the device (see --device)";
constexpr std::string_view driver_threads = "the device's driver chooses how many threads it takes";
constexpr std::string_view weights_on_device = "weights are read once into the device's memory";
constexpr std::string_view no_download =
    "models are not downloaded: fetch the file or folder first, then give its path";
constexpr std::string_view chunk_instead = "--chunk is how many tokens of a prompt are read in one step";
constexpr std::string_view no_forms = "answers of a given form are not supported";
constexpr std::string_view no_rope = "rotary embeddings are as the model's settings say";

} // namespace

std::span<const OtherOption> other_options() {
  static const std::vector<OtherOption> all = {
      // The model and the text.
      {.names = {"-m", "--model"}, .target = "MODEL"},
      {.names = {"-m", "--model"}, .target = "MODEL_DIR"},
      {.names = {"-m", "--model"}, .target = "MODEL_OR_TOKENIZER"},
      {.names = {"-p", "--processors"},
       .no_effect = "--batch decodes several windows together",
       .takes = a_value,
       .only = {"transcribe"}},
      {.names = {"-p"}, .target = "--prompt"},
      {.names = {"-p", "--prompt"}, .target = "PROMPT"},
      {.names = {"-p", "--prompt"}, .target = "QUESTION"},
      {.names = {"-f", "--file"}, .target = "AUDIO"},
      {.names = {"-f", "--file"}, .target = "FILE"},
      {.names = {"-hf", "-hfr", "--hf-repo", "-hff", "--hf-file", "-mu", "--model-url", "-dr",
                 "--docker-repo"},
       .instead = no_download,
       .takes = a_value},
      {.names = {"-n", "--predict", "--n-predict"}, .target = "--count"},
      {.names = {"-r", "--reverse-prompt"}, .target = "--stop"},
      {.names = {"--prompt-cache"}, .target = "--session"},
      {.names = {"--no-display-prompt"}, .target = "--no-echo"},
      {.names = {"-sys", "--system-prompt"}, .target = "--system"},
      {.names = {"-sys", "--system-prompt"},
       .instead = "it is a message of a chat: use 'pumice chat'",
       .takes = a_value,
       .only = {"run", "generate"}},
      {.names = {"-cnv", "--conversation", "-i", "--interactive"},
       .instead = "'pumice chat' holds a conversation",
       .only = {"run", "generate"}},
      {.names = {"-cnv", "--conversation", "-i", "--interactive"},
       .no_effect = "a chat is one",
       .only = {"chat"}},
      {.names = {"-no-cnv", "--no-conversation"},
       .no_effect = "a text is continued",
       .only = {"run", "generate"}},
      {.names = {"-no-cnv", "--no-conversation"},
       .instead = "'pumice run' continues a text",
       .only = {"chat"}},
      {.names = {"-st", "--single-turn"},
       .no_effect = "a question on the command line is the only one",
       .only = {"chat"}},
      {.names = {"-st", "--single-turn"}, .no_effect = "a text is continued", .only = {"run", "generate"}},
      {.names = {"--chat-template", "--chat-template-file"}, .target = "--template"},
      {.names = {"--jinja"}, .no_effect = "chat templates are always rendered", .only = {"chat", "run"}},
      {.names = {"--hidethinking"}, .target = "--thinking", .value = "hide"},
      {.names = {"-np", "--parallel"},
       .no_effect = "there is one text; 'pumice generate --requests' runs many",
       .takes = a_value,
       .only = {"run", "chat"}},

      {.names = {"--no-escape"}, .no_effect = "a text is read as it is", .only = {"run"}},

      // Sampling.
      {.names = {"-s"}, .target = "--seed"},
      {.names = {"--temperature"}, .target = "--temp"},
      {.names = {"--repeat-last-n"}, .target = "--repeat-window"},
      {.names = {"--sampling-seq", "--sampler-seq"}, .target = "--samplers"},
      {.names = {"--typical-p"}, .target = "--typical"},
      {.names = {"--top-nsigma"}, .target = "--top-n-sigma"},
      {.names = {"--grammar", "--grammar-file", "-j", "--json-schema", "--format"},
       .instead = no_forms,
       .takes = a_value,
       .only = {"run", "chat", "generate"}},

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
      {.names = {"-ngl", "--gpu-layers", "--n-gpu-layers"}, .no_effect = all_on_device, .takes = a_value},
      {.names = {"-t", "--threads", "-tb", "--threads-batch"}, .no_effect = driver_threads, .takes = a_value},
      {.names = {"--mlock", "--no-mmap", "--mmap", "-nkvo", "--no-kv-offload", "-nommq", "--no-repack",
                 "--no-op-offload"},
       .no_effect = weights_on_device},
      {.names = {"-mmp", "--numa", "-mg", "--main-gpu", "-sm", "--split-mode", "-embd", "--poll", "--prio"},
       .no_effect = weights_on_device,
       .takes = a_value},
      {.names = {"-ts", "--tensor-split"},
       .instead = "--devices and --split divide a model",
       .takes = a_value},
      {.names = {"--n-cpu-moe", "-ncmoe"},
       .instead = "--experts host keeps experts in the host's memory",
       .takes = a_value},
      {.names = {"--cpu-moe", "-cmoe"}, .target = "--experts", .value = "host"},
      {.names = {"-ot", "--override-tensor"},
       .instead = "--experts says where experts are",
       .takes = a_value,
       .only = {"run", "chat", "generate", "bench", "perplexity"}},
      {.names = {"--override-kv"}, .instead = "settings are as the model's file has them", .takes = a_value},
      {.names = {"--rope-scaling", "--rope-scale", "--rope-freq-base", "--rope-freq-scale", "--yarn-orig-ctx",
                 "--yarn-ext-factor"},
       .instead = no_rope,
       .takes = a_value},
      {.names = {"--lora", "--lora-scaled", "--control-vector"},
       .instead = "adapters are not supported: merge them into the model first",
       .takes = a_value},
      {.names = {"--keepalive"}, .no_effect = "the model is loaded for each command", .takes = a_value},

      // Messages.
      {.names = {"-co", "--color", "--nowordwrap", "--simple-io", "--no-perf", "--perf", "--show-timings"},
       .no_effect = "the terminal says what it can show",
       .only = {"run", "chat", "generate", "transcribe"}},
      {.names = {"--log-disable", "-np", "--no-prints"}, .target = "--quiet", .only = {"transcribe"}},
      {.names = {"--log-disable"}, .target = "--quiet"},

      // llama-bench.
      {.names = {"--no-warmup"}, .target = "--warm-up", .value = "0"},
      {.names = {"--no-warmup"}, .no_effect = "there is no run before the first"},
      {.names = {"-pg"},
       .instead =
           "--depth is the number of tokens before -p and -n, so '-n 128 --depth 512' is '-pg 512,128' "
           "without the prompt",
       .takes = a_value,
       .only = {"bench"}},

      // llama-perplexity.
      {.names = {"--ppl-stride", "--hellaswag-tasks", "--winogrande-tasks", "--multiple-choice-tasks",
                 "--kl-divergence-base"},
       .instead = "the perplexity of whole windows is all that is measured",
       .takes = a_value,
       .only = {"perplexity"}},
      {.names = {"--hellaswag", "--winogrande", "--multiple-choice", "--kl-divergence"},
       .instead = "the perplexity of whole windows is all that is measured",
       .only = {"perplexity"}},

      // whisper-cli.
      {.names = {"-l"}, .target = "--language", .otherwise = "auto"},
      {.names = {"-tr"}, .target = "--translate", .only = {"transcribe"}},
      {.names = {"-dl"}, .target = "--detect-language"},
      {.names = {"-nf"}, .target = "--no-fallback"},
      {.names = {"-osrt", "--output-srt"}, .target = "--srt"},
      {.names = {"-ovtt", "--output-vtt"}, .target = "--vtt"},
      {.names = {"-oj", "--output-json", "-ojf", "--output-json-full"},
       .target = "--json",
       .only = {"transcribe"}},
      {.names = {"-otxt", "--output-txt"}, .no_effect = "text is what is printed", .only = {"transcribe"}},
      {.names = {"-of", "--output-file"},
       .instead = "--output-dir is the folder that files are written to; each has its sound file's name",
       .takes = a_value,
       .only = {"transcribe"}},
      {.names = {"-ocsv", "--output-csv", "-olrc", "--output-lrc", "-owts", "--output-words"},
       .instead = "the forms are text, --srt, --vtt and --json",
       .only = {"transcribe"}},
      {.names = {"-nt", "--no-timestamps"},
       .no_effect = "times are printed only with --timestamps",
       .only = {"transcribe"}},
      {.names = {"-ml", "--max-len", "-sow", "--split-on-word"},
       .instead = "segments are as the model writes them; --words has the time of each word",
       .takes = a_value,
       .only = {"transcribe"}},
      {.names = {"-ot", "--offset-t", "-d", "--duration"},
       .instead = "a whole file is read; 'ffmpeg -ss START -t LENGTH' cuts one",
       .takes = a_value,
       .only = {"transcribe"}},
      {.names = {"-pp", "--print-progress", "-ps", "--print-special", "-pc", "--print-colors"},
       .no_effect = "progress is shown at a terminal",
       .only = {"transcribe"}},
      {.names = {"-bo", "--best-of", "-wt", "--word-thold", "-et", "--entropy-thold", "-lpt",
                 "--logprob-thold", "-nth", "--no-speech-thold", "-mc", "--max-context"},
       .no_effect = "it is as Whisper's own program has it",
       .takes = a_value,
       .only = {"transcribe"}},
      {.names = {"-ng", "--no-gpu"}, .instead = "--device chooses: 'pumice devices' lists them"},
      {.names = {"--vad"}, .no_effect = "silence is left out, unless with --no-vad", .only = {"transcribe"}},
      {.names = {"-vm", "--vad-model", "-vt", "--vad-threshold"},
       .no_effect = "silence is left out, unless with --no-vad",
       .takes = a_value,
       .only = {"transcribe"}},
      {.names = {"-di", "--diarize", "-tdrz", "--tinydiarize"},
       .instead = "speakers are not told apart",
       .only = {"transcribe"}},

      // CTranslate2 and transformers.
      {.names = {"-bs", "--beam-size"}, .target = "--beams"},
      {.names = {"--num-hypotheses"}, .target = "--n-best"},
  };
  return all;
}

std::span<const OtherCommand> other_commands() {
  static constexpr OtherCommand all[] = {
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
      {"serve", "", "there is no server"},
      {"server", "", "there is no server"},
      {"create", "", "options of 'pumice chat' do what a Modelfile does"},
  };
  return all;
}

} // namespace pumice::command

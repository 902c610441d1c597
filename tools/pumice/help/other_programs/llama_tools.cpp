// Options of llama.cpp's programs that measure and convert.
#include "help/other_programs/parts.h"

namespace pumice::command {

std::span<const OtherOption> llama_tools_options() {
  using enum OtherOption::Takes;
  static const std::vector<OtherOption> all = {
      // llama-bench.
      {.names = {"--no-warmup"}, .target = "--warm-up", .value = "0"},
      {.names = {"--no-warmup", "--warmup"}, .no_effect = "there is no run before the first"},
      {.names = {"-pg"}, .target = "--pg"},
      {.names = {"--n-prompt"}, .target = "--prompt", .only = {"bench"}},
      {.names = {"--n-gen"}, .target = "--count", .only = {"bench"}},
      {.names = {"--n-depth"}, .target = "--depth", .only = {"bench"}},
      {.names = {"-npl", "--parallel"}, .target = "--batch", .only = {"bench"}}, // and llama-batched-bench
      {.names = {"-oe", "--output-err"},
       .instead = "the report goes to standard output, in the format of -o",
       .takes = a_value,
       .only = {"bench"}},
      {.names = {"--delay"}, .no_effect = "tests follow one another", .takes = a_value, .only = {"bench"}},
      {.names = {"--progress"}, .no_effect = "progress is shown at a terminal", .only = {"bench"}},

      // llama-perplexity.
      {.names = {"--ppl-stride"}, .target = "--stride"},
      {.names = {"--hellaswag-tasks", "--winogrande-tasks", "--multiple-choice-tasks"}, .target = "--tasks"},
      {.names = {"-bf", "--binary-file"}, .target = "FILE", .only = {"perplexity"}},
      {.names = {"-p", "--prompt"},
       .instead = "give the text as FILE; '-' is standard input",
       .takes = a_value,
       .only = {"perplexity"}},
      {.names = {"-np", "--parallel", "-s", "--seed"},
       .no_effect = "nothing is drawn, and a window is read by itself",
       .takes = a_value,
       .only = {"perplexity"}},
      {.names = {"--ppl-output-type"},
       .no_effect = "--json has all figures",
       .takes = a_value,
       .only = {"perplexity"}},

      // llama-quantize.
      {.names = {"--allow-requantize"},
       .no_effect = "weights that are quantised already become others, and it is said",
       .only = {"convert"}},
      {.names = {"--pure"},
       .instead = "--tensor-type .=TYPE gives all matrices one type",
       .only = {"convert"}},
      {.names = {"--leave-output-tensor"},
       .instead = "--tensor-type output.weight=F16 keeps the head in F16",
       .only = {"convert"}},
      {.names = {"--output-tensor-type", "--token-embedding-type"},
       .instead = "--tensor-type output.weight=TYPE, and token_embd=TYPE, are types of single tensors",
       .takes = a_value,
       .only = {"convert"}},
      {.names = {"--include-weights", "--exclude-weights"},
       .instead = "all that the file of --imatrix knows is used",
       .takes = a_value,
       .only = {"convert"}},
      {.names = {"--override-kv"},
       .instead = "a file keeps its settings; --override-kv of 'pumice run' and others changes one for a run",
       .takes = a_value,
       .only = {"convert"}},
      {.names = {"--prune-layers"},
       .instead = "a file keeps its layers",
       .takes = a_value,
       .only = {"convert"}},
      {.names = {"--tensor-type-file"},
       .instead = "--tensor-type NAME=TYPE says it for one matrix, and may be given several times",
       .takes = a_value,
       .only = {"convert"}},
      {.names = {"--max-buffer-size"},
       .no_effect = "a tensor is read in small pieces",
       .takes = a_value,
       .only = {"convert"}},
      {.names = {"--outtype"},
       .target = "--type",
       .otherwise = "auto",
       .only = {"convert"}}, // convert_hf_to_gguf.py
      {.names = {"--outfile"}, .target = "OUT", .only = {"convert"}},
      {.names = {"--keep-split"}, .instead = "--split-max-size writes several files", .only = {"convert"}},
  };
  return all;
}

} // namespace pumice::command

#include <doctest/doctest.h>

#include <sstream>

#include "support/command/command.h"
#include "support/files/fixtures.h"

namespace {

using Arguments = std::vector<std::string>;

// What both commands answer, without the figures on standard error.
void check_same(const Arguments& alias, const Arguments& own) {
  CAPTURE(alias);
  const CommandResult with_alias = pumice_command(alias), with_own = pumice_command(own);
  CAPTURE(with_alias.err);
  CAPTURE(with_own.err);
  CHECK(with_alias.status == with_own.status);
  CHECK(with_alias.out == with_own.out);
  if (with_own.status != 0) CHECK(with_alias.err == with_own.err);
}

} // namespace

// Each alias gets a value that its own option refuses, or a file that is not there: the message then shows
// which option it was taken for, and no model is loaded.
TEST_CASE("names from llama.cpp, whisper.cpp and CTranslate2 stand for Pumice's own") {
  const struct {
    Arguments alias, own;
  } cases[] = {
      {{"run", "-m", "/none.gguf", "-p", "x"}, {"run", "/none.gguf", "x"}},
      {{"run", "-p", "-x", "--model", "/none.gguf"}, {"run", "/none.gguf", "--", "-x"}},
      {{"run", "--model=/none.gguf", "--prompt=x"}, {"run", "/none.gguf", "x"}},
      {{"inspect", "-m", "/none.gguf"}, {"inspect", "/none.gguf"}},
      {{"tokenize", "-m", "/none.gguf"}, {"tokenize", "/none.gguf"}},
      {{"convert", "-m", "/none", "out.gguf"}, {"convert", "/none", "out.gguf"}},
      {{"perplexity", "-m", "/none.gguf", "-f", "x"}, {"perplexity", "/none.gguf", "x"}},
      {{"run", "m", "-c", "x"}, {"run", "m", "--context", "x"}},
      {{"run", "m", "--ctx-size", "x"}, {"run", "m", "--context", "x"}},
      {{"run", "m", "--ctx_size=x"}, {"run", "m", "--context", "x"}},
      {{"run", "m", "--predict", "x"}, {"run", "m", "--count", "x"}},
      {{"run", "m", "--n-predict", "x"}, {"run", "m", "--count", "x"}},
      {{"run", "m", "-s", "x"}, {"run", "m", "--seed", "x"}},
      {{"run", "m", "--temperature", "x"}, {"run", "m", "--temp", "x"}},
      {{"run", "m", "--repeat-last-n", "x"}, {"run", "m", "--repeat-window", "x"}},
      {{"run", "m", "-ub", "x"}, {"run", "m", "--chunk", "x"}},
      {{"run", "m", "--ubatch-size", "x"}, {"run", "m", "--chunk", "x"}},
      {{"run", "m", "-ctk", "x"}, {"run", "m", "--kv", "x"}},
      {{"run", "m", "-ctv", "x"}, {"run", "m", "--kv", "x"}},
      {{"run", "m", "-ctv", "F16", "-ctk", "q8_0"}, {"run", "m", "--kv", "q8_0/F16"}},
      {{"run", "m", "-ctk", "f16", "-ctv", "F16"}, {"run", "m", "--kv", "f16"}},
      {{"run", "m", "--cache-type-k", "f32", "x", "-ctv", "q8_0"}, {"run", "m", "--kv", "f32/q8_0", "x"}},
      {{"run", "m", "--cache-type-k", "x", "--cache-type-v", "x"}, {"run", "m", "--kv", "x"}},
      {{"run", "m", "-r", "x", "-c", "x"}, {"run", "m", "--stop", "x", "--context", "x"}},
      {{"run", "/none", "--prompt-cache", "/none.session"}, {"run", "/none", "--session", "/none.session"}},
      {{"transcribe", "m", "a", "-bs", "x"}, {"transcribe", "m", "a", "--beams", "x"}},
      {{"translate", "m", "--beam-size", "x"}, {"translate", "m", "--beams", "x"}},
      {{"translate", "m", "--beam_size", "x"}, {"translate", "m", "--beams", "x"}},
      {{"translate", "m", "--num-hypotheses", "x"}, {"translate", "m", "--n-best", "x"}},
      {{"translate", "m", "--num_hypotheses=x"}, {"translate", "m", "--n-best", "x"}},
      {{"transcribe", "-m", "/none", "-f", "/none.wav", "-l", "de"}, {"transcribe", "/none", "/none.wav"}},
      {{"transcribe", "/none", "/none.wav", "-tr"}, {"transcribe", "/none", "/none.wav", "--translate"}},
      {{"transcribe", "/none", "/none.wav", "-nf", "-dl"},
       {"transcribe", "/none", "/none.wav", "--no-fallback", "--detect-language"}},
      {{"run", "m", "--kv", "F8"}, {"run", "m", "--kv", "F8"}},
  };
  for (const auto& each : cases) {
    check_same(each.alias, each.own);
    CHECK(pumice_command(each.alias).status == 1);
  }
  check_same({"--list-devices"}, {"devices"});
  check_same({"run", "--list-devices"}, {"devices"});
}

// What people type who come from llama.cpp, whisper.cpp and Ollama. No model is there, so that what is
// understood ends with the file's name.
TEST_CASE("command lines of other programs are understood, or answered with what to do") {
  const std::string none = "/none: cannot be opened";
  const struct {
    Arguments arguments;
    std::vector<std::string> says;
  } cases[] = {
      {{"run", "-m", "/none", "-p", "Once", "-n", "32", "-ngl", "99", "-fa", "on", "-no-cnv"},
       {"-fa has no effect", "-no-cnv has no effect", none}},
      {{"run", "/none", "x", "-ngl", "all"}, {none}},
      {{"run", "/none", "x", "--n-gpu-layers", "-1"}, {none}},
      {{"run", "/none", "x", "-ngl", "many"}, {"--gpu-layers: 'many' is not a whole number", "nor all"}},
      {{"embed", "/none", "x", "-ngl", "99"}, {"-ngl has no effect", none}},
      {{"run", "-m", "/none", "-fa", "-p", "Once"}, {"-fa has no effect", none}},
      {{"run", "-m", "/none", "-p", "Once", "-n", "x"}, {"--count: 'x' is not a whole number"}},
      {{"run", "-m", "/none", "-p", "a\\nb", "-e", "-co", "--mlock", "-t", "4", "-b", "512"}, {none}},
      {{"run", "-m", "/none", "-b", "2048", "-ub", "512", "--no-warmup", "--numa", "distribute"},
       {"-b has no effect: --chunk", none}},
      {{"run", "-m", "-dash.gguf", "x"}, {"-dash.gguf: cannot be opened"}},
      {{"run", "-hf", "org/model"}, {"-hf", "models are not downloaded"}},
      {{"run", "-m", "/none", "-cnv"}, {"-cnv", "'pumice chat' holds a conversation"}},
      {{"run", "-m", "/none", "-sys", "You are"}, {"-sys", "use 'pumice chat'"}},
      {{"run", "-m", "/none", "--dry-multiplier", "0.8", "--dry-penalty-last-n", "-1", "--top-nsigma", "1",
        "--typical-p", "0.9", "--xtc-probability", "0.5", "--mirostat", "2", "--mirostat-ent", "4"},
       {none}},
      {{"run", "-m", "/none", "--sampler-seq", "kpt"}, {none}},
      {{"run", "-m", "/none", "--samplers", "temperature;top-k;nucleus", "-dev", "Vulkan0"}, {none}},
      {{"run", "-m", "/none", "--samplers", "top_k;warmth"}, {"--samplers", "'warmth'", "penalties;dry"}},
      {{"run", "/none", "x", "-n=5", "-c4096", "-ngl99", "-s=-1"}, {none}},
      {{"run", "/none", "x", "-c4k"}, {"no option '-c4k'"}},
      {{"run", "/none", "x", "-version"}, {"'-version'. Did you mean '--version'?"}},
      {{"run", "-m", "/none", "--spec-draft-n-max", "8", "-lm", "mmap"}, {"-lm has no effect", none}},
      {{"run", "-m", "/none", "--spec-type", "draft"}, {"--spec-type", "--draft-model"}},
      {{"run", "-m", "/none", "--cpu-mask-draft", "f"}, {"--cpu-mask-draft", "--draft-model"}},
      {{"run", "-m", "/none", "-mg", "1"}, {"-mg has no effect: --device", none}},
      {{"run", "--gpt-oss-20b-default"}, {"models are not downloaded"}},
      {{"-m", "model.gguf", "-p", "Hello"}, {"'-m': a command comes first", "pumice run MODEL"}},
      {{"-hf", "org/model"}, {"'-hf': a command comes first"}},
      {{"--spec-type", "draft"}, {"'--spec-type': a command comes first"}},
      {{"model.gguf", "Hello"}, {"'model.gguf': a command comes first"}},
      {{"llama-server", "-m", "/none"}, {"Did you mean 'pumice serve'?"}},
      {{"llama-mtmd-cli", "-m", "/none"}, {"'pumice chat --image FILE'"}},
      {{"whisper-cli", "-m", "/none"}, {"Did you mean 'pumice transcribe'?"}},
      {{"bench", "-m", "/none", "-fa", "0,1", "-ub", "64-256*2", "-mmp", "0,1"}, {"-fa has no effect", none}},
      {{"bench", "-m", "/none", "-ub", "64-"}, {"--chunk: '64-'", "a range such as"}},
      {{"chat", "llama3.2"}, {"models are not downloaded"}},
      {{"chat", "gemma3:4b", "Hello"}, {"models are not downloaded"}},
      {{"run", "-m", "/none", "-l", "15043-1", "-l", "7+inf"}, {none}},
      {{"embed", "-m", "/none", "-p", "Hello", "--embd-normalize", "2"}, {"--normalize yes"}},
      {{"tokenize", "-m", "/none", "-p", "Hello", "--no-bos"}, {none}},
      {{"serve", "-m", "/none", "--jinja", "--metrics", "--threads-http", "4"},
       {"--jinja has no effect", none}},
      {{"convert", "/none", "--outfile", "/none.gguf", "--outtype", "q8_0"}, {none}},
      {{"transcribe", "-m", "/none", "-f", "a.wav", "--output_format", "srt"}, {"--srt"}},
      {{"transcribe", "-m", "/none", "-f", "a.wav", "--word_timestamps", "True"}, {"--words"}},
      {{"run", "/none", "-nx"}, {"'pumice run' has no option '-nx'", "--help"}},
      {{"run", "/none", "-nr", "x"}, {"-nr has no effect", none}},
      {{"run", "/none", "-otxt"}, {"no option '-otxt'"}},
      {{"run", "/none", "-np", "4", "x"}, {"-np has no effect", none}},
      {{"run", "/none", "x", "-n5"}, {none}},
      {{"chat", "-m", "/none", "-cnv", "-st", "-p", "Hello", "-sys", "Be short.", "--jinja"}, {none}},
      {{"chat", "/none", "--hidethinking", "Hello"}, {none}},
      {{"chat", "/none", "-no-cnv"}, {"'pumice run' continues a text"}},
      {{"bench", "-m", "/none", "-p", "64-256*2", "-n", "0", "-ngl", "99", "-b", "2048", "-fa", "1"}, {none}},
      {{"bench", "-m", "/a", "-m", "/b"}, {"-m is given twice", "bench ab"}},
      {{"bench", "/none", "-ctk", "f16,q8_0", "-ctv", "f16,q8_0", "-ub", "64,128", "-pg", "512,128"}, {none}},
      {{"bench", "/none", "-ctk", "f16", "-ctv", "q8_0"}, {none}},
      {{"bench", "/none", "-ctk", "f16,q8_0", "-ctv", "q8_0"}, {"do not go together"}},
      {{"bench", "/none", "-ctk", "f8"}, {"--kv", "'f8'"}},
      {{"bench", "/none", "-dev", "0,1"}, {"-dev takes one value", "bench ab"}},
      {{"bench", "/none", "-pg", "512"}, {"--pg: '512'", "512,128"}},
      {{"bench", "/none", "-p", "8-x"}, {"--prompt: '8-x'", "32-128*2"}},
      {{"bench", "/none", "-p", "1-9*1"}, {"--prompt: '1-9*1'"}},
      {{"perplexity", "-m", "/none", "-f", "wiki.raw", "--hellaswag", "--hellaswag-tasks", "40"}, {none}},
      {{"perplexity", "-m", "/none", "-bf", "tasks.bin", "--multiple-choice"}, {none}},
      {{"perplexity", "-m", "/none", "-f", "wiki.raw", "--ppl-stride", "64", "-c", "128"}, {none}},
      {{"perplexity", "-m", "/none", "--kl-divergence-base", "b.kld", "--kl-divergence"}, {none}},
      {{"run", "-m", "/none", "-p", "x", "--rope-freq-base", "1e6", "--rope-scaling", "yarn", "--rope-scale",
        "4", "--yarn-orig-ctx", "4096", "--override-kv", "llama.context_length=int:8192"},
       {none}},
      {{"run", "-m", "/none", "--override-kv", "llama.context_length=8192"},
       {"--override-kv", "KEY=TYPE:VALUE"}},
      {{"run", "-m", "/none", "--grammar", "root ::= \"a\"", "-p", "x"}, {none}},
      {{"transcribe", "-m", "/none", "-f", "a.wav", "-np", "-nt", "-l", "auto"}, {none}},
      {{"transcribe", "-m", "/none", "-f", "a.wav", "-otxt", "-pp", "-t", "8", "--vad"},
       {"-otxt has no effect", none}},
      {{"transcribe", "-m", "/none", "-f", "a.wav", "-of", "out"}, {"-of", "--output-dir"}},
      {{"transcribe", "-m", "/none", "-f", "a.wav", "-ml", "1"}, {"-ml", "--words"}},
      {{"transcribe", "-m", "/none", "-f", "a.wav", "-di"}, {"-di", "speakers"}},
      {{"quantize", "in.gguf", "out.gguf", "Q4_K_M"}, {"'pumice convert'"}},
      {{"convert", "in.gguf", "out.gguf", "Q4_K_M"}, {"found 'Q4_K_M'", "--type takes a type"}},
      {{"convert", "--imatrix", "i.gguf", "in.gguf", "q4_k_m", "8"}, {"found '8'", "--type"}},
      {{"convert", "in.gguf", "q4_k_m"}, {"'q4_k_m' is a type", "--type Q4_K_M"}},
      // Of the pages of llama.cpp, whisper.cpp and Ollama.
      {{"run", "-m", "/none", "-p", "I believe the meaning of life is", "-n", "128", "-no-cnv"}, {none}},
      {{"run", "-m", "/none", "-n", "256", "--grammar-file", "json.gbnf", "-p", "Request: call at 8pm"},
       {none}},
      {{"chat", "-m", "/none", "-cnv", "--chat-template", "chatml"}, {none}},
      {{"run", "-m", "/none", "-cnv", "--in-prefix", "User: ", "--reverse-prompt", "User:"}, {"-cnv"}},
      {{"run", "-m", "/none", "--ignore-eos", "-n", "-1", "--rope-scaling", "yarn", "--yarn-orig-ctx", "4096",
        "-p", "x", "--verbose-prompt", "-nr", "-cram", "0"},
       {none}},
      {{"run", "-m", "/none", "-md", "d.gguf", "-ngld", "99", "--draft-max", "16", "-p", "x"},
       {"-ngld has no effect", none}},
      {{"bench", "-m", "/none", "-p", "0", "-n", "128,256,512"}, {none}},
      {{"bench", "-m", "/none", "-n", "0", "-n", "16", "-p", "64", "-t", "1,2,4,8,16,32"}, {none}},
      {{"bench", "-m", "/none", "-ngl", "10,20,30,31"}, {"-ngl takes one value", "bench ab"}},
      {{"bench", "-m", "/none", "-n", "0", "-p", "1024", "-b", "128,256,512,1024"}, {none}},
      {{"bench", "-m", "/none", "--n-prompt", "512", "--n-gen", "16", "--n-depth", "0,512", "--mmap", "0"},
       {none}},
      {{"bench", "-m", "/none", "-o", "sql"}, {"-o", "'sql'", "jsonl"}},
      {{"perplexity", "-m", "/none", "-f", "wiki.test.raw", "-c", "512", "-b", "2048", "--kl-divergence-base",
        "logits.kld"},
       {none}},
      {{"transcribe", "-m", "/none", "-f", "jfk.wav", "-ml", "16"}, {"-ml", "--words"}},
      {{"transcribe", "-m", "/none", "-f", "a.wav", "-l", "auto", "-osrt"}, {none}},
      {{"transcribe", "-m", "/none", "a.wav", "b.wav", "--vad", "-vm", "silero.bin", "--vad-threshold", "0.5",
        "--vad-min-speech-duration-ms", "250"},
       {none}},
      {{"chat", "/none", "Summarize this", "--verbose", "--insecure", "--keepalive", "5m"}, {none}},
      {{"pull", "llama3"}, {"models are not downloaded"}},
      {{"launch"}, {"pumice serve"}},
      {{"list"}, {"models are files"}},
  };
  for (const auto& each : cases) {
    CAPTURE(each.arguments);
    CHECK(fails_saying(pumice_command(each.arguments), each.says) == "");
  }
  const CommandResult bare = pumice_command({});
  CHECK(bare.status == 0);
  CHECK(bare.out == pumice_command({"--help"}).out);
}

// "-n 5 -e" as arguments; a value may have no spaces.
Arguments words_of(const std::string& line) {
  std::istringstream in(line);
  Arguments words;
  for (std::string word; in >> word;) words.push_back(word);
  return words;
}

TEST_CASE("each option that other programs' users type most is taken, or answered with a sentence") {
  const struct {
    Arguments before;    // the command, and what it needs
    const char* options; // with their values, "; " between them
  } programs[] = {
      {{"run", "/none"},
       "-p x; -n 5; --predict 5; -c 64; -b 64; -ub 64; -t 4; -tb 4; -ngl 99; -ngl 0; -fa; -fa on; "
       "-ctk f16; -ctv f16; --temp 0.5; --top-k 4; --top-p 0.9; --min-p 0.1; --typical 0.9; "
       "--repeat-penalty 1.1; --repeat-last-n 64; --presence-penalty 0.1; --dry-multiplier 0.5; "
       "--mirostat 2; -s 1; --ignore-eos; -l 15043-1; --grammar-file g; -j {}; -cnv; -no-cnv; -sys x; "
       "-sysf f; -st; -i; -if; -r x; -sp; --color; -mli; --in-prefix x; --chat-template chatml; "
       "--jinja; --chat-template-kwargs {}; --reasoning-format none; --reasoning-budget 0; -e; "
       "--no-escape; --prompt-cache x; --prompt-cache-all; --keep 5; --no-context-shift; --mlock; "
       "--no-mmap; --numa isolate; -dev 0; -sm none; -mg 0; -ts 1,1; -ot x=CPU; -cmoe; -ncmoe 3; "
       "--lora a; -hf a/b; -v; -lv 1; --log-disable; --log-file x; --no-warmup; --no-perf; "
       "--no-display-prompt; --swa-full; -kvu; -np 2; --offline; --version; -md draft.gguf; "
       "--draft-max 5; --image x.png; --mmproj x; --no-kv-offload; --check-tensors; "
       "--rope-freq-scale 0.5; --yarn-ext-factor 1; --poll 50; --prio 1; -C ff; -cb; --keepalive 5m; "
       "--verbose-prompt; -Cb ff; --prio-batch 1; -nr; --repack; -hft x; -hfd a/b; --control-vector x; "
       "--lora-scaled a 1; -ctkd f16; -td 4; -cd 512; -devd 0; -ngld 99; -bs; --in-prefix-bos; "
       "--ctx-checkpoints 4; -cram 0; -mm x; --no-mmproj; --audio a.wav; --image-min-tokens 1; --no-jinja; "
       "--penalize-nl; --tfs 1; -ins; --host x; --port 1; --api-key x; -nocb; --kv-offload; --insecure; "
       "--nowordwrap; --format json; --think; --hidethinking"},
      {{"chat", "/none"},
       "-p x; -n 5; -c 64; -ngl 99; -fa on; --temp 0.5; -sys x; -sysf f; -st; -cnv; -mli; -e; "
       "--no-display-prompt; --ignore-eos; --chat-template chatml; --jinja; --reasoning-format none; "
       "--think; --hidethinking; --keepalive 5m; --format json; -r x; --in-prefix x; -v; --mmproj x; "
       "--image x.png; -mm x; --no-mmproj; --image-max-tokens 9; --insecure; -ngld 9; --verbose-prompt"},
      {{"bench", "/none"},
       "-p 512; -n 128; -pg 512,128; -npl 1,2,4; --parallel 1,2; -d 512; -b 2048; -ub 512; -ctk f16; -ctv "
       "f16; -t 8; -C 0xff; "
       "--poll 50; -ngl 99; -ncmoe 2; -sm none; -mg 0; -nkvo 0; -fa 1; -dev 0; -mmp 1; -embd 0; -ts 1; "
       "-nopo 0; -r 5; -o jsonl; -o json; -oe md; -v; --prio 0; --delay 0; -hf a/b; -rpc x; "
       "--no-warmup; --progress; --n-prompt 8; --n-gen 8; --n-depth 8; --mmap 0; --embeddings 0; --no-host "
       "1"},
      {{"perplexity", "/none"},
       "-f x; -c 512; -b 512; -ngl 99; -t 4; -fa; -ctk f16; --chunks 5 x; --ppl-stride 64 x; "
       "--ppl-output-type 1 x; --hellaswag x; --winogrande x; --multiple-choice x; "
       "--save-all-logits b x; -bf f; -np 4 x; -s 1 x; --no-mmap x; -p text; -e x; -v x"},
      {{"convert", "/none", "/none.out"},
       "--allow-requantize; --leave-output-tensor; --pure; --imatrix x; --include-weights x; "
       "--output-tensor-type q8_0; --token-embedding-type q8_0; --tensor-type a=q8_0; --keep-split; "
       "--override-kv a=int:1; --prune-layers 1; --dry-run; --tensor-type-file f"},
      {{"transcribe", "/none", "a.wav"},
       "-t 4; -p 1; -ot 1; -on 1; -d 5; -mc 0; -ml 1; -sow; -bo 5; -bs 5; -ac 0; -wt 0.1; -et 2.4; "
       "-lpt -1; -nth 0.6; -tp 0; -debug; -tr; -di; -tdrz; -nf; -otxt; -ovtt; -osrt; -olrc; -owts; "
       "-ocsv; -oj; -ojf; -of out; -np; -ps; -pc; -pp; -nt; -l en; -dl; --prompt x; -dtw base; -ls; "
       "-ng; -fa; -nfa; -sns; --suppress-regex x; --grammar x; --vad; -vm x; -vt 0.5; -vspd 1; "
       "--vad-speech-pad-ms 30; --vad-samples-overlap 0.1"},
  };
  for (const auto& program : programs) {
    std::istringstream options(program.options);
    for (std::string option; std::getline(options, option, ';');) {
      Arguments arguments = program.before;
      const Arguments words = words_of(option);
      arguments.insert(arguments.end(), words.begin(), words.end());
      const std::string err = pumice_command(arguments).err;
      CAPTURE(arguments);
      CAPTURE(err);
      const bool taken =
          err.find("/none: ") != std::string::npos || err.find("has no effect") != std::string::npos;
      const bool answered = err.find("has no option '" + words[0] + "': ") != std::string::npos ||
                            err.find("FILE is missing") != std::string::npos; // 'perplexity' was understood
      CHECK((taken || answered));
    }
  }
  for (const char* command : {"pull", "push", "list", "ls", "ps", "stop", "rm", "cp", "show", "create",
                              "server", "signin", "quantize", "imatrix"}) {
    CAPTURE(command);
    const std::string err = pumice_command({command, "x"}).err;
    CHECK((err.find("': ") != std::string::npos || err.find("Did you mean") != std::string::npos));
  }
}

TEST_CASE("whisper.cpp's number of processors is accepted, with what is there instead") {
  const CommandResult result = pumice_command({"transcribe", "/none", "/none.wav", "-p", "4"});
  CHECK(fails_saying(result, {"-p has no effect", "--batch", "/none: cannot be opened"}) == "");
}

TEST_CASE("an alias without a value, or two that differ, is an error") {
  CHECK(fails_saying(pumice_command({"run", "m", "x", "-c"}), {"-c: a value is missing"}) == "");
  CHECK(fails_saying(pumice_command({"run", "m", "x", "-ctk", "f16", "--cache-type-k", "q8_0"}),
                     {"-ctk f16", "--cache-type-k q8_0", "--kv"}) == "");
}

TEST_CASE("a subcommand's own option comes before an alias, and so does an option's value") {
  CHECK(fails_saying(pumice_command({"bench", "m", "-p", "x"}), {"--prompt: 'x'"}) == "");
  CHECK(fails_saying(pumice_command({"bench", "m", "-r", "x"}), {"--repetitions: 'x'"}) == "");
  // "-m" is the string to stop at, and "-c" is a text.
  CHECK(fails_saying(pumice_command({"run", "/none.gguf", "--stop", "-m", "--", "-c"}), {"/none.gguf"}) ==
        "");
}

TEST_CASE("options without a meaning here are accepted and explained") {
  const std::string model = fixtures().story().string();
  const Arguments own = {"run", model, "Once upon a time", "-n", "4", "--temp", "0"};
  Arguments alias = own;
  alias.insert(alias.end(), {"-b", "512", "--threads", "4"});
  const CommandResult result = pumice_command(alias);
  CHECK(result.status == 0);
  CHECK(result.out == pumice_command(own).out);
  CHECK(result.err.find("-b has no effect: ") != std::string::npos);
  CHECK(result.err.find("--threads has no effect: ") != std::string::npos);
}

TEST_CASE("-n -1 is no limit, and types have any case and the names of other programs") {
  const std::string model = fixtures().story().string();
  const auto run = [&](Arguments more) {
    more.insert(more.begin(), {"run", model, "Once upon a time", "--temp", "0", "--context", "24"});
    const CommandResult result = pumice_command(more);
    CAPTURE(result.err);
    CHECK(result.status == 0);
    return result.out;
  };
  const std::string whole = run({});
  CHECK(run({"-n", "-1"}) == whole);
  CHECK(run({"--n-predict", "-1", "-ctk", "F16", "-ctv", "F16"}) == whole);
  CHECK(run({"-n", "3"}).size() < whole.size());
  const CommandResult generated = pumice_command(
      {"generate", model, "--prompt", "Once upon a time", "-n", "-1", "--context", "24", "--ignore-eos"});
  CHECK(generated.status == 0);
  CHECK(generated.out.size() > 20);

  const std::string mha = fixtures().model("llama-mha").string();
  const auto ids = [&](const char* type) {
    return pumice_command({"generate", mha, "--ids", "1,2", "-n", "4", "--weights", type}).out;
  };
  CHECK(ids("q8_0") != "");
  CHECK(ids("int8") == ids("q8_0"));
  CHECK(ids("Q8_0") == ids("q8_0"));
  CHECK(ids("float16") == ids("F16"));
  CHECK(ids("q4_k_m") == ids("Q4_K"));
  CHECK(fails_saying(pumice_command({"generate", mha, "--ids", "1", "--weights", "Q9_K_M"}),
                     {"Q9_K_M", "Q4_K"}) == "");

  const TemporaryFolder folder;
  const auto convert = [&](const char* type) {
    const std::string out = (folder.path() / "out.gguf").string();
    const CommandResult result = pumice_command({"convert", mha, out, "--type", type});
    CAPTURE(result.err);
    CHECK(result.status == 0);
    std::stringstream bytes;
    bytes << std::ifstream(out, std::ios::binary).rdbuf();
    return bytes.str();
  };
  CHECK(convert("q4_k") == convert("Q4_K"));
  CHECK(convert("q4_k_m") == convert("Q4_K_M"));
}

TEST_CASE("settings that are changed for a run change what the model says, and how long its context may be") {
  const std::string model = fixtures().story().string();
  const auto run = [&](Arguments more) {
    more.insert(more.begin(), {"generate", model, "Once upon a time", "-n", "12"});
    return pumice_command(more);
  };
  const std::string plain = run({}).out;
  CHECK(run({"--override-kv", "llama.rope.freq_base=float:10000"}).out == plain);
  const std::string other = run({"--override-kv", "llama.rope.freq_base=float:50"}).out;
  CHECK(other != plain);
  CHECK(run({"--rope-freq-base", "50"}).out == other);
  CHECK(run({"--rope-scaling", "linear", "--rope-scale", "4"}).out == run({"--rope-freq-scale", "0.25"}).out);
  CHECK(fails_saying(run({"--context", "4096"}), {"4096", "made for"}) == "");
  CHECK(run({"--context", "2048", "--rope-scale", "4"}).status == 0);
  CHECK(fails_saying(run({"--override-kv", "llama.block_count=str:x"}), {"llama.block_count"}) == "");
  // What has no effect is said, with what is meant perhaps.
  const auto note = [&](Arguments more) {
    const CommandResult result = run(std::move(more));
    CAPTURE(result.err);
    CHECK(result.status == 0);
    const size_t at = result.err.find(" no effect");
    return at == result.err.npos ? "" : result.err.substr(0, result.err.find('\n', at));
  };
  CHECK(note({"--override-kv", "llama.rope.freq_bas=float:50"})
            .find("'llama.rope.freq_bas' has no effect: nothing of this model is read from it; did you mean "
                  "llama.rope.freq_base?") != std::string::npos);
  CHECK(note({"--override-kv", "qwen2.rope.freq_base=float:50"}) != "");
  CHECK(note({"--override-kv", "general.name=str:Tom"}) != "");
  CHECK(note({"--override-kv", "llama.rope.freq_base=float:50"}) == "");
  CHECK(note({"--override-kv", "tokenizer.ggml.add_bos_token=bool:false"}) == "");
  CHECK(note({"--override-kv", "tokenizer.ggml.eos_token_id=int:2"}) == "");
  CHECK(note({"--rope-scale", "2"}) == "");
  CHECK(fails_saying(run({"--rope-scale", "4", "--rope-freq-scale", "0.25"}), {"do not go together"}) == "");
}

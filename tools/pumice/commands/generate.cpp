#include "commands/generate.h"

#include <fmt/format.h>

#include "loading/picture_tower.h"
#include "model/vocabulary.h"
#include "options/prompt.h"
#include "options/subcommand.h"
#include "process/processes.h"
#include "process/replicas.h"
#include "task/model_kind.h"

namespace pumice::command {

namespace {

Status generate(const GenerateOptions& given) {
  GenerateOptions options = given;
  PUMICE_TRY(options.form, read_form(given.form));
  if (options.log_probabilities && !options.json && !options.json_lines && options.requests.empty()) {
    return Error{Code::invalid_argument, "--logprobs has an effect only with --json or --json-lines"};
  }
  if (is_replica() && (options.requests.empty() || !options.outputs.empty())) {
    return Error{
        Code::invalid_argument,
        "--replicas divides the lines of --requests, and their answers are printed: give the prompts "
        "with --requests, and leave --outputs out"};
  }
  // Without inputs, it is not looked for: there are no pictures.
  const bool may_see = !options.inputs.empty() || !options.mmproj.empty();
  PUMICE_TRY(ModelFile file, may_see ? open_with_mmproj(options.model, options.mmproj)
                                     : ModelFile::open(path_of(options.model)));
  PUMICE_TRY(OpenedModel opened, OpenedModel::open(std::move(file), options.size.load.settings));
  const ModelShape shape = opened.definition->shape();
  PUMICE_CHECK(check_makes_text(opened.file, shape));
  PUMICE_CHECK(check_biases(options.sampling, shape.vocabulary));
  PUMICE_CHECK(check_ids_below(options.stop_ids, shape.vocabulary, "--stop-id"));
  const MaybeTokenizer tokenizer = load_tokenizer(opened.file);
  if (!tokenizer.ok() && tokenizer.error().code != Code::not_found) return tokenizer.error();
  if (shape.encoder && has_form(options.form))
    return wrong_kind(options.model, shape, "a form of the answer is only for models without an encoder");
  if (shape.encoder && !options.adapters.empty())
    return wrong_kind(options.model, shape, "--lora is only for models without an encoder");
  return shape.encoder ? generate_from_inputs(options, std::move(opened), tokenizer)
                       : generate_in_batches(options, std::move(opened), tokenizer);
}

} // namespace

Subcommand add_generate(CLI::App& app) {
  CLI::App* sub = app.add_subcommand("generate", "Generate texts for other programs to read.");
  auto options = std::make_shared<GenerateOptions>();
  sub->add_option("MODEL", options->model, "A GGUF file or a Hugging Face folder")->required()->type_name("");
  const auto repeated = [](CLI::Option* option) {
    return option->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  };
  CLI::Option* texts =
      sub->add_option("PROMPT", options->texts, "Texts to continue, each by itself, in one batch")
          ->type_name("");
  CLI::Option* ids =
      repeated(sub->add_option("--ids", options->ids,
                               "A prompt as token ids, separated by commas. Can be given more than once: the "
                               "prompts are then continued in one batch"))
          ->type_name("ID,...")
          ->group("Prompt")
          ->excludes(texts);
  CLI::Option* prompt =
      repeated(sub->add_option("--prompt", options->prompts, "A prompt as text. Can be given more than once"))
          ->type_name("TEXT")
          ->group(more_of("Prompt"))
          ->excludes(texts)
          ->excludes(ids);
  CLI::Option* files =
      repeated(sub->add_option("-f,--file", options->files,
                               "A prompt from this file; '-' is standard input. Can be given more than once"))
          ->type_name("FILE")
          ->group("Prompt")
          ->excludes(texts)
          ->excludes(ids)
          ->excludes(prompt);
  CLI::Option* requests =
      sub->add_option("--requests", options->requests,
                      "A file of JSON lines; '-' is standard input. Each line is an object with 'prompt', "
                      "'ids' or 'messages' (a chat, with 'chat_template_kwargs' if wanted), and if wanted "
                      "'id', which stands in the answer again, and values that override "
                      "the options: 'count', 'samples', 'seed', 'stop', 'temperature', 'top_p' and so on, or "
                      "one of 'choices', 'regex', 'json_schema' and 'grammar'. "
                      "The answers are JSON lines, too, each as soon as it and those before it are there")
          ->type_name("FILE")
          ->group("Prompt")
          ->excludes(texts)
          ->excludes(ids)
          ->excludes(prompt)
          ->excludes(files);
  sub->add_option(
         "--chat-template-kwargs", options->variables,
         "Variables of the chat template as a JSON object, such as {\"enable_thinking\": false}, for "
         "requests with 'messages' that have none of their own")
      ->type_name("JSON")
      ->group(more_of("Prompt"))
      ->needs(requests);
  sub->add_flag("--skip-bad-lines", options->skip_bad,
                "Leave out requests that are wrong, with a note for each. Without it, each is answered with "
                "error, and the exit status is 1")
      ->group(more_of("Prompt"))
      ->needs(requests);
  sub->add_option(
         "--inputs", options->inputs,
         "A safetensors file with the prompts or the encoder's inputs. It has 'prompt_ids' "
         "[prompts, tokens] and, if there is padding, 'prompt_mask' or 'attention_mask' (0 is padding). "
         "For a model with an encoder, it has 'input_ids' and 'attention_mask', 'pixel_values', "
         "'input_features', or 'audio_16khz'")
      ->type_name("FILE")
      ->group(more_of("Prompt"))
      ->excludes(texts)
      ->excludes(ids)
      ->excludes(prompt)
      ->excludes(files)
      ->excludes(requests);
  add_mmproj_option(*sub, options->mmproj, more_of("Prompt"));
  sub->add_option(
         "--samples", options->samples,
         "Number of texts for each prompt. The first has the seed of --seed, each other one the next")
      ->type_name("N")
      ->check(within(1u, 1u << 20))
      ->capture_default_str()
      ->group("Text");
  repeated(
      sub->add_option("--stop", options->stops, "End a text before this string. Can be given more than once"))
      ->type_name("STRING")
      ->group("Text");
  sub->add_option("--sequences", options->sequences,
                  "Maximum number of prompts that are continued at the same time; the others wait")
      ->type_name("N")
      ->check(within(1u, 4096u))
      ->capture_default_str()
      ->group(more_of(device_group));
  add_batch_option(*sub, options->batch_tokens, device_group);
  options->count_option = sub->add_option("-n,--count", options->count,
                                          "Maximum number of tokens. -1 is as many as fit. For a model with "
                                          "an encoder, its settings come before this default")
                              ->type_name("N")
                              ->transform(token_count(0, UINT32_MAX - 1, no_token_limit))
                              ->capture_default_str()
                              ->group("Text");
  repeated(sub->add_option("--stop-id", options->stop_ids,
                           "End a text before this token. Can be given more than once"))
      ->type_name("ID")
      ->check(within(0u, UINT32_MAX))
      ->group(more_of("Text"));
  sub->add_flag("--ignore-eos", options->ignore_end, "Continue after a token that ends the text")
      ->group(more_of("Text"));
  sub->add_option("--outputs", options->outputs,
                  "Write the new ids to this safetensors file. Its tensor 'generated_ids' [texts, tokens] "
                  "includes the "
                  "token that ended each text, and is padded with the model's padding token")
      ->type_name("FILE")
      ->group(more_of("Text"));
  sub->add_flag(
         "--json", options->json,
         "Print one JSON object. Its fields: ids (only the new ones), text, finish_reason, seed, device, "
         "driver, and with beam search score. Several prompts are in a list 'sequences', several texts of "
         "one prompt "
         "(--n-best) in a list 'hypotheses'")
      ->group("Output");
  sub->add_flag("--json-lines", options->json_lines,
                "Print a JSON object for each text when it is complete. Each is on a line of its own, with "
                "the fields of --json, index (of the prompt) and sample")
      ->group("Output");
  sub->add_option("--logprobs", options->log_probabilities,
                  "Add the log-probabilities of each new token and of the N most probable ones at its place. "
                  "They are in the field 'logprobs'")
      ->type_name("N")
      ->check(within(1u, static_cast<uint32_t>(SAMPLING_TOP)))
      ->group(more_of("Text"));
  add_session_option(*sub, options->session);
  add_beam_options(*sub, options->beams);
  for (const char* name : {"--beams", "--n-best"}) sub->get_option(name)->group(more_of("Beam search"));
  add_adapter_option(*sub, options->adapters);
  add_form_options(*sub, options->form);
  add_sampling_options(*sub, options->sampling, SamplingParams());
  add_size_options(*sub, options->size, "f32");
  add_settings_options(*sub, options->size.load);
  add_drafts_option(*sub, options->size);
  add_max_stall_option(*sub, options->size);
  add_cache_tokens_option(*sub, options->size);
  add_device_options(*sub, options->device);
  add_stage_options(*sub, options->device);
  add_replica_option(*sub, options->device);
  add_resume_option(*sub, options->resume);
  sub->get_option("--resume")->needs(requests);
  sub->footer(example("pumice generate model.gguf \"Once upon a time\" \"The end of\" -n 12 --json"));
  return {sub,
          [options] { return generate(*options); },
          {{"MODEL", "--inputs", "--file", "--requests"}, {"--outputs", "--session", "--resume"}},
          [options] { return serve_stage(options->model, options->device, options->size.load); },
          &options->device.timeout,
          &options->device.replicas};
}

} // namespace pumice::command

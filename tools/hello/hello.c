/* The smallest program with Pumice: loads a model, continues a prompt, and prints each token when it is
 * generated.
 *
 *   hello MODEL PROMPT          MODEL is a GGUF file or a Hugging Face folder
 */
#include <pumice/pumice.h>

#include <stdio.h>

/* Called within pumice_session_run, once for each token and once at the end. The text of a token may be
 * empty, because its last character is not complete yet. The end brings the rest of the text. */
static void on_event(void* user, const pumice_event* event) {
  (void)user;
  fputs(event->text, stdout);
  fflush(stdout);
}

static void on_log(void* user, pumice_log_level level, const char* message) {
  (void)user;
  if (level == PUMICE_LOG_WARNING) fprintf(stderr, "hello: %s\n", message);
}

/* Prints which step failed, and why: on failure, every function of Pumice writes the reason as a sentence. */
static int failed(const char* what, const pumice_error* error) {
  fprintf(stderr, "hello: %s: %s (%s)\n", what, error->message, pumice_status_name(error->status));
  return 1;
}

/* Generates a text: requests it, and runs the session until it ends. */
static int generate_text(pumice_session* session, const char* prompt) {
  pumice_error error;
  const pumice_sampling sampling = {
      .struct_size = sizeof sampling,
      .temperature = 0.8f,
      .top_p = 0.95f,
      .seed = 1, /* the same seed, prompt and device give the same text */
  };
  const pumice_request request = {
      .struct_size = sizeof request,
      .text = prompt,
      .sampling = &sampling, /* without it: the most probable token each time */
      .max_tokens = 256,     /* the text may end earlier */
  };
  if (pumice_session_generate(session, &request, &error) != PUMICE_OK) return failed("the prompt", &error);

  fputs(prompt, stdout);
  const pumice_status status = pumice_session_run(session, &error);
  fputs("\n", stdout);
  if (status != PUMICE_OK) return failed("generating", &error);
  if (fflush(stdout) != 0 || ferror(stdout)) {
    fprintf(stderr, "hello: the text could not be written to standard output\n");
    return 1;
  }
  return 0;
}

int main(int argc, char** argv) {
  if (argc != 3) {
    fprintf(stderr, "usage: hello MODEL PROMPT\n"
                    "  hello models/pretrained/stories-2m.gguf \"Once upon a time\"\n");
    return 2;
  }
  pumice_error error;
  pumice_device* device = NULL;
  pumice_model* model = NULL;
  pumice_session* session = NULL;

  /* Each structure contains its own size. A field that is zero has its default. By default, Pumice opens the
   * best Vulkan device. */
  const pumice_device_options device_options = {.struct_size = sizeof device_options, .log = on_log};
  if (pumice_device_create(&device_options, &device, &error) != PUMICE_OK) return failed("no device", &error);

  int result = 1;
  const pumice_source source = {.struct_size = sizeof source, .path = argv[1]};
  const pumice_session_options session_options = {.struct_size = sizeof session_options,
                                                  .on_event = on_event};
  if (pumice_model_load(device, &source, NULL, &model, &error) != PUMICE_OK)
    failed("the model", &error);
  else if (pumice_session_create(model, &session_options, &session, &error) != PUMICE_OK)
    failed("the session", &error);
  else
    result = generate_text(session, argv[2]);

  /* The order does not matter. Objects that were not created are NULL, which is allowed. */
  pumice_session_destroy(session);
  pumice_model_destroy(model);
  pumice_device_destroy(device);
  return result;
}

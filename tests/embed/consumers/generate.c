/* As a program in C would use Pumice: goes on with a prompt for eight tokens, and prints them. */
#include <pumice/pumice.h>

#include <stdio.h>

static int fail(const pumice_error* error) {
  fprintf(stderr, "%s: %s\n", pumice_status_name(error->status), error->message);
  return 1;
}

static void print(void* user, const pumice_event* event) {
  (void)user;
  fputs(event->text, stdout);
}

int main(int count, char** arguments) {
  pumice_error error;
  pumice_device* device = NULL;
  pumice_model* model = NULL;
  pumice_session* session = NULL;
  pumice_device_options device_options = {.struct_size = sizeof device_options};
  pumice_source source = {.struct_size = sizeof source};
  pumice_session_options session_options = {.struct_size = sizeof session_options};
  pumice_request request = {.struct_size = sizeof request};
  int major, minor, patch;

  if (count != 3) return 2;
  pumice_version(&major, &minor, &patch);
  if (major != PUMICE_VERSION_MAJOR || minor < PUMICE_VERSION_MINOR) {
    fprintf(stderr, "version %d.%d.%d of the library is not the header's\n", major, minor, patch);
    return 1;
  }

  device_options.cache_folder = arguments[2];
  if (pumice_device_create(&device_options, &device, &error) != PUMICE_OK) return fail(&error);
  source.path = arguments[1];
  if (pumice_model_load(device, &source, NULL, &model, &error) != PUMICE_OK) return fail(&error);
  session_options.context = 64;
  session_options.on_event = print;
  if (pumice_session_create(model, &session_options, &session, &error) != PUMICE_OK) return fail(&error);

  request.text = "Once upon a time";
  request.max_tokens = 8;
  if (pumice_session_generate(session, &request, &error) != PUMICE_OK) return fail(&error);
  if (pumice_session_run(session, &error) != PUMICE_OK) return fail(&error);
  putchar('\n');

  pumice_session_destroy(session);
  pumice_model_destroy(model);
  pumice_device_destroy(device);
  return 0;
}

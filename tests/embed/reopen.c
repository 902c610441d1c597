/* Opens libpumice as a plug-in is opened, uses it, closes it, and again: nothing is left behind.
 *   reopen LIBRARY MODEL.gguf */
#include <dirent.h>
#include <dlfcn.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pumice.h"

enum { parts = 5, rounds = 10, tokens = 4, allowed_kib_per_round = 16 };

static void fail(const char* what, const char* why) {
  fprintf(stderr, "FAILED: %s: %s\n", what, why);
  exit(1);
}

/* ---- what the process holds ---- */

typedef struct use {
  long anonymous_kib, files, threads;
} use;

static long count(const char* folder) {
  long entries = 0;
  const struct dirent* entry;
  DIR* open = opendir(folder);
  if (!open) fail(folder, "cannot be read");
  while ((entry = readdir(open))) entries += entry->d_name[0] != '.';
  closedir(open);
  return entries;
}

static use held(void) {
  use now = {-1, count("/proc/self/fd"), count("/proc/self/task")};
  char line[256];
  FILE* status;
  malloc_trim(0);
  status = fopen("/proc/self/status", "r");
  if (!status) fail("/proc/self/status", "cannot be read");
  while (fgets(line, sizeof line, status)) sscanf(line, "RssAnon: %ld", &now.anonymous_kib);
  fclose(status);
  return now;
}

/* ---- the library ---- */

static void* function(void* library, const char* name) {
  void* found = dlsym(library, name);
  if (!found) fail(name, dlerror());
  return found;
}

#define CALL(name) (*(__typeof__(&name))function(library, #name))

static void check(pumice_status status, const pumice_error* error) {
  if (status != PUMICE_OK) fail("pumice", error->message);
}

static void generate(void* library, const char* path) {
  pumice_device* device;
  pumice_model* model;
  pumice_session* session;
  pumice_error error;
  const pumice_event* event;
  pumice_source source = {sizeof source};
  pumice_session_options options = {sizeof options};
  pumice_request request = {sizeof request};
  int came = 0;
  source.path = path;
  options.context = 64;
  options.chunk = 8;
  request.text = "Once upon a time";
  request.max_tokens = tokens;
  check(CALL(pumice_device_create)(NULL, &device, &error), &error);
  check(CALL(pumice_model_load)(device, &source, NULL, &model, &error), &error);
  check(CALL(pumice_session_create)(model, &options, &session, &error), &error);
  check(CALL(pumice_session_generate)(session, &request, &error), &error);
  check(CALL(pumice_session_run)(session, &error), &error);
  while ((event = CALL(pumice_session_poll)(session))) came += event->type == PUMICE_EVENT_TOKEN;
  if (came != tokens) fail("pumice_session_run", "brought another number of tokens than it was asked for");
  CALL(pumice_session_destroy)(session);
  CALL(pumice_model_destroy)(model);
  CALL(pumice_device_destroy)(device);
}

static void open_use_close(const char* file, const char* model) {
  void* library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (!library) fail(file, dlerror());
  generate(library, model);
  if (dlclose(library) != 0) fail(file, dlerror());
  if (dlopen(file, RTLD_NOW | RTLD_NOLOAD)) fail(file, "is still there after it was closed");
}

static use open_often(const char* file, const char* model) {
  int i;
  for (i = 0; i < rounds; ++i) open_use_close(file, model);
  return held();
}

static int smaller(const void* a, const void* b) {
  const long left = *(const long*)a, right = *(const long*)b;
  return (left > right) - (left < right);
}

/* As in endurance_test.cpp: a leak grows in every part, so the middle one says how much there is. */
int main(int argc, char** argv) {
  use before, after;
  long grown[parts];
  double growth;
  int i;
  if (argc != 3) fail("reopen", "expected a library and a model");
  mallopt(M_ARENA_MAX, 1); /* else each thread that comes may find another pool to fill */
  before = after = open_often(argv[1], argv[2]);
  for (i = 0; i < parts; ++i) {
    const long last = after.anonymous_kib;
    after = open_often(argv[1], argv[2]);
    grown[i] = after.anonymous_kib - last;
  }
  qsort(grown, parts, sizeof grown[0], smaller);
  growth = (double)grown[parts / 2] / rounds;
  printf("%.1f KiB a round, %ld files, %ld threads\n", growth, after.files, after.threads);
  if (growth > allowed_kib_per_round) fail("memory", "has grown");
  if (after.files != before.files) fail("open files", "are not as many as before");
  if (after.threads != before.threads) fail("threads", "are not as many as before");
  return 0;
}

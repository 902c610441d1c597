// A build tool: compiles a shader's variants to SPIR-V, all in one process. Most of what a variant takes
// alone is glslang making its built-in functions.
//   compile_shaders SOURCE LIST DEPFILE INCLUDE...
// LIST has a line for each variant: the file to write, the target (vulkan1.2, or vulkan1.1spv1.4) and its
// definitions. What the source includes is looked for beside the file that includes it, then in each folder
// INCLUDE. Warnings are errors.
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <glslang/Include/glslang_c_interface.h>
#include <glslang/Public/resource_limits_c.h>
#include <spirv-tools/libspirv.h>

namespace {

[[noreturn]] void fail(const std::string& message) {
  std::fprintf(stderr, "compile_shaders: %s\n", message.c_str());
  std::exit(1);
}

std::string read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) fail(path.string() + ": cannot be read");
  return {std::istreambuf_iterator<char>(file), {}};
}

struct Target {
  const char* name;
  glslang_target_client_version_t client;
  glslang_target_language_version_t language;
  spv_target_env validator;
};
constexpr Target targets[] = {
    {"vulkan1.1spv1.4", GLSLANG_TARGET_VULKAN_1_1, GLSLANG_TARGET_SPV_1_4, SPV_ENV_VULKAN_1_1_SPIRV_1_4},
    {"vulkan1.2", GLSLANG_TARGET_VULKAN_1_2, GLSLANG_TARGET_SPV_1_5, SPV_ENV_VULKAN_1_2},
    {"vulkan1.3", GLSLANG_TARGET_VULKAN_1_3, GLSLANG_TARGET_SPV_1_6, SPV_ENV_VULKAN_1_3}};

// What a source includes, and all that was read so.
struct Includes {
  std::vector<std::filesystem::path> folders;
  std::set<std::string> read;
};

struct Included {
  glsl_include_result_t result;
  std::string name, text;
};

glsl_include_result_t* include(void* context, const char* header, const char* includer, size_t /*depth*/) {
  Includes& includes = *static_cast<Includes*>(context);
  std::vector<std::filesystem::path> folders = includes.folders;
  folders.insert(folders.begin(), std::filesystem::path(includer).parent_path());
  for (const auto& folder : folders) {
    const std::filesystem::path path = (folder / header).lexically_normal();
    if (!std::filesystem::exists(path)) continue;
    includes.read.insert(path.string());
    auto* included = new Included{{}, path.string(), read(path)};
    included->result = {included->name.c_str(), included->text.data(), included->text.size()};
    return &included->result;
  }
  return nullptr;
}

int release(void* /*context*/, glsl_include_result_t* result) {
  delete reinterpret_cast<Included*>(result); // its first member
  return 0;
}

// Ends the program if `log` says more than nothing.
void check(bool done, const std::string& what, const std::string& log) {
  if (!done || log.find("WARNING") != std::string::npos || log.find("ERROR") != std::string::npos)
    fail(what + "\n" + log);
}

std::vector<uint32_t> compile(const std::string& source, const std::string& text, const Target& target,
                              const std::string& defines, Includes& includes) {
  const std::string what = source + defines;
  std::string preamble;
  std::istringstream words(defines);
  for (std::string word; words >> word;) {
    const size_t equals = word.find('=');
    preamble += "#define " + word.substr(0, equals) +
                (equals == std::string::npos ? "" : " " + word.substr(equals + 1)) + "\n";
  }
  glslang_input_t input{};
  input.language = GLSLANG_SOURCE_GLSL;
  input.stage = GLSLANG_STAGE_COMPUTE;
  input.client = GLSLANG_CLIENT_VULKAN;
  input.client_version = target.client;
  input.target_language = GLSLANG_TARGET_SPV;
  input.target_language_version = target.language;
  // An included file is looked for beside the one that includes it, whose name glslang knows from this line
  // on.
  const size_t version_ends = text.find('\n', text.find("#version"));
  std::string named = text.substr(0, version_ends + 1) +
                      "#extension GL_GOOGLE_include_directive : require\n" + "#line 2 \"" + source + "\"\n" +
                      text.substr(version_ends + 1);
  input.code = named.c_str();
  input.default_version = 100;
  input.default_profile = GLSLANG_NO_PROFILE;
  input.messages = static_cast<glslang_messages_t>(GLSLANG_MSG_SPV_RULES_BIT | GLSLANG_MSG_VULKAN_RULES_BIT);
  input.resource = glslang_default_resource();
  input.callbacks = {include, include, release};
  input.callbacks_ctx = &includes;
  glslang_shader_t* shader = glslang_shader_create(&input);
  glslang_shader_set_preamble(shader, preamble.c_str());
  const bool parsed =
      glslang_shader_preprocess(shader, &input) != 0 && glslang_shader_parse(shader, &input) != 0;
  check(parsed, what, glslang_shader_get_info_log(shader));
  glslang_program_t* program = glslang_program_create();
  glslang_program_add_shader(program, shader);
  const bool linked = glslang_program_link(program, input.messages) != 0;
  check(linked, what, glslang_program_get_info_log(program));
  glslang_spv_options_t options{};
  options.strip_debug_info = true;
  glslang_program_SPIRV_generate_with_options(program, input.stage, &options);
  if (const char* messages = glslang_program_SPIRV_get_messages(program)) check(true, what, messages);
  const unsigned* words_of_code = glslang_program_SPIRV_get_ptr(program);
  std::vector<uint32_t> code(words_of_code, words_of_code + glslang_program_SPIRV_get_size(program));
  glslang_program_delete(program);
  glslang_shader_delete(shader);

  spv_context context = spvContextCreate(target.validator);
  spv_diagnostic diagnostic = nullptr;
  spv_const_binary_t binary = {code.data(), code.size()};
  if (spvValidate(context, &binary, &diagnostic) != SPV_SUCCESS)
    fail(what + "\n" + (diagnostic ? diagnostic->error : "this is no valid SPIR-V"));
  spvDiagnosticDestroy(diagnostic);
  spvContextDestroy(context);
  return code;
}

} // namespace

int main(int argc, char** argv) {
  if (argc < 4) fail("expected SOURCE LIST DEPFILE INCLUDE...");
  const std::string source = argv[1];
  const std::string text = read(source);
  Includes includes{{argv + 4, argv + argc}, {}};
  glslang_initialize_process();
  std::istringstream list(read(argv[2]));
  std::string outputs;
  for (std::string line; std::getline(list, line);) {
    std::istringstream words(line);
    std::string output, name, defines;
    words >> output >> name;
    std::getline(words, defines);
    const Target* target = nullptr;
    for (const Target& each : targets) {
      if (name == each.name) target = &each;
    }
    if (!target) fail(std::string(argv[2]) + ": there is no target '" + name + "'");
    const std::vector<uint32_t> code = compile(source, text, *target, defines, includes);
    std::ofstream file(output, std::ios::binary);
    file.write(reinterpret_cast<const char*>(code.data()), static_cast<std::streamsize>(code.size() * 4));
    if (!file.flush()) fail(output + ": cannot be written");
    outputs += output + " ";
  }
  glslang_finalize_process();
  std::ofstream depfile(argv[3]);
  depfile << outputs << ": " << source;
  for (const std::string& path : includes.read) depfile << " " << path;
  depfile << "\n";
  return depfile.flush() ? 0 : 1;
}

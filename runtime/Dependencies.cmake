# Third-party libraries, as targets. Each is listed in the README with the reason it was chosen.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
if(PUMICE_STATIC)
  set(pcre2 libpcre2-8.a)
  set(utf8proc libutf8proc.a)
  set(fmt fmt::fmt-header-only)  # Debian has no static library of fmt
else()
  set(pcre2 pcre2-8)
  set(utf8proc utf8proc)
  set(fmt fmt::fmt)
endif()
find_library(PCRE2_LIBRARY NAMES ${pcre2} REQUIRED NO_CACHE)
find_library(UTF8PROC_LIBRARY NAMES ${utf8proc} REQUIRED NO_CACHE)
# tools/setup.sh leaves newer headers in .deps/ where the distribution's are too old.
find_path(VULKAN_HEADERS vulkan/vulkan.h
  HINTS ${PUMICE_VULKAN_INCLUDE} "${CMAKE_SOURCE_DIR}/.deps/root/usr/include" $ENV{VULKAN_SDK}/include REQUIRED NO_CACHE)

add_library(pumice_dependencies INTERFACE)
target_link_libraries(pumice_dependencies INTERFACE
  ${fmt} nlohmann_json::nlohmann_json ${PCRE2_LIBRARY} ${UTF8PROC_LIBRARY} Threads::Threads ${CMAKE_DL_LIBS})
if(PUMICE_STATIC)
  target_compile_definitions(pumice_dependencies INTERFACE PCRE2_STATIC UTF8PROC_STATIC)
endif()
target_include_directories(pumice_dependencies SYSTEM INTERFACE ${VULKAN_HEADERS})

add_library(pumice_command_dependencies INTERFACE)
find_package(CLI11 REQUIRED)
target_link_libraries(pumice_command_dependencies INTERFACE CLI11::CLI11)

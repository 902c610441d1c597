# Rasterises a font at build time into a table of glyphs (runtime/media/font.h), so that labels can be drawn on machines
# without fonts.
find_file(PUMICE_FONT DejaVuSans.ttf DOC "The TrueType font that labels heat maps"
  PATHS /usr/share/fonts /usr/local/share/fonts /opt/homebrew/share/fonts /Library/Fonts C:/Windows/Fonts
  PATH_SUFFIXES truetype/dejavu truetype dejavu dejavu-sans-fonts TTF)
if(NOT PUMICE_FONT)
  message(FATAL_ERROR "DejaVuSans.ttf was not found: install the DejaVu fonts (fonts-dejavu-core), or name a TrueType font with -DPUMICE_FONT=FILE")
endif()

# Adds to TARGET a source file that defines NAMESPACE::fonts(), as HEADER declares it. The further arguments are the sizes.
function(pumice_embed_font target header namespace)
  if(NOT TARGET embed_font)
    add_executable(embed_font "${PROJECT_SOURCE_DIR}/tools/embed_font.cpp")
    target_link_libraries(embed_font PRIVATE Freetype::Freetype)
  endif()
  set(table "${PROJECT_BINARY_DIR}/generated/${target}_font_table.cpp")
  add_custom_command(OUTPUT "${table}"
    COMMAND embed_font "${PUMICE_FONT}" "${table}" "${header}" "${namespace}" ${ARGN}
    DEPENDS embed_font "${PUMICE_FONT}"
    COMMENT "Font table" VERBATIM)
  target_sources(${target} PRIVATE "${table}")
endfunction()

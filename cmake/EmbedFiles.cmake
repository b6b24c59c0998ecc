# cmake -DOUT=header.h -DNAMESPACE=a::b -DFILES="x.html;y.js" -P EmbedFiles.cmake: each file's bytes as a constexpr std::string_view named
# after it ("x_html").
set(text "// Made from the files beside page.h by cmake/EmbedFiles.cmake.\n#pragma once\n#include <string_view>\n\nnamespace ${NAMESPACE} {\n")
foreach(file ${FILES})
  get_filename_component(name ${file} NAME)
  string(MAKE_C_IDENTIFIER ${name} name)
  file(READ ${file} hex HEX)
  string(REGEX REPLACE "([0-9a-f][0-9a-f])" "\\\\x\\1" escaped "${hex}")
  # Pieces of 64 bytes: a literal's escapes must not run into each other's lines, and compilers bound the length of one.
  string(REGEX REPLACE "(................................................................................................................................................................................................................................................................)" "\\1\"\n    \"" escaped "${escaped}")
  string(LENGTH "${hex}" digits)
  math(EXPR size "${digits} / 2")
  string(APPEND text "inline constexpr std::string_view ${name}(\n    \"${escaped}\",\n    ${size});\n")
endforeach()
file(WRITE ${OUT} "${text}}  // namespace ${NAMESPACE}\n")

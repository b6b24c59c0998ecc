// The files of the page at "/": a chat and a live view of the engine, in the binary itself, so that it works without internet and
// without files beside the program. Pure data.
#pragma once
#include <span>
#include <string_view>

namespace quire::page {

struct File {
  std::string_view path;          // of the route
  std::string_view content_type;
  std::string_view bytes;
};

[[nodiscard]] std::span<const File> files();
// nullptr: no such file.
[[nodiscard]] const File* find_file(std::string_view path);

// What a browser may do with these files: talk to this server, and nothing else.
inline constexpr std::string_view kContentSecurityPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

}  // namespace quire::page

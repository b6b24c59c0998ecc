#include "page/page.h"

#include <algorithm>
#include <array>

#include "page_bytes.h"

namespace quire::page {

std::span<const File> files() {
  static constexpr std::array kFiles = {
      File{"/", "text/html; charset=utf-8", bytes::index_html},
      File{"/quire/page.css", "text/css; charset=utf-8", bytes::page_css},
      File{"/quire/page.js", "text/javascript; charset=utf-8", bytes::page_js},
  };
  return kFiles;
}

const File* find_file(std::string_view path) {
  const auto all = files();
  const auto found = std::ranges::find(all, path, &File::path);
  return found == all.end() ? nullptr : &*found;
}

}  // namespace quire::page

#include "tensor/view.h"

namespace quire {

std::string TensorView::describe() const {
  std::string out = dtype_name(dtype);
  out += "[";
  for (int i = 0; i < rank; ++i) out += (i == 0 ? "" : ", ") + std::to_string(dim(i));
  return out + "]";
}

}  // namespace quire

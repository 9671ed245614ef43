// Beside gemm: the library's calls for layouts whose plans are found.
#pragma once

#include "gemm.h"

namespace lt {

// Throws LibraryError when the library fails; nothing that was acquired for the call outlives it.
void launch(const Contraction& contraction, const Tensors& tensors, Scalars scalars, const Types& types,
            Library* library, const std::vector<Part>& parts);

}  // namespace lt

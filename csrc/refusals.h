// Beside gemm: what of a call is the caller's mistake (thrown), and what is no GEMM (a reason).
#pragma once

#include <string>
#include <vector>

#include "gemm.h"

namespace lt {

Types types_of(const Tensors& tensors, int64_t flags);

// Throw ArgumentError. int8 products are scaled by whole numbers; only fp8 operands have scales, one or one a row.
void check_scalars(const Types& types, Scalars scalars);
void check_scales(const Contraction& contraction, const Tensors& tensors, const Types& types);

// What the tensors refuse, with or without a layout; empty if nothing.
std::string refusal_of(const Tensors& tensors, const Types& types, const std::vector<Layout>& layouts,
                       const Library* library);

}  // namespace lt

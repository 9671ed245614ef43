// Beside gemm: the plan's key, and the pointers of a descriptor, from a call's tensors and its layout.
#pragma once

#include "contraction.h"
#include "plan.h"
#include "tensors.h"
#include "types.h"

namespace lt {

// The tensor that plays a role in the layout: the library's A and B are the caller's in either order.
inline Operand first_of(const Layout& layout) { return layout.first_is_b ? kB : kA; }
inline Operand second_of(const Layout& layout) { return layout.first_is_b ? kA : kB; }

PlanKey key_of(const Contraction& contraction, const Tensors& tensors, const Types& types, int64_t flags,
               const Library& library, const Layout& layout);
// For one step of the layout's loops.
DescPointers pointers_of(const Contraction& contraction, const Tensors& tensors, const Layout& layout, int64_t step);
// Where the operand's matrix of a step starts.
char* start_of(const DLTensor& tensor, Operand operand, const Layout& layout, int64_t step);

}  // namespace lt

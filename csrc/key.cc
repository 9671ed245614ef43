// Fills a plan's key.
#include "key.h"

#include "workspace.h"

namespace lt {
namespace {

constexpr int64_t kInvariantAlignment = 16;

int64_t reductions_of(int64_t flags) {
  if (flags & (kNoSplitK | kBatchInvariant)) return CUBLASLT_REDUCTION_SCHEME_NONE;
  // In place and in the output's type partial sums are rounded to 16 bits; in the compute type they are not.
  if (flags & kFullReduction) return CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  // In place they are added in sequence, but which comes first is a race.
  if (flags & kDeterministic) return CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE | CUBLASLT_REDUCTION_SCHEME_OUTPUT_TYPE;
  return CUBLASLT_REDUCTION_SCHEME_MASK;
}

// The worst alignment of all the matrices that calls are handed: with every step of every loop, from every start.
int64_t alignment_in(const DLTensor& tensor, Operand operand, const Layout& layout, int64_t flags) {
  int64_t steps = layout.offset[operand] * item_size(tensor);
  for (const Loop& loop : layout.loops) steps |= loop.stride[operand] * item_size(tensor);
  // Matrices of an array of pointers each have an address; of a strided batch only the first has.
  if (layout.pointers) {
    int64_t stride = operand == kD ? layout.d.batch_stride : operand == kC ? layout.c.batch_stride : 0;
    if (operand == first_of(layout)) stride = layout.first.batch_stride;
    if (operand == second_of(layout)) stride = layout.second.batch_stride;
    steps |= stride * item_size(tensor);
  }
  int64_t found = alignment_of(data_of(tensor), steps);
  if (!(flags & kBatchInvariant)) return found;
  // Two classes, so that the algorithm does not change with every slice.
  return found >= kInvariantAlignment ? kInvariantAlignment : item_size(tensor);
}

int64_t mode_of(const DLTensor* scale) {
  return !scale ? -1 : elements_of(*scale) == 1 ? kScaleScalar : kScaleOuterVector;
}

}  // namespace

char* start_of(const DLTensor& tensor, Operand operand, const Layout& layout, int64_t step) {
  int64_t at = layout.start(operand, step);
  // A mask's are bits, always a multiple of 128.
  return data_of(tensor) + at * item_size(tensor);
}

DescPointers pointers_of(const Contraction& contraction, const Tensors& tensors, const Layout& layout, int64_t step) {
  DescPointers found;
  if (tensors.has(kBias)) found.bias = start_of(tensors[kBias], kBias, layout, step);
  if (tensors.has(kAux)) {
    int64_t at = layout.start(kAux, step);
    found.aux = data_of(tensors[kAux]) + (contraction.epilogue.aux_is_mask() ? at / 8 : at * item_size(tensors[kAux]));
  }
  int first = first_of(layout);
  if (tensors.scale[first]) found.scale_a = data_of(*tensors.scale[first]);
  if (tensors.scale[1 - first]) found.scale_b = data_of(*tensors.scale[1 - first]);
  return found;
}

PlanKey key_of(const Contraction& contraction, const Tensors& tensors, const Types& types, int64_t flags,
               const Library& library, const Layout& layout) {
  PlanKey key{};
  Operand first = first_of(layout), second = second_of(layout);
  const DLTensor& c = tensors.has(kC) ? tensors[kC] : tensors[kD];
  key.library = reinterpret_cast<int64_t>(&library);
  key.version = static_cast<int64_t>(library.version());
  key.device = tensors[kA].device.device_id;
  key.type_a = first == kA ? types.a : types.b, key.type_b = first == kA ? types.b : types.a;
  key.type_d = types.d, key.type_bias = types.bias, key.compute = types.compute, key.scale = types.scale;
  key.flags = flags, key.reduction_mask = reductions_of(flags);
  key.epilogue = epilogue_of(contraction.epilogue, layout.first_is_b);
  key.workspace_limit = workspace_limit(library, tensors[kA].device.device_id);
  key.rows = layout.rows, key.cols = layout.cols, key.k = layout.k;
  key.batch = layout.pointers ? layout.batch * layout.steps() : layout.batch, key.pointers = layout.pointers;
  key.m_is_cols = layout.first_is_b;
  key.trans_a = layout.first.trans, key.trans_b = layout.second.trans;
  key.lda = layout.first.ld, key.ldb = layout.second.ld, key.ldc = layout.c.ld, key.ldd = layout.d.ld;
  key.ld_aux = layout.aux.ld;
  key.stride_a = layout.first.batch_stride, key.stride_b = layout.second.batch_stride;
  key.stride_c = layout.c.batch_stride, key.stride_d = layout.d.batch_stride;
  key.stride_aux = layout.aux.batch_stride;
  key.align_a = alignment_in(tensors[first], first, layout, flags);
  key.align_b = alignment_in(tensors[second], second, layout, flags);
  key.align_c = alignment_in(c, tensors.has(kC) ? kC : kD, layout, flags);
  key.align_d = alignment_in(tensors[kD], kD, layout, flags);
  DescPointers pointers = pointers_of(contraction, tensors, layout, 0);
  key.align_bias = pointers.bias ? alignment_of(pointers.bias) : 0;
  key.align_aux = pointers.aux ? alignment_of(pointers.aux) : 0;
  key.scale_mode_a = mode_of(tensors.scale[first]), key.scale_mode_b = mode_of(tensors.scale[second]);
  return key;
}

}  // namespace lt

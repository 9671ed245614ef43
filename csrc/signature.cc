// Gathers a call's signature. On every call's path.
#include "signature.h"

#include "plan_cache.h"
#include "types.h"
#include "workspace.h"

namespace lt {
namespace {

int64_t word_of(DLDataType type) { return (static_cast<int64_t>(type.code) << 8) | type.bits; }

}  // namespace

Signature signature_of(const Tensors& tensors, int64_t flags, const Library& library) {
  Signature found;
  const DLTensor& a = tensors[kA];
  found.add(reinterpret_cast<int64_t>(&library));
  found.add(PlanCache::global().generation());
  found.add(workspace_limit(library, a.device.device_id));
  found.add(a.device.device_id);
  found.add(word_of(a.dtype) << 32 | word_of(tensors[kB].dtype) << 16 | word_of(tensors[kD].dtype));
  // C in place has to lie as D does, so whether it is there belongs to the layout.
  found.add(flags | (tensors.has(kC) && data_of(tensors[kC]) == data_of(tensors[kD]) ? kAllFlags + 1 : 0));
  for (int i = 0; i < kOperands; ++i) {
    const DLTensor* tensor = tensors.of[i];
    found.add(tensor ? alignment_of(data_of(*tensor)) : 0);
    for (int d = 0; tensor && d < tensor->ndim; ++d) found.add(tensor->strides ? tensor->strides[d] : -1);
  }
  for (const DLTensor* scale : tensors.scale) found.add(scale ? elements_of(*scale) : 0);
  return found;
}

}  // namespace lt

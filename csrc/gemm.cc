// Finds the plan of a call (the contraction's last one first, then the cache) and makes the library's calls.
#include "gemm.h"

#include <tvm/ffi/extra/c_env_api.h>

#include <optional>
#include <sstream>

#include "explain.h"
#include "plan_cache.h"
#include "workspace.h"

namespace lt {
namespace {

cublasComputeType_t compute_of(cudaDataType_t type, int64_t flags) {
  if (type == CUDA_R_64F) return CUBLAS_COMPUTE_64F;
  return type == CUDA_R_32F && (flags & kTf32) ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

int64_t reductions_of(int64_t flags) {
  if (flags & kNoSplitK) return CUBLASLT_REDUCTION_SCHEME_NONE;
  // In place and in the output's type partial sums are rounded to 16 bits; in the compute type they are not.
  if (flags & kFullReduction) return CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
  return CUBLASLT_REDUCTION_SCHEME_MASK;
}

void check_flags(int64_t flags) {
  if (flags & ~static_cast<int64_t>(kAllFlags)) {
    throw ArgumentError("flags is " + std::to_string(flags) + "; only the bits 1, 2 and 4 mean something.");
  }
}

// Whether the library computes on the device: a double in host memory, the real one on CUDA.
bool serves(const Library& library, const DLDevice& device) {
  return device.device_type == (library.in_host_memory() ? kDLCPU : kDLCUDA) && device.device_id >= 0 &&
         device.device_id < kMaxDevices;
}

// alpha and beta in the type that the library scales in.
class ScaleFactors {
 public:
  ScaleFactors(Scalars scalars, cudaDataType_t type)
      : wide_(scale_type_of(type) == CUDA_R_64F),
        doubles_{scalars.alpha, scalars.beta},
        floats_{static_cast<float>(scalars.alpha), static_cast<float>(scalars.beta)} {}
  const void* alpha() const { return at(0); }
  const void* beta() const { return at(1); }

 private:
  const void* at(int i) const { return wide_ ? static_cast<const void*>(&doubles_[i]) : &floats_[i]; }
  bool wide_;
  double doubles_[2];
  float floats_[2];
};

// One matrix of a call: where it starts, and how far the next turn of the loop is from it, in bytes.
struct Stepped {
  Stepped(const DLTensor& tensor, const Matrix& matrix)
      : start(data_of(tensor)), step(matrix.loop_stride * item_size(tensor)) {}
  char* at(int64_t turn) const { return start + turn * step; }
  char* start;
  int64_t step;
};

[[noreturn]] void fail_matmul(const Library& library, cublasStatus_t status, const Layout& layout, DLDataType type) {
  std::ostringstream text;
  text << "cublasLtMatmul returned " << library.status_name(status) << " for rows=" << layout.rows
       << " cols=" << layout.cols << " k=" << layout.k << " batch=" << layout.batch << " of " << to_text(type) << ".";
  throw LibraryError(text.str());
}

}  // namespace

bool Gemm::run(Tensors tensors, Scalars scalars, int64_t flags) {
  check_tensors(contraction_, tensors);
  check_flags(flags);
  Library* library = Library::current();
  if (!library) throw LibraryError("no cublasLt is open: call open_library first.");
  if (!serves(*library, tensors[kA].device)) {
    throw ArgumentError("a is not on a device that the opened cublasLt computes on.");
  }
  if (scalars.beta == 0) tensors.of[kC] = nullptr;  // the library does not read C then, whatever it is
  if (scalars.beta != 0 && !tensors.has(kC)) {
    throw ArgumentError("beta is " + std::to_string(scalars.beta) + ", but there is no c to scale.");
  }
  auto found = find(tensors, flags, library);
  if (!found->refusal().empty()) return false;
  launch(tensors, scalars, library, *found);
  return true;
}

Signature Gemm::signature_of(const Tensors& tensors, int64_t flags, const Library& library) const {
  Signature found;
  const DLTensor& a = tensors[kA];
  found.add(reinterpret_cast<int64_t>(&library));
  found.add(PlanCache::global().generation());
  found.add(workspace_limit(library, a.device.device_id));
  found.add((static_cast<int64_t>(a.dtype.code) << 32) | (a.dtype.bits << 8) | a.device.device_id);
  // C in place has to lie as D does, so whether it is there belongs to the layout.
  found.add(flags | (tensors.has(kC) && tensors[kC].data == tensors[kD].data ? kAllFlags + 1 : 0));
  for (int i = 0; i < kOperands; ++i) {
    auto x = static_cast<Operand>(i);
    found.add(tensors.has(x) ? alignment_of(tensors[x], 0) : 0);
    if (!tensors.has(x)) continue;
    for (int d = 0; d < tensors[x].ndim; ++d) found.add(tensors[x].strides ? tensors[x].strides[d] : -1);
  }
  return found;
}

std::shared_ptr<const Found> Gemm::find(const Tensors& tensors, int64_t flags, Library* library) {
  Signature signature = signature_of(tensors, flags, *library);
  std::shared_ptr<const Found> last;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    last = last_;
  }
  if (last && last->signature == signature) {
    if (last->plan) PlanCache::global().count_hit();
    return last;
  }
  auto made = std::make_shared<Found>(*make(tensors, flags, library));
  made->signature = signature;
  std::lock_guard<std::mutex> lock(mutex_);
  last_ = made;
  return made;
}

std::shared_ptr<const Found> Gemm::make(const Tensors& tensors, int64_t flags, Library* library) const {
  auto found = std::make_shared<Found>();
  std::array<std::vector<int64_t>, kOperands> storage;
  Strides strides;
  for (int x = 0; x < kOperands; ++x) {
    if (tensors.of[x]) strides.of[x] = strides_of(*tensors.of[x], &storage[x]);
  }
  found->layout = choose_layout(contraction_, strides);
  if (found->layout.refusal.empty()) found->layout.refusal = refusal_of(tensors, found->layout, library);
  if (!found->layout.refusal.empty() || !library) return found;
  found->plan = plan_for(tensors, key_of(tensors, flags, *library, found->layout), library);
  return found;
}

// What the tensors refuse beyond their layout.
std::string Gemm::refusal_of(const Tensors& tensors, const Layout& layout, const Library* library) const {
  if (!type_of(tensors[kA].dtype).computed) return "only fp64, fp32, fp16 and bf16 are computed here";
  bool in_place = tensors.has(kC) && tensors[kC].data == tensors[kD].data;
  if (in_place && !(layout.c == layout.d)) return "c is out's own memory in another layout";
  if (library && !library->can_switch_devices()) return "the CUDA runtime that goes with this cublasLt is not loaded";
  return "";
}

std::shared_ptr<const Plan> Gemm::plan_for(const Tensors& tensors, const PlanKey& key, Library* library) const {
  auto plan = PlanCache::global().find(key);
  if (plan) return plan;
  int device = tensors[kA].device.device_id;
  DeviceGuard guard(*library, device);
  const void* bias = tensors.has(kBias) ? data_of(tensors[kBias]) : nullptr;
  return PlanCache::global().put(key, make_plan(*library, library->handle(device), key, bias));
}

PlanKey Gemm::key_of(const Tensors& tensors, int64_t flags, const Library& library, const Layout& layout) const {
  PlanKey key{};
  const DLTensor& a = tensors[kA];
  const DLTensor& first = tensors[layout.first_is_b ? kB : kA];
  const DLTensor& second = tensors[layout.first_is_b ? kA : kB];
  const DLTensor& c = tensors.has(kC) ? tensors[kC] : tensors[kD];
  key.library = reinterpret_cast<int64_t>(&library);
  key.version = static_cast<int64_t>(library.version());
  key.device = a.device.device_id;
  key.type = type_of(a.dtype).cuda;
  key.compute = compute_of(type_of(a.dtype).cuda, flags);
  key.reduction_mask = reductions_of(flags);
  key.epilogue = contraction_.has_bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
  key.workspace_limit = workspace_limit(library, a.device.device_id);
  key.rows = layout.rows, key.cols = layout.cols, key.k = layout.k, key.batch = layout.batch;
  key.trans_a = layout.first.trans, key.trans_b = layout.second.trans;
  key.lda = layout.first.ld, key.ldb = layout.second.ld, key.ldc = layout.c.ld, key.ldd = layout.d.ld;
  key.stride_a = layout.first.batch_stride, key.stride_b = layout.second.batch_stride;
  key.stride_c = layout.c.batch_stride, key.stride_d = layout.d.batch_stride;
  key.align_a = alignment_of(first, layout.first.loop_stride);
  key.align_b = alignment_of(second, layout.second.loop_stride);
  key.align_c = alignment_of(c, layout.c.loop_stride);
  key.align_d = alignment_of(tensors[kD], layout.d.loop_stride);
  key.align_bias = tensors.has(kBias) ? alignment_of(tensors[kBias], 0) : 0;
  return key;
}

void Gemm::launch(const Tensors& tensors, Scalars scalars, Library* library, const Found& found) const {
  const Layout& layout = found.layout;
  const Plan& plan = *found.plan;
  const DLDevice& device = tensors[kA].device;
  DeviceGuard guard(*library, device.device_id);
  auto stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(device.device_type, device.device_id));
  Workspace scratch(*library, device, stream, plan.workspace);
  ScaleFactors scale(scalars, type_of(tensors[kA].dtype).cuda);
  const MatmulDesc* desc = &plan.desc;
  std::optional<MatmulDesc> with_bias;
  if (contraction_.has_bias) {
    // Into a copy: other threads run the same plan with other biases.
    with_bias = plan.desc;
    with_bias->set(*library, CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<const void*>(data_of(tensors[kBias])));
    desc = &*with_bias;
  }
  Stepped first(tensors[layout.first_is_b ? kB : kA], layout.first);
  Stepped second(tensors[layout.first_is_b ? kA : kB], layout.second);
  Stepped c(tensors.has(kC) ? tensors[kC] : tensors[kD], layout.c), d(tensors[kD], layout.d);
  cublasLtHandle_t handle = library->handle(device.device_id);
  for (int64_t i = 0; i < layout.calls; ++i) {
    cublasStatus_t status = library->api().matmul(
        handle, desc->get(), scale.alpha(), first.at(i), plan.a.get(), second.at(i), plan.b.get(), scale.beta(),
        c.at(i), plan.c.get(), d.at(i), plan.d.get(), &plan.algo, scratch.data(), plan.workspace, stream);
    if (status != CUBLAS_STATUS_SUCCESS) fail_matmul(*library, status, layout, tensors[kA].dtype);
  }
}

std::string Gemm::explain(const Tensors& tensors, int64_t flags) const {
  check_tensors(contraction_, tensors);
  check_flags(flags);
  // Without a library for this device there still is a layout to show.
  Library* library = Library::current();
  if (library && !serves(*library, tensors[kA].device)) library = nullptr;
  auto found = make(tensors, flags, library);
  return to_json(found->layout, found->plan.get(), contraction_.has_bias);
}

}  // namespace lt

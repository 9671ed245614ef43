// Checks tensors, finds the plan (the last one first, then the cache), and makes the calls.
#include "gemm.h"

#include <tvm/ffi/extra/c_env_api.h>

#include <algorithm>
#include <sstream>

#include "plan_cache.h"
#include "workspace.h"

namespace lt {
namespace {

constexpr int64_t kMaxAlignment = 256;

struct Type {
  cudaDataType_t cuda;
  bool known;
};

Type type_of(DLDataType type) {
  if (type.lanes != 1) return {CUDA_R_32F, false};
  if (type.code == kDLBfloat && type.bits == 16) return {CUDA_R_16BF, true};
  if (type.code != kDLFloat) return {CUDA_R_32F, false};
  if (type.bits == 16) return {CUDA_R_16F, true};
  if (type.bits == 32) return {CUDA_R_32F, true};
  return {CUDA_R_64F, type.bits == 64};
}

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

char* data_of(const DLTensor& tensor) { return static_cast<char*>(tensor.data) + tensor.byte_offset; }

int64_t item_size(const DLTensor& tensor) { return tensor.dtype.bits / 8; }

// The largest power of two that divides `address` and every step of the loop, at most 256.
int64_t alignment_of(const DLTensor& tensor, int64_t loop_stride) {
  int64_t bits = reinterpret_cast<int64_t>(data_of(tensor)) | (loop_stride * item_size(tensor)) | kMaxAlignment;
  return bits & -bits;
}

bool same(DLDataType x, DLDataType y) { return x.code == y.code && x.bits == y.bits && x.lanes == y.lanes; }

std::string shape_text(const DLTensor& tensor) {
  return to_text(std::vector<int64_t>(tensor.shape, tensor.shape + tensor.ndim));
}

// Strides are null in DLPack where a tensor is contiguous.
const int64_t* strides_or(const DLTensor& tensor, std::vector<int64_t>* storage) {
  if (tensor.strides) return tensor.strides;
  storage->assign(tensor.ndim, 1);
  for (int i = tensor.ndim - 2; i >= 0; --i) (*storage)[i] = (*storage)[i + 1] * tensor.shape[i + 1];
  return storage->data();
}

}  // namespace

void Signature::add(int64_t word) {
  if (size == kCapacity) throw ArgumentError("the tensors have more dimensions together than the engine plans for.");
  words[size++] = word;
}

bool Signature::operator==(const Signature& other) const {
  return size == other.size && std::equal(words.begin(), words.begin() + size, other.words.begin());
}

void Gemm::check(const Tensors& tensors) const {
  if (tensors.has(kBias) != contraction_.has_bias) {
    throw ArgumentError(contraction_.has_bias ? "bias is missing: the contraction was bound with one."
                                              : "bias was given, but the contraction was bound without one.");
  }
  const DLTensor& a = tensors[kA];
  for (int i = 0; i < kOperands; ++i) {
    auto x = static_cast<Operand>(i);
    if (!tensors.has(x)) continue;
    const DLTensor& tensor = tensors[x];
    std::string name = name_of(x);
    const std::vector<int64_t>& expected = contraction_.shape[x];
    bool fits = tensor.ndim == static_cast<int>(expected.size()) && std::equal(expected.begin(), expected.end(), tensor.shape);
    if (!fits) throw ArgumentError(name + " has shape " + shape_text(tensor) + " where " + to_text(expected) + " was bound.");
    if (!same(tensor.dtype, a.dtype)) throw ArgumentError(name + " differs from a in dtype; nothing is cast here.");
    if (tensor.device.device_type != a.device.device_type || tensor.device.device_id != a.device.device_id) {
      throw ArgumentError(name + " is on another device than a.");
    }
    if (!tensor.data) throw ArgumentError(name + " of shape " + shape_text(tensor) + " has no memory.");
  }
}

Signature Gemm::signature_of(const Tensors& tensors, int64_t flags, const Library& library) const {
  Signature found;
  const DLTensor& a = tensors[kA];
  found.add(reinterpret_cast<int64_t>(&library));
  found.add(PlanCache::global().generation());
  found.add(workspace_limit(library, a.device.device_id));
  found.add((static_cast<int64_t>(a.dtype.code) << 32) | (a.dtype.bits << 8) | a.device.device_id);
  found.add(flags);
  for (int i = 0; i < kOperands; ++i) {
    auto x = static_cast<Operand>(i);
    found.add(tensors.has(x) ? alignment_of(tensors[x], 0) : 0);
    if (!tensors.has(x)) continue;
    for (int d = 0; d < tensors[x].ndim; ++d) found.add(tensors[x].strides ? tensors[x].strides[d] : -1);
  }
  return found;
}

std::shared_ptr<const Gemm::Found> Gemm::find(const Tensors& tensors, int64_t flags, Library* library) {
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
  auto made = make(tensors, flags, library, signature);
  std::lock_guard<std::mutex> lock(mutex_);
  last_ = made;
  return made;
}

std::shared_ptr<const Gemm::Found> Gemm::make(const Tensors& tensors, int64_t flags, Library* library,
                                              Signature signature) const {
  auto found = std::make_shared<Found>();
  found->signature = signature;
  std::array<std::vector<int64_t>, kOperands> storage;
  Strides strides;
  for (int x = 0; x < kOperands; ++x) {
    if (tensors.of[x]) strides.of[x] = strides_or(*tensors.of[x], &storage[x]);
  }
  found->layout = choose_layout(contraction_, strides);
  if (!type_of(tensors[kA].dtype).known) found->layout.refusal = "only fp64, fp32, fp16 and bf16 are computed here";
  if (!found->layout.refusal.empty() || !library) return found;
  PlanKey key = key_of(tensors, flags, *library, found->layout);
  found->plan = PlanCache::global().find(key);
  if (!found->plan) {
    DeviceGuard guard(*library, tensors[kA].device.device_id);
    cublasLtHandle_t handle = library->handle(tensors[kA].device.device_id);
    const void* bias = tensors.has(kBias) ? data_of(tensors[kBias]) : nullptr;
    found->plan = PlanCache::global().put(key, make_plan(*library, handle, key, bias));
  }
  return found;
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

bool Gemm::run(const Tensors& tensors, Scalars scalars, int64_t flags) {
  check(tensors);
  Library* library = Library::current();
  if (!library) throw LibraryError("no cublasLt is open: call open_library first.");
  DLDeviceType served = library->in_host_memory() ? kDLCPU : kDLCUDA;
  const DLDevice& device = tensors[kA].device;
  if (device.device_type != served) throw ArgumentError("a is not on a device that the opened cublasLt computes on.");
  if (device.device_id < 0 || device.device_id >= kMaxDevices) throw ArgumentError("a is on a device beyond 63.");
  auto found = find(tensors, flags & kAllFlags, library);
  if (!found->plan || !found->plan->refusal.empty()) return false;
  launch(tensors, scalars, library, *found);
  return true;
}

void Gemm::launch(const Tensors& tensors, Scalars scalars, Library* library, const Found& found) const {
  const Layout& layout = found.layout;
  const Plan& plan = *found.plan;
  const DLDevice& device = tensors[kA].device;
  DeviceGuard guard(*library, device.device_id);
  auto stream = static_cast<cudaStream_t>(TVMFFIEnvGetStream(device.device_type, device.device_id));
  tvm::ffi::Optional<tvm::ffi::Tensor> scratch;
  if (plan.workspace > 0) scratch = workspace(*library, device, stream, static_cast<int64_t>(plan.workspace));
  void* scratch_data = scratch.has_value() ? scratch.value().data_ptr() : nullptr;
  const float floats[] = {static_cast<float>(scalars.alpha), static_cast<float>(scalars.beta)};
  const double doubles[] = {scalars.alpha, scalars.beta};
  bool wide = type_of(tensors[kA].dtype).cuda == CUDA_R_64F;
  const void* alpha = wide ? static_cast<const void*>(&doubles[0]) : &floats[0];
  const void* beta = wide ? static_cast<const void*>(&doubles[1]) : &floats[1];
  const MatmulDesc* desc = &plan.desc;
  MatmulDesc with_bias;
  if (contraction_.has_bias) {
    // Into a copy: other threads run the same plan with other biases.
    with_bias = plan.desc;
    with_bias.set(*library, CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<const void*>(data_of(tensors[kBias])));
    desc = &with_bias;
  }
  const char* first = data_of(tensors[layout.first_is_b ? kB : kA]);
  const char* second = data_of(tensors[layout.first_is_b ? kA : kB]);
  const char* c = data_of(tensors.has(kC) ? tensors[kC] : tensors[kD]);
  char* d = data_of(tensors[kD]);
  int64_t item = item_size(tensors[kD]);
  cublasLtHandle_t handle = library->handle(device.device_id);
  for (int64_t i = 0; i < layout.calls; ++i) {
    int64_t at = i * item;
    cublasStatus_t status = library->api().matmul(
        handle, desc->get(), alpha, first + at * layout.first.loop_stride, plan.a.get(),
        second + at * layout.second.loop_stride, plan.b.get(), beta, c + at * layout.c.loop_stride, plan.c.get(),
        d + at * layout.d.loop_stride, plan.d.get(), &plan.algo, scratch_data, plan.workspace, stream);
    if (status == CUBLAS_STATUS_SUCCESS) continue;
    std::ostringstream text;
    text << "cublasLtMatmul returned " << library->status_name(status) << " for rows=" << layout.rows
         << " cols=" << layout.cols << " k=" << layout.k << " batch=" << layout.batch << ".";
    throw LibraryError(text.str());
  }
}

std::string Gemm::explain(const Tensors& tensors, int64_t flags) {
  check(tensors);
  // Without a library for this device there still is a layout to show.
  Library* library = Library::current();
  if (library && tensors[kA].device.device_type != (library->in_host_memory() ? kDLCPU : kDLCUDA)) library = nullptr;
  auto found = make(tensors, flags & kAllFlags, library, Signature{});
  const Layout& layout = found->layout;
  std::ostringstream json;
  std::string refusal = !layout.refusal.empty() ? layout.refusal : found->plan ? found->plan->refusal : "";
  json << "{\"declined\": \"" << refusal << "\"";
  if (layout.refusal.empty()) {
    json << ", \"layout\": \"" << layout.view << "\", \"rows\": " << layout.rows << ", \"cols\": " << layout.cols
         << ", \"k\": " << layout.k << ", \"batch\": " << layout.batch << ", \"calls\": " << layout.calls
         << ", \"first\": \"" << (layout.first_is_b ? "b" : "a") << "\", \"trans_a\": " << layout.first.trans
         << ", \"trans_b\": " << layout.second.trans << ", \"lda\": " << layout.first.ld
         << ", \"ldb\": " << layout.second.ld << ", \"ldd\": " << layout.d.ld
         << ", \"batch_strides\": [" << layout.first.batch_stride << ", " << layout.second.batch_stride << ", "
         << layout.d.batch_stride << "], \"epilogue\": \"" << (contraction_.has_bias ? "BIAS" : "DEFAULT") << "\"";
  }
  if (found->plan) json << ", \"workspace\": " << found->plan->workspace;
  json << "}";
  return json.str();
}

}  // namespace lt

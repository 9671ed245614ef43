// Makes the calls: on the tensors' device, on its current stream, with pointers in this call's own descriptor.
#include "launch.h"

#include <tvm/ffi/extra/c_env_api.h>

#include <algorithm>
#include <optional>
#include <sstream>

#include "half.h"
#include "key.h"
#include "workspace.h"

namespace lt {
namespace {

constexpr int kHostToDevice = 1;  // cudaMemcpyHostToDevice

// alpha and beta in the type that the library scales in.
class ScaleFactors {
 public:
  ScaleFactors(Scalars scalars, cudaDataType_t type) {
    fill(scalars.alpha, type, &values_[0]);
    fill(scalars.beta, type, &values_[1]);
  }
  const void* alpha() const { return &values_[0]; }
  const void* beta() const { return &values_[1]; }

 private:
  union Value {
    double wide;
    float narrow;
    uint16_t half;
    int32_t integer;
  };
  static void fill(double from, cudaDataType_t type, Value* value) {
    if (type == CUDA_R_64F) value->wide = from;
    if (type == CUDA_R_32F) value->narrow = static_cast<float>(from);
    if (type == CUDA_R_16F) value->half = half_bits(from);
    if (type == CUDA_R_32I) value->integer = static_cast<int32_t>(from);
  }
  Value values_[2]{};
};

[[noreturn]] void fail_matmul(const Library& library, cublasStatus_t status, const Layout& layout, DLDataType type) {
  std::ostringstream text;
  text << "cublasLtMatmul returned " << library.status_name(status) << " for rows=" << layout.rows
       << " cols=" << layout.cols << " k=" << layout.k << " batch=" << layout.batch << " of " << to_text(type) << ".";
  throw LibraryError(text.str());
}

struct Matrices {
  const void *a, *b, *c;
  void* d;
};

class Launcher {
 public:
  Launcher(const Contraction& contraction, const Tensors& tensors, Scalars scalars, const Types& types,
           Library* library)
      : contraction_(contraction),
        tensors_(tensors),
        library_(library),
        device_(tensors[kA].device),
        guard_(*library, device_.device_id),
        stream_(static_cast<cudaStream_t>(TVMFFIEnvGetStream(device_.device_type, device_.device_id))),
        handle_(library->handle(device_.device_id)),
        scale_(scalars, types.scale) {}

  void run(const std::vector<Part>& parts) {
    size_t most = 0;
    for (const Part& part : parts) most = std::max(most, part.plan->workspace);
    Workspace scratch(*library_, device_, stream_, most);
    for (const Part& part : parts) {
      if (part.layout.pointers) {
        run_pointers(part, scratch);
      } else {
        for (int64_t i = 0; i < part.layout.steps(); ++i) run_step(part, i, scratch);
      }
    }
  }

 private:
  void run_step(const Part& part, int64_t i, const Workspace& scratch) {
    const Layout& layout = part.layout;
    auto start = [&](Operand x) { return start_of(tensors_[x], x, layout, i); };
    void* d = start(kD);
    Matrices at{start(first_of(layout)), start(second_of(layout)), tensors_.has(kC) ? start(kC) : d, d};
    DescPointers pointers = pointers_of(contraction_, tensors_, layout, i);
    if (!pointers.any()) return call(part, part.plan->desc, at, scratch);
    MatmulDesc own = part.plan->desc;  // a copy: other threads run the same plan with other pointers
    set_pointers(*library_, pointers, &own);
    call(part, own, at, scratch);
  }

  // Four arrays of addresses, written on the stream before the call that reads them. The host's copy may go at once:
  // the runtime has taken pageable memory over when cudaMemcpyAsync returns.
  void run_pointers(const Part& part, const Workspace& scratch) {
    const Layout& layout = part.layout;
    std::vector<char*> host;
    for (Operand x : {first_of(layout), second_of(layout), tensors_.has(kC) ? kC : kD, kD})
      add_starts(x, layout, &host);
    auto bytes = static_cast<int64_t>(host.size() * sizeof(char*));
    tvm::ffi::Tensor arrays = allocate(device_, bytes);
    if (library_->cuda().memcpy_async(arrays.data_ptr(), static_cast<const void*>(host.data()), bytes, kHostToDevice,
                                      stream_) != 0) {
      throw LibraryError("cudaMemcpyAsync of " + std::to_string(bytes) + " bytes of matrix addresses failed.");
    }
    auto* at = static_cast<char*>(arrays.data_ptr());
    int64_t array = bytes / 4;
    call(part, part.plan->desc, {at, at + array, at + 2 * array, at + 3 * array}, scratch);
  }

  void add_starts(Operand x, const Layout& layout, std::vector<char*>* host) const {
    int64_t stride = x == kD ? layout.d.batch_stride : layout.c.batch_stride;
    if (x == first_of(layout)) stride = layout.first.batch_stride;
    if (x == second_of(layout)) stride = layout.second.batch_stride;
    for (int64_t i = 0; i < layout.steps(); ++i) {
      char* start = start_of(tensors_[x], x, layout, i);
      for (int64_t b = 0; b < layout.batch; ++b) host->push_back(start + b * stride * item_size(tensors_[x]));
    }
  }

  void call(const Part& part, const MatmulDesc& desc, const Matrices& at, const Workspace& scratch) const {
    const Plan& plan = *part.plan;
    cublasStatus_t status = library_->api().matmul(handle_, desc.get(), scale_.alpha(), at.a, plan.a.get(), at.b,
                                                   plan.b.get(), scale_.beta(), at.c, plan.c.get(), at.d, plan.d.get(),
                                                   &plan.algo, scratch.data(), plan.workspace, stream_);
    if (status != CUBLAS_STATUS_SUCCESS) fail_matmul(*library_, status, part.layout, tensors_[kA].dtype);
  }

  const Contraction& contraction_;
  const Tensors& tensors_;
  Library* library_;
  DLDevice device_;
  DeviceGuard guard_;
  cudaStream_t stream_;
  cublasLtHandle_t handle_;
  ScaleFactors scale_;
};

}  // namespace

void launch(const Contraction& contraction, const Tensors& tensors, Scalars scalars, const Types& types,
            Library* library, const std::vector<Part>& parts) {
  Launcher(contraction, tensors, scalars, types, library).run(parts);
}

}  // namespace lt

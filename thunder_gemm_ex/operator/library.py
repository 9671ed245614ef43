"""`torch.ops.thunder_gemm_ex.gemm`: the operator as torch's dispatcher knows it, and what is registered for it.

Everything that PyTorch does to an operator has its entry here: real tensors, tensors without data, autograd (both modes,
any order), vmap, autocast. torch.func's transforms are compositions of these.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from thunder_gemm_ex.operator import autograd, batching
from thunder_gemm_ex.operator.checks import check_kinds, check_options
from thunder_gemm_ex.operator.kernel import compute, compute_into, shaped

# Tensors are not keyword-only: torch.library's vmap accepts none that are.
SCHEMA = (
    'gemm(Tensor a, Tensor b, str spec="m k, k n -> m n", Tensor? bias=None, str? activation=None, '
    "Scalar alpha=1, Scalar beta=0, Tensor? c=None) -> Tensor"
)
# The mutating form returns nothing: an output that aliases an input cannot be functionalized.
SCHEMA_OUT = SCHEMA.replace("gemm(", "gemm_out(Tensor(a!) out, ").replace("-> Tensor", "-> ()")

library = torch.library.Library("thunder_gemm_ex", "DEF")
library.define(SCHEMA, tags=(torch.Tag.pt2_compliant_tag,))
library.define(SCHEMA_OUT, tags=(torch.Tag.pt2_compliant_tag,))

gemm = torch.ops.thunder_gemm_ex.gemm.default
gemm_out = torch.ops.thunder_gemm_ex.gemm_out.default


def _checked(function: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    def kernel(
        a: torch.Tensor,
        b: torch.Tensor,
        spec: str = "m k, k n -> m n",
        bias: torch.Tensor | None = None,
        activation: str | None = None,
        alpha: float = 1,
        beta: float = 0,
        c: torch.Tensor | None = None,
    ) -> torch.Tensor:
        check_kinds(a, b, bias, c)
        check_options(activation, alpha, beta, c)
        return function(a, b, spec, bias, activation, alpha, beta, c)

    return kernel


def _checked_out(
    out: torch.Tensor,
    a: torch.Tensor,
    b: torch.Tensor,
    spec: str = "m k, k n -> m n",
    bias: torch.Tensor | None = None,
    activation: str | None = None,
    alpha: float = 1,
    beta: float = 0,
    c: torch.Tensor | None = None,
) -> None:
    check_kinds(a, b, bias, c)
    check_options(activation, alpha, beta, c)
    compute_into(out, a, b, spec, bias, activation, alpha, beta, c)


def _autocast(device_type: str, key: torch._C.DispatchKey) -> Callable[..., torch.Tensor]:
    """The kernel under torch.autocast: eager's rule for a matmul, all tensors of a lower precision, float64 left alone."""
    below = torch._C.DispatchKeySet(key)

    def cast(x: torch.Tensor | None, dtype: torch.dtype) -> torch.Tensor | None:
        if x is None or not x.is_floating_point() or x.dtype is torch.float64 or x.device.type != device_type:
            return x
        return x.to(dtype)

    def kernel(
        a: torch.Tensor,
        b: torch.Tensor,
        spec: str = "m k, k n -> m n",
        bias: torch.Tensor | None = None,
        activation: str | None = None,
        alpha: float = 1,
        beta: float = 0,
        c: torch.Tensor | None = None,
    ) -> torch.Tensor:
        dtype = torch.get_autocast_dtype(device_type)
        with torch._C._ExcludeDispatchKeyGuard(below):
            terms = cast(bias, dtype), activation, alpha, beta, cast(c, dtype)
            out: torch.Tensor = gemm(cast(a, dtype), cast(b, dtype), spec, *terms)
            return out

    return kernel


def _register() -> None:
    library.impl("gemm", _checked(compute), "CompositeExplicitAutograd")
    library.impl("gemm_out", _checked_out, "CompositeExplicitAutograd")
    torch.library.register_fake("thunder_gemm_ex::gemm", _checked(shaped), lib=library)
    torch.library.register_fake("thunder_gemm_ex::gemm_out", lambda *args, **kwargs: None, lib=library)
    library.impl("gemm", autograd.kernel(gemm), "Autograd", with_keyset=True)
    library.impl("gemm_out", autograd.writing_kernel(gemm_out), "ADInplaceOrView", with_keyset=True)
    torch.library.register_vmap("thunder_gemm_ex::gemm", batching.rule(gemm), lib=library)
    for device_type, key in (("cpu", "AutocastCPU"), ("cuda", "AutocastCUDA")):
        library.impl("gemm", _autocast(device_type, getattr(torch._C.DispatchKey, key)), key)


_register()

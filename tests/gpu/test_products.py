"""Products on the device: cuBLASLt accepts what the double accepts, computes it right, and in one kernel."""

import itertools

import pytest
import torch

from tests.cublaslt.problems import DTYPES, assert_right, bound, spec_of
from thunder_gemm_ex.engines import choose, cublaslt
from thunder_gemm_ex.engines.numerics import flags_reader
from thunder_gemm_ex.engines.operation import Operation

DEVICE = "cuda"


def padded(shape, order, dtype, pad):
    """A view whose memory is in `order`, rows `pad` elements longer than they need be."""
    full = [shape[i] for i in order]
    full[-1] += pad
    memory = torch.randn(full, device=DEVICE).to(dtype).narrow(-1, 0, shape[order[-1]])
    return memory.permute([order.index(i) for i in range(len(shape))])


def kernels(run) -> list[str]:
    """The names of the kernels that a call launches."""
    run()
    torch.cuda.synchronize()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profile:
        run()
        torch.cuda.synchronize()
    return [event.key for event in profile.key_averages() if "memcpy" not in event.key.lower()]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("pad", [0, 8])
@pytest.mark.parametrize(("a", "b"), list(itertools.product([(0, 1), (1, 0)], repeat=2)))
@pytest.mark.parametrize("out", ["m n", "n m"])
def test_two_dimensional(a, b, out, pad, dtype):
    spec = spec_of(f"m k, k n -> {out}", (64, 48), (48, 80))
    x, y = padded((64, 48), a, dtype, pad), padded((48, 80), b, dtype, pad)
    result = torch.empty(spec.shape(spec.out), dtype=dtype, device=DEVICE)
    assert bound(spec).run(x, y, result, None, None, 1.0, 0.0, flags_reader(dtype, "strict")()) == 0
    assert_right(spec, x, y, result)


@pytest.mark.parametrize("left", list(itertools.permutations(range(4))), ids=str)
def test_attention_in_every_order(left):
    spec = spec_of("b h s d, b h t d -> b h s t", (2, 3, 64, 32), (2, 3, 48, 32))
    x, y = padded((2, 3, 64, 32), left, torch.float16, 0), padded((2, 3, 48, 32), (0, 1, 2, 3), torch.float16, 0)
    result = torch.empty(2, 3, 64, 48, dtype=torch.float16, device=DEVICE)
    if bound(spec).run(x, y, result, None, None, 1.0, 0.0, 0) == 0:
        assert_right(spec, x, y, result)


def test_a_permuted_product_is_one_kernel_and_no_copy():
    x, w = torch.randn(256, 512, device=DEVICE).half(), torch.randn(384, 512, device=DEVICE).half()
    found = kernels(lambda: choose.run_gemm(x, w, "m k, n k -> n m"))
    assert len([name for name in found if "splitK" not in name]) == 1, found


def test_arrays_of_pointers():
    if not cublaslt.status()["pointer_array_batches"]:
        pytest.skip("arrays of pointers came with cublasLt 13")
    spec = spec_of("b h m k, h b n k -> b h m n", (3, 8, 64, 32), (8, 3, 48, 32))
    x, y = (torch.randn(s, device=DEVICE).half() for s in ((3, 8, 64, 32), (8, 3, 48, 32)))
    result = torch.empty(3, 8, 64, 48, device=DEVICE).half()
    assert bound(spec).explain(x, y, result)["pointers"]
    assert bound(spec).run(x, y, result, None, None, 1.0, 0.0, 0) == 0
    assert_right(spec, x, y, result)


# Epilogues ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("kind", ["relu", "gelu"])
def test_activations_with_aux_and_their_derivatives(kind, dtype):
    function = torch.relu if kind == "relu" else lambda x: torch.nn.functional.gelu(x, approximate="tanh")
    x, w, y, v = (torch.randn(s, device=DEVICE).to(dtype) / 4 for s in ((64, 32), (128, 32)) * 2)
    bias = torch.randn(128, device=DEVICE).to(dtype)
    forward = Operation(spec_of("m k, n k, n -> m n", (64, 32), (128, 32), (128,)), f"{kind}_aux")(x, w, bias=bias)
    before = (x.double() @ w.double().t() + bias.double()).requires_grad_()
    torch.testing.assert_close(forward.out.double(), function(before), rtol=2e-2, atol=2e-2)
    (slope,) = torch.autograd.grad(function(before).sum(), before)
    backward = Operation(spec_of("m k, n k, n -> m n", (64, 32), (128, 32), (128,)), f"d{kind}")(y, v, aux=forward.aux)
    want = y.double() @ v.double().t() * slope
    torch.testing.assert_close(backward.out.double(), want, rtol=2e-2, atol=4e-2)
    torch.testing.assert_close(backward.bias_grad.double(), want.sum(0), rtol=4e-2, atol=2e-1)


@pytest.mark.parametrize("epilogue", ["bgrada", "bgradb"])
def test_bias_gradients(epilogue):
    dy, x = torch.randn(64, 48, device=DEVICE).half(), torch.randn(64, 32, device=DEVICE).half()
    args, names = ((dy, x), "m n, m k") if epilogue == "bgrada" else ((x, dy), "m k, m n")
    got = Operation(spec_of(f"{names}, n -> n k", *(tuple(t.shape) for t in args), (48,)), epilogue)(*args)
    torch.testing.assert_close(got.bias_grad, dy.float().sum(0).half(), rtol=1e-2, atol=1e-1)
    torch.testing.assert_close(got.out, dy.t() @ x, rtol=1e-2, atol=1e-1)


# Low precision --------------------------------------------------------------------------------------------------------

needs_fp8 = pytest.mark.skipif(
    torch.cuda.is_available() and torch.cuda.get_device_capability() < (8, 9), reason="fp8 came with Ada and Hopper"
)


@needs_fp8
@pytest.mark.parametrize("rows", [False, True], ids=["per tensor", "row-wise"])
def test_fp8_is_what_torch_computes(rows):
    x, w = (torch.randn(s, device=DEVICE).to(torch.float8_e4m3fn) for s in ((64, 128), (96, 128)))
    sa = torch.rand((64, 1) if rows else (), device=DEVICE) + 0.5
    sb = torch.rand((1, 96) if rows else (), device=DEVICE) + 0.5
    op = Operation(spec_of("m k, n k -> m n", (64, 128), (96, 128)))
    got = op(x, w, scale_a=sa, scale_b=sb)
    if got is None:
        pytest.skip(op.why(x, w, scale_a=sa, scale_b=sb))
    theirs = torch._scaled_mm(x, w.t(), scale_a=sa, scale_b=sb, out_dtype=torch.bfloat16)
    torch.testing.assert_close(got.out, theirs, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("turned", [False, True])
def test_int8_is_exact(turned):
    x, w = (torch.randint(-128, 128, s, device=DEVICE, dtype=torch.int8) for s in ((64, 128), (96, 128)))
    y = w.t().contiguous() if turned else w
    spec = spec_of("m k, k n -> m n" if turned else "m k, n k -> m n", (64, 128), tuple(y.shape))
    assert torch.equal(Operation(spec)(x, y).out, torch._int_mm(x, w.t()))

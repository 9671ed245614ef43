"""Compiled programs on the device: epilogues, scaled products and numerics, as their traces show them without one."""

import re

import pytest
import thunder
import torch

import thunder_gemm_ex as gx
from tests.checks import all_names, assert_as_eager
from tests.epilogues.programs import ACTIVATIONS, PLAIN, F, inputs, mlp
from tests.gpu.test_products import kernels
from thunder_gemm_ex.engines import choose, epilogues
from thunder_gemm_ex.engines.operation import operation

SHAPES = ((4, 64, 256), (512, 256), (512,), (256, 512))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("kind", ACTIVATIONS)
def test_an_mlp_trains_as_eager(kind, dtype):
    jfn = assert_as_eager(mlp(ACTIVATIONS[kind]), *inputs(*SHAPES, dtype=dtype, device="cuda"), executors=PLAIN)
    assert all_names(jfn) == ["gemm", "linear", *["gemm"] * 4]
    runs = [run for row in gx.explain(jfn).rows for run in row.runs]
    assert {run.engine for run in runs} == {"cublaslt"}, [run.reason for run in runs]


def test_a_mask_has_its_bits_in_order():
    """What `epilogues.unpacked` makes of the library's mask is where its result is positive."""
    a, b = (torch.randn(s, device="cuda").half() for s in ((64, 32), (200, 32)))
    made = operation("m k, n k -> m n", (64, 32), (200, 32), None, "relu_aux")(a, b)
    assert torch.equal(epilogues.unpacked(made.aux, made.out.shape), made.out > 0)


@pytest.mark.parametrize("kind", ACTIVATIONS)
def test_a_layer_with_its_activation_is_one_kernel(kind):
    x, w, b = inputs(*SHAPES[:3], grad=False, dtype=torch.float16, device="cuda")
    jfn = thunder.jit(lambda x, w, b: ACTIVATIONS[kind](F.linear(x, w, b)), executors=PLAIN)
    found = kernels(lambda: jfn(x, w, b))
    assert len([name for name in found if "splitK" not in name]) == 1, found


def test_a_report_tells_the_algorithm_in_the_librarys_numbers():
    x, w, _ = inputs(*SHAPES[:3], grad=False, dtype=torch.float16, device="cuda")
    jfn = thunder.jit(lambda x, w: torch.relu(x) @ w.t(), executors=PLAIN)
    jfn(x, w)
    (run,) = gx.explain(jfn).rows[0].runs
    told = re.search(r"algorithm \d+ \(tile \d+ stages \d+ split-k -?\d+\), as the heuristic offers$", run.call)
    assert told, run.call


def test_scaled_products_of_a_program():
    if torch.cuda.get_device_capability() < (8, 9):
        pytest.skip("no fp8 before Ada and Hopper")
    x, w = (torch.randn(s, device="cuda").to(torch.float8_e4m3fn) for s in ((64, 128), (256, 128)))
    sa, sb = torch.tensor(0.5, device="cuda"), torch.tensor(4.0, device="cuda")
    program = lambda x, w, sa, sb: torch._scaled_mm(x, w.t(), sa, sb, out_dtype=torch.bfloat16)  # noqa: E731
    jfn = thunder.jit(program, executors=PLAIN)
    torch.testing.assert_close(jfn(x, w, sa, sb), program(x, w, sa, sb))
    assert gx.explain(jfn).rows[0].runs[0].engine == "cublaslt"


@pytest.mark.parametrize("mode", ["strict", "batch_invariant"])
def test_numerics_of_a_program(mode):
    x, w = (torch.randn(s, device="cuda") for s in ((300, 256), (128, 256)))
    jfn = thunder.jit(lambda x, w: x @ w.t(), executors=PLAIN, gemm_numerics=mode)
    whole = jfn(x, w)
    exact = x.double() @ w.double().t()
    torch.testing.assert_close(whole.double(), exact, rtol=1e-4, atol=1e-3)
    if mode == "batch_invariant":
        assert all(torch.equal(jfn(x[:m], w), whole[:m]) for m in (1, 7, 128))
    assert choose.serves("cuda", x.dtype)

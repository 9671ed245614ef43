"""Reports about dtypes, autocast and the precision of sums."""

import pytest
import torch

import thunder_gemm_ex as gx
from tests.checks import MATMULS, all_names, assert_as_eager, decisions, jit
from tests.cublaslt.problems import spec_of
from tests.lab import final_traces, names
from thunder_gemm_ex.engines.operation import Operation
from thunder_gemm_ex.programs import mistral_rope

linear = torch.nn.functional.linear
MATMUL = torch.backends.cuda.matmul


def randn(*shape, dtype=torch.float32):
    return torch.randn(*shape, dtype=torch.float64).to(dtype)


def under(fn, device="cpu", dtype=torch.bfloat16, enabled=True):
    def f(*args):
        with torch.autocast(device, dtype, enabled=enabled):
            return fn(*args)

    return f


# 25, 26: autocast -----------------------------------------------------------------------------------------------------

MIXED = {
    "linear": (linear, [((4, 8), torch.bfloat16), ((5, 8), torch.float32)]),
    "linear with bias": (linear, [((4, 8), torch.bfloat16), ((5, 8), torch.float32), ((5,), torch.float32)]),
    "matmul": (torch.matmul, [((3, 1, 2), torch.float32), ((2, 3), torch.bfloat16)]),
    "K=1": (torch.matmul, [((3, 2, 1), torch.float32), ((1, 3), torch.bfloat16)]),
    "mm": (torch.mm, [((4, 8), torch.bfloat16), ((8, 5), torch.float32)]),
    "bmm": (torch.bmm, [((2, 4, 8), torch.float32), ((2, 8, 5), torch.bfloat16)]),
}


@pytest.mark.parametrize("inside", [False, True], ids=["around the call", "in the program"])
@pytest.mark.parametrize("name", MIXED)
def test_thunder_678_mixed_dtypes_under_autocast(engine, name, inside):
    fn, shapes = MIXED[name]
    inputs = [randn(*s, dtype=dtype) for s, dtype in shapes]
    eager = under(fn)(*inputs)
    ours = jit(under(fn), gemm_claim="all")(*inputs) if inside else under(jit(fn, gemm_claim="all"))(*inputs)
    assert ours.dtype == eager.dtype == torch.bfloat16
    torch.testing.assert_close(ours, eager, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("name", ["matmul", "linear"])
def test_thunder_826_mixed_dtypes_without_autocast_are_refused_as_eager_refuses(name):
    fn, shapes = MIXED[name]
    inputs = [randn(*s, dtype=dtype) for s, dtype in shapes]
    for call in (fn, jit(fn)):
        with pytest.raises(RuntimeError):
            call(*inputs)


# Thunder takes seconds to read torch's own search for a device: once.
@pytest.mark.parametrize(
    ("fn", "inside"),
    [(torch.matmul, False), (linear, False), (torch.mm, False), (torch.bmm, False), (torch.matmul, True)],
)
def test_thunder_709_autocast_of_another_device_leaves_cpu_tensors_alone(fn, inside):
    x, w = (randn(2, 4, 4) if fn is torch.bmm else randn(4, 4) for _ in range(2))
    ours = jit(under(fn, "cuda"))(x, w) if inside else under(jit(fn), "cuda")(x, w)
    assert ours.dtype == torch.float32
    torch.testing.assert_close(ours, fn(x, w))


# 27 to 30: rounding ---------------------------------------------------------------------------------------------------


def tf32(x):
    """`x` with the ten bits of mantissa that TF32 keeps."""
    return (x.view(torch.int32) & ~0x1FFF).view(torch.float32)


def test_transformers_48428_positions_survive_a_lower_matmul_precision():
    saved = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision("high")
    try:
        inv_freq, position = 1 / (10000 ** (torch.arange(0, 64, 2) / 64))[:, None], torch.arange(9000.0)[None, :]
        program = jit(torch.matmul)
        angles = program(inv_freq, position)
        assert decisions(program) == ["multiply"]
        assert not set(all_names(program)) & MATMULS
    finally:
        torch.set_float32_matmul_precision(saved)
    exact = inv_freq.double() @ position.double()
    assert (angles - exact).abs().max() < 1e-3
    # What a TF32 product makes of the same positions.
    assert (tf32(inv_freq) * tf32(position) - exact).abs()[:, 2048:].max() > 1


def test_transformers_29496_rope_is_rounded_where_the_program_says_so():
    inv_freq, position = randn(1, 32, 1, dtype=torch.bfloat16), torch.arange(64.0)[None, None, :]
    assert_as_eager(lambda i, p: (i.float() @ p.float()).cos(), inv_freq, position)
    inputs = mistral_rope.cos_sin_inputs("cpu", seq=64)
    for ours, eager in zip(jit(mistral_rope.cos_sin)(*inputs), mistral_rope.cos_sin(*inputs)):
        assert torch.equal(ours, eager)


def test_fuser_4738_a_bfloat16_product_is_rounded_once_before_what_follows():
    a, b = randn(64, 1, dtype=torch.bfloat16), randn(1, 64, dtype=torch.bfloat16)
    product = (a.double() * b.double()).to(torch.bfloat16)
    assert torch.equal(jit(lambda a, b: (a @ b).float() * 3)(a, b), product.float() * 3)


@pytest.mark.parametrize("shape", [(1, 512, 1), (7, 512, 3), (64, 512, 64)], ids=str)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_pytorch_153033_errors_are_bounded_whatever_the_shape(engine, shape, dtype):
    m, k, n = shape
    a, b = randn(m, k, dtype=dtype), randn(k, n, dtype=dtype)
    exact = a.double() @ b.double()
    error = (jit(torch.matmul, gemm_claim="all")(a, b).double() - exact).abs().max() / exact.abs().max()
    assert error <= torch.finfo(dtype).eps


@pytest.mark.parametrize(("allowed", "reductions"), [(True, 7), (False, 2)])
def test_pytorch_111457_reduced_precision_is_torchs_flag(double, allowed, reductions):
    saved = MATMUL.allow_bf16_reduced_precision_reduction
    MATMUL.allow_bf16_reduced_precision_reduction = allowed
    try:
        product(8, torch.bfloat16)
        assert double.last()["reductions"] == reductions
    finally:
        MATMUL.allow_bf16_reduced_precision_reduction = saved


def product(m, dtype, numerics="torch"):
    return Operation(spec_of("m k, n k -> m n", (m, 8), (6, 8)), numerics=numerics)(
        randn(m, 8, dtype=dtype), randn(6, 8, dtype=dtype)
    )


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_pytorch_180875_strict_splits_no_sum(double, dtype):
    product(5, dtype, "strict")
    assert double.last()["reductions"] == 0


def test_te_2986_one_algorithm_for_every_number_of_rows(double):
    seen = set()
    for m in (1, 5, 64, 300):
        product(m, torch.bfloat16, "batch_invariant")
        seen.add((double.last()["algo"], double.last()["reductions"]))
    assert len(seen) == 1


# 31: integers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("k", [1, 3])
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.int16, torch.uint8], ids=str)
def test_pytorch_44428_integers_never_become_a_multiply(dtype, k):
    def inputs(device):
        return torch.ones(4, k, dtype=dtype, device=device), torch.ones(k, 5, dtype=dtype, device=device)

    assert names(final_traces(torch.matmul, inputs, executors=gx.executors()).forward) == ["matmul"]
    assert torch.equal(jit(torch.matmul)(*inputs("cpu")), torch.matmul(*inputs("cpu")))

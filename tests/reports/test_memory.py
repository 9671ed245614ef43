"""Reports about alignment, leading dimensions, sizes, batches and devices."""

import pytest
import torch

import thunder_gemm_ex as gx
from tests.checks import decisions, jit
from tests.cublaslt.problems import bound, run, spec_of
from tests.lab import final_traces, names
from thunder_gemm_ex.engines import choose

linear = torch.nn.functional.linear
DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16]


def randn(*shape, dtype=torch.float32):
    return torch.randn(*shape, dtype=torch.float64).to(dtype)


def close(ours, exact, dtype):
    eps = torch.finfo(dtype).eps
    torch.testing.assert_close(ours.double(), exact, rtol=8 * eps, atol=8 * eps * max(1.0, exact.abs().max().item()))


def untouched(elements):
    """A vector of halves whose memory is promised and, where nobody writes to it, never there."""
    return torch.empty(elements, dtype=torch.half)


# 10 to 13: alignment and leading dimensions ---------------------------------------------------------------------------


def test_pytorch_76021_a_leading_dimension_far_above_the_rows(engine):
    m2 = randn(20, 25272, dtype=torch.half).t()[21940:24340]
    assert m2.stride() == (1, 25272)
    m1, c = randn(3, 2400, dtype=torch.half), randn(20, dtype=torch.half)
    ours = jit(torch.addmm, gemm_claim="all")(c, m1, m2)
    close(ours, c.double() + m1.double() @ m2.double(), torch.half)
    if engine:
        assert (engine.calls(), engine.last()["lda"]) == (1, 25272)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("start", [1, 2, 3, 4])
def test_pytorch_92201_operands_between_alignments(engine, start, dtype):
    """Slices that start at any element, of operands whose rows do too."""
    x, w = (
        randn(64, dtype=dtype)[start:][:40].view(5, 8),
        randn(7 * 9 + 8, dtype=dtype)[start:][: 7 * 9].view(7, 9)[:, 1:],
    )
    close(gx.gemm(x, w, "m k, n k -> m n"), x.double() @ w.double().t(), dtype)
    if engine:
        for name, operand in (("align_a", w), ("align_a", x)):
            # The extension may exchange the operands; what it promised of its a holds for one of them at least.
            if operand.data_ptr() % engine.last()[name] == 0:
                break
        else:
            raise AssertionError(engine.last())


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_pytorch_194497_a_bias_between_16_bytes(engine, dtype):
    x, w = randn(5, 8, dtype=dtype), randn(7, 8, dtype=dtype)
    program = jit(linear, gemm_claim="all")
    for start in (1, 2, 0, 3):
        bias = randn(16, dtype=dtype)[start : start + 7]
        close(program(x, w, bias), x.double() @ w.double().t() + bias.double(), dtype)


@pytest.mark.parametrize("m", [1, 3])
@pytest.mark.parametrize("k", [1, 5])
@pytest.mark.parametrize("n", [1, 4])
@pytest.mark.parametrize("step", [1, 0, 1000])
def test_pytorch_164930_one_row_or_column_with_a_stride_that_means_nothing(engine, m, k, n, step):
    """A dimension of size 1 may have any stride, far below what a leading dimension has to be or far above."""

    def odd(rows, cols):
        x = randn(rows, cols)
        strides = [step if size == 1 else old for size, old in zip(x.shape, x.stride())]
        return x.as_strided(x.shape, strides)

    a, b = odd(m, k), odd(k, n)
    close(gx.gemm(a, b), a.double() @ b.double(), torch.float32)
    b = odd(n, k)
    close(gx.gemm(a, b, "m k, n k -> n m"), b.double() @ a.double().t(), torch.float32)


# 14, 19: no copies that nobody asked for ------------------------------------------------------------------------------


@pytest.mark.parametrize("beta", [1, 0.5])
def test_pytorch_153590_c_is_read_where_it_is(recorded, beta):
    """One call reads C and writes D: no copy of C into D before it, and C is left alone."""
    c, x, w = randn(64, 16), randn(64, 8), randn(8, 16)
    before = c.clone()
    seen = []

    class Copies(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(func)
            return func(*args, **(kwargs or {}))

    program = jit(lambda c, x, w: torch.addmm(c, x, w, beta=beta))
    program(c, x, w)
    with Copies():
        program(c, x, w)
    assert decisions(program) == ["claimed"]
    assert recorded.calls() == 2
    assert not {torch.ops.aten.copy_.default, torch.ops.aten.clone.default, torch.ops.aten.mul.Tensor} & set(seen)
    assert torch.equal(c, before)


@pytest.mark.parametrize("grad", [False, True], ids=["inference", "training"])
def test_thunder_872_three_dimensions_by_two_is_one_plain_gemm(recorded, grad):
    x, w = randn(384, 2, 512).requires_grad_(grad), randn(512, 96).requires_grad_(grad)
    out = jit(torch.matmul, gemm_claim="all")(x, w)
    if grad:
        torch.autograd.grad(out, (x, w), torch.ones_like(out))
    assert [(p["batch"], p["rows"] * p["cols"] * p["k"]) for p in recorded.problems()] == [(1, 768 * 512 * 96)] * (
        3 if grad else 1
    )


def test_pytorch_73115_a_permuted_input_of_a_linear_is_not_copied(recorded):
    x, w = randn(64, 8, 32).permute(1, 0, 2), randn(48, 32)
    found = choose.site("a b k, n k -> a b n").decision_for(x, w)
    assert found.engine == "cublaslt"
    assert "copy" not in found.detail
    seen = {p["batch"] for p in recorded.problems()}
    gx.gemm(x, w, "a b k, n k -> a b n")
    assert {p["batch"] for p in recorded.problems()} - seen == {8}


# 15 to 17: many, and far apart ----------------------------------------------------------------------------------------


def test_pytorch_25241_batches_past_65535(engine):
    a, b = randn(65537, 2, 4, dtype=torch.half), randn(65537, 4, 2, dtype=torch.half)
    close(jit(torch.bmm, gemm_claim="all")(a, b), a.double() @ b.double(), torch.half)


@pytest.mark.parametrize("transposed", [False, True])
def test_pytorch_17897_elements_past_two_to_the_31(engine, transposed):
    """Two rows of an array of 2**31 elements and more, and a column slice of them: only those pages are ever there."""
    step = (1 << 31) + 8
    x = untouched(step + 16).as_strided((2, 16), (step, 1))[:, 4:12]
    x.copy_(randn(2, 8))
    w = randn(3, 8, dtype=torch.half)
    ours = gx.gemm(w, x, "m k, n k -> m n") if transposed else gx.gemm(x, w, "m k, n k -> m n")
    exact = x.double() @ w.double().t()
    close(ours, exact.t() if transposed else exact, torch.half)


def test_pytorch_31708_batches_that_lie_past_two_to_the_31(engine):
    step = (1 << 31) + 8
    x = untouched(step + 32).as_strided((2, 4, 8), (step, 8, 1))
    x.copy_(randn(2, 4, 8))
    w = randn(2, 8, 5, dtype=torch.half)
    close(gx.gemm(x, w, "b m k, b k n -> b m n"), x.double() @ w.double(), torch.half)


@pytest.mark.parametrize("k", [1, 2])
def test_pytorch_196431_a_batch_whose_product_is_past_two_to_the_31(double, k):
    b, m, n = 512, 8209, 512
    a, w = untouched(b * m * k).view(b, m, k), untouched(b * k * n).view(b, k, n)
    out = untouched(b * m * n).view(b, m, n)
    assert out.numel() > 1 << 31
    double.lib.double_no_op(2)
    spec = spec_of("b m k, b k n -> b m n", (b, m, k), (b, k, n))
    assert run(spec, a, w, out=out)[0] == 0
    plan = bound(spec).explain(a, w, out)
    assert (plan["declined"], sum(p["batch"] for p in double.problems())) == ("", b)


@pytest.mark.parametrize(("k", "want"), [(1, ["mul"]), (2, ["matmul"])])
def test_pytorch_196431_k_1_is_a_multiply_at_that_size(k, want):
    def inputs(device):
        return (torch.randn(s, device=device, dtype=torch.half) for s in ((512, 8209, k), (512, k, 512)))

    traces = final_traces(torch.bmm, lambda device: tuple(inputs(device)), executors=[gx.gemm_ex])
    assert [n for n in names(traces.forward) if n in ("mul", "matmul", "bmm")] == [
        w if w == "mul" else "bmm" for w in want
    ]


# 18: devices ----------------------------------------------------------------------------------------------------------


def test_pytorch_187733_the_device_of_the_tensors_is_current_for_the_call(recorded):
    """Tensors on device 0 while 1 is current, as a compiled program meets them; afterwards 1 is current again."""
    recorded.lib.double_enter_device(1)
    try:
        assert_shape = jit(lambda x, w: x @ w.t())(randn(5, 7), randn(6, 7)).shape
        assert (tuple(assert_shape), recorded.last()["device"]) == ((5, 6), 0)
        before = recorded.lib.double_device_switches()
        recorded.lib.cudaSetDevice(1)
        assert recorded.lib.double_device_switches() == before
    finally:
        recorded.lib.double_enter_device(0)

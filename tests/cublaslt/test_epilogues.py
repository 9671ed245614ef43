"""Epilogues with what training needs of them: aux outputs, derivatives, bias gradients; each against float64."""

import pytest
import torch

from tests.cublaslt.problems import spec_of
from thunder_gemm_ex.engines import cublaslt
from thunder_gemm_ex.engines.operation import Operation

DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
CODES = {"relu": 2, "gelu": 32, "relu_aux": 130, "gelu_aux": 160, "drelu": 136, "dgelu": 192}


def gelu(x):
    return torch.nn.functional.gelu(x, approximate="tanh")


def close(got, exact):
    eps = torch.finfo(got.dtype).eps
    torch.testing.assert_close(got.double(), exact, rtol=4 * eps, atol=8 * eps * max(1.0, exact.abs().max().item()))


def tensors(dtype, *shapes):
    return [torch.randn(s).to(dtype) for s in shapes]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("bias", [False, True], ids=["", "bias"])
@pytest.mark.parametrize("epilogue", ["relu", "gelu", "relu_aux", "gelu_aux"])
def test_an_activation_is_one_call(double, epilogue, bias, dtype):
    x, w, z = tensors(dtype, (5, 7), (16, 7), (16,))
    spec = (
        spec_of("m k, n k, n -> m n", (5, 7), (16, 7), (16,)) if bias else spec_of("m k, n k -> m n", (5, 7), (16, 7))
    )
    got = Operation(spec, epilogue)(x, w, bias=z if bias else None, alpha=0.5)
    before = 0.5 * (x.double() @ w.double().t()) + (z.double() if bias else 0)
    close(got.out, torch.relu(before) if "relu" in epilogue else gelu(before))
    assert double.calls() == 1
    assert double.last()["epilogue"] == CODES[epilogue] | (4 if bias else 0)
    assert (got.aux is None) == ("aux" not in epilogue)
    assert got.bias_grad is None
    if epilogue == "gelu_aux":
        close(got.aux, before)


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("text", ["m k, n k -> m n", "m k, n k -> n m", "a m k, n k -> a m n", "a m k, a n k -> a m n"])
@pytest.mark.parametrize("kind", ["relu", "gelu"])
def test_the_derivative_reads_what_the_activation_wrote(double, kind, text, dtype):
    """d(loss)/d(before) of act(x w), through a second product: forward with aux, backward with it."""
    a, b = {"m k, n k": ((5, 8), (16, 8)), "a m k, n k": ((2, 5, 8), (16, 8)), "a m k, a n k": ((2, 5, 8), (2, 16, 8))}[
        text.split(" ->")[0]
    ]
    spec = spec_of(text, a, b)
    x, w = tensors(dtype, a, b)
    forward = Operation(spec, f"{kind}_aux")(x, w)
    # The incoming gradient is itself a product g = y v, with the labels of the output.
    y, v = tensors(dtype, a, b)
    backward = Operation(spec, f"d{kind}")(y, v, aux=forward.aux)
    letters = text.replace(" ", "").replace("->", "->")
    before = torch.einsum(letters, x.double(), w.double()).to(dtype).double().requires_grad_()
    (slope,) = torch.autograd.grad((torch.relu if kind == "relu" else gelu)(before).sum(), before)
    close(backward.out, torch.einsum(letters, y.double(), v.double()) * slope)


@pytest.mark.parametrize("kind", ["relu", "gelu"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_the_derivative_with_the_bias_gradient_is_one_call(double, kind, dtype):
    x, w, y, v = tensors(dtype, (5, 8), (16, 8), (5, 8), (16, 8))
    aux = Operation(spec_of("m k, n k -> m n", (5, 8), (16, 8)), f"{kind}_aux")(x, w).aux
    calls = double.calls()
    got = Operation(spec_of("m k, n k, n -> m n", (5, 8), (16, 8), (16,)), f"d{kind}")(y, v, aux=aux)
    assert double.calls() == calls + 1
    close(got.bias_grad, got.out.double().sum(0))
    assert double.last()["epilogue"] == CODES[f"d{kind}"] | 16


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("out", ["n k", "k n"])
@pytest.mark.parametrize("epilogue", ["bgrada", "bgradb"])
def test_a_weights_gradient_brings_the_biass(double, epilogue, out, dtype):
    """dW[n, k] = dy[m, n] x[m, k] with db[n] = dy summed over m, whichever operand dy is, whichever way W lies."""
    dy, x = tensors(dtype, (9, 6), (9, 5))
    names, shapes, args = (
        ("m n, m k", ((9, 6), (9, 5)), (dy, x)) if epilogue == "bgrada" else ("m k, m n", ((9, 5), (9, 6)), (x, dy))
    )
    got = Operation(spec_of(f"{names}, n -> {out}", *shapes, (6,)), epilogue)(*args)
    exact = dy.double().t() @ x.double()
    close(got.out, exact if out == "n k" else exact.t())
    close(got.bias_grad, dy.double().sum(0))
    assert double.calls() == 1
    # The library's A is the caller's b where the output is row-major: A and B are told apart by what they are.
    assert double.last()["epilogue"] in (256, 512)


def test_beta_and_c_come_before_the_activation(double):
    x, w, c = tensors(torch.float64, (5, 8), (16, 8), (5, 16))
    got = Operation(spec_of("m k, n k -> m n", (5, 8), (16, 8)), "gelu_aux")(x, w, c=c, alpha=0.5, beta=2.0)
    before = 0.5 * x @ w.t() + 2 * c
    close(got.out, gelu(before))
    close(got.aux, before)


def test_c_may_be_accumulated_into(double):
    """dq Wq + dk Wk + dv Wv: three calls, no add."""
    spec = spec_of("m k, k n -> m n", (5, 8), (8, 6))
    pairs = [tensors(torch.float64, (5, 8), (8, 6)) for _ in range(3)]
    out = torch.empty(5, 6, dtype=torch.float64)
    for i, (x, w) in enumerate(pairs):
        Operation(spec)(x, w, c=out if i else None, beta=1.0 if i else 0.0, out=out)
    close(out, sum(x @ w for x, w in pairs))
    assert double.calls() == 3


# What is no epilogue --------------------------------------------------------------------------------------------------


def test_a_bias_gradient_over_a_batch_is_declined(double):
    spec = spec_of("a m n, a m k, a n -> a n k", (2, 9, 6), (2, 9, 5), (2, 6))
    op, args = Operation(spec, "bgrada"), tensors(torch.float32, (2, 9, 6), (2, 9, 5))
    assert op(*args) is None
    assert "over several matrices" in op.why(*args)
    assert double.calls() == 0


def test_a_bias_along_the_other_side_of_the_derivative_is_declined(double):
    """D's rows are n where the output is row-major; a gradient along m cannot be turned without turning the output."""
    spec = spec_of("m k, n k, m -> m n", (5, 8), (16, 8), (5,))
    args = tensors(torch.float32, (5, 8), (16, 8))
    aux = torch.empty(5, 16)
    op = Operation(spec, "dgelu")
    assert op(*args, aux=aux) is None
    assert "along the side" in op.why(*args, aux=aux)


def test_an_aux_with_wrong_rows_is_declined(double):
    """cublasLt.h wants rows of a multiple of 8."""
    op = Operation(spec_of("m k, n k -> m n", (5, 8), (16, 8)), "dgelu")
    args = tensors(torch.float32, (5, 8), (16, 8))
    aux = torch.empty(5, 20)[:, :16]
    assert op(*args, aux=aux) is None
    assert "aux" in op.why(*args, aux=aux)
    assert op(*args, aux=torch.zeros(5, 24)[:, :16]) is not None


def test_rows_of_an_aux_are_padded_to_what_the_library_wants(double):
    op = Operation(spec_of("m k, n k -> m n", (5, 8), (13, 8)), "gelu_aux")
    x, w = tensors(torch.float64, (5, 8), (13, 8))
    got = op(x, w)
    assert (got.aux.shape, got.aux.stride(0)) == ((5, 13), 16)
    close(got.aux, x @ w.t())


@pytest.mark.parametrize(
    ("epilogue", "bias", "message"),
    [("silu", None, "epilogue must be .*relu"), ("bgrada", None, "writes a bias gradient, so bias has to be labelled")],
)
def test_epilogues_that_there_are_not_are_refused(double, epilogue, bias, message):
    with pytest.raises(ValueError, match=message):
        Operation(spec_of("m k, n k -> m n", (5, 8), (16, 8), bias), epilogue)
    with pytest.raises(ValueError, match=message):
        cublaslt.bind([[0], [2]], [[1], [2]], None, [[0], [1]], [5, 16, 8], epilogue)


@pytest.mark.parametrize(
    ("epilogue", "aux", "message"),
    [
        ("dgelu", None, "reads an aux, but aux is None"),
        ("gelu", torch.empty(5, 16), "reads no aux"),
        ("dgelu", torch.empty(5, 15), "aux has shape"),
        ("dgelu", torch.empty(5, 16).double(), "aux differs"),
        ("drelu", torch.empty(5, 8), "aux has shape"),
        ("drelu", torch.empty(5, 16).half(), "aux must be uint8"),
    ],
)
def test_an_aux_that_does_not_fit_is_refused(double, epilogue, aux, message):
    op = Operation(spec_of("m k, n k -> m n", (5, 8), (16, 8)), epilogue)
    with pytest.raises(ValueError, match=message):
        op(torch.ones(5, 8), torch.ones(16, 8), aux=aux)
    assert double.calls() == 0


def test_an_aux_in_the_outputs_memory_is_refused(double):
    op = Operation(spec_of("m k, n k -> m n", (5, 8), (16, 8)), "dgelu")
    out = torch.zeros(5, 16)
    with pytest.raises(ValueError, match="out shares memory with aux"):
        op(torch.ones(5, 8), torch.ones(16, 8), aux=out, out=out)


def test_threads_never_meet_each_others_aux(double):
    """The pointers are in a copy of the plan's descriptor, one a call."""
    import concurrent.futures

    op = Operation(spec_of("m k, n k -> m n", (8, 7), (16, 7)), "gelu_aux")
    w = torch.randn(16, 7, dtype=torch.float64)

    def work(i):
        x = torch.full((8, 7), float(i), dtype=torch.float64)
        return all(torch.allclose(op(x, w).aux, x @ w.t()) for _ in range(100))

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))

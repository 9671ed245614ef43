"""Programs whose epilogues go through the C++ engine: right values, one call each, and the same where it declines."""

import pytest
import thunder
import torch

import thunder_gemm_ex as gx
from tests.checks import all_names, assert_as_eager, jit
from tests.epilogues.programs import ACTIVATIONS, F, gelu, inputs, mlp, shapes
from thunder_gemm_ex.engines import choose, epilogues
from thunder_gemm_ex.engines.operation import Operation
from thunder_gemm_ex.spec import parse

POINTWISE = {"relu", "gelu", "sum", "add", "relu_backward_kernel", "gelu_backward_kernel"}
DTYPES = [torch.float32, torch.float16, torch.bfloat16]


@pytest.fixture
def everywhere(double):
    """The cublaslt engine takes CPU tensors too, over the double."""
    with choose.everywhere():
        yield double


@pytest.mark.parametrize("hidden", [64, 24, 13, 200], ids=str)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("kind", ACTIVATIONS)
def test_an_mlp_trains_as_eager_in_five_calls(everywhere, kind, dtype, hidden):
    """linear + activation, the derivative with the bias gradient, two weights, the input; the last linear is torch's."""
    jfn = assert_as_eager(mlp(ACTIVATIONS[kind]), *inputs(*shapes(hidden), dtype=dtype))
    assert everywhere.calls() == 5
    assert not POINTWISE & set(all_names(jfn))


@pytest.mark.parametrize("kind", ACTIVATIONS)
def test_inference(everywhere, kind):
    jfn = assert_as_eager(mlp(ACTIVATIONS[kind]), *inputs(*shapes(), grad=False), gemm_numerics="strict")
    assert everywhere.calls() == 2
    assert all_names(jfn) == ["gemm", "gemm"]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("bias", [False, True])
def test_a_linears_bias_gradient_is_no_call_of_its_own(everywhere, bias, dtype):
    """With dgrad and wgrad there are two calls, whether there is a bias or not."""
    args = inputs((4, 16, 32), (64, 32), (64,), dtype=dtype)[: 2 + bias]
    jfn = assert_as_eager(F.linear, *args)
    assert everywhere.calls() == 2
    assert "sum" not in all_names(jfn)


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_bias_gradients_of_either_operand(everywhere, order):
    def program(x, w, b):
        pair = (x, w) if order == (0, 1) else (w.t(), x.t())
        return pair[0] @ pair[1] + (b if order == (0, 1) else b[:, None])

    jfn = assert_as_eager(program, *inputs((16, 32), (32, 64), (64,)))
    assert "sum" not in all_names(jfn) or order == (1, 0)


def test_a_residual_before_the_activation(everywhere):
    jfn = assert_as_eager(lambda x, w, c: gelu(x @ w + 0.5 * c), *inputs((16, 32), (32, 64), (16, 64)))
    assert "gelu_backward_kernel" in all_names(jfn)  # the gradient that comes in is no matmul's
    assert 'epilogue="gelu_aux"' in str(thunder.last_traces(jfn)[-1])


def test_a_sum_of_products_is_three_calls(everywhere):
    args = inputs(*((4, 16, 32),) * 3, *((32, 8),) * 3, grad=False)
    assert_as_eager(lambda q, k, v, a, b, c: q @ a + k @ b + v @ c, *args, gemm_claim="all")
    assert everywhere.calls() == 3


HALVES = {"forward": lambda name: name.endswith("_aux"), "backward": lambda name: name.startswith("d")}


@pytest.mark.parametrize("gone", HALVES)
@pytest.mark.parametrize("kind", ACTIVATIONS)
def test_what_is_computed_on_one_engine_may_be_derived_on_the_other(everywhere, kind, gone, monkeypatch):
    """Whichever half the library declines, its aux is the same."""
    run = Operation.__call__

    def half(self, *tensors, **terms):
        return None if HALVES[gone](self.epilogue) else run(self, *tensors, **terms)

    monkeypatch.setattr(Operation, "__call__", half)
    assert_as_eager(mlp(ACTIVATIONS[kind]), *inputs(*shapes(72)))
    taken = {problem["epilogue"] for problem in everywhere.problems()} & {130 | 4, 136 | 16, 160 | 4, 192 | 16}
    assert len(taken) == 1


@pytest.mark.parametrize("kind", ACTIVATIONS)
def test_a_program_compiled_for_the_engine_runs_without_it(everywhere, kind, monkeypatch):
    """Everything declined: ATen computes the same, aux, derivative and bias gradient included."""
    monkeypatch.setattr(Operation, "__call__", lambda *_args, **_terms: None)
    jfn = assert_as_eager(mlp(ACTIVATIONS[kind]), *inputs(*shapes(72)))
    assert not POINTWISE & set(all_names(jfn))
    assert everywhere.calls() == 5  # the products themselves are still the engine's


@pytest.mark.parametrize("shape", [(5,), (3, 1), (2, 3, 128), (2, 130), (1, 8)], ids=str)
def test_masks_are_packed_as_the_library_packs_them(everywhere, shape):
    x = torch.randn(shape)
    bits = epilogues.packed(x > 0)
    assert bits.shape[-1] % 16 == 0
    assert torch.equal(epilogues.unpacked(bits, x.shape), x > 0)
    if len(shape) == 2:
        spec = parse("m k, n k -> m n").bind((shape[0], 4), (shape[1], 4))
        a, b = torch.randn(shape[0], 4), torch.randn(shape[1], 4)
        made = Operation(spec, "relu_aux")(a, b)
        assert torch.equal(epilogues.unpacked(made.aux, made.out.shape), made.out > 0)


def test_batch_invariant_never_falls_back(everywhere, monkeypatch):
    monkeypatch.setattr(Operation, "__call__", lambda *_args, **_terms: None)
    jfn = jit(mlp(gelu), gemm_numerics="batch_invariant")
    with pytest.raises(RuntimeError, match='numerics is "batch_invariant"'):
        jfn(*inputs(*shapes(), grad=False))


def test_the_report_says_what_ran(everywhere, monkeypatch):
    """The engine where it took the call, and why not where it did not."""
    program = mlp(gelu)
    jfn = jit(program)
    jfn(*inputs(*shapes(40), grad=False))
    (run,) = gx.explain(jfn).rows[0].runs
    assert (run.engine, run.call, run.reason) == ("cublaslt", 'a call with the epilogue "gelu"', "")
    monkeypatch.setattr(Operation, "why", lambda *_args, **_terms: "of no reason")
    jfn(*inputs(*shapes(41), grad=False))
    (run,) = gx.explain(jfn).rows[0].runs
    assert (run.engine, run.reason) == ("aten", "of no reason")
    assert "not cublaslt: of no reason" in str(gx.explain(jfn))


BEFORE = {
    "linear": lambda x, w, b: F.linear(x, w, b),
    "no bias": lambda x, w, b: F.linear(x, w),
    "residual": lambda x, w, b: F.linear(x, w) + x.repeat(1, 1, 2),
    "scaled": lambda x, w, b: F.linear(x, w, b) * 0.5,
    "turned": lambda x, w, b: F.linear(x.transpose(0, 1), w, b),
}
AFTER = {
    "next layer": lambda y, w: F.linear(y, w.t()),
    "heads": lambda y, w: torch.einsum("sbhd,sbtd->bhst", y.unflatten(-1, (4, -1)), y.unflatten(-1, (4, -1))),
    "returned": lambda y, w: y,
    "pooled": lambda y, w: F.linear(y.mean(1), w.t()),
}


@pytest.mark.parametrize("after", AFTER)
@pytest.mark.parametrize("before", BEFORE)
@pytest.mark.parametrize("kind", ACTIVATIONS)
def test_every_neighbourhood_trains_as_eager(everywhere, kind, before, after):
    """Whatever is taken and whatever is not. The gradient of a transposed input is a transposed one, in eager too."""
    program = lambda x, w, b: AFTER[after](ACTIVATIONS[kind](BEFORE[before](x, w, b)), w)  # noqa: E731
    assert_as_eager(program, *inputs((3, 5, 16), (32, 16), (32,)), leaf_strides=before != "turned")
    assert everywhere.calls() > 0

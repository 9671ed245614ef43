"""Inside a program a matmul that eager refuses is refused with eager's exception and words; others enter unchanged."""

import pytest
import thunder
import torch

import thunder_gemm_ex as gx
from tests.checks import assert_as_eager, decisions, jit

linear = torch.nn.functional.linear
CALLS = {
    "torch.matmul": torch.matmul,
    "@": lambda a, b: a @ b,
    "Tensor.matmul": lambda a, b: a.matmul(b),
    "transposed": lambda a, b: a.t() @ b if a.ndim == 2 else a @ b,
}
SHAPES = [
    ((3, 4), (5, 6)),
    ((2, 3, 4), (3, 4, 6)),
    ((2, 3, 4), (5, 6)),
    ((3,), (5, 6)),
    ((3, 4), (5,)),
    ((), (5, 6)),
    ((3,), (4,)),
]


def same_refusal(fn, *args):
    with pytest.raises(Exception) as eager:  # noqa: PT011 - it is what the other is compared with
        fn(*args)
    with pytest.raises(type(eager.value)) as ours:
        jit(fn)(*args)
    assert str(ours.value) == str(eager.value)


@pytest.mark.parametrize(("a", "b"), SHAPES, ids=str)
@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_shapes_that_cannot_multiply(call, a, b):
    same_refusal(call, torch.randn(a), torch.randn(b))


@pytest.mark.parametrize(
    ("a", "b"),
    [((2, 3, 4), (2, 5, 6)), ((2, 3, 4), (3, 4, 6)), ((1, 3, 4), (3, 4, 6)), ((3, 4), (4, 6)), ((2, 3, 4), (4, 6))],
    ids=str,
)
@pytest.mark.parametrize("call", [torch.bmm, lambda a, b: a.bmm(b)], ids=["torch.bmm", "Tensor.bmm"])
def test_batches_that_bmm_refuses(call, a, b):
    same_refusal(call, torch.randn(a), torch.randn(b))


@pytest.mark.parametrize("shapes", [((3, 4), (5, 6)), ((3, 4), (5, 4), (3,)), ((2, 3, 4), (5, 6), (5,))], ids=str)
def test_linears_that_do_not_fit(shapes):
    same_refusal(linear, *(torch.randn(s) for s in shapes))


@pytest.mark.parametrize("fn", [torch.matmul, torch.bmm, lambda a, b: a @ b], ids=["matmul", "bmm", "@"])
def test_mixed_dtypes(fn):
    same_refusal(fn, torch.randn(2, 3, 3), torch.randn(2, 3, 3).bfloat16())


def test_a_linear_of_mixed_dtypes():
    same_refusal(linear, torch.randn(2, 3), torch.randn(4, 3).bfloat16())


@pytest.mark.parametrize("beta", [1.0, 2.0, 0.0, 2], ids=repr)
@pytest.mark.parametrize("k", [0, 4])
def test_integers_scaled_by_a_float_are_refused_by_baddbmm_where_nothing_is_summed(k, beta):
    args = [torch.ones(shape, dtype=torch.int32) for shape in [(2, 3, 6), (2, 3, k), (2, k, 6)]]

    def fn(*args):
        return torch.baddbmm(*args, beta=beta, alpha=2.0)

    if k == 0 and type(beta) is float and beta:
        same_refusal(fn, *args)
    else:
        assert torch.equal(jit(fn)(*args), fn(*args))


def test_nothing_is_left_of_a_refused_program():
    jfn = jit(torch.matmul)
    with pytest.raises(RuntimeError):
        jfn(torch.randn(3, 4), torch.randn(5, 6))
    a, b = torch.randn(3, 4), torch.randn(4, 6)
    torch.testing.assert_close(jfn(a, b), a @ b)


# Does not -------------------------------------------------------------------------------------------------------------


class Everywhere(torch.nn.Module):
    """Operands from parameters, buffers, plain attributes and lists, on either side."""

    def __init__(self):
        super().__init__()
        self.register_buffer("buffer", torch.randn(4, 4))
        self.plain = torch.randn(4, 4)
        self.listed = [torch.randn(4, 4)]
        self.layer = torch.nn.Linear(4, 4)

    def forward(self, x):
        y = torch.matmul(x, self.buffer) + self.buffer @ x + torch.matmul(self.plain, x) + x.matmul(self.listed[0])
        return y + linear(self.buffer, self.layer.weight) + self.layer(x) + torch.bmm(x[None], self.plain[None])[0]


def test_operands_from_anywhere_enter_as_before():
    module, x = Everywhere(), torch.randn(4, 4)
    torch.testing.assert_close(thunder.jit(module, executors=gx.executors())(x), module(x))


def test_what_eager_accepts_is_recorded_as_thunder_records_it():
    def f(a, b):
        return a @ b

    a, b = torch.randn(3, 4), torch.randn(4, 5)
    plain = thunder.jit(f)
    plain(a, b)
    ours = assert_as_eager(f, a, b)
    first = [[x.sym.name for x in thunder.last_traces(j)[0].bound_symbols] for j in (plain, ours)]
    assert first[0] == first[1]
    assert decisions(ours) == ["given back"]


def test_programs_without_the_executor_keep_thunders_own_words():
    with pytest.raises(RuntimeError, match="matrix multipiable"):
        thunder.jit(torch.matmul)(torch.randn(3, 4), torch.randn(5, 6))

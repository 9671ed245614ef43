"""torch.func over the operator: vmap adds a label, and every composition of transforms gives what einsum gives."""

import itertools

import pytest
import torch
from torch.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, linearize, vjp, vmap
from torch.utils._python_dispatch import TorchDispatchMode

import thunder_gemm_ex as gx
from tests.operator.problems import PROBLEMS, Problem

op = torch.ops.thunder_gemm_ex.gemm


class Calls(TorchDispatchMode):
    """Records the operator's own calls, below every transform: (spec, shapes of a and b)."""

    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is torch.ops.thunder_gemm_ex.gemm.default:
            self.seen.append(
                (args[2] if len(args) > 2 else "m k, k n -> m n", tuple(args[0].shape), tuple(args[1].shape))
            )
        return func(*args, **(kwargs or {}))


def run(problem, a, b, bias=None, c=None):
    return op(a, b, problem.spec, bias=bias, c=c, **problem.options)


def batches(problem, which, size=2):
    """(tensors, in_dims): those of `which` with a batch dimension, each at another place."""
    tensors, in_dims = [], []
    for i, shape in enumerate((problem.a, problem.b, problem.bias, problem.c)):
        at = None if shape is None or not which[i] else (i + 1) % (len(shape) + 1)
        full = None if shape is None else shape if at is None else (*shape[:at], size, *shape[at:])
        tensors.append(None if full is None else torch.randn(full, dtype=torch.float64))
        in_dims.append(at)
    return tensors, tuple(in_dims)


def batched_operands():
    """Every problem with every choice of its operands that vmap may go over."""
    for problem in PROBLEMS:
        there = [shape is not None for shape in (problem.a, problem.b, problem.bias, problem.c)]
        for which in itertools.product(*([False, True] if x else [False] for x in there)):
            if any(which):
                yield pytest.param(problem, which, id=f"{problem}-{''.join('ab+c'[i] for i in range(4) if which[i])}")


@pytest.mark.parametrize(("problem", "which"), batched_operands())
def test_vmap_over_any_operands(problem, which):
    tensors, in_dims = batches(problem, which)
    for out_dims in (0, -1):
        ours = vmap(lambda *xs: run(problem, *xs), in_dims, out_dims)(*tensors)
        eager = vmap(lambda *xs: problem.eager(*xs), in_dims, out_dims)(*tensors)
        torch.testing.assert_close(ours, eager)


@pytest.mark.parametrize("problem", PROBLEMS[:6], ids=str)
def test_vmap_in_vmap(problem):
    tensors = problem.tensors(lead=(2, 3))
    in_dims = tuple(None if x is None else 0 for x in tensors)
    inner = vmap(lambda *xs: run(problem, *xs), in_dims)
    eager = vmap(lambda *xs: problem.eager(*xs), in_dims)
    torch.testing.assert_close(vmap(inner, in_dims)(*tensors), vmap(eager, in_dims)(*tensors))


@pytest.mark.parametrize(
    ("in_dims", "a", "b", "expected"),
    [
        ((0, None), (6, 3, 4), (2, 4), "v m k, n k -> v m n"),
        ((2, 0), (3, 4, 6), (6, 2, 4), "m k v, v n k -> v m n"),
        ((None, 0), (3, 4), (6, 2, 4), "m k, v n k -> m v n"),
    ],
)
def test_vmap_is_one_call_that_reads_the_operands_as_they_are_stored(in_dims, a, b, expected):
    a, b = torch.randn(a), torch.randn(b)
    with Calls() as calls:
        vmap(lambda a, b: op(a, b, "m k, n k -> m n", None, None, 2), in_dims)(a, b)
    assert calls.seen == [(expected, tuple(a.shape), tuple(b.shape))]


def test_vmap_over_terms_alone_computes_the_product_once():
    a, b, bias = torch.randn(3, 4), torch.randn(2, 4), torch.randn(5, 2)
    with Calls() as calls:
        out = vmap(lambda bias: op(a, b, "m k, n k -> m n", bias))(bias)
    assert calls.seen == [("m k, n k -> m n", (3, 4), (2, 4))]
    torch.testing.assert_close(out, a @ b.t() + bias[:, None])


def test_vmap_does_not_batch_what_no_operand_has():
    a, b = torch.randn(3, 4), torch.randn(4, 2)
    with pytest.raises(ValueError, match=r"a has shape \(4,\), 1 dimension\(s\)"):
        vmap(lambda a: op(a, b, "m k, k n -> m n"))(a)


def scalar(function):
    return lambda *xs: function(*xs).sin().sum()


SMALL = [
    Problem("m k, n k -> n m", (2, 3), (2, 3), activation="gelu", alpha=0.5),
    Problem("m k, k (n u:2), u -> m u n", (2, 3), (3, 4), bias=(2,)),
    Problem("b m k, b n k -> m (b n)", (2, 2, 1), (2, 2, 1), c=(2, 4), beta=2),
]
TRANSFORMS = {
    "grad": lambda f: grad(scalar(f), (0, 1)),
    "jacrev": lambda f: jacrev(f, (0, 1)),
    "jacfwd": lambda f: jacfwd(f, (0, 1)),
    "hessian": lambda f: hessian(scalar(f), (0, 1)),
    "jacrev of jacfwd": lambda f: jacrev(jacfwd(scalar(f))),
    "jacrev of jacrev": lambda f: jacrev(jacrev(scalar(f)), 1),
    "jacfwd of jacfwd": lambda f: jacfwd(jacfwd(scalar(f)), 1),
    "jvp": lambda f: lambda *xs: jvp(f, xs, xs),
    "vjp": lambda f: lambda *xs: vjp(f, *xs)[1](f(*xs)),
    "jvp of grad": lambda f: lambda *xs: jvp(grad(scalar(f)), xs, xs),
    "grad of jvp": lambda f: grad(lambda *xs: jvp(f, xs, xs)[1].sum()),
    "linearize": lambda f: lambda *xs: linearize(f, *xs)[1](*xs),
    "vmap of grad": lambda f: lambda *xs: vmap(grad(scalar(f)))(*(torch.stack([x, 2 * x]) for x in xs)),
    "grad of vmap": lambda f: (
        lambda *xs: grad(lambda *ys: vmap(f)(*ys).sin().sum())(*(torch.stack([x, x]) for x in xs))
    ),
    "vmap of hessian": lambda f: lambda *xs: vmap(hessian(scalar(f)))(*(torch.stack([x, 2 * x]) for x in xs)),
}


@pytest.mark.parametrize("name", TRANSFORMS)
@pytest.mark.parametrize("problem", SMALL, ids=str)
def test_compositions_of_transforms(problem, name):
    tensors = [x for x in problem.tensors() if x is not None]
    has_bias = problem.bias is not None

    def spread(xs):
        return xs if len(xs) < 3 or has_bias else (*xs[:2], None, xs[2])

    ours = TRANSFORMS[name](lambda *xs: run(problem, *spread(xs)))(*tensors)
    eager = TRANSFORMS[name](lambda *xs: problem.eager(*spread(xs)))(*tensors)
    torch.testing.assert_close(ours, eager)


@pytest.mark.parametrize("spec", ["m k, n k -> m n", "m k, n k -> n m"])
def test_the_eager_function_under_transforms(spec):
    a, b = torch.randn(5, 3, 4, dtype=torch.float64), torch.randn(2, 4, dtype=torch.float64)
    ours = vmap(grad(lambda a: gx.gemm(a, b, spec).sin().sum()))(a)
    torch.testing.assert_close(ours, vmap(grad(lambda a: (a @ b.t()).sin().sum()))(a))


def test_gradients_of_each_sample_of_a_module():
    class Linear(torch.nn.Linear):
        def forward(self, x):
            return gx.gemm(x, self.weight, "t k, n k -> t n", bias=self.bias, activation="relu")

    module, x = Linear(4, 3).double(), torch.randn(5, 2, 4, dtype=torch.float64)
    parameters = {name: p.detach() for name, p in module.named_parameters()}

    def loss(parameters, x):
        return functional_call(module, parameters, (x,)).square().sum()

    ours = vmap(grad(loss), (None, 0))(parameters, x)
    for i in range(5):
        for name, expected in grad(loss)(parameters, x[i]).items():
            torch.testing.assert_close(ours[name][i], expected)

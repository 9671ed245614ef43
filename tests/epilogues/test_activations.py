"""What stays whole, and its derivative: eager's gradients on every device, and nobody else's work taken."""

import math

import pytest
import thunder
import thunder.torch as ltorch
import torch
from thunder.core.proxies import TensorProxy
from thunder.core.pytree import tree_flatten

import thunder_gemm_ex as gx
from tests.checks import all_names, assert_as_eager, backward_names, jit
from tests.epilogues.programs import ACTIVATIONS, PLAIN, F, inputs
from tests.lab import final_traces, names, needs_nvfuser
from thunder_gemm_ex.front_door.derivatives import DERIVATIVES

DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16]
WHOLE = ACTIVATIONS | {"exact_gelu": F.gelu, "silu": F.silu, "softmax": lambda x: torch.softmax(x, -1)}
SOFTMAXES = {
    "function": lambda x, dim: torch.softmax(x, dim),
    "method": lambda x, dim: x.softmax(dim),
    "functional": lambda x, dim: F.softmax(x, dim=dim),
    "module": lambda x, dim: torch.nn.Softmax(dim)(x),
    "of minus": lambda x, dim: F.softmin(x, dim),
    "in float64": lambda x, dim: torch.softmax(x, dim, dtype=torch.float64),
    "in bfloat16": lambda x, dim: torch.softmax(x, dim, dtype=torch.bfloat16),
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("kind", WHOLE)
def test_the_derivative_is_one_kernel_and_eagers_bit_for_bit(kind, dtype):
    x = torch.linspace(-6, 6, 999).to(dtype)
    grads = []
    jfn = jit(WHOLE[kind], executors=PLAIN)
    for call in (jfn, WHOLE[kind]):
        leaf = x.clone().requires_grad_()
        grads.append(torch.autograd.grad(call(leaf), leaf, torch.linspace(-1, 2, 999).to(dtype))[0])
    assert torch.equal(*grads)
    assert backward_names(jfn) == [f"{kind}_backward_kernel"]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("kind", WHOLE)
def test_what_a_fuser_gets_is_the_same_function(kind, dtype):
    """The operations that a derivative is made of, run one by one."""
    x, g = (torch.linspace(*ends, 999).reshape(9, 111).to(dtype) for ends in ((-6, 6), (-1, 2)))
    read = WHOLE[kind](x) if kind in ("relu", "softmax") else x
    ours = thunder.jit(DERIVATIVES[kind].stated)(g, read, *((-1,) if kind == "softmax" else ()))
    # Where the derivative reads the result, that was rounded: its own function of it is what counts.
    exact = DERIVATIVES[kind].kernel(g.double(), read.double(), *((-1,) if kind == "softmax" else ()))
    eps = torch.finfo(dtype).eps
    allowed = 8 * eps + 4 * eps * exact.abs()
    if kind == "gelu":
        allowed += _a_last_bit_of_tanh(g.double(), x.double(), eps)
    assert bool(((ours.double() - exact).abs() <= allowed).all())


def _a_last_bit_of_tanh(g, x, eps):
    """What it becomes in g * x / 2 * (1 - tanh(u)**2) * du/dx: CPUs round tanh differently, by eps / 2 below 1."""
    du = math.sqrt(2 / math.pi) * (1 + 3 * 0.044715 * x**2)
    return (g * x * du).abs() * eps / 2


@needs_nvfuser
@pytest.mark.parametrize("kind", WHOLE)
def test_a_fuser_takes_them_in_with_their_neighbours(kind):
    make = lambda device: inputs((8, 16), device=device)  # noqa: E731
    traces = final_traces(lambda x: torch.sin(WHOLE[kind](torch.cos(x))), make, executors=gx.executors())
    assert [set(names(part)) for part in traces] == [{"nvFusion0"}, {"nvFusion1"}]


def test_relu_of_nan_is_eagers():
    assert_as_eager(F.relu, torch.tensor([-1.0, 0.0, -0.0, 2.0], requires_grad=True), executors=PLAIN)
    x = torch.tensor([float("nan")], requires_grad=True)
    assert jit(F.relu, executors=PLAIN)(x).isnan()


@pytest.mark.parametrize("dim", [0, 1, -1])
@pytest.mark.parametrize("way", SOFTMAXES)
def test_a_softmax_is_whole_however_it_is_written(way, dim):
    jfn = assert_as_eager(lambda x: SOFTMAXES[way](x, dim), *inputs((3, 5, 7)), executors=PLAIN)
    assert "softmax_backward_kernel" in backward_names(jfn)


@pytest.mark.parametrize("shape", [(), (1,), (0, 3), (3, 0), (2, 1, 4, 3)], ids=str)
def test_a_softmax_of_any_shape(shape):
    assert_as_eager(lambda x: torch.softmax(x, 0), *inputs(shape), executors=PLAIN)


def test_a_softmax_of_a_permuted_tensor():
    (x,) = inputs((3, 5, 7))
    program = lambda x: torch.softmax(x.permute(2, 0, 1), 1).mT  # noqa: E731
    found, eager = (
        torch.autograd.grad(call(x).square().sum(), x)[0] for call in (jit(program, executors=PLAIN), program)
    )
    assert torch.equal(found, eager)
    assert found.stride() == eager.stride()


def test_the_backward_of_a_softmax_keeps_its_result_alone():
    jfn = jit(lambda x: torch.softmax(x * 2, -1), executors=PLAIN)
    jfn(*inputs((5, 7)))
    saved = thunder.last_traces(jfn)[-1].bound_symbols[-1].args[1]
    assert [tuple(x.shape) for x in tree_flatten(saved)[0] if isinstance(x, TensorProxy)] == [(5, 7)]


# Does not -------------------------------------------------------------------------------------------------------------


def test_other_activations_are_thunders():
    for activation in (torch.tanh, torch.sigmoid, F.elu, lambda x: F.relu(x, inplace=True) * 1):
        jfn = assert_as_eager(lambda x, activation=activation: activation(x * 1), *inputs((5, 7)), executors=PLAIN)
        assert not [name for name in all_names(jfn) if name.endswith("_backward_kernel")]


def test_without_the_executor_nothing_changes():
    jfn = thunder.jit(F.relu)
    (x,) = inputs((5, 7))
    jfn(x).sum().backward()
    assert "relu_backward_kernel" not in backward_names(jfn)


def test_an_executor_with_an_activation_of_its_own_keeps_it():
    other = thunder.extend.OperatorExecutor("tests_own_relu")
    mine = other.register_operator("my_relu", like=ltorch.relu, fn=lambda a, inplace=False: torch.relu(a))
    other.register_implementation(ltorch.relu, mine)
    jfn = jit(lambda x: F.relu(x), executors=[gx.gemm_ex, other, thunder.pytorch_executor])
    jfn(*inputs((5, 7), grad=False))
    assert all_names(jfn) == ["my_relu"]

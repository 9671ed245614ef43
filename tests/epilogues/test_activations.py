"""Activations and their derivatives as whole symbols: eager's gradients on every device, and nobody else's work taken."""

import pytest
import thunder
import thunder.torch as ltorch
import torch

import thunder_gemm_ex as gx
from tests.checks import all_names, assert_as_eager, backward_names, jit
from tests.epilogues.programs import ACTIVATIONS, PLAIN, F, inputs
from tests.lab import final_traces, names, needs_nvfuser

DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("kind", ACTIVATIONS)
def test_the_derivative_is_one_kernel_and_eagers_bit_for_bit(kind, dtype):
    x = torch.linspace(-6, 6, 999).to(dtype)
    grads = []
    jfn = jit(ACTIVATIONS[kind], executors=PLAIN)
    for call in (jfn, ACTIVATIONS[kind]):
        leaf = x.clone().requires_grad_()
        grads.append(torch.autograd.grad(call(leaf), leaf, torch.linspace(-1, 2, 999).to(dtype))[0])
    assert torch.equal(*grads)
    assert backward_names(jfn) == [f"{kind}_backward_kernel"]


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("kind", ACTIVATIONS)
def test_what_a_fuser_gets_is_the_same_function(kind, dtype):
    """The operations that a derivative is made of, run one by one."""
    x = torch.linspace(-6, 6, 999).to(dtype)
    g = torch.linspace(-1, 2, 999).to(dtype)
    from thunder_gemm_ex.front_door import activations

    stated, read = getattr(activations, f"{kind}_backward"), torch.relu(x) if kind == "relu" else x
    ours = thunder.jit(stated)(g, read)
    leaf = x.double().requires_grad_()
    (exact,) = torch.autograd.grad(ACTIVATIONS[kind](leaf), leaf, g.double())
    eps = torch.finfo(dtype).eps
    torch.testing.assert_close(ours.double(), exact, rtol=4 * eps, atol=8 * eps)


@needs_nvfuser
@pytest.mark.parametrize("kind", ACTIVATIONS)
def test_a_fuser_takes_them_in_with_their_neighbours(kind):
    make = lambda device: inputs((8, 16), device=device)  # noqa: E731
    traces = final_traces(lambda x: torch.sin(ACTIVATIONS[kind](torch.cos(x))), make, executors=gx.executors())
    assert [set(names(part)) for part in traces] == [{"nvFusion0"}, {"nvFusion1"}]


def test_relu_of_nan_is_eagers():
    assert_as_eager(F.relu, torch.tensor([-1.0, 0.0, -0.0, 2.0], requires_grad=True), executors=PLAIN)
    x = torch.tensor([float("nan")], requires_grad=True)
    assert jit(F.relu, executors=PLAIN)(x).isnan()


# Does not -------------------------------------------------------------------------------------------------------------


def test_other_activations_are_thunders():
    for activation in (F.gelu, F.silu, torch.tanh, lambda x: F.relu(x, inplace=True) * 1):
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

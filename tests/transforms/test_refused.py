"""What Thunder 0.2.6 itself refuses of transforms around a program, with us and without, in which words; and what it drops.

In processes of their own (test_distributed): torch's DistributedDataParallel inside of jit, gradients of fsdp under no_sync.
"""

import copy

import pytest
import thunder
import torch
from thunder.core.transforms import value_and_grad
from torch.utils.checkpoint import checkpoint

import thunder_gemm_ex as gx

OURS = pytest.mark.parametrize("executors", [gx.executors(), None], ids=["with us", "without us"])


class Tied(torch.nn.Module):
    """Two linears of one weight, and a buffer."""

    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(4, 4)
        self.second = torch.nn.Linear(4, 4)
        self.second.weight = self.first.weight
        self.register_buffer("scale", torch.ones(4))

    def forward(self, x):
        """[n, 4] -> [n, 4]"""
        return self.second(self.first(x)) * self.scale


def program(x, w):
    return torch.tanh(x @ w.t())


def x_and_w(grad=False):
    return torch.randn(3, 4, requires_grad=grad), torch.randn(5, 4, requires_grad=grad)


def _functional(prefix):
    def call(executors):
        module = torch.nn.Linear(4, 5)
        weights = {f"{prefix}{name}": torch.randn_like(p) for name, p in module.named_parameters()}
        torch.func.functional_call(thunder.jit(module, executors=executors), weights, torch.randn(3, 4))

    return call


def _functional_inside(executors):
    module = torch.nn.Linear(4, 5)
    weights = {name: torch.randn_like(p) for name, p in module.named_parameters()}
    thunder.jit(lambda p, x: torch.func.functional_call(module, p, (x,)), executors=executors)(
        weights, torch.randn(3, 4)
    )


def _another_dtype(executors):
    jm = thunder.jit(Tied(), executors=executors)
    jm(torch.randn(3, 4))
    jm.to(torch.float64)(torch.randn(3, 4, dtype=torch.float64))


def _second_derivative(executors):
    x, w = x_and_w(grad=True)
    out = thunder.jit(program, executors=executors)(x, w)
    torch.autograd.grad(torch.autograd.grad(out.sum(), x, create_graph=True)[0].sum(), w)


def _reentrant(executors):
    fn = lambda x, w: checkpoint(program, x, w, use_reentrant=True)  # noqa: E731 - as users write it
    thunder.jit(fn, executors=executors)(*x_and_w(grad=True))


REFUSED = {
    "vmap of a compiled function": (
        lambda ex: torch.vmap(thunder.jit(program, executors=ex), (0, None))(torch.randn(2, 3, 4), torch.randn(5, 4)),
        "Cannot access storage of BatchedTensorImpl",
    ),
    "torch.func.grad of a compiled function": (
        lambda ex: torch.func.grad(lambda x, w: thunder.jit(program, executors=ex)(x, w).sum())(*x_and_w()),
        "Cannot access storage of TensorWrapper",
    ),
    "jvp of a compiled function": (
        lambda ex: torch.func.jvp(thunder.jit(program, executors=ex), x_and_w(), x_and_w()),
        "Cannot access storage of TensorWrapper",
    ),
    "Thunder's value_and_grad inside of jit": (
        lambda ex: thunder.jit(value_and_grad(lambda x, w: x @ w.t()), executors=ex)(*x_and_w()),
        "list index out of range",
    ),
    "a second derivative": (_second_derivative, "does not require grad and does not have a grad_fn"),
    "a reentrant checkpoint": (_reentrant, "exceptions must derive from BaseException"),
    "functional_call by the module's names": (_functional(""), "attribute '(weight|bias)' already exists"),
    "functional_call by the compiled module's names": (_functional("_model."), "Exception occured unpacking object"),
    "functional_call inside of jit": (_functional_inside, "unhashable type: 'TensorProxy'"),
    # An assertion of Thunder's about symbols, without words where it is about another symbol than with us.
    "a copy of a compiled module": (lambda ex: copy.deepcopy(thunder.jit(Tied(), executors=ex)), "^(thunder.torch|$)"),
    "a buffer in another dtype": (_another_dtype, "expected tensor with .* got .*torch.float32"),
    "a tied weight in load_original_state_dict": (
        lambda ex: thunder.jit(Tied(), executors=ex).load_original_state_dict(Tied().state_dict()),
        "don't know how to handle second.weight",
    ),
}


@OURS
@pytest.mark.parametrize("name", REFUSED)
def test_thunder_refuses(name, executors):
    attempt, words = REFUSED[name]
    with pytest.raises(Exception, match=words):
        attempt(executors)


@OURS
def test_thunder_keeps_a_compiled_modules_own_weights_in_functional_call(executors):
    module = torch.nn.Linear(4, 5)
    jm, x = thunder.jit(module, executors=executors), torch.randn(3, 4)
    before = jm(x)
    others = {f"_model.{name}": torch.nn.Parameter(torch.randn_like(p)) for name, p in module.named_parameters()}
    assert torch.equal(torch.func.functional_call(jm, others, x), before)

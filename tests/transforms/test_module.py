"""A compiled module has the weights as they are when it is called, whoever changed them, and its state goes in and out."""

import copy

import pytest
import thunder
import torch
from thunder.dynamo import thunderfx

import thunder_gemm_ex as gx
from tests.checks import assert_close_to_float64, decisions, specs


class Tied(torch.nn.Module):
    """One weight under two names, read transposed and as it is, a second one, and a buffer."""

    def __init__(self):
        super().__init__()
        self.encode = torch.nn.Linear(8, 12, bias=False)
        self.middle = torch.nn.Linear(12, 12)
        self.decode = torch.nn.Linear(8, 12, bias=False)
        self.decode.weight = self.encode.weight
        self.register_buffer("scale", torch.full((12,), 1.5))

    def forward(self, x):
        """[n, s, 8] -> [s, n, 8]"""
        h = torch.tanh(self.middle(self.encode(x.transpose(0, 1)))) * self.scale
        return h @ self.decode.weight


def call(module, x):
    """Output and gradients, of the input first."""
    x = x.detach().requires_grad_()
    out = module(x)
    wanted = [p for p in module.parameters() if p.requires_grad]
    return out.detach(), *torch.autograd.grad(out, [x, *wanted], torch.ones_like(out))


def assert_same(jm, module, x):
    """`jm` gives what `module` gives, which has the same weights."""
    exact = call(copy.deepcopy(module).double(), x.double())
    for index, (ours, eager, right) in enumerate(zip(call(jm, x), call(module, x), exact, strict=True)):
        assert_close_to_float64(ours, eager, right, str(index))


@pytest.fixture
def pair():
    """A module, and the same compiled and called once."""
    module = Tied()
    jm = thunder.jit(module, executors=gx.executors())
    assert_same(jm, module, torch.randn(2, 3, 8))
    assert specs(jm)[0] == "b a k, n k -> a b n"
    return module, jm


def _step(module, jm):
    optimizer = torch.optim.Adam(jm.parameters(), lr=0.1)
    jm(torch.randn(2, 3, 8, requires_grad=True)).square().sum().backward()
    optimizer.step()


def _other_strides(module, jm):
    for p in module.parameters():
        if p.ndim == 2:
            p.data = torch.randn_like(p).t().contiguous().t()


def _part_of_a_larger_one(module, jm):
    module.encode.weight.data = torch.randn(24, 20)[::2, 3:11]


def _loaded(module, jm):
    jm.load_state_dict({name: torch.randn_like(value) for name, value in jm.state_dict().items()})


CHANGES = {
    "an optimizer's step": _step,
    "in place": lambda module, jm: module.middle.weight.mul_(2),
    "in place, by the second name of a tied weight": lambda module, jm: module.decode.weight.add_(1),
    "in place, of a view": lambda module, jm: module.encode.weight.t()[2:].neg_(),
    "in place, by the compiled module's names": lambda module, jm: jm.get_parameter("middle.bias").fill_(3),
    "a buffer in place": lambda module, jm: module.scale.mul_(2),
    "data with other strides": _other_strides,
    "data in a larger tensor": _part_of_a_larger_one,
    "load_state_dict": _loaded,
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_a_changed_weight_is_seen_and_nothing_compiled_again(pair, change):
    module, jm = pair
    x = torch.randn(2, 3, 8)
    before, *_ = call(jm, x)
    with torch.enable_grad() if change is _step else torch.no_grad():
        change(module, jm)
    assert not torch.allclose(call(jm, x)[0], before)
    assert_same(jm, module, x)
    assert thunder.cache_misses(jm) == 1


@pytest.mark.parametrize("steps", [1, 4])
def test_training_goes_as_in_eager(steps):
    trained = []
    for compile_it in (True, False):
        torch.manual_seed(1)
        module = Tied().double()
        fn = thunder.jit(module, executors=gx.executors()) if compile_it else module
        optimizer = torch.optim.SGD(fn.parameters(), lr=0.05, momentum=0.9)
        for _ in range(steps):
            optimizer.zero_grad()
            fn(torch.randn(2, 3, 8, dtype=torch.float64)).square().mean().backward()
            optimizer.step()
        trained.append(list(module.parameters()))
    for ours, eager in zip(*trained):
        torch.testing.assert_close(ours, eager)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
def test_another_dtype_is_another_program(dtype):
    """Of weights: a compiled module keeps a buffer as it was, which Thunder then refuses."""
    module = torch.nn.Linear(8, 12)
    jm = thunder.jit(lambda x: module(x.transpose(0, 1)), executors=gx.executors())
    for each in (torch.float32, dtype):
        module.to(each)
        x = torch.randn(2, 3, 8, dtype=each)
        assert_close_to_float64(jm(x), module(x.transpose(0, 1)), _exact(module, x.transpose(0, 1)))
        assert specs(jm)[0] == "b a k, n k, n -> a b n"
    assert thunder.cache_misses(jm) == 2


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16], ids=str)
def test_a_compiled_module_in_another_dtype(dtype):
    module = torch.nn.Linear(8, 12)
    jm = thunder.jit(module, executors=gx.executors(), gemm_claim="all")
    jm(torch.randn(2, 3, 8))
    jm.to(dtype)
    x = torch.randn(2, 3, 8, dtype=dtype)
    assert_close_to_float64(jm(x), module(x), _exact(module, x))
    assert (thunder.cache_misses(jm), specs(jm)[0]) == (2, "a b k, n k, n -> a b n")


def _exact(module, x):
    return copy.deepcopy(module).double()(x.double())


def test_a_frozen_weight_has_no_gradient(pair):
    module, jm = pair
    rows = len(decisions(jm))
    module.middle.weight.requires_grad_(False)
    assert_same(jm, module, torch.randn(2, 3, 8))
    assert module.middle.weight.grad is None
    assert len(decisions(jm)) == rows - 1


def test_the_state_goes_into_another_compiled_module(pair):
    module, jm = pair
    other = thunder.jit(Tied(), executors=gx.executors())
    assert set(jm.state_dict()) <= set(module.state_dict())
    x = torch.randn(2, 3, 8)
    assert not torch.allclose(other(x), jm(x))
    other.load_state_dict(jm.state_dict())
    assert torch.equal(other(x), jm(x))


@pytest.mark.parametrize("way", ["load_state_dict", "load_original_state_dict"])
def test_a_modules_own_state_is_loaded(pair, way):
    _, jm = pair
    source = Tied()
    # A compiled module's state has a tied weight once.
    getattr(jm, way)({name: value for name, value in source.state_dict().items() if name in jm.state_dict()})
    assert_same(jm, source, torch.randn(2, 3, 8))


def test_tensors_put_in_place_of_parameters_are_used(pair):
    """One of them with other strides than the parameter had; a tied weight is tied no more, as Thunder has it."""
    module, jm = pair
    state = {name: torch.randn_like(value) for name, value in jm.state_dict().items()}
    state["middle.weight"] = torch.randn(12, 12).t()
    without = thunder.jit(module)
    for fn in (jm, without):
        fn.load_state_dict(state, assign=True)
        assert fn.get_parameter("middle.weight").data_ptr() == state["middle.weight"].data_ptr()
    x = torch.randn(2, 3, 8)
    torch.testing.assert_close(jm(x), without(x))
    assert not torch.allclose(jm(x), module(x))


def test_gradients_accumulate_over_calls(pair):
    module, jm = pair
    x = torch.randn(2, 3, 8)
    for fn in (jm, module):
        for _ in range(2):
            fn(x).sum().backward()
    # Both added to the same parameters: four times one call's gradient.
    _, _, *once = call(module, x)
    for p, g in zip(module.parameters(), once):
        torch.testing.assert_close(p.grad, 4 * g)


def test_functional_call_by_thunderfx():
    """Dynamo sees through it: the weights are those that the call names, and each call's own."""
    module = torch.nn.Linear(8, 12)

    def program(weights, x):
        return torch.func.functional_call(module, weights, (x.transpose(0, 1),))

    torch._dynamo.reset()
    compiled = thunderfx(program, executors=gx.executors())
    x = torch.randn(2, 3, 8)
    for _ in range(2):
        weights = {name: torch.randn_like(p) for name, p in module.named_parameters()}
        torch.testing.assert_close(compiled(weights, x), program(weights, x))
    assert specs(compiled) == ["b a k, n k, n -> a b n"]


def test_no_sync_of_a_module_that_is_on_one_process(pair):
    module, jm = pair
    x = torch.randn(2, 3, 8)
    with jm.no_sync():
        jm(x).sum().backward()
    _, _, *gradients = call(module, x)
    for p, g in zip(module.parameters(), gradients):
        torch.testing.assert_close(p.grad, g)

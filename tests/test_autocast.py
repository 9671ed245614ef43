"""torch.autocast: every operation that is a matmul has eager's dtypes, values and gradients in every kind of region."""

import pytest
import torch

import thunder_gemm_ex as gx
from tests.checks import assert_as_eager, flat, jit
from tests.front_door.table import OPS
from tests.lab import final_traces

LOW = [torch.bfloat16, torch.float16]
# Other factors change nothing about what is cast: without them, but for one operation.
CAST = [op for op in OPS if op.name.startswith("addmm") or not op.name.endswith((" scaled", " negative", " beta=0"))]
# The ways in which operands are given: all in float32, or one already in the region's dtype.
GIVEN = ["float32", "first is low", "last is low", "float64"]


def operands(op, low, given="float32", grad=True):
    made = [torch.randn(s, dtype=torch.float64 if given == "float64" else torch.float32) for s in op.shapes[-1]]
    if given in ("first is low", "last is low"):
        at = 0 if given == "first is low" else -1
        made[at] = made[at].to(low)
    return [x.requires_grad_(grad) for x in made]


def autocast(low, **how):
    return torch.autocast("cpu", low, **how)


def regions(fn, low):
    """`fn` in a region, a disabled one in it, one of another dtype in that, the first again, and outside."""
    other = next(x for x in LOW if x != low)

    def f(*args):
        with autocast(low):
            inside = fn(*args)
            with autocast(low, enabled=False):
                disabled = fn(*args)
                with autocast(other):
                    enabled_again = fn(*args)
            back = fn(*args)
        return inside, disabled, enabled_again, back, fn(*args)

    return f


def around(fn, low, **how):
    def f(*args):
        with autocast(low, **how):
            return fn(*args)

    return f


@pytest.mark.parametrize("low", LOW, ids=str)
@pytest.mark.parametrize("op", CAST, ids=lambda op: op.name)
def test_regions_in_the_program(op, low):
    assert_as_eager(regions(op.function, low), *operands(op, low), leaf_strides=False, rounded=low)


@pytest.mark.parametrize("given", GIVEN)
@pytest.mark.parametrize("op", CAST, ids=lambda op: op.name)
def test_a_region_around_the_call(op, given):
    """Mixed dtypes are what eager makes of them: a result, or an error."""
    low = torch.bfloat16
    args = operands(op, low, given)
    jfn = jit(op.function, gemm_claim="all")
    try:
        expected = around(op.function, low)(*args)
    except RuntimeError as error:
        with pytest.raises(type(error)):
            around(jfn, low)(*args)
        return
    ours = around(jfn, low)(*args)
    exact = op.function(*(x.double() for x in args))
    assert (ours.dtype, ours.shape, ours.stride()) == (expected.dtype, expected.shape, expected.stride())
    error, allowed = ((x.double() - exact).abs().max() for x in (ours, expected))
    assert error <= 2 * allowed + 2 * torch.finfo(ours.dtype).eps * exact.abs().max()


def train(fn, low, steps=3, **how):
    """A weight after some steps of SGD, its product used twice in a step so that a cached cast would be used twice."""
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(8, 8, generator=generator, dtype=torch.float64).float().requires_grad_()
    for _ in range(steps):
        x = torch.randn(2, 8, 8, generator=generator, dtype=torch.float64).float()
        with autocast(low, **how):
            loss = fn(x, weight).float().square().mean()
        (grad,) = torch.autograd.grad(loss, weight)
        with torch.no_grad():
            weight -= 0.1 * grad
    return weight.detach()


def layer(x, w):
    batched = torch.bmm(x, w.expand(2, 8, 8))
    return torch.baddbmm(batched, torch.einsum("bij,jk->bik", x, w), w.expand(2, 8, 8)) + torch.mm(x[0], w)


@pytest.mark.parametrize("cache", [True, False], ids=["cached", "not cached"])
@pytest.mark.parametrize("low", LOW, ids=str)
def test_training(low, cache):
    ours, eager = (train(fn, low, cache_enabled=cache) for fn in (jit(layer), layer))
    exact = train(lambda x, w: layer(x.double(), w.double()), low, enabled=False).double()
    error, allowed = ((w.double() - exact).abs().max() for w in (ours, eager))
    assert error <= 2 * allowed + 1e-6
    # It is the low precision that was trained in.
    assert allowed > 1e-5


@pytest.mark.parametrize(
    "op", [op for op in OPS if op.name in ("matmul", "bmm", "addmm", "mv")], ids=lambda op: op.name
)
def test_one_compiled_program_follows_each_call(op):
    jfn, args = jit(op.function), operands(op, torch.bfloat16, grad=False)
    for how in ({}, {"low": torch.bfloat16}, {}, {"low": torch.float16}, {"low": torch.float16, "enabled": False}, {}):
        call, expected = (around(f, **how) if how else f for f in (jfn, op.function))
        assert call(*args).dtype == expected(*args).dtype


def test_a_region_around_an_earlier_compilation_is_over():
    """Thunder 0.2.6 alone stays in it: the second call gives bfloat16 there."""
    jfn, x = jit(torch.matmul), torch.randn(4, 4)
    assert around(jfn, torch.bfloat16)(x, x).dtype == torch.bfloat16
    assert jfn(x, x).dtype == torch.float32
    assert jfn(x[:2], x).dtype == torch.float32


def test_a_region_inside_one_around_an_earlier_compilation():
    def f(x):
        with autocast(torch.float16):
            inside = x @ x
        return inside, x @ x

    jfn, x = jit(f), torch.randn(4, 4)
    for program in (around(jfn, torch.bfloat16), jfn):
        expected = around(f, torch.bfloat16) if program is not jfn else f
        assert [y.dtype for y in program(x)] == [y.dtype for y in expected(x)]


def test_a_disabled_region_inside_one_around_the_call_trains_as_eager():
    """Thunder 0.2.6 alone casts there after all, when it makes the gradients."""

    def f(x, w):
        with autocast(torch.bfloat16, enabled=False):
            return torch.nn.functional.linear(x @ w, w)

    x, w = (torch.randn(4, 4, requires_grad=True) for _ in range(2))
    ours = around(jit(f), torch.bfloat16)(x, w)
    assert ours.dtype == torch.float32
    for got, expected in zip(torch.autograd.grad(ours.sum(), (x, w)), torch.autograd.grad(f(x, w).sum(), (x, w))):
        torch.testing.assert_close(got, expected)


@pytest.mark.parametrize("options", [{}, {"cache": "symbolic values"}], ids=["static", "symbolic"])
def test_sizes_may_be_symbolic(options):
    jfn, weight = jit(torch.nn.functional.linear, **options), torch.randn(8, 4)
    for rows in (3, 5):
        x = torch.randn(rows, 4)
        ours, eager = (around(fn, torch.bfloat16)(x, weight) for fn in (jfn, torch.nn.functional.linear))
        torch.testing.assert_close(ours, eager, rtol=2e-2, atol=2e-2)


# On CUDA more is cast than on CPU, and some is not; traces show it without a device.
ON_CUDA = {"mv": "bf16", "bmm": "bf16", "dot": "f32", "tensordot 1": "f32", "bilinear": "f32"}


@pytest.mark.parametrize("name", ON_CUDA)
def test_cuda_has_rules_of_its_own(name):
    op = next(op for op in OPS if op.name == name)

    # As ThunderFX writes a region; torch.autocast itself is off where there is no device.
    def f(*args):
        state = torch.amp.autocast_mode._enter_autocast("cuda", torch.bfloat16, True, False)
        out = op.function(*args)
        torch.amp.autocast_mode._exit_autocast(state)
        return out

    def inputs(device):
        return [torch.randn(s, device=device) for s in op.shapes[0]]

    last = final_traces(f, inputs, gx.executors()).forward[-1]
    assert f'"cuda:0 {ON_CUDA[name]}[' in last.text


# Does not -------------------------------------------------------------------------------------------------------------


def test_integers_and_float64_are_not_cast():
    for dtype in (torch.int64, torch.float64):
        x = torch.ones(3, 3, dtype=dtype)
        assert [y.dtype for y in flat(jit(regions(torch.mm, torch.bfloat16))(x, x))] == [dtype] * 5


def test_torchs_own_state_is_as_before():
    def state():
        device = "cpu"
        return torch.is_autocast_enabled(device), torch.get_autocast_dtype(device), torch.is_autocast_cache_enabled()

    before, x = state(), torch.randn(3, 3)
    around(jit(torch.einsum), torch.float16)("ij,jk->ik", x, x)
    with pytest.raises(RuntimeError):
        around(jit(torch.mm), torch.float16)(x, x[:2])
    assert state() == before

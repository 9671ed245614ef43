"""What is saved for the backward: the tensors that the program was given, no copies of them; and what a program returns."""

import pytest
import thunder
import torch

from tests.checks import jit, layout
from tests.lab import fake, needs_nvfuser
from tests.programs.catalogue import PROGRAMS, executors
from tests.programs.measure import saved_bytes, saved_storages
from thunder_gemm_ex.programs import moe_bmm


def leaf(*shape):
    """A leaf that wants a gradient."""
    return torch.randn(shape, requires_grad=True)


def pointers(storages):
    """Addresses, to compare storages by."""
    return {s.data_ptr() for s in storages}


# Above the right operand [5, 4] or [2, 6, 4] of `x @ view(w)`: (view, shape of w, shape of x).
VIEWS = {
    "t": (lambda w: w.t(), (5, 4), (3, 4)),
    "mT": (lambda w: w.mT, (5, 4), (3, 4)),
    "permute": (lambda w: w.permute(2, 0, 1), (6, 4, 5), (3, 6)),
    "joined": (lambda w: w.permute(1, 2, 0).reshape(24, 5), (5, 6, 4), (3, 24)),
    "joined across": (lambda w: w.permute(0, 2, 1, 3).reshape(2, 3, 4, 5).mT, (2, 4, 3, 5), (2, 3, 7, 5)),
    "unsqueeze": (lambda w: w[None].transpose(1, 2), (5, 4), (2, 3, 4)),
    "contiguous": (lambda w: w.t().contiguous(), (5, 4), (3, 4)),
    "repeated": (lambda w: w[:, None].expand(2, 3, 4, 5).reshape(6, 4, 5), (2, 4, 5), (6, 3, 4)),
}


@pytest.mark.parametrize("name", VIEWS)
def test_the_base_is_saved(name):
    view, w_shape, x_shape = VIEWS[name]
    x, w = leaf(*x_shape), leaf(*w_shape)
    jfn = jit(lambda x, w: x @ view(w))
    jfn(x, w)
    assert pointers(saved_storages(jfn, (x, w))) == pointers((x.untyped_storage(), w.untyped_storage()))


@pytest.mark.parametrize("name", ["contiguous", "repeated"])
def test_without_us_a_copy_is_saved(name):
    view, w_shape, x_shape = VIEWS[name]
    x, w = leaf(*x_shape), leaf(*w_shape)
    jfn = thunder.jit(lambda x, w: x @ view(w), executors=executors(ours=False))
    jfn(x, w)
    assert w.untyped_storage().data_ptr() not in pointers(saved_storages(jfn, (x, w)))


@pytest.mark.parametrize("name", ["attention_bshd", "neva_g23", "moe_bmm"])
def test_programs_save_their_inputs_themselves(name):
    made = PROGRAMS[name]
    inputs = made.inputs()
    jfn = jit(made.make())
    jfn(*inputs)
    assert pointers(x.untyped_storage() for x in inputs) <= pointers(saved_storages(jfn, inputs))


def cut(x, w, e, parts):
    """x @ w cut into three [4, 1, 2, 5]; those of `parts` are repeated for two groups, which copies them, and multiplied."""
    cuts = (x @ w).view(4, 3, 2, 5).split(1, dim=1)
    products = [e @ cuts[i].expand(4, 2, 2, 5).reshape(8, 2, 5).mT for i in parts]
    return sum(p.sin().sum() for p in products)


@pytest.mark.parametrize("parts", [(0,), (0, 1, 2)], ids=["one of three", "all three"])
def test_a_slice_that_was_copied_never_keeps_more_than_the_copies(parts):
    args = leaf(4, 6), leaf(6, 30), leaf(8, 7, 5)
    compiled = [thunder.jit(lambda *a: cut(*a, parts), executors=executors(ours)) for ours in (True, False)]
    for fn in compiled:
        fn(*args)
    ours, default = (saved_bytes(fn, args) for fn in compiled)
    assert ours <= default
    # Together the copies are twice what they were cut out of: then that is saved.
    assert (ours < default) == (len(parts) == 3)


@pytest.mark.parametrize("name", VIEWS)
def test_a_leafs_gradient_has_the_leafs_strides(name):
    view, w_shape, x_shape = VIEWS[name]
    x, w = leaf(*x_shape), leaf(*w_shape)
    out = jit(lambda x, w: x @ view(w))(x, w)
    gradients = torch.autograd.grad(out, (x, w), torch.ones_like(out))
    assert [layout(g) for g in gradients] == [layout(x), layout(w)]


def test_a_view_that_is_only_returned_stays_a_view():
    x, w = torch.randn(3, 4), torch.randn(5, 4)
    product, view = jit(lambda x, w: (x @ w.t(), w.t()))(x, w)
    assert view.untyped_storage().data_ptr() == w.untyped_storage().data_ptr()
    assert (product.stride(), view.stride()) == ((5, 1), (1, 4))


def test_a_returned_view_of_a_result_shares_its_memory():
    y, view = jit(lambda x, w: (y := x @ w.t(), y.t()))(torch.randn(3, 4), torch.randn(5, 4))
    assert view.untyped_storage().data_ptr() == y.untyped_storage().data_ptr()
    assert view.stride() == (1, 5)


def test_activation_checkpointing_saves_inputs_alone():
    def block(q, k):
        scores = torch.tanh(q.permute(0, 2, 1, 3) @ k.permute(0, 2, 3, 1))
        return (scores @ k.permute(0, 2, 1, 3)).permute(0, 2, 1, 3).reshape(2, 6, 20)

    def f(q, k):
        return torch.utils.checkpoint.checkpoint(block, q, k, use_reentrant=False)

    q, k = leaf(2, 6, 4, 5), leaf(2, 6, 4, 5)
    jfn = jit(f)
    out, expected = jfn(q, k), block(q, k)
    torch.testing.assert_close(out, expected)
    for ours, eager in zip(*(torch.autograd.grad(o.sum(), (q, k)) for o in (out, expected))):
        torch.testing.assert_close(ours, eager)
    assert pointers(saved_storages(jfn, (q, k))) == pointers((q.untyped_storage(), k.untyped_storage()))
    assert len(saved_storages(jit(block), (q, k))) > 2, "without a checkpoint the scores are saved too"


def saved_on_cuda(fn, inputs, executors):
    """(bytes that the forward trace for CUDA hands to the backward, symbols inside the backward's regions)."""
    jfn = thunder.jit(fn, executors=executors)
    thunder.compile_data(jfn).get_computation_and_inputs(*fake(inputs))
    (returned,) = (b for b in thunder.last_traces(jfn)[-1].bound_symbols if b.sym.name == "python_return")
    tensors = {p.name: p for p in returned.args[1][0]}
    backward = thunder.last_backward_traces(jfn)[-1]
    inside = {s.sym.name for b in backward.bound_symbols for s in b.subsymbols}
    return sum(p.numel * p.dtype.bytes for p in tensors.values()), inside


@needs_nvfuser
def test_thunder_rematerialises_between_our_products():
    import thunder_gemm_ex as gx

    ours, inside = saved_on_cuda(moe_bmm.experts, moe_bmm.inputs, gx.executors())
    default, _ = saved_on_cuda(moe_bmm.experts, moe_bmm.inputs, list(thunder.get_default_executors()))
    assert "exp" in inside, "the forward's sigmoid is computed again in the backward"
    assert ours <= default

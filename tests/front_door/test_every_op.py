"""Every operation that is a matmul, in every way of writing it, enters as a contraction and is what eager computes."""

import pytest
import torch

import thunder_gemm_ex as gx
from tests.checks import all_names, assert_as_eager, forward_names
from tests.front_door.table import CASES, OPS, named

# What Thunder records for a matmul that it does not look into, or that we left to it.
OPAQUE = {"spmm", "mm", "mv", "dot", "vdot", "addmm", "addmv", "addbmm", "baddbmm", "inner", "outer", "ger", "bilinear"}
OPAQUE |= {"einsum", "tensordot", "chain_matmul", "multi_dot"}


def operands(shapes, dtype=torch.float32, grad=False):
    """Tensors of these shapes; integers are small."""
    if not dtype.is_floating_point and not dtype.is_complex:
        return [torch.randint(-4, 5, s).to(dtype) for s in shapes]
    return [torch.randn(s, dtype=dtype).requires_grad_(grad) for s in shapes]


@pytest.mark.parametrize("case", CASES, ids=named)
def test_it_is_a_contraction_or_given_back_with_a_row_and_trains_as_eager(case):
    op, way, shapes = case
    # Eager's own gradients of a tensordot have other strides than their leaves.
    jfn = assert_as_eager(op.ways[way], *operands(shapes, grad=True), gemm_claim="all", leaf_strides=False)
    assert not OPAQUE & set(all_names(jfn))
    rows = gx.explain(jfn).rows
    if op.name not in _POINTWISE:
        assert rows
    for row in rows:
        assert row.decision in ("claimed", "multiply") or row.op == "convolution", row
        assert row.reason


# Nothing is summed in these: eager itself multiplies.
_POINTWISE = {"outer", "ger", "tensordot 0", "einsum i,j->ij", "einsum i,i,i->i", "einsum ij,ij->j"}


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_by_default_a_lone_call_is_torchs_own_again(op):
    jfn = assert_as_eager(op.function, *operands(op.shapes[0]))
    for row in gx.explain(jfn).rows:
        assert row.decision in ("given back", "claimed", "multiply")
        assert row.reason


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16, torch.int64, torch.complex64], ids=str)
@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_dtypes(op, dtype):
    args = operands(op.shapes[-1], dtype)
    try:
        op.function(*args)
    except (RuntimeError, NotImplementedError) as error:
        with pytest.raises(type(error)):
            thunder_jit(op.function)(*args)
        return
    exact = torch.complex128 if dtype.is_complex else torch.float64 if dtype.is_floating_point else dtype
    jfn = thunder_jit(op.function)
    ours, eager = jfn(*args), op.function(*args)
    assert (ours.dtype, ours.shape, ours.stride()) == (eager.dtype, eager.shape, eager.stride())
    reference = op.function(*(x.to(exact) for x in args))
    error, allowed = ((x.to(exact) - reference).abs().max() for x in (ours, eager))
    eps = torch.finfo(dtype).eps if dtype.is_floating_point or dtype.is_complex else 0
    assert error <= 2 * allowed + 2 * eps * reference.abs().max()


def thunder_jit(fn):
    from tests.checks import jit

    return jit(fn)


@pytest.mark.parametrize("op", OPS, ids=lambda op: op.name)
def test_operands_that_lie_otherwise_in_memory(op):
    """Column-major, and with gaps: nothing about strides is baked into the program."""
    args = operands(op.shapes[0])
    column_major = [x.mT.contiguous().mT if x.ndim > 1 else x for x in args]
    with_gaps = [torch.empty(*x.shape, 2)[..., 0].copy_(x) for x in args]
    jfn = thunder_jit(op.function)
    for inputs in (args, column_major, with_gaps):
        ours, eager = jfn(*inputs), op.function(*inputs)
        torch.testing.assert_close(ours, eager)
        assert ours.stride() == eager.stride()
    assert forward_names(jfn)

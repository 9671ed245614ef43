"""Tensors that are made of others, torch.distributed's first of all, stay with whoever knows their parts: a row says why."""

import pytest
import thunder
import torch
from thunder.dynamo import thunderfx
from torch.distributed.tensor import DeviceMesh, DTensor, Replicate, Shard, distribute_tensor
from torch.testing._internal.two_tensor import TwoTensor

import thunder_gemm_ex as gx
from tests.checks import decisions, specs

linear = torch.nn.functional.linear
DOORS = pytest.mark.parametrize("door", [thunder.jit, thunderfx], ids=["jit", "thunderfx"])

# By name: a program and its operands' shapes. Thunder 0.2.6 takes the linear alone; what it says to the others stays.
PROGRAMS = {
    "linear": (linear, (3, 4), (5, 4)),
    "linear with a bias": (linear, (2, 3, 4), (5, 4), (5,)),
    "linear of reshapes": (lambda x, w: linear(torch.reshape(x, (3, 4)), torch.reshape(w, (5, 4))), (12,), (20,)),
    "linear of transposes": (lambda x, w: linear(torch.transpose(x, 0, 1), w), (4, 3), (5, 4)),
    "linear in between": (lambda x, w: torch.exp(linear(torch.neg(x), w)), (3, 4), (5, 4)),
    "@": (lambda x, w: x @ w.t(), (3, 4), (5, 4)),
    "matmul": (torch.matmul, (3, 4), (4, 5)),
    "mm": (lambda x, w: torch.mm(x, w.t()), (3, 4), (5, 4)),
    "bmm": (torch.bmm, (2, 3, 4), (2, 4, 5)),
    "addmm": (torch.addmm, (3, 5), (3, 4), (4, 5)),
    "mv": (torch.mv, (3, 4), (4,)),
    "einsum": (lambda x, w: torch.einsum("mk,nk->mn", x, w), (3, 4), (5, 4)),
    "swapaxes": (lambda x, w: linear(x, torch.swapaxes(w, 0, 1)), (3, 4), (4, 5)),
}
TAKEN = [name for name in PROGRAMS if name.startswith("linear")]


@pytest.fixture(scope="module")
def mesh(tmp_path_factory):
    """A mesh of this process alone."""
    store = tmp_path_factory.mktemp("mesh") / "store"
    torch.distributed.init_process_group("gloo", init_method=f"file://{store}", rank=0, world_size=1)
    yield DeviceMesh("cpu", [0])
    torch.distributed.destroy_process_group()


def distributed(mesh, *shapes):
    """DTensors: the first replicated, the others sharded along their first side."""
    whole = [torch.randn(shape) for shape in shapes]
    return [distribute_tensor(x, mesh, [Shard(0) if i else Replicate()]) for i, x in enumerate(whole)]


def outcome(door, program, tensors, executors):
    """What a compiled program gives: a tensor, or the exception's type and words."""
    torch._dynamo.reset()
    try:
        return door(program, executors=executors)(*tensors)
    except Exception as error:
        return type(error), str(error).partition("\n")[0]


@DOORS
@pytest.mark.parametrize("name", TAKEN)
def test_a_linear_of_dtensors_is_declined_with_the_reason(mesh, name, door):
    program, *shapes = PROGRAMS[name]
    tensors = distributed(mesh, *shapes)
    torch._dynamo.reset()
    compiled = door(program, executors=gx.executors())
    out, eager = compiled(*tensors), program(*tensors)
    assert isinstance(out, DTensor)
    assert out.placements == eager.placements
    torch.testing.assert_close(out.full_tensor(), eager.full_tensor())
    (row,) = gx.explain(compiled).rows
    assert (row.op, row.decision) == ("linear", "declined")
    assert "is a DTensorProxy, not a plain tensor" in row.reason


@DOORS
@pytest.mark.parametrize("name", PROGRAMS)
def test_dtensors_fare_as_without_the_executor(mesh, name, door):
    program, *shapes = PROGRAMS[name]
    tensors = distributed(mesh, *shapes)
    without, ours = (outcome(door, program, tensors, executors) for executors in (None, gx.executors()))
    assert type(without) is type(ours), (without, ours)
    if isinstance(without, tuple):
        assert ours == without
    else:
        assert ours.placements == without.placements
        torch.testing.assert_close(ours.full_tensor(), without.full_tensor())


@pytest.mark.parametrize("ours", [True, False], ids=["with us", "without us"])
def test_thunder_has_no_gradient_of_a_linear_of_dtensors(mesh, ours):
    x, w = distributed(mesh, (3, 4), (5, 4))
    with pytest.raises(
        RuntimeError, match=r"Failed to find a gradient transform for bound symbol .*dtensor_linear_prim"
    ):
        thunder.jit(linear, executors=gx.executors() if ours else None)(x, w.requires_grad_())


@DOORS
def test_matmuls_of_local_tensors_fold(mesh, door):
    def program(x, w):
        return x.to_local() @ w.to_local().t()

    x, w = distributed(mesh, (3, 4), (5, 4))
    torch._dynamo.reset()
    compiled = door(program, executors=gx.executors())
    torch.testing.assert_close(compiled(x, w), program(x, w))
    assert specs(compiled) == ["m k, n k -> m n"]


def test_gemm_refuses_a_dtensor_by_name(mesh):
    x, w = distributed(mesh, (3, 4), (4, 5))
    for args, name in (((x, w), "a"), ((x.to_local(), w), "b")):
        with pytest.raises(TypeError, match=rf"^{name} must be a plain torch\.Tensor, was DTensorProxy$"):
            thunder.jit(lambda a, b: gx.gemm(a, b), executors=gx.executors())(*args)


def test_scaled_mm_refuses_a_dtensor_by_name(mesh):
    x, w = (t.to(torch.float8_e4m3fn) for t in (torch.randn(16, 16), torch.randn(16, 16).t()))
    x, one = distribute_tensor(x.float(), mesh, [Replicate()]), torch.tensor(1.0)
    with pytest.raises(TypeError, match=r"^input must be a plain torch\.Tensor, was DTensorProxy$"):
        thunder.jit(lambda *args: torch._scaled_mm(*args), executors=gx.executors())(x, w, one, one)


@pytest.mark.parametrize("program", [linear, torch.matmul, lambda x, w: x @ w.t()], ids=["linear", "matmul", "@"])
def test_other_subclasses_fare_as_without_the_executor(program):
    shapes = ((3, 4), (4, 4))
    tensors = [TwoTensor(torch.randn(shape), torch.randn(shape)) for shape in shapes]
    without, ours = (outcome(thunder.jit, program, tensors, executors) for executors in (None, gx.executors()))
    assert type(without) is type(ours), (without, ours)
    if isinstance(without, tuple):
        assert ours == without
    else:
        torch.testing.assert_close(ours.a, without.a)
        torch.testing.assert_close(ours.b, without.b)


def test_plain_tensors_beside_dtensors_fold(mesh):
    def program(x, w, a, b):
        return linear(x, w), a @ b.t()

    tensors = [*distributed(mesh, (3, 4), (5, 4)), torch.randn(3, 4), torch.randn(5, 4)]
    jfn = thunder.jit(program, executors=gx.executors())
    torch.testing.assert_close(jfn(*tensors)[1], program(*tensors)[1])
    assert decisions(jfn) == ["declined", "claimed"]

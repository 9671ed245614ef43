"""What the processes of test_distributed run: a small model under each of Thunder's data and tensor parallel transforms."""

import contextlib

import thunder
import torch
from thunder.core.transforms import add_transform
from thunder.distributed import FSDPBucketingStrategy, FSDPType, ddp, fsdp
from thunder.distributed.tensor_parallel.column_wise import TransformForColumnWiseParallel as ColumnWise
from thunder.distributed.tensor_parallel.row_wise import TransformForRowWiseParallel as RowWise
from thunder.plugins import DDP, FSDP

import thunder_gemm_ex as gx
from tests.checks import specs
from tests.lab import NVFUSER_INSTALLED
from tests.transforms import collectives
from tests.transforms.processes import WORLD

GATHERS = "torch_all_gather_prim_impl"
WAITS = "torch_wait_prim_impl"
ROWS = 6


class Model(torch.nn.Module):
    """Weights read as they are, transposed, permuted into heads, twice, and with a first side that 2 does not divide."""

    def __init__(self):
        super().__init__()
        generator = torch.Generator().manual_seed(7)
        self.up = torch.nn.Linear(8, 12)
        self.heads = torch.nn.Parameter(torch.empty(12, 8))
        self.tied = torch.nn.Linear(8, 12, bias=False)
        self.tied.weight = self.up.weight
        self.odd = torch.nn.Parameter(torch.empty(5, 12))
        with torch.no_grad():
            for p in self.parameters():
                p.copy_(torch.randn(p.shape, generator=generator))

    def reset_parameters(self):
        """What Thunder calls for the module's own parameters where they come from the meta device."""
        for p in (self.heads, self.odd):
            torch.nn.init.zeros_(p)

    def forward(self, x):
        """[n, s, 8] -> [n, s, 5]"""
        h = torch.tanh(self.up(x)) + self.tied(x)
        heads = torch.einsum("nsk,hdk->nshd", x, self.heads.view(3, 4, 8))
        return (h + heads.reshape(*x.shape[:2], 12)) @ self.odd.t()


class TwoLinears(torch.nn.Module):
    """One linear behind another, as column and then row parallelism want it."""

    def __init__(self):
        super().__init__()
        generator = torch.Generator().manual_seed(7)
        self.up = torch.nn.Linear(8, 12)
        self.down = torch.nn.Linear(12, 8)
        with torch.no_grad():
            for p in self.parameters():
                p.copy_(torch.randn(p.shape, generator=generator))

    def forward(self, x):
        """[n, s, 8] -> [n, s, 8]"""
        return self.down(torch.tanh(self.up(x.transpose(0, 1)))).transpose(0, 1)


def inputs(rank, dtype=torch.float32, step=0):
    """[ROWS, 3, 8], another one for each rank and step."""
    return torch.randn(ROWS, 3, 8, generator=torch.Generator().manual_seed(10 + 100 * step + rank)).to(dtype)


def loss(out):
    return out.square().mean()


BUCKETS = {"ddp": (0.0, 25.0), "zero2": tuple(FSDPBucketingStrategy), "zero3": tuple(FSDPBucketingStrategy)}
# (transform, bucketing, with our executor, gradients accumulated before they are synchronised)
CASES = [(kind, str(bucket), True, False) for kind, found in BUCKETS.items() for bucket in found]
CASES += [(kind, str(BUCKETS[kind][0]), False, False) for kind in BUCKETS]
CASES += [("ddp", "25.0", True, True), ("torch", "", True, False)]
CASES += [("zero2", str(FSDPBucketingStrategy.NONE), ours, True) for ours in (True, False)]
CASES += [("jit of torch", "", ours, False) for ours in (True, False)]
CASES += [(kind, "", ours, False) for kind in ("column", "row") for ours in (True, False)]


# A module of the meta device: sharded first, then given its weights.
CASES += [("zero3 from meta", str(FSDPBucketingStrategy.NONE), True, False)]
# Thunder's recipe, which wants nvFuser, and plugins instead of its functions.
CASES += [(f"{kind} plugin", "", True, False) for kind in ("ddp", "fsdp") if NVFUSER_INSTALLED]
CASES += [(name, "", True, False) for name in collectives.PROGRAMS]


def work(rank, case):
    kind, bucket, ours, accumulate = case
    if kind in collectives.PROGRAMS:
        return collectives.work(rank, kind)
    executors = gx.executors() if ours else None
    with torch.device("meta" if kind.endswith("meta") else "cpu"):
        model = TwoLinears() if kind in ("column", "row") else Model()
    jm = _transformed(model, kind, bucket, executors)
    if kind in ("column", "row"):
        x = inputs(0).requires_grad_()
        out = jm(x)
        loss(out).backward()
    else:
        with jm.no_sync() if accumulate else contextlib.nullcontext():
            loss(jm(inputs(rank, step=1))).backward() if accumulate else None
            out = jm(x := inputs(rank))
            loss(out).backward()
    inner = jm.module if kind == "torch" else jm
    return {
        "out": out.detach(),
        "gradients": {name: p.grad for name, p in inner.named_parameters()},
        "input gradient": x.grad,
        "state": inner.original_state_dict() if kind.startswith("zero") else None,
        "specs": specs(inner) if ours else None,
        **_traced(inner),
    }


def _transformed(model, kind, bucket, executors):
    if kind == "jit of torch":
        return thunder.jit(torch.nn.parallel.DistributedDataParallel(model), executors=executors)
    if kind.endswith("plugin"):
        plugin = DDP() if kind.startswith("ddp") else FSDP(device=torch.device("cpu"))
        return thunder.compile(model, plugins=["gemm_ex", plugin])
    jm = thunder.jit(model, executors=executors)
    if kind == "torch":
        return torch.nn.parallel.DistributedDataParallel(jm)
    if kind == "ddp":
        return ddp(jm, bucket_size_in_mb=float(bucket))
    if kind in ("column", "row"):
        return add_transform(jm, transform=_split(kind))
    strategy = FSDPType.ZERO2 if kind == "zero2" else FSDPType.ZERO3
    buckets = {str(b): b for b in FSDPBucketingStrategy}
    jm = fsdp(jm, device=torch.device("cpu"), sharding_strategy=strategy, bucketing_strategy=buckets[bucket])
    if kind.endswith("meta"):
        jm.load_original_state_dict(Model().state_dict())
    return jm


def _split(kind):
    """Tensor parallelism without `column_parallel` and `row_parallel` themselves, which move the weights to CUDA."""
    cls, name = (ColumnWise, "up") if kind == "column" else (RowWise, "down")
    group = torch.distributed.group.WORLD
    made = cls(rank=group.rank(), world_size=WORLD, process_group=group, target_modules=(name,))
    made.device = torch.device("cpu")
    return made


def _traced(jm):
    """How often the forward and backward gather, what reads the gathered weights, and what is saved, in elements."""
    forward, backward = thunder.last_traces(jm)[-1], thunder.last_backward_traces(jm)[-1]
    lines = [*forward.bound_symbols, *backward.bound_symbols]
    gathered = {p.name for bsym in forward.bound_symbols if bsym.sym.name == WAITS for p in bsym.flat_proxy_outs}
    skip = ("python_return", "python_del", "unpack_sequence")
    reads = [b.sym.name for b in lines if b.sym.name not in skip and gathered & {p.name for p in b.flat_proxy_args}]
    saved = forward.output[1][0] if isinstance(forward.output, tuple) else ()
    return {
        "gathers": [sum(b.sym.name == GATHERS for b in t.bound_symbols) for t in (forward, backward)],
        "reads gathered": reads,
        "saved": sum(p.numel for p in saved),
        "operations": [b.sym.name for b in lines],
    }


def full(gradients):
    """The gradients of all ranks as one: shards joined along the first side, what padded them left out."""
    shapes = {name: p.shape for name, p in Model().named_parameters()}
    return {
        name: torch.cat([g[name] for g in gradients])[: shapes[name][0]]
        if gradients[0][name].shape != shapes[name]
        else gradients[0][name]
        for name in shapes
    }


def reference(dtype, steps=(0,)):
    """The gradients that one process has for the mean over all ranks."""
    model = Model().to(dtype)
    for step in steps:
        (sum(loss(model(inputs(rank, dtype, step))) for rank in range(WORLD)) / WORLD).backward()
    return {name: p.grad for name, p in model.named_parameters()}

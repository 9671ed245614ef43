"""What tests share: run a program with the executor and compare it with eager, and read what its traces hold."""

import warnings

import thunder
import torch

import thunder_gemm_ex as gx
from tests.lab import computations, names

VIEWS = {"permute", "transpose", "t", "reshape", "torch_prims_reshape_impl", "view", "movedim", "unsqueeze", "squeeze"}
VIEWS |= {"expand", "flatten"}
MATMULS = {"matmul", "linear", "bmm", "mm", "baddbmm", "addmm", "gemm"}


def jit(fn, executors=None, **options):
    """`fn` compiled with the executor in front of Thunder's defaults."""
    return thunder.jit(fn, executors=executors or gx.executors(), **options)


def forward_names(jfn):
    """The names of what the forward trace computes."""
    return names(computations(thunder.last_traces(jfn)[-1]))


def backward_names(jfn):
    """The names of what the backward trace computes; empty without gradients."""
    traces = thunder.last_backward_traces(jfn)
    return names(computations(traces[-1])) if traces else []


def all_names(jfn):
    """Forward then backward names."""
    return forward_names(jfn) + backward_names(jfn)


def specs(jfn):
    """The spec of every claimed matmul, in trace order."""
    return [row.spec for row in gx.explain(jfn).rows if row.decision == "claimed"]


def decisions(jfn):
    """The decision on every matmul, in trace order."""
    return [row.decision for row in gx.explain(jfn).rows]


def flat(value):
    """Tensors of a possibly nested output."""
    return [x for x in torch.utils._pytree.tree_leaves(value) if isinstance(x, torch.Tensor)]


def assert_close_to_float64(ours, eager, exact, what="", rounded=None):
    """|ours - exact| <= 2 |eager - exact| + eps, in the largest norm; dtype, shape and strides as eager's.

    `rounded` is the dtype that the values have been rounded to on their way, where that is not their own.
    """
    assert (ours.dtype, ours.shape) == (eager.dtype, eager.shape), what
    if not ours.numel():
        return
    scale = max(exact.abs().max().item(), 1e-30)
    finfo = torch.finfo(rounded or (ours.dtype if ours.dtype.is_floating_point else torch.float64))
    error = (ours.to(exact.dtype) - exact).abs().max().item()
    allowed = 2 * (eager.to(exact.dtype) - exact).abs().max().item() + 2 * finfo.eps * scale
    assert error <= allowed, f"{what}: error {error:.3g}, allowed {allowed:.3g}"


def assert_all_close_to_float64(ours, eager, exact):
    """The same for lists of tensors that belong together; None stands for None, and for nothing else."""
    present = [x.abs().max() for x in exact if x is not None and x.is_floating_point()]
    largest = torch.stack([x.double() for x in present]).max()
    for i, (x, y, z) in enumerate(zip(ours, eager, exact, strict=True)):
        assert (x is None) == (y is None), i
        if x is not None and x.is_floating_point():
            # One number more sets the scale: the gradient of a bias of keys is 0 but for rounding.
            scaled = [torch.cat((t.reshape(-1), largest.to(t.dtype)[None])) for t in (x, y, z)]
            assert_close_to_float64(*scaled, i)


def layout(x):
    """Its strides, but for dimensions of size 1: there torch itself gives one or another, and no address depends on it."""
    return [step for size, step in zip(x.shape, x.stride()) if size != 1]


def leaves(inputs, dtype=None):
    """Fresh leaves with the values, strides and requires_grad of `inputs`, floating ones in another dtype if given.

    An expanded dimension is expanded in the copy too.
    """

    def fresh(x):
        if not isinstance(x, torch.Tensor):
            return x
        to = dtype if dtype is not None and x.is_floating_point() else x.dtype
        stored = [1 if step == 0 else size for size, step in zip(x.shape, x.stride())]
        y = torch.empty_strided(stored, x.stride(), dtype=to, device=x.device)
        y.copy_(x.detach()[tuple(slice(size) for size in stored)])
        return y.expand(x.shape).requires_grad_(x.requires_grad)

    return [fresh(x) for x in inputs]


def _gradients(outputs, inputs):
    wanted = [x for x in inputs if isinstance(x, torch.Tensor) and x.requires_grad]
    outs = [o for o in flat(outputs) if o.requires_grad]
    if not wanted or not outs:
        return [], []
    generator = torch.Generator().manual_seed(1)
    # Cotangents must not depend on the outputs' strides: drawn in logical order.
    cotangents = [torch.randn(o.shape, generator=generator, dtype=torch.float64).to(o.dtype) for o in outs]
    return wanted, torch.autograd.grad(outs, wanted, cotangents, allow_unused=True)


def assert_as_eager(fn, *inputs, executors=None, leaf_strides=True, rounded=None, **options):
    """Compile and run `fn`, compare outputs and gradients with eager under the float64 bound; returns the jitted fn."""
    jfn = jit(fn, executors=executors, **options)
    results = []
    for call, dtype in ((jfn, None), (fn, None), (fn, torch.float64)):
        args = leaves(inputs, dtype)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            out = call(*args)
            results.append((flat(out), *_gradients(out, args)))
    ours, eager, exact = results
    assert len(ours[0]) == len(eager[0])
    for i, (x, y, z) in enumerate(zip(ours[0], eager[0], exact[0])):
        assert_close_to_float64(x, y, z, f"output {i}", rounded)
        assert layout(x) == layout(y), (i, x.stride(), y.stride())
    for i, (x, y, z) in enumerate(zip(ours[2], eager[2], exact[2])):
        assert (x is None) == (y is None), i
        if x is not None:
            assert_close_to_float64(x, y, z, f"gradient {i}", rounded)
            if leaf_strides and ours[1][i].is_contiguous():
                assert x.is_contiguous(), f"gradient {i} has strides {x.stride()}, its leaf is contiguous"
    return jfn

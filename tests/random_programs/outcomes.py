"""All that a user can see of one call of a program, errors included, and of its backward."""

import dataclasses

import torch
from torch.fx.experimental.proxy_tensor import make_fx

from tests.checks import flat, layout
from tests.random_programs.inputs import made
from tests.random_programs.program import defined


@dataclasses.dataclass
class Outcome:
    """What came of a call; `refused` and `backward_refused` are the errors, if it or its backward raised."""

    refused: Exception | None = None
    outs: list = dataclasses.field(default_factory=list)
    args: list = dataclasses.field(default_factory=list)
    strides: list = dataclasses.field(default_factory=list)
    sharing: list = dataclasses.field(default_factory=list)
    grads: list = dataclasses.field(default_factory=list)
    backward_refused: Exception | None = None


def outcome(call, after, args):
    """The outcome of `call` with the arguments; `after`, if not None, is done between it and its backward."""
    try:
        outs = flat(call(*args))
    except Exception as error:
        return Outcome(refused=error)
    seen = observed(outs, args)
    try:
        seen.grads = gradients(changed(after, outs, args), args)
    except Exception as error:
        seen.backward_refused = error
    return seen


def observed(outs, args):
    """What can be seen before the backward: copies, since the backward may come after a change."""
    tensors = [*args, *outs]
    seen = [x.detach().clone() for x in tensors]
    sharing = [[_memory(x) == _memory(y) for y in tensors] for x in outs]
    return Outcome(None, seen[len(args) :], seen[: len(args)], [layout(x) for x in outs], sharing)


def changed(after, outs, args):
    """The outputs, after what is done to them and the inputs before the backward."""
    if after is not None:
        with torch.no_grad():
            after(outs, *args)
    return outs


def leaves(args):
    """The arguments that want a gradient; one that such values were written to has become an intermediate."""
    return [x for x in args if x.requires_grad and x.is_leaf]


def gradients(outs, args):
    """The gradient of every argument that wants one, outputs weighted by numbers that do not depend on their strides."""
    wanted = leaves(args)
    outs = [o for o in outs if o.requires_grad]
    if not outs or not wanted:
        return [None] * len(wanted)
    return torch.autograd.grad(outs, wanted, [_weights(o) for o in outs], allow_unused=True)


_COPY = torch.ops.aten.copy.default


def _copy(to, source, non_blocking=False):
    """What `to` is after a copy into it, with a gradient."""
    return source.to(to.dtype).expand(to.shape)


def functional(source, inputs, seed):
    """The gradients of a program in which nothing is written to: each write makes a value of its own instead.

    None where torch itself cannot say it so.
    """
    args = made(inputs, seed)
    try:
        traced = make_fx(torch.func.functionalize(defined(source)), decomposition_table={_COPY: _copy})(
            *(x.detach() for x in args)
        )
    except RuntimeError as error:
        # torch.func.functionalize writes a reshape that copies as a view where the copy is written to.
        if "view size is not compatible" not in str(error):
            raise
        return None
    for node in list(traced.graph.nodes):
        if node.target is torch.ops.aten.copy_.default and node.args[0].op == "placeholder":
            node.replace_all_uses_with(node.args[1])
            traced.graph.erase_node(node)
    traced.recompile()
    return gradients(flat(traced(*args)), args)


def _weights(out):
    """Halves from -1.5 to 1.5, which every dtype has."""
    return ((torch.arange(out.numel()) % 7 - 3) / 2).to(out.dtype).reshape(out.shape)


def _memory(x):
    return x.untyped_storage().data_ptr()

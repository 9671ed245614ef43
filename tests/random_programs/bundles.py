"""Many random programs compiled as one and traced without Thunder's bytecode interpreter: a few hundredths of a second each.

Most of the time of compiling a small program goes into interpreting bytecode and none of that is what is tested here.
So a bundle is a function that the executor looks aside, and what stands behind it calls, on the proxies themselves, what
the interpreter would have found: the front door's entries, else Thunder's symbols. All that follows is as always.
"""

import ast
import functools
import inspect
import itertools
import sys
import types

import optree
import thunder
import torch
from thunder.core import pytree
from thunder.core.symbol import Symbol
from thunder.torch import _torch_to_thunder_function_map

import thunder_gemm_ex as gx
from tests.checks import flat
from tests.random_programs.comparing import judge
from tests.random_programs.inputs import made
from tests.random_programs.outcomes import changed, gradients, leaves, observed
from thunder_gemm_ex.front_door.entries import entered


def doubtful(programs, seed):
    """Compile the programs, which eager does not refuse, as one; those that differ from eager."""
    arguments = [made(reference.inputs, seed) for reference in programs]
    args = list(itertools.chain(*arguments))
    outs = compiled([reference.source for reference in programs], [len(x) for x in arguments])(*args)
    outs = [flat(x) for x in outs]
    seen = [observed(*x) for x in zip(outs, arguments)]
    ready = [changed(reference.after, *x) for reference, *x in zip(programs, outs, arguments)]
    grads = iter(gradients(list(itertools.chain(*ready)), args))
    for one, own in zip(seen, arguments):
        one.grads = list(itertools.islice(grads, len(leaves(own))))
    return [reference for reference, one in zip(programs, seen) if reference.faults(one)]


def compiled(sources, counts, ours=True):
    """One compiled function of the inputs of all programs, one after another; `counts` says how many each has."""
    functions = [on_proxies(source, ours) for source in sources]

    def bundle(*args):
        raise AssertionError("a bundle is looked aside, never run")

    def on_all(*args):
        rest = iter(args)
        return tuple(f(*itertools.islice(rest, n)) for f, n in zip(functions, counts))

    executor = thunder.extend.OperatorExecutor("bundle")
    executor._lookasides[bundle] = on_all
    executors = [*([gx.gemm_ex] if ours else []), executor, thunder.pytorch_executor]
    return thunder.jit(lambda *args: bundle(*args), executors=executors)


def judged(reference):
    """What is found of a program alone, compiled without the interpreter."""
    source, count = reference.source, len(reference.inputs)
    return judge(reference, *(lambda _, ours=ours: compiled([source], [count], ours) for ours in (True, False)))


def on_proxies(source, ours=True):
    """The function that a program's source defines, for proxies; with the front door of `ours` or Thunder's own."""
    tree = ast.fix_missing_locations(_Methods().visit(ast.parse(source)))
    entries = entered if ours else {}
    scope = {"torch": _Traced(torch, entries), "_method": functools.partial(_method, entries)}
    exec(compile(tree, "<program>", "exec"), scope)
    return scope["program"]


class _Methods(ast.NodeTransformer):
    """Rewrites `t3.permute(...)` as `_method(t3, "permute", ...)`."""

    def visit_Call(self, node):
        self.generic_visit(node)
        owner = node.func.value if isinstance(node.func, ast.Attribute) else None
        if not isinstance(owner, ast.Name) or owner.id == "torch":
            return node
        args = [owner, ast.Constant(node.func.attr), *node.args]
        return ast.Call(ast.Name("_method", ast.Load()), args, node.keywords)


def _method(entries, x, name, *args, **kwargs):
    entry = entries.get(getattr(torch.Tensor, name))
    return getattr(x, name)(*args, **kwargs) if entry is None else entry(x, *args, **kwargs)


class _Traced:
    """A module of torch as a traced program sees it."""

    def __init__(self, module, entries):
        self._module = module
        self._entries = entries

    def __getattr__(self, name):
        found = getattr(self._module, name)
        if isinstance(found, types.ModuleType):
            return _Traced(found, self._entries)
        return self._entries.get(found) or _torch_to_thunder_function_map.get(found, found)


def leave_out_checks():
    """Let this process skip what Thunder checks of every tree and signature it meets: a third of its compile time."""

    def flatten(tree, namespace=pytree.OPTREE_NAMESPACE):
        return optree.tree_flatten(tree, none_is_leaf=True, namespace=namespace)

    checked = {pytree.tree_flatten, pytree.tree_flatten_with_dataclass}
    for module in [m for name, m in sys.modules.items() if name.partition(".")[0] == "thunder"]:
        for name in ("tree_flatten", "tree_flatten_with_dataclass"):
            if getattr(module, name, None) in checked:
                setattr(module, name, flatten)
    signature = functools.lru_cache(None)(inspect.signature)

    def normalize(self, *args, **kwargs):
        bound = signature(self.meta).bind(*args, **kwargs)
        bound.apply_defaults()
        return bound.args, bound.kwargs

    Symbol.normalize = normalize

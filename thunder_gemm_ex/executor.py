"""The executor `gemm_ex`: a FusionExecutor whose fusion pass is a list of rules over the graph of a trace.

It claims nothing symbol by symbol: what an operand comes from is only visible in a whole trace. So it has to stand before
every fuser in the list of executors; behind one, views and matmuls may already be swallowed, and it warns.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Sequence
from typing import Any, ParamSpec, TypeVar

from thunder.core.compile_data import get_compile_data
from thunder.core.dtypes import to_torch_dtype
from thunder.core.proxies import TensorProxy
from thunder.core.symbol import BoundSymbol, Symbol
from thunder.core.trace import TraceCtx, TraceProvenance
from thunder.extend import FUEL_LEVEL, FusionExecutor, register_executor

from thunder_gemm_ex import gradients, report
from thunder_gemm_ex._version import __version__
from thunder_gemm_ex.eager_door import open_eager_door
from thunder_gemm_ex.emit import Symbols, emit
from thunder_gemm_ex.engines.aten import account
from thunder_gemm_ex.engines.choose import serves
from thunder_gemm_ex.engines.terms import Terms
from thunder_gemm_ex.front_door import keep_activations, open_front_door, open_scaled, teach_splitter
from thunder_gemm_ex.front_door.entries import entered
from thunder_gemm_ex.graph import Graph, Matmul
from thunder_gemm_ex.rules.activations import take_activations
from thunder_gemm_ex.rules.bias_gradients import take_bias_gradients
from thunder_gemm_ex.rules.derivatives import take_derivatives
from thunder_gemm_ex.rules.factors import take_operand_factors
from thunder_gemm_ex.rules.find import find_matmuls
from thunder_gemm_ex.rules.fold_operands import fold_operands
from thunder_gemm_ex.rules.fold_results import fold_results
from thunder_gemm_ex.rules.give_back import give_back
from thunder_gemm_ex.rules.leave import leave_to_fusers
from thunder_gemm_ex.rules.multiply import mark_multiplies
from thunder_gemm_ex.rules.promises import decline_unpromised
from thunder_gemm_ex.rules.say_why import say_why
from thunder_gemm_ex.rules.scaled import find_scaled
from thunder_gemm_ex.rules.slices import keep_slices
from thunder_gemm_ex.rules.small import judge, mark_small
from thunder_gemm_ex.spec import Contraction
from thunder_gemm_ex.symbols import Options, define_gemm, define_scaled_gemm, read_options

# Set to 1, an error of our own reaches the user instead of leaving the program to Thunder.
RAISE = "THUNDER_GEMM_EX_RAISE"

P = ParamSpec("P")
R = TypeVar("R")


class Progress:
    """Where the pass is: the name of the rule that runs, for the sentence about its failure."""

    rule = "the pass"

    def run(self, rule: Callable[P, R], *args: P.args, **options: P.kwargs) -> R:
        """Call `rule` and remember its name."""
        self.rule = rule.__name__
        return rule(*args, **options)


class GemmExecutor(FusionExecutor):
    """Makes every matmul of a trace one contraction, or a multiply where nothing is summed, or leaves it alone."""

    def __init__(self) -> None:
        super().__init__("gemm_ex", version=__version__)
        self._fuel: int | FUEL_LEVEL = FUEL_LEVEL.UNLIMITED
        self._warned = False

    def get_fuel(self, amount: int = 1, /) -> bool:
        """Take `amount` of optimization fuel (one unit a fold or multiply); False when it is used up."""
        if self._fuel is FUEL_LEVEL.UNLIMITED:
            return True
        if self._fuel < amount:
            return False
        self._fuel -= amount
        return True

    def set_fuel(self, value: int | FUEL_LEVEL) -> None:
        """Limit the number of rewrites from now on, to bisect a wrong result."""
        self._fuel = value

    def can_execute_or_fuse(self, bsym: BoundSymbol) -> bool:
        """Asked by Thunder's autograd alone: whose gradient rule this executor brings."""
        return gradients.has_rule(bsym) or super().can_execute_or_fuse(bsym)

    def get_grad_transform(self, sym: Symbol) -> Callable[..., Any] | None:
        """The gradient rule of a symbol, or None: Thunder's."""
        return gradients.RULES.get(sym.id) or super().get_grad_transform(sym)

    def fusion_pass(self, trace: TraceCtx) -> TraceCtx:
        """The trace with its matmuls rewritten; called by Thunder once a program, before the fusers listed behind."""
        options = read_options()
        before, behind = self._other_fusers()
        names = self._warn_if_behind(before)
        at = Progress()
        try:
            return self._rewritten(trace, behind, options, names, at)
        except Exception as error:
            if os.environ.get(RAISE, "0") not in ("", "0"):
                raise
            report.record_failure(trace, at.rule, error)
            warnings.warn(
                f"gemm_ex leaves this program as Thunder made it: {at.rule} failed with {type(error).__name__}: {error} "
                f"(set {RAISE}=1 to see where)",
                stacklevel=2,
            )
            return trace

    def _rewritten(
        self, trace: TraceCtx, behind: list[FusionExecutor], options: Options, names: list[str], at: Progress
    ) -> TraceCtx:
        start = time.perf_counter_ns()
        graph = at.run(Graph, trace, behind)
        declined = at.run(find_matmuls, graph)
        declined += at.run(find_scaled, graph)
        declined += at.run(decline_unpromised, graph, options.numerics, _served)
        if options.claim == "patterns" and options.numerics == "torch":
            declined += at.run(leave_to_fusers, graph, lambda matmul: _is_pointwise(graph, matmul, options.small))
        self._apply_rules(graph, options, at)
        rewritten = at.run(emit, graph, Symbols(gemm, scaled_gemm, kernels, options.numerics))
        changed = rewritten is not trace
        at.run(report.record, graph, declined, names, rewritten, options.numerics)
        if changed:
            took = (time.perf_counter_ns() - start) // 1_000_000
            rewritten.set_provenance(TraceProvenance(f"Matmuls as contractions (took {took} milliseconds)"))
        return rewritten

    def _apply_rules(self, graph: Graph, options: Options, at: Progress) -> None:
        # Results first: what a result absorbs may let an operand's reshape go too, and the other way round.
        terms = options.epilogue
        at.run(fold_results, graph, self.get_fuel, _copies_result, terms=terms)
        at.run(fold_operands, graph, self.get_fuel)
        while terms and at.run(take_operand_factors, graph, self.get_fuel):
            at.run(fold_operands, graph, self.get_fuel)
        at.run(fold_results, graph, self.get_fuel, _copies_result, terms=terms)
        if options.epilogue:
            at.run(take_activations, graph, _served, self.get_fuel)
            at.run(take_derivatives, graph, _served, self.get_fuel)
            at.run(take_bias_gradients, graph, _served, self.get_fuel)
        if options.small != "off":
            at.run(mark_multiplies, graph, self.get_fuel)
            at.run(mark_small, graph, options.small, self.get_fuel)
        at.run(say_why, graph)
        at.run(give_back, graph, options.claim, options.numerics)
        at.run(keep_slices, graph, self.get_fuel)

    def _warn_if_behind(self, before: Sequence[FusionExecutor]) -> list[str]:
        names = [str(ex.name) for ex in before]
        if names and not self._warned:
            self._warned = True
            warnings.warn(
                f"gemm_ex is listed after {', '.join(names)}, which has already taken the views and matmuls of the "
                "program into its regions: list gemm_ex first, as gx.executors() does.",
                stacklevel=3,
            )
        return names

    def _other_fusers(self) -> tuple[list[FusionExecutor], list[FusionExecutor]]:
        """The fusion executors listed before this one, and those behind it."""
        data = get_compile_data()
        executors = [] if data is None else list(data.executors_list)
        at = executors.index(self) if self in executors else len(executors)
        before, behind = (
            [ex for ex in part if isinstance(ex, FusionExecutor)] for part in (executors[:at], executors[at + 1 :])
        )
        return before, behind


def _served(tensor: TensorProxy) -> bool:
    """Whether matmuls of such tensors are the cublaslt engine's, which has epilogues and every kind of numerics."""
    dtype = to_torch_dtype(tensor.dtype)
    return dtype is not None and serves(tensor.device.devicetype.name.lower(), dtype)


def _is_pointwise(graph: Graph, matmul: Matmul, small: str) -> bool:
    """Whether a matmul is to be pointwise work, which joins a region at least as well as the matmul does."""
    return judge(graph, matmul, small)[0] is not None if matmul.spec.k else small != "off"


def _copies_result(spec: Contraction, a: TensorProxy, strides_a: tuple[int, ...], strides_b: tuple[int, ...]) -> bool:
    """Whether the engine that serves `a` and operands with these strides makes the result of the product by a copy."""
    return not _served(a) and "result" in account(spec, Terms(), strides_a, strides_b)[1]


gemm_ex = GemmExecutor()
register_executor(gemm_ex)
gemm = define_gemm(gemm_ex)
scaled_gemm = define_scaled_gemm(gemm_ex)
open_front_door(gemm_ex)
kernels = keep_activations(gemm_ex)
entered.update(open_eager_door(gemm_ex, gemm))
entered.update(open_scaled(gemm_ex))
teach_splitter(str(gemm_ex.name))

"""Programs compiled and called in several threads at once: values are right, and no report tells of another's matmuls."""

import concurrent.futures
import sys
import threading

import pytest
import thunder
import torch

import thunder_gemm_ex as gx
from tests.checks import jit, specs
from thunder_gemm_ex.report.watch import watch

# By name: a program, its operands' shapes, and the specs of its report, forward and backward.
PROGRAMS = {
    "a transposed weight": (
        lambda x, w: x @ w.t(),
        ((3, 4), (5, 4)),
        ["m k, n k -> m n", "m k, k n -> m n", "k m, k n -> n m"],
    ),
    "a transposed input": (
        lambda x, w: torch.nn.functional.linear(x.transpose(0, 1), w),
        ((2, 3, 4), (5, 4)),
        ["b a k, n k -> a b n", "b a k, k n -> a b n", "k j m, (k j) n -> m n"],
    ),
}
TIMES = 6


@pytest.fixture(autouse=True)
def restless():
    """Threads change places every 10 us, and so within every step of a compilation."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    yield
    sys.setswitchinterval(before)


def together(*works):
    """The results of functions that start at the same moment, each in a thread of its own."""
    barrier = threading.Barrier(len(works))

    def run(work):
        barrier.wait()
        return work()

    with concurrent.futures.ThreadPoolExecutor(len(works)) as pool:
        return [future.result() for future in [pool.submit(run, work) for work in works]]


def operands(name, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator).requires_grad_() for shape in PROGRAMS[name][1]]


def compute(fn, args):
    out = fn(*args)
    return out.detach(), *torch.autograd.grad(out, args, torch.ones_like(out))


def assert_right(ours, name, seed=0):
    for mine, eager in zip(ours, compute(PROGRAMS[name][0], operands(name, seed)), strict=True):
        torch.testing.assert_close(mine, eager)


def alone(name):
    """The specs of the program's report when nobody else compiles."""
    jfn = jit(PROGRAMS[name][0])
    compute(jfn, operands(name))
    return specs(jfn)


def test_two_programs_compile_at_once_and_their_reports_do_not_mix():
    for _ in range(TIMES):
        compiled = [jit(PROGRAMS[name][0]) for name in PROGRAMS]
        works = [lambda jfn=jfn, name=name: compute(jfn, operands(name)) for jfn, name in zip(compiled, PROGRAMS)]
        for ours, name, jfn in zip(together(*works), PROGRAMS, compiled):
            assert_right(ours, name)
            assert specs(jfn) == alone(name)


def test_one_program_is_called_from_several_threads():
    name = "a transposed input"
    jfn = jit(PROGRAMS[name][0])
    compute(jfn, operands(name))
    works = [lambda seed=seed: [compute(jfn, operands(name, seed)) for _ in range(20)] for seed in range(4)]
    for seed, results in enumerate(together(*works)):
        for ours in results:
            assert_right(ours, name, seed)
    assert thunder.cache_misses(jfn) == 1
    assert specs(jfn) == alone(name)


def test_one_program_is_compiled_by_several_threads():
    """None has it when they all call: each may compile, and whichever stays is right and reported."""
    name = "a transposed weight"
    for _ in range(TIMES):
        jfn = jit(PROGRAMS[name][0])
        works = [lambda jfn=jfn, seed=seed: compute(jfn, operands(name, seed)) for seed in range(3)]
        for seed, ours in enumerate(together(*works)):
            assert_right(ours, name, seed)
        assert specs(jfn) == alone(name)


@pytest.mark.parametrize("other", [{"gemm_claim": "all"}, {"gemm_numerics": "strict"}], ids=str)
def test_options_are_those_of_the_program_that_is_compiled(other):
    """A program with nothing to fold is claimed under an option and not without it, whoever compiles beside it."""
    args = torch.randn(3, 4), torch.randn(4, 5)
    for _ in range(TIMES):
        with_option, without = thunder.jit(torch.matmul, executors=gx.executors(), **other), jit(torch.matmul)
        for out in together(lambda: with_option(*args), lambda: without(*args)):  # noqa: B023 - called within the loop
            torch.testing.assert_close(out, args[0] @ args[1])
        assert len(specs(with_option)) == 1
        assert specs(without) == []


def test_a_program_without_the_executor_compiles_beside_one_with_it():
    name = "a transposed weight"
    for _ in range(TIMES):
        ours, theirs = jit(PROGRAMS[name][0]), thunder.jit(PROGRAMS[name][0])
        for found in together(*(lambda fn=fn: compute(fn, operands(name)) for fn in (ours, theirs))):
            assert_right(found, name)
        assert specs(ours) == alone(name)
        with pytest.raises(ValueError, match="compiled without gemm_ex"):
            gx.explain(theirs)


def test_a_watcher_sees_every_program_of_every_thread_once():
    with watch() as report:
        compiled = [jit(PROGRAMS[name][0]) for name in PROGRAMS]
        together(*(lambda f=f, n=n: compute(f, operands(n)) for f, n in zip(compiled, PROGRAMS)))
        found = report()
    assert sorted(row.spec for row in found.rows) == sorted(spec for name in PROGRAMS for spec in alone(name))
    assert len(found.programs) == 2

"""How sums are rounded: torch's flags as they stand at the call, "strict", and rows that do not depend on each other."""

import subprocess
import sys

import pytest
import torch

from tests.cublaslt.problems import run, spec_of
from thunder_gemm_ex.engines import choose, cublaslt_calls, numerics
from thunder_gemm_ex.engines.operation import Operation

SPEC = spec_of("m k, n k -> m n", (5, 8), (6, 8))
MATMUL = torch.backends.cuda.matmul
COMPUTE_16F, COMPUTE_32F, COMPUTE_TF32 = 64, 68, 77


@pytest.fixture
def torch_flags():
    """torch's flags, put back afterwards."""
    names = ("allow_tf32", "allow_fp16_reduced_precision_reduction", "allow_bf16_reduced_precision_reduction")
    names += ("allow_fp16_accumulation",)
    saved = {name: getattr(MATMUL, name) for name in names}
    yield MATMUL
    for name, value in saved.items():
        setattr(MATMUL, name, value)
    torch.use_deterministic_algorithms(False)


def call(dtype, mode="torch"):
    """The problem as the library saw it."""
    assert Operation(SPEC, numerics=mode)(torch.randn(5, 8).to(dtype), torch.randn(6, 8).to(dtype)) is not None


@pytest.mark.parametrize(
    ("dtype", "flag", "value", "what", "seen"),
    [
        (torch.float32, "allow_tf32", True, "compute", COMPUTE_TF32),
        (torch.float32, "allow_tf32", False, "compute", COMPUTE_32F),
        (torch.float16, "allow_fp16_reduced_precision_reduction", True, "reductions", 7),
        (torch.float16, "allow_fp16_reduced_precision_reduction", False, "reductions", 2),
        (torch.bfloat16, "allow_bf16_reduced_precision_reduction", True, "reductions", 7),
        (torch.bfloat16, "allow_bf16_reduced_precision_reduction", False, "reductions", 2),
        (torch.bfloat16, "allow_bf16_reduced_precision_reduction", (False, False), "reductions", 0),
        (torch.float16, "allow_fp16_accumulation", True, "compute", COMPUTE_16F),
        (torch.float16, "allow_fp16_accumulation", False, "compute", COMPUTE_32F),
        (torch.bfloat16, "allow_fp16_accumulation", True, "compute", COMPUTE_32F),
        (torch.float64, "allow_tf32", True, "compute", 70),
    ],
    ids=str,
)
def test_torchs_flags_are_followed_at_the_call(double, torch_flags, dtype, flag, value, what, seen):
    setattr(torch_flags, flag, value)
    call(dtype)
    assert double.last()[what] == seen


def test_a_flag_that_changes_between_calls_of_one_operation_changes_the_call(double, torch_flags):
    op, x, w = Operation(SPEC), torch.randn(5, 8), torch.randn(6, 8)
    for value, seen in ((False, COMPUTE_32F), (True, COMPUTE_TF32), (False, COMPUTE_32F)):
        torch_flags.allow_tf32 = value
        op(x, w)
        assert double.last()["compute"] == seen


@pytest.mark.parametrize(("on", "reductions"), [(True, 6), (False, 7)])
def test_deterministic_algorithms_add_in_a_fixed_order(double, torch_flags, on, reductions):
    torch.use_deterministic_algorithms(on)
    call(torch.float32)
    assert double.last()["reductions"] == reductions


def test_tf32_through_the_new_api(double):
    code = (
        "import torch\nfrom thunder_gemm_ex.engines import numerics as n\n"
        "for value, flag in (('tf32', n.TF32), ('ieee', 0)):\n"
        "    torch.backends.cuda.matmul.fp32_precision = value\n"
        "    assert n.flags_from_torch(torch.float32) == flag\n"
        "torch.backends.fp32_precision = 'tf32'\n"
        "torch.backends.cuda.matmul.fp32_precision = 'none'\n"
        "assert n.flags_from_torch(torch.float32) == n.TF32\n"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)


def test_fp16_sums_scale_in_fp16(double, torch_flags):
    """alpha and beta are halves then; a third is not the same in a half and in a float."""
    torch_flags.allow_fp16_accumulation = True
    got = Operation(spec_of("m k, n k -> m n", (4, 4), (4, 4)))(torch.eye(4).half(), torch.eye(4).half(), alpha=1 / 3)
    assert torch.equal(got.out, torch.eye(4).half() * torch.tensor(1 / 3).half())


def test_strict_overrules_every_flag(double, torch_flags):
    torch_flags.allow_tf32 = torch_flags.allow_fp16_accumulation = True
    for dtype in (torch.float32, torch.float16, torch.bfloat16):
        call(dtype, "strict")
        assert (double.last()["compute"], double.last()["reductions"]) == (COMPUTE_32F, 0)


@pytest.mark.parametrize("mode", ["fast", "", None])
def test_a_mode_that_there_is_not_is_refused(double, mode):
    with pytest.raises(ValueError, match="numerics must be one of 'torch', 'strict', 'batch_invariant'"):
        Operation(SPEC, numerics=mode)


# Batch-invariant ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("out", ["m n", "n m"])
@pytest.mark.parametrize("transposed", [False, True], ids=["m k", "k m"])
@pytest.mark.parametrize("epilogue", ["", "gelu"])
def test_one_algorithm_serves_every_number_of_rows(double, epilogue, transposed, out):
    """The double's heuristic, like a real one, chooses by the problem's size; the descriptors' flags are the same too."""
    w, seen = torch.randn(16, 32), set()
    for m in (1, 2, 3, 17, 64, 1024, 5000):
        names = "k m" if transposed else "m k"
        x = torch.randn((32, m) if transposed else (m, 32))
        spec = spec_of(f"{names}, n k -> {out}", tuple(x.shape), (16, 32))
        got = Operation(spec, epilogue, numerics="batch_invariant")(x, w)
        assert got is not None
        last = double.last()
        seen.add((last["algo"], last["rank"], last["trans_a"], last["trans_b"], last["reductions"]))
    assert len(seen) == 1
    assert next(iter(seen))[-1] == 0  # no split k


def test_in_torchs_mode_the_algorithm_does_depend_on_it(double):
    algorithms = set()
    for m in (1, 64, 5000):
        Operation(spec_of("m k, n k -> m n", (m, 32), (16, 32)))(torch.randn(m, 32), torch.randn(16, 32))
        algorithms.add(double.last()["algo"])
    assert len(algorithms) == 3


@pytest.mark.parametrize("batch", [1, 2, 7])
def test_one_algorithm_serves_every_batch(double, batch):
    spec = spec_of("b m k, b n k -> b m n", (batch, 4, 32), (batch, 16, 32))
    Operation(spec, numerics="batch_invariant")(torch.randn(batch, 4, 32), torch.randn(batch, 16, 32))
    alone = spec_of("m k, n k -> m n", (300, 32), (16, 32))
    algorithm = double.last()["algo"]
    Operation(alone, numerics="batch_invariant")(torch.randn(300, 32), torch.randn(16, 32))
    assert double.last()["algo"] == algorithm


def test_rows_have_the_same_bits_alone_and_together(double):
    x, w = torch.randn(64, 32), torch.randn(16, 32)
    op = lambda m: Operation(spec_of("m k, n k -> m n", (m, 32), (16, 32)), numerics="batch_invariant")  # noqa: E731
    together = op(64)(x, w).out
    for m in (1, 5, 32):
        assert torch.equal(op(m)(x[:m].contiguous(), w).out, together[:m])


def test_a_check_that_fails_declines_and_takes_no_other_algorithm(double):
    double.lib.double_algos(4)
    double.fail_next("check", 15)
    op = Operation(SPEC, numerics="batch_invariant")
    assert op(torch.randn(5, 8), torch.randn(6, 8)) is None
    # In torch's mode the next best is taken.
    double.fail_next("check", 15)
    assert Operation(SPEC)(torch.randn(5, 8), torch.randn(6, 8)) is not None
    assert double.last()["rank"] == 1


def test_nothing_else_makes_that_promise(double):
    """What the engine declines at a later call must not go to ATen unseen."""
    a, b = torch.randn(5, 8), torch.randn(6, 8)
    fallback = lambda *args: pytest.fail("went to ATen")  # noqa: E731
    found = cublaslt_calls.decide(SPEC, a, b, None, fallback, anywhere=True, numerics="batch_invariant")
    torch.testing.assert_close(found.run(a, b), a @ b.t())
    with pytest.raises(RuntimeError, match="batch_invariant"):
        found.run(torch.randn(8, 5).t()[:, ::1].as_strided((5, 8), (3, 2)), b)


@pytest.mark.parametrize(
    ("a", "b", "reason"),
    [
        (torch.ones(5, 8, dtype=torch.int64), torch.ones(6, 8, dtype=torch.int64), "not among the types"),
        (torch.randn(5, 8)[:, :1].expand(5, 8), torch.randn(6, 8)[:, :1].expand(6, 8), "is not a matrix"),
    ],
)
def test_what_the_engine_never_computes_is_refused_too(double, a, b, reason):
    fallback = lambda *args: pytest.fail("went to ATen")  # noqa: E731
    found = cublaslt_calls.decide(SPEC, a, b, None, fallback, anywhere=True, numerics="batch_invariant")
    with pytest.raises(RuntimeError, match=f'numerics is "batch_invariant".*{reason}'):
        found.run(a, b)
    assert cublaslt_calls.decide(SPEC, a, b, None, fallback, anywhere=True).run is None


def test_modes_have_flags_of_their_own(double):
    assert numerics.flags_reader(torch.float32, "strict")() == numerics.FULL_REDUCTION | numerics.NO_SPLIT_K
    assert numerics.flags_reader(torch.float32, "batch_invariant")() & numerics.BATCH_INVARIANT
    assert status_of(8) == 0


def status_of(flags):
    return run(spec_of("m k, k n -> m n", (5, 8), (8, 6)), torch.randn(5, 8), torch.randn(8, 6), flags=flags)[0]


def test_the_compiled_programs_default_is_torchs(double, torch_flags):
    torch_flags.allow_tf32 = True
    with choose.everywhere():
        choose.run_gemm(torch.randn(5, 8), torch.randn(6, 8), "m k, n k -> n m")
    assert double.last()["compute"] == COMPUTE_TF32

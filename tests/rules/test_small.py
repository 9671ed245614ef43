"""`gemm_small="vector"` and "small": a small matmul becomes pointwise work and a sum where a fuser's region takes it in."""

import itertools

import pytest
import thunder
import torch
from thunder.executors.torch_compile import torch_compile_ex

import thunder_gemm_ex as gx
from tests.checks import assert_as_eager, decisions
from tests.lab import final_traces, names, needs_nvfuser
from thunder_gemm_ex.rules.layout import packed
from thunder_gemm_ex.rules.small import FEW, SHORT, is_faster, is_small
from thunder_gemm_ex.spec import parse, plain

FUSING = [gx.gemm_ex, torch_compile_ex, *thunder.get_always_executors()]
VECTORS = {
    "mv": (torch.mv, (5, 7), (7,)),
    "vm": (torch.matmul, (7,), (7, 5)),
    "dot": (torch.dot, (7,), (7,)),
    "one row": (torch.matmul, (1, 7), (7, 5)),
    "one column": (torch.matmul, (5, 7), (7, 1)),
    "batched": (torch.matmul, (3, 1, 7), (3, 7, 5)),
    "linear": (torch.nn.functional.linear, (1, 7), (5, 7)),
}


def rows(fn, *inputs, mode, executors=FUSING):
    jfn = assert_as_eager(fn, *inputs, executors=executors, gemm_small=mode)
    return gx.explain(jfn).rows


def beside(op):
    """`op` between pointwise work."""
    return lambda a, b: torch.relu(op(a * 2, b)) + 1


@pytest.mark.parametrize("mode", ["vector", "small"])
@pytest.mark.parametrize(("op", "a", "b"), VECTORS.values(), ids=VECTORS)
def test_a_vector_joins_the_region_of_what_reads_it(op, a, b, mode):
    (row,) = rows(beside(op), torch.randn(a), torch.randn(b), mode=mode)
    assert row.decision == "multiply"
    assert row.reason.endswith("multiplied and summed inside torchcompile's region")


@pytest.mark.parametrize("k", [2, 3, 4, 5, 8, 16])
@pytest.mark.parametrize("batch", [(), (3,)], ids=["matrix", "batched"])
def test_a_small_matrix_joins_the_region(batch, k):
    (row,) = rows(beside(torch.matmul), torch.randn(*batch, 6, k), torch.randn(*batch, k, 5), mode="small")
    assert (row.decision, row.reason.partition(":")[0]) == ("multiply", f"m=6, n=5, k={k}")


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("k", [3, 64])
def test_sixteen_bit_sums_are_float32_and_round_once(dtype, k):
    a, b = torch.randn(8, k, dtype=dtype), torch.randn(k, 5, dtype=dtype)
    jfn = thunder.jit(lambda a, b: torch.relu(torch.matmul(a, b)), executors=FUSING, gemm_small="small")
    exact = torch.relu(a.double() @ b.double())
    # Another order of summation in float32 may move a result over a rounding boundary, no further.
    assert (jfn(a, b).double() - exact).abs().max() <= exact.abs().max() * torch.finfo(dtype).eps
    assert decisions(jfn) == ["multiply"]


@pytest.mark.parametrize("terms", ["bias", "alpha", "both"])
def test_terms_come_along(terms):
    def f(c, a, b):
        alpha = 1 if terms == "bias" else 0.5
        return torch.relu(torch.addmm(c, a, b, alpha=alpha) if terms != "alpha" else alpha * (a @ b))

    (row,) = rows(f, torch.randn(5), torch.randn(4, 3), torch.randn(3, 5), mode="small")
    assert row.decision == "multiply"


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_results_leave_with_eagers_strides(order):
    shape = (2, 3, 4)
    a = torch.randn([shape[i] for i in order]).permute([order.index(i) for i in range(3)])
    assert rows(lambda a, b: torch.relu(a @ b), a, torch.randn(2, 4, 5), mode="small")[0].decision == "multiply"


def test_gradients_are_eagers():
    a, b = torch.randn(1, 7, requires_grad=True), torch.randn(7, 5, requires_grad=True)
    found = rows(beside(torch.matmul), a, b, mode="small")
    assert found[0].decision == "multiply"


@needs_nvfuser
def test_nvfuser_takes_a_matvec_between_pointwise_work_into_one_region():
    def inputs(device):
        return torch.randn(5, 7, device=device), torch.randn(7, device=device)

    cut = names(final_traces(beside(torch.mv), inputs, executors=gx.executors()).forward)
    whole = names(final_traces(beside(torch.mv), inputs, executors=gx.executors(), gemm_small="vector").forward)
    assert "gemm" in cut or "matmul" in cut
    assert [name for name in whole if name.startswith("nvFusion")] == whole
    assert len(whole) == 1


# Regions never grow in number -------------------------------------------------------------------------------------------

PROGRAMS = {
    "read by one": lambda a, b: torch.relu(a @ b),
    "read by two": lambda a, b: (torch.relu(a @ b), (a @ b) * 2),
    "read by a region behind a matmul": lambda a, b: torch.relu(a @ b) @ torch.exp(b),
    "read twice, one behind what no fuser takes": lambda a, b: (y := a @ b) * 2 + torch.sort(y)[0],
    "read by what no fuser takes": lambda a, b: torch.sort(a @ b)[0] * 2,
    "made by a region, returned": lambda a, b: torch.relu(a) @ b,
    "a chain": lambda a, b: torch.relu(torch.relu(torch.relu(a @ b) @ b) @ b),
    "returned and read": lambda a, b: (y := a @ b, torch.relu(y)),
    "through views": lambda a, b: torch.relu((a @ b).t().reshape(2, 8)),
}


@needs_nvfuser
@pytest.mark.parametrize("fn", PROGRAMS.values(), ids=PROGRAMS)
@pytest.mark.parametrize("grad", [False, True], ids=["inference", "training"])
def test_regions_never_grow_in_number(fn, grad):
    def inputs(device):
        return tuple(torch.randn(4, 4, device=device, requires_grad=grad) for _ in range(2))

    def regions(mode):
        traces = final_traces(fn, inputs, executors=gx.executors(), gemm_small=mode)
        return sum(name.startswith("nvFusion") for name in names(traces.forward) + names(traces.backward))

    assert regions("small") <= regions("k1")


# Does not -------------------------------------------------------------------------------------------------------------

STAYS = {
    "returned": lambda a, b: torch.relu(a) @ b,
    "returned and read": lambda a, b: (y := a @ b, torch.relu(y)),
}


@pytest.mark.parametrize("fn", STAYS.values(), ids=STAYS)
def test_what_joins_no_region_stays_a_matmul(fn):
    (row,) = rows(fn, torch.randn(3, 4), torch.randn(4, 5), mode="small")
    assert row.decision != "multiply"


def test_one_whose_operand_is_written_to_before_its_result_is_read_stays():
    def f(a, b):
        y = a @ b
        a.mul_(2)
        return torch.relu(y) + a.sum()

    a, b = torch.randn(3, 4), torch.randn(4, 5)
    jfn = thunder.jit(f, executors=FUSING, gemm_small="small")
    torch.testing.assert_close(jfn(a.clone(), b), f(a.clone(), b))
    assert decisions(jfn)[0] != "multiply"


def test_without_a_fuser_it_stays_a_matmul_and_the_report_says_so():
    (row,) = rows(
        lambda a, b: torch.relu(a @ b.t()), torch.randn(1, 4), torch.randn(5, 4), mode="vector", executors=None
    )
    assert row.decision != "multiply"
    assert "m=1 stays a matmul: no fuser takes what reads it into a region" in row.reason


@pytest.mark.parametrize("mode", ["k1", "off", "vector"])
def test_a_matrix_stays_in_every_other_mode(mode):
    (row,) = rows(beside(torch.matmul), torch.randn(3, 4), torch.randn(4, 5), mode=mode)
    assert row.decision != "multiply"


def test_a_large_matmul_stays():
    (row,) = rows(beside(torch.matmul), torch.randn(64, 64), torch.randn(64, 64), mode="small")
    assert row.decision != "multiply"


# The cost rule ----------------------------------------------------------------------------------------------------------


def judged(text, a, b, order_a=None, order_b=None):
    spec = parse(text).bind(a, b)
    return is_faster(spec, packed(a), packed(b))


@pytest.mark.parametrize(
    ("text", "a", "b", "faster"),
    [
        ("m k, k n -> m n", (32, 32), (32, 64), True),
        ("m k, k n -> m n", (32, 33), (33, 64), False),
        ("m k, n k -> m n", (32, 32), (64, 32), True),
        ("m k, k n -> m n", (1024, SHORT), (SHORT, 4096), True),
        ("m k, k n -> m n", (1024, SHORT + 1), (SHORT + 1, 4096), False),
        ("m k, n k -> m n", (1024, SHORT), (4096, SHORT), False),
        ("m k, k n -> n m", (1024, SHORT), (SHORT, 4096), False),
        ("k m, k n -> n m", (SHORT, 1024), (SHORT, 4096), True),
        ("k, n k -> n", (1024,), (4096, 1024), True),
        ("k, k n -> n", (1024,), (1024, 4096), False),
        ("k, k n -> n", (256,), (256, 256), True),
        ("k, k -> ", (1 << 20,), (1 << 20,), True),
    ],
)
def test_few_multiply_adds_short_sums_along_memory_and_dot_products_are_faster(text, a, b, faster):
    assert judged(text, a, b) == faster


def test_the_bound_is_on_multiply_adds():
    assert (32 * 32 * 64, 2 * FEW) == (FEW, 1 << 17)


@pytest.mark.parametrize(
    ("a", "b", "mode", "why"),
    [
        ((1, 7), (7, 5), "vector", "m=1"),
        ((5, 7), (7, 1), "vector", "n=1"),
        ((5, 7), (7, 6), "vector", ""),
        ((5, 7), (7, 6), "small", "m=5, n=6, k=7"),
        ((512, 512), (512, 512), "small", ""),
        ((1, 7), (7, 5), "k1", ""),
        ((1, 7), (7, 5), "off", ""),
    ],
)
def test_what_each_mode_looks_at(a, b, mode, why):
    assert is_small(plain([a, b]), mode) == why

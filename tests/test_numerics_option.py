"""gemm_numerics as a compile option: what a trace then says, and what is promised where."""

import pytest
import thunder
import torch

import thunder_gemm_ex as gx
from tests.checks import all_names, assert_as_eager, decisions, jit
from tests.lab import final_traces
from thunder_gemm_ex.engines import choose, numerics
from thunder_gemm_ex.engines.terms import Terms

F = torch.nn.functional
PLAIN = [gx.gemm_ex, thunder.pytorch_executor]


def program(x, w):
    return x @ w.t()


def printed(device, **options):
    make = lambda device: (torch.randn(4, 16, 32, device=device), torch.randn(8, 32, device=device))  # noqa: E731
    forward, _ = final_traces(program, make, executors=PLAIN, device=device, **options)
    return [line.text.partition(" = ")[2].partition("  #")[0] for line in forward]


@pytest.fixture
def medium():
    """float32 products may be computed in bfloat16."""
    torch.set_float32_matmul_precision("medium")
    yield
    torch.set_float32_matmul_precision("highest")


@pytest.mark.parametrize("device", ["cpu", "cuda:0"])
def test_torchs_way_is_the_default_and_not_printed(device):
    assert printed(device) == printed(device, gemm_numerics="torch") == ['gemm(x, w, "a b k, n k -> a b n")']


@pytest.mark.parametrize("device", ["cpu", "cuda:0"])
def test_strict_is_printed(device):
    assert printed(device, gemm_numerics="strict") == ['gemm(x, w, "a b k, n k -> a b n", numerics="strict")']


def test_batch_invariant_is_printed_where_it_is_promised():
    text = 'gemm(x, w, "a b k, n k -> a b n", numerics="batch_invariant")'
    assert printed("cuda:0", gemm_numerics="batch_invariant") == [text]


def test_batch_invariant_on_cpu_is_left_to_torch_with_the_reason():
    jfn = assert_as_eager(
        program, torch.randn(5, 3), torch.randn(4, 3), executors=PLAIN, gemm_numerics="batch_invariant"
    )
    assert "gemm" not in all_names(jfn)
    (row,) = gx.explain(jfn).rows
    assert (row.decision, row.op) == ("declined", "matmul")
    assert 'gemm_numerics="batch_invariant" is kept by cuBLASLt alone' in row.reason
    assert "float32 on cpu" in row.reason


def test_what_the_library_does_not_compute_is_no_promise_on_cuda_either():
    make = lambda device: (torch.ones(4, 3, device=device, dtype=torch.complex64),) * 2  # noqa: E731
    forward, _ = final_traces(lambda x, w: x @ w.mT, make, executors=PLAIN, gemm_numerics="batch_invariant")
    assert "gemm" not in [line.name for line in forward]


def test_gx_gemm_in_a_program_has_the_programs_numerics():
    call = lambda x, w: gx.gemm(x, w, "m k, n k -> m n")  # noqa: E731
    jfn = assert_as_eager(call, torch.randn(5, 3), torch.randn(4, 3), gemm_numerics="strict")
    assert 'numerics="strict"' in str(thunder.last_traces(jfn)[-1])
    jfn = assert_as_eager(call, torch.randn(5, 3), torch.randn(4, 3), gemm_numerics="batch_invariant")
    assert "numerics=" not in str(thunder.last_traces(jfn)[-1])
    (row,) = gx.explain(jfn).rows
    assert (row.op, row.decision) == ("gemm", "declined")


@pytest.mark.parametrize("grad", [False, True])
def test_every_matmul_is_claimed_where_torch_alone_would_not_promise(grad):
    """A matmul that is given back would be rounded as torch's flags say."""
    args = torch.randn(5, 3, requires_grad=grad), torch.randn(3, 4, requires_grad=grad)
    assert decisions(assert_as_eager(torch.matmul, *args)) == ["given back"] + ["claimed"] * 2 * grad
    jfn = assert_as_eager(torch.matmul, *args, gemm_numerics="strict")
    assert decisions(jfn) == ["claimed"] * (1 + 2 * grad)
    assert 'claimed by gemm_numerics="strict"' in gx.explain(jfn).rows[0].reason


def test_other_numerics_are_no_choice():
    with pytest.raises(
        ValueError, match="gemm_numerics must be one of 'torch', 'strict', 'batch_invariant', was 'fast'"
    ):
        jit(program, gemm_numerics="fast")(torch.randn(5, 3), torch.randn(4, 3))


# What "strict" is on a CPU: wider wherever torch's flags would allow less -----------------------------------------------


@pytest.mark.usefixtures("medium")
@pytest.mark.parametrize("spec", ["m k, n k -> m n", "m k, n k -> n m"])
def test_strict_computes_wider_where_torch_might_compute_in_bfloat16(spec):
    """Exactly rounded float64 is what shows it, on machines that have bfloat16 products and on those that have not."""
    a, b = torch.randn(64, 4096), torch.randn(48, 4096)
    exact = (a.double() @ b.double().t()).float()
    out = choose.run_gemm(a, b, spec, numerics="strict")
    assert torch.equal(out, exact if spec.endswith("m n") else exact.t())


def test_strict_is_torchs_own_where_no_flag_allows_less():
    a, b = torch.randn(64, 4096), torch.randn(48, 4096)
    assert torch.equal(choose.run_gemm(a, b, "m k, n k -> m n", numerics="strict"), F.linear(a, b))


@pytest.mark.usefixtures("medium")
@pytest.mark.parametrize(
    ("dtype", "wider"), [(torch.float32, torch.float64), (torch.float64, None), (torch.bfloat16, None)], ids=str
)
def test_what_is_wider(dtype, wider):
    assert numerics.wider(torch.empty(1, dtype=dtype)) is wider


@pytest.mark.parametrize("allowed", [False, True])
def test_half_precision_sums_on_a_cpu_are_a_flag_too(allowed, monkeypatch):
    """Torch refuses the flag on processors that have no such sums, so it is asked for here."""
    monkeypatch.setattr(numerics, "_cpu_fp16_reductions", lambda: allowed)
    assert numerics.wider(torch.empty(1, dtype=torch.float16)) is (torch.float64 if allowed else None)


@pytest.mark.usefixtures("medium")
def test_strict_gradients_and_terms():
    args = [torch.randn(s, requires_grad=True) for s in ((6, 5, 3), (4, 3), (4,))]
    assert_as_eager(lambda x, w, b: 2 * F.linear(x, w, b).transpose(0, 1), *args, gemm_numerics="strict")


def test_modes_have_sites_of_their_own():
    torchs, strict = (choose.site("m k, n k -> m n", Terms(numerics=mode)) for mode in ("torch", "strict"))
    assert torchs is not strict
    assert torchs is choose.site("m k, n k -> m n")


def test_no_other_mode_takes_the_short_ways(monkeypatch):
    """Direct calls and guesses are torch's mode alone."""
    monkeypatch.setattr(choose, "_direct_calls", {})
    monkeypatch.setattr(choose, "checked_calls", {})
    monkeypatch.setattr(choose, "_sites", {})
    for mode in ("strict", "batch_invariant"):
        choose.site("m k, n k -> m n", Terms(numerics=mode))
    assert not choose._direct_calls
    assert not choose.checked_calls


def test_on_cpu_a_batch_invariant_call_is_refused():
    with pytest.raises(RuntimeError, match=r'numerics is "batch_invariant".*operands are on cpu'):
        choose.run_gemm(torch.ones(2, 3), torch.ones(4, 3), "m k, n k -> m n", numerics="batch_invariant")


def test_nothing_to_sum_keeps_every_promise():
    out = choose.run_gemm(torch.ones(2, 0), torch.ones(4, 0), "m k, n k -> m n", numerics="batch_invariant")
    assert torch.equal(out, torch.zeros(2, 4))


@pytest.mark.parametrize(("mode", "decision"), [("torch", "given back"), ("strict", "claimed")])
def test_a_fuser_that_computes_matmuls_makes_no_promise(mode, decision):
    """In a region of torchcompile a product would be rounded as torch's flags say."""
    fuser = thunder.get_executor("torchcompile")
    jfn = thunder.jit(
        lambda x, w: torch.sin(x @ w), executors=[gx.gemm_ex, fuser, thunder.pytorch_executor], gemm_numerics=mode
    )
    thunder.compile_data(jfn).get_computation_and_inputs(torch.randn(4, 5), torch.randn(5, 6))
    (row,) = gx.explain(jfn).rows
    assert row.decision == decision

"""torch._scaled_mm in a trace: its operands' views fold, values are torch's, and what it refuses is refused in its words."""

import pytest
import thunder
import torch

import thunder_gemm_ex as gx
from tests.checks import forward_names
from tests.lab import final_traces
from thunder_gemm_ex.engines import choose

E4M3, E5M2 = torch.float8_e4m3fn, torch.float8_e5m2
# nvFuser asks the device whether it has fp8, where there may be none.
EXECUTORS = [gx.gemm_ex, thunder.pytorch_executor]
SCALES = torch.tensor(0.5), torch.tensor(4.0)


def fp8(*shape, dtype=E4M3):
    return torch.randn(shape).to(dtype)


def compiled(program, *args, **options):
    """(the jitted program, what it returned), after a comparison with eager."""
    jfn = thunder.jit(program, executors=EXECUTORS, **options)
    ours, eager = jfn(*args), program(*args)
    assert (ours.dtype, ours.shape, ours.stride()) == (eager.dtype, eager.shape, eager.stride())
    torch.testing.assert_close(ours.float(), eager.float())
    return jfn


def text_of(jfn):
    return str(thunder.last_traces(jfn)[-1])


OPERANDS = {
    "t": (lambda x, w: (x, w.t()), (16, 48), (32, 48), "m k, n k -> m n"),
    "plain": (lambda x, w: (x, w), (16, 48), (48, 32), "m k, k n -> m n"),
    "both": (lambda x, w: (x.t(), w.t()), (48, 16), (32, 48), "k m, n k -> m n"),
}


@pytest.mark.parametrize("out", [torch.bfloat16, torch.float16, torch.float32], ids=str)
@pytest.mark.parametrize(("view", "a", "b", "spec"), OPERANDS.values(), ids=OPERANDS)
def test_operands_views_fold(view, a, b, spec, out):
    program = lambda x, w, sa, sb: torch._scaled_mm(*view(x, w), scale_a=sa, scale_b=sb, out_dtype=out)  # noqa: E731
    jfn = compiled(program, fp8(*a), fp8(*b), *SCALES, gemm_claim="all")
    assert forward_names(jfn) == ["scaled_gemm"]
    assert f'"{spec}"' in text_of(jfn)


@pytest.mark.parametrize("types", [(E4M3, E4M3), (E4M3, E5M2), (E5M2, E4M3)], ids=str)
def test_bias_and_other_types(types):
    program = lambda x, w, sa, sb, b: torch._scaled_mm(x, w.t(), sa, sb, bias=b, out_dtype=torch.bfloat16)  # noqa: E731
    args = fp8(16, 48, dtype=types[0]), fp8(32, 48, dtype=types[1])
    jfn = compiled(program, *args, *SCALES, torch.randn(32).bfloat16())
    assert '"m k, n k, n -> m n"' in text_of(jfn)


def test_on_a_cuda_trace_too(monkeypatch):
    """Hopper reads one layout alone, TN: there the planner finds it as the operands lie."""

    def make(device):
        x, w = (torch.empty(s, device=device, dtype=E4M3) for s in ((16, 48), (32, 48)))
        return x, w, torch.empty((), device=device), torch.empty((), device=device)

    program = lambda x, w, sa, sb: torch._scaled_mm(x, w.t(), sa, sb, out_dtype=torch.bfloat16)  # noqa: E731
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda *_: (9, 0))
    forward, _ = final_traces(program, make, executors=gx.executors())
    (line,) = forward
    assert 'scaled_gemm(x, w, "m k, n k -> m n", sa, sb, out_dtype=torch.bfloat16)' in line.text


def test_a_permuted_result_inside_a_program_folds():
    program = lambda x, w, sa, sb: torch._scaled_mm(x, w.t(), sa, sb, out_dtype=torch.float32).t().contiguous()  # noqa: E731
    jfn = compiled(program, fp8(16, 48), fp8(32, 48), *SCALES)
    assert '"m k, n k -> n m"' in text_of(jfn)


# Does not -------------------------------------------------------------------------------------------------------------


def test_an_fp8_result_is_torchs():
    jfn = compiled(lambda x, w, sa, sb: torch._scaled_mm(x, w.t(), sa, sb), fp8(16, 48), fp8(32, 48), *SCALES)
    assert forward_names(jfn) == ["permute", "_scaled_mm"]
    (row,) = gx.explain(jfn).rows
    assert (row.decision, row.reason) == ("declined", "its output is fp8, which is left to torch")


def test_nothing_pointwise_is_taken_into_it():
    program = lambda x, w, sa, sb: 2 * torch._scaled_mm(x, w.t(), sa, sb, out_dtype=torch.float32) + 1  # noqa: E731
    assert len(forward_names(compiled(program, fp8(16, 48), fp8(32, 48), *SCALES))) == 3


@pytest.mark.parametrize(("x", "w"), [(fp8(16, 48), fp8(32, 32)), (torch.ones(16, 48), fp8(32, 48))])
def test_what_eager_refuses_is_refused_in_its_words(x, w):
    program = lambda x, w, sa, sb: torch._scaled_mm(x, w.t(), sa, sb, out_dtype=torch.float32)  # noqa: E731
    said = []
    for call in (program, thunder.jit(program, executors=EXECUTORS)):
        with pytest.raises(RuntimeError, match="mat1") as error:
            call(x, w, *SCALES)
        said.append(str(error.value).splitlines()[0])
    assert said[0] == said[1]


def test_batch_invariant_is_not_promised_for_fp8():
    program = lambda x, w, sa, sb: torch._scaled_mm(x, w.t(), sa, sb, out_dtype=torch.float32)  # noqa: E731
    jfn = compiled(program, fp8(16, 48), fp8(32, 48), *SCALES, gemm_numerics="batch_invariant")
    (row,) = gx.explain(jfn).rows
    assert row.decision == "declined"
    assert "float8_e4m3fn" in row.reason


def test_views_and_back_around_torchs_own_call():
    """Off CUDA the contraction is torch's call on views of what is stored, whatever the labels' order."""
    a, b = fp8(48, 16), fp8(32, 48)
    out = choose.run_scaled(a, b, "k m, n k -> n m", *SCALES, out_dtype=torch.float32)
    want = torch._scaled_mm(a.t(), b.t(), *SCALES, out_dtype=torch.float32)
    torch.testing.assert_close(out, want.t())
    assert out.is_contiguous()


@pytest.mark.parametrize(("m", "n"), [(1, 32), (16, 1), (1, 1)])
def test_a_single_row_or_column(m, n):
    program = lambda x, w, sa, sb: torch._scaled_mm(x, w.t(), sa, sb, out_dtype=torch.float32)  # noqa: E731
    compiled(program, fp8(m, 48), fp8(n, 48), *SCALES)

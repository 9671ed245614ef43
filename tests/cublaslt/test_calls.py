"""From a trace's call to the engine: what is guessed, when the guess is off, copies that the planner asks for."""

import pytest
import torch

from tests.cublaslt.problems import spec_of
from thunder_gemm_ex.engines import choose, cublaslt, cublaslt_calls
from thunder_gemm_ex.engines.operation import Operation, operation

SPEC = "m k, n k -> n m"


@pytest.fixture
def everywhere(double):
    """The cublaslt engine takes CPU tensors too, over the double."""
    with choose.everywhere():
        yield double


def assert_product(x, w):
    torch.testing.assert_close(choose.run_gemm(x, w, SPEC), w @ x.t(), rtol=1e-2, atol=1e-2)


# The guess ------------------------------------------------------------------------------------------------------------


def test_a_second_call_is_guessed(everywhere, monkeypatch):
    x, w = torch.randn(5, 8), torch.randn(6, 8)
    assert_product(x, w)
    monkeypatch.setattr(choose.Site, "__call__", lambda *_args: pytest.fail("the site was asked"))
    assert_product(x, w)
    assert everywhere.calls() == 2


@pytest.mark.parametrize(
    ("x", "w"),
    [
        (torch.randn(7, 8), torch.randn(6, 8)),
        (torch.randn(5, 9), torch.randn(6, 9)),
        (torch.randn(5, 8).double(), torch.randn(6, 8).double()),
        (torch.randn(5, 8).half(), torch.randn(6, 8).half()),
        (torch.randn(8, 5).t(), torch.randn(6, 8)),
        (torch.randn(5, 16)[:, ::2], torch.randn(6, 8)),
        (torch.randn(41)[1:].view(5, 8), torch.randn(6, 8)),
        (torch.nn.Parameter(torch.randn(5, 8)), torch.nn.Parameter(torch.randn(6, 8))),
    ],
    ids=["m", "k", "fp64", "fp16", "transposed", "strided", "unaligned", "parameters"],
)
def test_a_guess_that_is_off_does_no_harm(everywhere, x, w):
    a, b = torch.randn(5, 8), torch.randn(6, 8)
    with torch.no_grad():
        for _ in range(2):
            assert_product(a, b)
            assert_product(x, w)


def test_a_guess_takes_no_subclass(everywhere):
    class Mine(torch.Tensor):
        pass

    assert_product(torch.randn(5, 8), torch.randn(6, 8))
    calls = everywhere.calls()
    out = choose.run_gemm(torch.randn(5, 8).as_subclass(Mine), torch.randn(6, 8), SPEC)
    assert type(out) is Mine
    assert everywhere.calls() == calls


@pytest.mark.parametrize("dtype", [torch.complex64, torch.complex128], ids=str)
@pytest.mark.parametrize("shape", [(5, 1), (1, 1), (5, 3)])
def test_a_negative_view_is_never_read_as_it_lies(everywhere, shape, dtype):
    """The imaginary part of a conjugate: its memory holds the opposite sign. One column of it could be a matrix."""
    z = torch.randn(shape, dtype=dtype)
    negative, positive = z.conj().imag, (-z.imag).contiguous()
    w = torch.randn(6, shape[1], dtype=positive.dtype)
    # So that the guess is of operands that look exactly alike.
    for x in (z.imag, negative, z.imag, negative):
        torch.testing.assert_close(choose.run_gemm(x, w, SPEC), w @ x.clone().t())
    assert torch.equal(negative.clone(), positive)


@pytest.mark.parametrize("shape", [(5, 6), (5, 1), (1,), ()], ids=str)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_outputs_are_made_as_torch_makes_them(shape, dtype):
    like = torch.randn(2, 2, dtype=dtype)
    out, wanted = cublaslt_calls.outputs(like, shape)(), like.new_empty(shape)
    assert (out.shape, out.stride(), out.dtype, out.device) == (wanted.shape, wanted.stride(), dtype, wanted.device)
    assert out.untyped_storage().nbytes() == wanted.untyped_storage().nbytes()


def test_every_output_has_memory_of_its_own():
    new = cublaslt_calls.outputs(torch.randn(2, 2), (5, 6))
    first, second = new(), new()
    assert first.data_ptr() != second.data_ptr()


def test_outputs_in_inference_mode_are_inference_tensors(everywhere):
    x, w = torch.randn(5, 8), torch.randn(6, 8)
    assert not choose.run_gemm(x, w, SPEC).is_inference()
    with torch.inference_mode():
        assert choose.run_gemm(x, w, SPEC).is_inference()


def test_without_torchs_quick_allocator_empty_like_makes_outputs(monkeypatch):
    monkeypatch.setattr(cublaslt_calls, "_empty_cpu", None)
    new = cublaslt_calls.outputs(torch.randn(2, 2), (5, 6))
    assert new.args[0].untyped_storage().nbytes() == 0  # what it is like keeps no memory
    assert (new().shape, new().untyped_storage().nbytes()) == ((5, 6), 5 * 6 * 4)


def test_results_are_ordinary_tensors(everywhere):
    x, w = torch.randn(5, 8), torch.randn(6, 8)
    for _ in range(2):
        out = choose.run_gemm(x, w, SPEC)
        assert (type(out), out.is_contiguous(), out.requires_grad) == (torch.Tensor, True, False)
        out.resize_(2, 2)


# Copies ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "a", "b"),
    [
        ("m k j, j k n -> m n", (5, 2, 3), (3, 2, 6)),  # the summed labels lie in another order
        ("m k b, b n k -> b m n", (5, 7, 3), (3, 6, 7)),  # channels last
        ("b m k, n k b -> b m n", (3, 5, 7), (6, 7, 3)),
    ],
)
def test_a_layout_that_no_gemm_has_is_copied_once(everywhere, text, a, b):
    x, y = torch.randn(a), torch.randn(b)
    for _ in range(2):
        torch.testing.assert_close(choose.run_gemm(x, y, text), torch.einsum(text.replace(" ", ""), x, y))
    assert everywhere.calls() == 2
    decision = choose.site(text).decision_for(x, y)
    assert decision.engine == "cublaslt"
    assert "after a copy of" in decision.detail


def test_an_operand_that_is_a_matrix_is_never_copied(everywhere, monkeypatch):
    monkeypatch.setattr(cublaslt_calls, "copied", lambda *_args: pytest.fail("copied"))
    for text, a, b in (
        ("m k, n k -> n m", (5, 8), (6, 8)),
        ("b s h d, b t h d -> b h s t", (2, 4, 3, 5), (2, 6, 3, 5)),
    ):
        x, y = torch.randn(a), torch.randn(b)
        torch.testing.assert_close(choose.run_gemm(x, y, text), torch.einsum(text.replace(" ", ""), x, y))


# Operations -----------------------------------------------------------------------------------------------------------


def test_an_operation_is_made_once_for_its_shapes(double):
    args = ("m k, n k -> m n", (5, 8), (16, 8), None, "gelu")
    assert operation(*args) is operation(*args)
    assert operation(*args) is not operation(*args, "strict")


def test_an_operation_writes_where_it_is_told(double):
    out = torch.empty(5, 16)
    got = operation("m k, n k -> m n", (5, 8), (16, 8))(torch.ones(5, 8), torch.ones(16, 8), out=out)
    assert got.out is out
    assert torch.equal(out, torch.full((5, 16), 8.0))


def test_an_operation_leaves_negative_views_to_others(double):
    x = torch.randn(5, 8, dtype=torch.complex64).conj().imag
    assert operation("m k, n k -> m n", (5, 8), (16, 8))(x, torch.ones(16, 8)) is None
    assert double.calls() == 0


# The key --------------------------------------------------------------------------------------------------------------


def keys_of(*calls):
    """The plan keys of calls, each (epilogue, operands, options)."""
    found = []
    for epilogue, (x, w), options in calls:
        flags = options.pop("flags", 0)
        op = Operation(spec_of("m k, n k, n -> m n", (5, 8), (16, 8), (16,)), epilogue)
        bias = options.pop("bias", torch.zeros(16))
        out = torch.empty(5, 16)
        aux = options.pop("aux", op.new_aux(out) if "aux" in epilogue else None)
        found.append(op.bound.candidates(x, w, out, bias, None, flags, aux=aux, count=1)["key"])
    return found


def test_every_flag_and_epilogue_is_in_the_key(double):
    xw = torch.randn(5, 8), torch.randn(16, 8)
    names = ["", "relu", "gelu", "relu_aux", "gelu_aux"]
    flags = [1, 2, 4, 8, 16, 32, 64][:6]
    keys = keys_of(*((name, xw, {}) for name in names), *(("", xw, {"flags": flag}) for flag in flags))
    assert len(set(keys)) == len(names) + len(flags)


def test_the_alignment_of_bias_and_aux_is_in_the_key(double):
    xw = torch.randn(5, 8), torch.randn(16, 8)
    bias, aux = torch.zeros(64), torch.zeros(5 * 16 + 64)
    first = -bias.data_ptr() % 64 // 4
    keys = keys_of(*(("", xw, {"bias": bias[first + i : first + i + 16]}) for i in (0, 1, 2, 4)))
    assert len(set(keys)) == 4
    first = -aux.data_ptr() % 64 // 4
    views = [aux[first + i : first + i + 80].view(5, 16) for i in (0, 1, 2, 4)]
    assert len(set(keys_of(*(("gelu_aux", xw, {"aux": view}) for view in views)))) == 4


def test_the_librarys_version_and_the_limit_are_in_the_key(double, fresh_double):
    xw = torch.randn(5, 8), torch.randn(16, 8)
    keys = keys_of(("", xw, {}))
    cublaslt.set_workspace_limit(1 << 20)
    try:
        keys += keys_of(("", xw, {}))
    finally:
        cublaslt.set_workspace_limit(None)
    fresh_double.lib.double_version(120900)
    with fresh_double.opened():
        keys += keys_of(("", xw, {}))
    assert len(set(keys)) == 3

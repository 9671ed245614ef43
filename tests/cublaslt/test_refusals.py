"""What is declined, with a reason; what is refused, in a sentence; and that a failure leaves nothing behind."""

import ctypes

import pytest
import torch

from tests.cublaslt.problems import assert_right, bound, run, spec_of
from tests.double.build import (
    ALLOC_FAILED,
    EXECUTION_FAILED,
    INTERNAL_ERROR,
    INVALID_VALUE,
    NOT_SUPPORTED,
    real_library,
)
from thunder_gemm_ex.engines import cublaslt

SPEC = spec_of("m k, k n -> m n", (5, 7), (7, 6))


def operands(dtype=torch.float32):
    return torch.randn(5, 7).to(dtype), torch.randn(7, 6).to(dtype)


@pytest.mark.parametrize(
    ("text", "a", "b", "reason"),
    [
        ("m k j, j k n -> m n", (5, 2, 3), (3, 2, 6), "do not merge into one k"),
        ("b s h d, b t h d -> h b s t", (70, 2, 70, 3), (70, 2, 70, 3), "more than 64 calls"),
        ("m k b, k n b -> m n b", (5, 7, 3), (7, 6, 3), "neither m nor n"),
    ],
)
def test_what_is_no_gemm_is_declined_with_the_reason(double, text, a, b, reason):
    spec = spec_of(text, a, b)
    x, y = torch.randn(a), torch.randn(b)
    status, out = run(spec, x, y)
    assert (status, double.calls()) == (1, 0)
    assert out.isnan().all()
    assert reason in bound(spec).explain(x, y, out)["declined"]


@pytest.mark.parametrize("side", ["a", "b"])
@pytest.mark.parametrize("dim", [0, 1])
def test_an_expanded_matrix_dimension_is_declined(double, side, dim):
    x, y = operands()
    target = x if side == "a" else y
    expanded = target.narrow(dim, 0, 1).expand_as(target)
    x, y = (expanded, y) if side == "a" else (x, expanded)
    status, out = run(SPEC, x, y)
    assert status == 1
    assert f"{side} is not a matrix in memory" in bound(SPEC).explain(x, y, out)["declined"]


@pytest.mark.parametrize("dtype", [torch.complex64, torch.int64, torch.int32, torch.uint8], ids=str)
def test_other_types_are_declined(double, dtype):
    x, y = (torch.ones(s).to(dtype) for s in ((5, 7), (7, 6)))
    status, out = run(SPEC, x, y, out=torch.empty(5, 6, dtype=dtype))
    assert status == 1
    assert "fp64, fp32, fp16, bf16, fp8 and int8" in bound(SPEC).explain(x, y, out)["declined"]


@pytest.mark.parametrize(("a", "b"), [((0, 7), (7, 6)), ((5, 0), (0, 6)), ((5, 7), (7, 0))])
def test_tensors_without_memory_are_refused_before_anything_is_called(double, a, b):
    """Empty tensors have a null pointer, as meta and fake ones do; the engine that asks sends them to ATen beforehand."""
    spec = spec_of("m k, k n -> m n", a, b)
    with pytest.raises(ValueError, match="has no memory"):
        run(spec, torch.ones(a), torch.ones(b))
    assert double.calls() == double.calls("heuristic") == 0


def test_an_output_whose_elements_overlap_is_declined(double):
    x, y = operands()
    status, _ = run(SPEC, x, y, out=torch.empty(5, 1).expand(5, 6))
    assert status == 1


def test_a_bias_along_m_cannot_be_an_epilogue_of_a_batch_that_it_varies_in(double):
    spec = spec_of("b m k, b k n, b -> b m n", (3, 5, 7), (3, 7, 6), (3,))
    x, y, z = torch.randn(3, 5, 7), torch.randn(3, 7, 6), torch.randn(3)
    status, out = run(spec, x, y, bias=z)
    assert status == 1
    assert "bias" in bound(spec).explain(x, y, out, z)["declined"]


# Refused: the caller's mistakes ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"a": torch.ones(5, 8)}, "a has shape (5, 8) where (5, 7) was bound"),
        ({"b": torch.ones(7)}, "b has shape (7) where (7, 6) was bound"),
        ({"out": torch.ones(6, 5)}, "out has shape (6, 5) where (5, 6) was bound"),
        ({"b": torch.ones(7, 6).half()}, "b differs from a in dtype"),
        ({"out": torch.ones(5, 6).double()}, "out differs from a in dtype"),
        ({"c": torch.ones(5, 5)}, "c has shape (5, 5)"),
        ({"bias": torch.ones(6)}, "bias was given"),
    ],
)
def test_tensors_that_do_not_fit_are_refused_by_name(double, change, message):
    args = {"a": torch.ones(5, 7), "b": torch.ones(7, 6), "out": torch.ones(5, 6), "bias": None, "c": None} | change
    with pytest.raises(ValueError, match=None) as caught:  # noqa: PT011 - compared below
        bound(SPEC).run(args["a"], args["b"], args["out"], args["bias"], args["c"], 1.0, 0.0, 0)
    assert message in str(caught.value)
    assert double.calls() == 0


def test_a_missing_bias_is_refused(double):
    spec = spec_of("m k, n k, n -> m n", (5, 7), (6, 7), (6,))
    with pytest.raises(ValueError, match="bias is missing"):
        run(spec, torch.ones(5, 7), torch.ones(6, 7))


@pytest.mark.parametrize("lists", [([[0], [0]], [[0], [1]], [[1]]), ([[0], [5]], [[5], [1]], [[0], [1]])])
def test_contractions_that_mean_nothing_are_refused(lists):
    a, b, out = lists
    with pytest.raises(ValueError, match="has the atom"):
        cublaslt.bind(a, b, None, out, [2, 3])


def test_a_tensor_on_another_device_than_the_library_computes_on_is_refused():
    with cublaslt.use_library(str(real_library())), pytest.raises(ValueError, match="not on a device that"):
        bound(SPEC).run(*operands(), torch.empty(5, 6), None, None, 1.0, 0.0, 0)


def test_a_library_that_cannot_be_opened_is_refused_and_the_open_one_stays(double):
    with pytest.raises(RuntimeError, match="cannot open"):
        cublaslt.extension().open_library("/nonexistent/libcublasLt.so", "")
    assert run(SPEC, *operands())[0] == 0


# The library's failures -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("status", [EXECUTION_FAILED, INTERNAL_ERROR, INVALID_VALUE, ALLOC_FAILED])
def test_a_status_of_the_matmul_reaches_the_user_as_a_sentence(double, status):
    double.fail_next("matmul", status)
    with pytest.raises(RuntimeError, match=r"cublasLtMatmul returned CUBLAS_STATUS_\w+ for rows=6 cols=5 k=7 batch=1"):
        run(SPEC, *operands())
    x, y = operands()
    code, out = run(SPEC, x, y)
    assert code == 0
    assert_right(SPEC, x, y, out)


@pytest.mark.parametrize("entry", ["heuristic", "check"])
@pytest.mark.parametrize("status", [NOT_SUPPORTED])
def test_what_the_heuristic_does_not_support_is_declined_and_remembered(double, entry, status):
    double.fail_next(entry, status)
    gemm = bound(SPEC)
    x, y = operands()
    out = torch.empty(5, 6)
    assert [gemm.run(x, y, out, None, None, 1.0, 0.0, 0) for _ in range(3)] == [1, 1, 1]
    assert double.calls("heuristic") == 1
    assert "heuristic" in gemm.explain(x, y, out)["declined"]


def test_a_heuristic_that_fails_leaves_no_plan(double):
    double.fail_next("heuristic", INTERNAL_ERROR)
    with pytest.raises(RuntimeError, match="returned CUBLAS_STATUS_INTERNAL_ERROR"):
        run(SPEC, *operands())
    assert cublaslt.cache_stats()["size"] == 0
    assert run(SPEC, *operands())[0] == 0


def test_a_problem_that_wants_more_workspace_than_allowed_is_declined(double):
    double.lib.double_want_workspace(1 << 30)
    assert run(SPEC, *operands())[0] == 1


# The double itself refuses what the documentation says ----------------------------------------------------------------


class Descriptors:
    """The real library's descriptors, as a careless caller makes them."""

    def __init__(self):
        self.lib = ctypes.CDLL(str(real_library()))

    def layout(self, dtype, rows, cols, ld, batch=1, stride=0):
        handle = ctypes.c_void_p()
        args = (ctypes.c_int(dtype), ctypes.c_uint64(rows), ctypes.c_uint64(cols), ctypes.c_int64(ld))
        assert self.lib.cublasLtMatrixLayoutCreate(ctypes.byref(handle), *args) == 0
        if batch != 1:
            for attribute, value in ((5, ctypes.c_int32(batch)), (6, ctypes.c_int64(stride))):
                size = ctypes.c_size_t(ctypes.sizeof(value))
                assert self.lib.cublasLtMatrixLayoutSetAttribute(handle, attribute, ctypes.byref(value), size) == 0
        return handle

    def matmul(self, compute=68, scale=0):
        handle = ctypes.c_void_p()
        assert self.lib.cublasLtMatmulDescCreate(ctypes.byref(handle), compute, scale) == 0
        return handle


FP32, FP64 = 0, 1


@pytest.mark.parametrize(
    ("a", "b", "d", "compute", "alignment", "status"),
    [
        ((FP32, 4, 3, 4), (FP32, 3, 2, 3), (FP32, 4, 2, 4), 68, 4, 0),
        ((FP32, 4, 3, 3), (FP32, 3, 2, 3), (FP32, 4, 2, 4), 68, 4, INVALID_VALUE),  # lda < rows
        ((FP32, 4, 3, 4), (FP32, 3, 2, 3), (FP32, 4, 2, 1), 68, 4, INVALID_VALUE),  # ldd < rows
        ((FP32, 4, 3, 4), (FP32, 2, 2, 2), (FP32, 4, 2, 4), 68, 4, INVALID_VALUE),  # k differs
        ((FP32, 4, 3, 4), (FP32, 3, 2, 3), (FP32, 3, 2, 3), 68, 4, INVALID_VALUE),  # m differs
        ((FP32, 0, 3, 4), (FP32, 3, 2, 3), (FP32, 0, 2, 4), 68, 4, INVALID_VALUE),  # no rows
        ((FP64, 4, 3, 4), (FP32, 3, 2, 3), (FP32, 4, 2, 4), 68, 4, NOT_SUPPORTED),  # types differ
        ((FP32, 4, 3, 4), (FP32, 3, 2, 3), (FP32, 4, 2, 4), 70, 4, NOT_SUPPORTED),  # compute type
        ((FP32, 4, 3, 4, 2, 12), (FP32, 3, 2, 3), (FP32, 4, 2, 4), 68, 4, INVALID_VALUE),  # batch counts differ
        ((FP32, 4, 3, 4, 2, 12), (FP32, 3, 2, 3, 2, 0), (FP32, 4, 2, 4, 2, 0), 68, 4, INVALID_VALUE),  # D overlaps
        ((FP32, 4, 3, 4), (FP32, 3, 2, 3), (FP32, 4, 2, 4), 68, 4096 * 16, INVALID_VALUE),  # a promise not kept
    ],
)
def test_the_double_refuses_what_the_documentation_refuses(double, a, b, d, compute, alignment, status):
    make = Descriptors()
    data = torch.ones(64)
    pointer = ctypes.c_void_p(data.data_ptr())
    layouts = [make.layout(*x) for x in (a, b, d)]
    got = double.lib.double_matmul(
        make.matmul(compute), pointer, layouts[0], pointer, layouts[1], pointer, layouts[2], ctypes.c_uint32(alignment)
    )
    assert got == status


@pytest.mark.parametrize("missing", ["a", "b", "d"])
def test_the_double_refuses_null_pointers(double, missing):
    make = Descriptors()
    data = ctypes.c_void_p(torch.ones(64).data_ptr())
    pointers = [None if name == missing else data for name in "abd"]
    layouts = [make.layout(FP32, 4, 4, 4) for _ in range(3)]
    args = [x for pair in zip(pointers, layouts) for x in pair]
    assert double.lib.double_matmul(make.matmul(), *args, ctypes.c_uint32(4)) == INVALID_VALUE

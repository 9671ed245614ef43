"""alpha, beta and c as callers mean them, and memory that operands share."""

import pytest
import torch

from tests.cublaslt.problems import assert_right, bound, run, spec_of

SPEC = spec_of("m k, k n -> m n", (5, 7), (7, 6))


@pytest.fixture
def xy():
    return torch.randn(5, 7), torch.randn(7, 6)


def test_c_may_be_the_output_itself(double, xy):
    out = torch.randn(5, 6)
    before = out.clone()
    assert run(SPEC, *xy, out=out, c=out, alpha=0.5, beta=2.0)[0] == 0
    assert_right(SPEC, *xy, out, c=before, alpha=0.5, beta=2.0)


def test_c_in_the_outputs_memory_with_other_strides_is_declined(double, xy):
    memory = torch.randn(5 * 8)
    out, c = memory[:30].view(5, 6), memory.view(5, 8)[:, :6]
    before = memory.clone()
    assert run(SPEC, *xy, out=out, c=c, beta=1.0)[0] == 1
    assert torch.equal(memory, before)
    assert "another layout" in bound(SPEC).explain(*xy, out, c=c)["declined"]


def test_a_transposed_c_is_declined_unless_beta_is_zero(double, xy):
    c = torch.randn(6, 5).t()
    assert run(SPEC, *xy, c=c, beta=1.0)[0] == 1
    status, out = run(SPEC, *xy, c=c, beta=0.0)
    assert status == 0
    assert_right(SPEC, *xy, out)


def test_beta_without_c_is_refused(double, xy):
    with pytest.raises(ValueError, match=r"beta is 0.5\d*, but there is no c"):
        run(SPEC, *xy, beta=0.5)


@pytest.mark.parametrize("flags", [128, -1, 1 << 40])
def test_flags_that_mean_nothing_are_refused(double, xy, flags):
    with pytest.raises(ValueError, match="only the bits 1 to 64"):
        run(SPEC, *xy, flags=flags)


@pytest.mark.parametrize("name", ["a", "b"])
def test_an_output_in_an_operands_memory_is_refused(double, name):
    spec = spec_of("m k, k n -> m n", (4, 4), (4, 4))
    x, y = torch.randn(4, 4), torch.randn(4, 4)
    with pytest.raises(ValueError, match=f"out shares memory with {name}"):
        run(spec, x, y, out=x if name == "a" else y)


def test_a_failure_names_sizes_and_dtype(double, xy):
    double.fail_next("matmul", 13)
    with pytest.raises(RuntimeError, match=r"rows=6 cols=5 k=7 batch=1 of float32\."):
        run(SPEC, *xy)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_scale_factors_have_the_scale_type(double, dtype):
    """1/3 in fp64 is not 1/3 in fp32."""
    x, y = torch.eye(4, dtype=dtype), torch.eye(4, dtype=dtype)
    status, out = run(spec_of("m k, k n -> m n", (4, 4), (4, 4)), x, y, alpha=1 / 3)
    assert status == 0
    assert torch.equal(out, torch.eye(4, dtype=dtype) * torch.tensor(1 / 3, dtype=dtype))


@pytest.mark.parametrize("pad", [0, 1, 2, 4])
def test_a_loop_keeps_its_promise_of_alignment(double, pad):
    """Each turn starts a loop stride further on: the alignment promised is that of the worst turn."""
    spec = spec_of("b s h d, b t h d -> b h s t", (2, 4, 3, 5), (2, 6, 3, 5))
    x = torch.randn(2, 60 + pad)[:, :60].unflatten(1, (4, 3, 5))
    y = torch.randn(2, 90 + pad)[:, :90].unflatten(1, (6, 3, 5))
    status, out = run(spec, x, y)
    assert (status, double.calls()) == (0, 2)
    assert_right(spec, x, y, out)


@pytest.mark.parametrize(("major", "mib"), [(8, 4), (9, 32), (10, 32)])
def test_the_workspace_limit_follows_the_device(double_library, tmp_path, major, mib):
    """A fresh copy of the double is a library of its own, so the device is asked anew."""
    import shutil

    from tests.double.build import Double, real_library
    from thunder_gemm_ex.engines import cublaslt

    copy = Double(shutil.copy(double_library.path, tmp_path / "copy.so"))
    copy.reset()
    copy.lib.double_capability(major)
    with cublaslt.use_library(str(real_library()), str(copy.path)):
        copy.lib.double_want_workspace((mib << 20) + 1)
        assert run(SPEC, torch.randn(5, 7), torch.randn(7, 6))[0] == 1
        cublaslt.extension().cache_clear()
        copy.lib.double_want_workspace(mib << 20)
        assert run(SPEC, torch.randn(5, 7), torch.randn(7, 6))[0] == 0
        assert copy.last()["workspace"] == mib << 20


def test_a_handle_that_cannot_be_made_is_a_sentence_and_tried_again(double_library, tmp_path):
    import shutil

    from tests.double.build import Double, real_library
    from thunder_gemm_ex.engines import cublaslt

    copy = Double(shutil.copy(double_library.path, tmp_path / "copy.so"))
    copy.reset()
    with cublaslt.use_library(str(real_library()), str(copy.path)):
        copy.fail_next("create", 1)
        with pytest.raises(RuntimeError, match="create returned CUBLAS_STATUS_NOT_INITIALIZED"):
            run(SPEC, torch.randn(5, 7), torch.randn(7, 6))
        assert cublaslt.cache_stats()["size"] == 0
        for _ in range(3):
            assert run(SPEC, torch.randn(5, 7), torch.randn(7, 6))[0] == 0
        assert copy.calls("create") == 2


def test_explain_says_everything_and_computes_nothing(double, xy):
    out = torch.full((5, 6), torch.nan)
    assert bound(SPEC).explain(*xy, out) == {
        "declined": "",
        "layout": "NN",
        "first": "b",
        "rows": 6,
        "cols": 5,
        "k": 7,
        "batch": 1,
        "calls": 1,
        "pointers": False,
        "parts": 1,
        "cost": 1.0,
        "trans_a": False,
        "trans_b": False,
        "lda": 6,
        "ldb": 7,
        "ldc": 6,
        "ldd": 6,
        "batch_stride_a": 0,
        "batch_stride_b": 0,
        "batch_stride_c": 0,
        "batch_stride_d": 0,
        "epilogue": "DEFAULT",
        "workspace": 0,
        "algorithm": {"id": 0, "tile": 20, "stages": 11, "split_k": 2, "chosen": "heuristic"},
    }
    assert out.isnan().all()
    assert double.calls() == 0


def test_explain_needs_no_library_for_the_layout():
    """The real library computes on CUDA; of CPU tensors it still shows the layout, without a plan."""
    from tests.double.build import real_library
    from thunder_gemm_ex.engines import cublaslt

    with cublaslt.use_library(str(real_library())):
        found = bound(SPEC).explain(torch.randn(5, 7), torch.randn(7, 6), torch.empty(5, 6))
    assert (found["layout"], found["declined"]) == ("NN", "")
    assert "workspace" not in found

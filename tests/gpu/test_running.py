"""Streams, graphs, threads, devices, numerics and tuning on the device."""

import concurrent.futures

import pytest
import torch

import thunder_gemm_ex as gx
from tests.cublaslt.problems import assert_right, spec_of
from thunder_gemm_ex.engines import choose, cublaslt
from thunder_gemm_ex.engines.operation import Operation

DEVICE = "cuda"
SPEC = "m k, n k -> n m"


def product(x, w):
    return choose.run_gemm(x, w, SPEC)


@pytest.fixture
def xw():
    return torch.randn(256, 512, device=DEVICE), torch.randn(384, 512, device=DEVICE)


def test_work_waits_for_its_own_stream_alone(xw):
    side = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        torch.cuda._sleep(50_000_000)
        x = xw[0] + 1
        out = product(x, xw[1])
    assert not side.query()
    side.synchronize()
    assert_right(spec_of(SPEC, (256, 512), (384, 512)), x, xw[1], out)


def test_a_captured_graph_replays_with_new_values(xw):
    x, w = xw
    product(x, w)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = product(x, w)
    for _ in range(3):
        x.normal_()
        graph.replay()
        torch.cuda.synchronize()
        assert_right(spec_of(SPEC, (256, 512), (384, 512)), x, w, out)


def test_nothing_is_tuned_during_capture(xw):
    graph = torch.cuda.CUDAGraph()
    with pytest.raises(RuntimeError, match="a CUDA graph is being captured"), torch.cuda.graph(graph):
        gx.tune(product, *xw, progress=False)


def test_threads_on_streams_of_their_own(xw):
    want = product(*xw)

    def work(_):
        with torch.cuda.stream(torch.cuda.Stream()):
            out = product(*xw)
            torch.cuda.current_stream().synchronize()
        return torch.equal(out, want)

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(64)))


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="one device")
def test_the_tensors_device_is_used_and_the_current_one_stays(xw):
    x, w = (t.to("cuda:1") for t in xw)
    torch.cuda.set_device(0)
    out = product(x, w)
    assert (out.device.index, torch.cuda.current_device()) == (1, 0)
    assert_right(spec_of(SPEC, (256, 512), (384, 512)), x, w, out)


@pytest.mark.skipif(torch.cuda.device_count() < 2, reason="one device")
def test_a_device_that_is_current_no_longer_is_still_the_outputs(xw):
    product(*xw)
    with torch.cuda.device(1):
        out = product(*xw)
    assert out.device.index == 0
    assert_right(spec_of(SPEC, (256, 512), (384, 512)), *xw, out)


def test_the_workspace_is_nvidias_advice(xw):
    major = torch.cuda.get_device_capability()[0]
    op = Operation(spec_of("m k, n k -> m n", (256, 512), (384, 512)))
    plan = op.bound.explain(*xw, torch.empty(256, 384, device=DEVICE))
    assert plan["workspace"] <= (32 << 20 if major >= 9 else 4 << 20)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
def test_rows_have_the_same_bits_alone_and_together(dtype):
    x, w = (torch.randn(s, device=DEVICE).to(dtype) for s in ((512, 1024), (384, 1024)))

    def rows(m):
        return Operation(spec_of("m k, n k -> m n", (m, 1024), (384, 1024)), numerics="batch_invariant")(x[:m], w).out

    for m in (1, 7, 64, 300):
        assert torch.equal(rows(m), rows(512)[:m])


def test_tf32_is_followed(xw):
    saved = torch.backends.cuda.matmul.allow_tf32
    exact = (xw[1].double() @ xw[0].double().t()).float()
    errors = {}
    try:
        for on in (False, True):
            torch.backends.cuda.matmul.allow_tf32 = on
            errors[on] = float((product(*xw) - exact).abs().max())
    finally:
        torch.backends.cuda.matmul.allow_tf32 = saved
    if torch.cuda.get_device_capability() >= (8, 0):
        assert errors[True] > 10 * errors[False]


def test_tuning_finds_only_right_algorithms(xw, tmp_path, monkeypatch):
    monkeypatch.setenv("THUNDER_GEMM_EX_CACHE", str(tmp_path))
    report = gx.tune(product, *xw, progress=False)
    (row,) = report.rows
    assert not row.faults
    assert report.stored
    assert_right(spec_of(SPEC, (256, 512), (384, 512)), *xw, product(*xw))


def test_the_library_is_the_one_that_torch_has_loaded():
    assert cublaslt.status()["origin"] == "loaded by torch"

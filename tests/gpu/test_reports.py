"""Public reports that only a device shows; tests/reports has the others, and these as far as a CPU goes."""

import gc
import threading

import pytest
import torch

from tests.checks import decisions, jit
from thunder_gemm_ex.engines import choose

DEVICE = "cuda"


def randn(*shape, dtype=torch.half):
    return torch.randn(*shape, device=DEVICE, dtype=dtype)


@pytest.mark.parametrize("k", [1, 8])
def test_pytorch_25241_batches_past_65535(k):
    a, b = randn(65536, 8, k), randn(65536, k, 8)
    torch.testing.assert_close(jit(torch.bmm, gemm_claim="all")(a, b), torch.bmm(a, b), rtol=2e-2, atol=2e-2)


def test_pytorch_196431_a_product_of_k_1_past_two_to_the_31():
    if torch.cuda.mem_get_info()[0] < 24 << 30:
        pytest.skip("the product alone is 4 GiB, eager's another")
    a, b = randn(512, 8209, 1), randn(512, 1, 512)
    program = jit(torch.bmm)
    out = program(a, b)
    assert decisions(program) == ["multiply"]
    for batch in (0, 255, 511):
        assert torch.equal(out[batch], (a[batch].float() * b[batch].float()).half())


def test_pytorch_193402_a_graph_outlives_what_was_freed_around_it():
    """The thread that captured it, a sibling graph, and the workspace of larger products are gone when it is replayed."""
    x, w = randn(256, 512), randn(384, 512)
    found = {}

    def product():
        return choose.run_gemm(x, w, "m k, n k -> n m")

    def capture():
        for name in ("graph", "sibling"):
            found[name] = torch.cuda.CUDAGraph()
            with torch.cuda.graph(found[name]):
                found[f"{name}'s"] = product()

    product()
    thread = threading.Thread(target=capture)
    thread.start()
    thread.join()
    del found["sibling"], found["sibling's"]
    gc.collect()
    choose.run_gemm(randn(4096, 8192), randn(4096, 8192), "m k, n k -> n m")
    torch.cuda.empty_cache()
    for _ in range(3):
        x.normal_()
        found["graph"].replay()
        torch.cuda.synchronize()
        torch.testing.assert_close(found["graph's"], w @ x.t(), rtol=2e-2, atol=5e-2)


def test_thunder_2697_thunders_own_graph_transform_captures_a_program():
    from thunder.transforms.cudagraph import CUDAGraphTransform

    program = jit(lambda x, w: torch.tanh(x @ w.t()) * 2, transforms=[CUDAGraphTransform()])
    w = randn(384, 512)
    for _ in range(3):
        x = randn(256, 512)
        torch.testing.assert_close(program(x, w), torch.tanh(x @ w.t()) * 2, rtol=2e-2, atol=2e-2)

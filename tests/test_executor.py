"""The executor among others: ways in, options, fuel, errors that stay eager's, caches, modes of use."""

import concurrent.futures

import pytest
import thunder
import torch

import thunder_gemm_ex as gx
from tests.checks import assert_as_eager, backward_names, decisions, forward_names, jit, specs


def test_executors_puts_it_before_thunders_defaults():
    assert gx.executors() == [gx.gemm_ex, *thunder.get_default_executors()]


def test_it_is_found_by_name():
    assert thunder.get_executor("gemm_ex") is gx.gemm_ex
    jfn = thunder.jit(lambda x, w: x @ w.t(), executors=["gemm_ex"])
    jfn(torch.randn(3, 4), torch.randn(5, 4))
    assert forward_names(jfn) == ["gemm"]


def test_claim_all_claims_what_has_nothing_to_fold():
    x, w = torch.randn(3, 4), torch.randn(4, 5)
    assert decisions(assert_as_eager(torch.matmul, x, w)) == ["given back"]
    jfn = assert_as_eager(torch.matmul, x, w, gemm_claim="all")
    assert decisions(jfn) == ["claimed"]
    assert forward_names(jfn) == ["gemm"]


@pytest.mark.parametrize("grad", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize(
    ("fn", "shapes"),
    [
        (torch.matmul, [(3, 4), (4, 5)]),
        (torch.matmul, [(2, 3, 4), (4, 5)]),
        (torch.matmul, [(2, 3, 4), (2, 4, 5)]),
        (torch.matmul, [(6, 2, 3, 4), (2, 4, 5)]),
        (torch.matmul, [(4,), (4, 5)]),
        (torch.matmul, [(3, 4), (4,)]),
        (torch.matmul, [(4,), (4,)]),
        (torch.bmm, [(2, 3, 4), (2, 4, 5)]),
        (torch.nn.functional.linear, [(3, 4), (5, 4)]),
        (torch.nn.functional.linear, [(2, 3, 4), (5, 4), (5,)]),
        (torch.nn.functional.linear, [(4,), (5, 4), (5,)]),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
def test_every_claimed_operation_equals_eager(fn, shapes, dtype, grad):
    args = [torch.randn(s, dtype=torch.float64).to(dtype).requires_grad_(grad) for s in shapes]
    jfn = assert_as_eager(fn, *args, gemm_claim="all")
    assert decisions(jfn)[0] == "claimed"


@pytest.mark.parametrize(
    ("name", "value"),
    [("gemm_claim", "some"), ("gemm_small", 1), ("gemm_numerics", "fast"), ("gemm_epilogue", "yes")],
)
def test_an_unknown_option_value_is_refused_by_name(name, value):
    with pytest.raises(ValueError, match=rf"{name} must be one of .*, was {value!r}"):
        jit(torch.matmul, **{name: value})(torch.randn(3, 4), torch.randn(4, 5))


def test_fuel_limits_the_number_of_rewrites():
    from thunder.extend import FUEL_LEVEL

    def f(x, w, v):
        return x @ w.t() @ v.t()

    args = torch.randn(3, 4), torch.randn(5, 4), torch.randn(6, 5)
    try:
        for fuel, gemms in ((0, 0), (1, 1), (2, 2), (FUEL_LEVEL.UNLIMITED, 2)):
            gx.gemm_ex.set_fuel(fuel)
            assert forward_names(assert_as_eager(f, *args)).count("gemm") == gemms
    finally:
        gx.gemm_ex.set_fuel(FUEL_LEVEL.UNLIMITED)


def test_one_compiled_program_serves_every_stride():
    """Strides are no part of Thunder's cache key: the same program must be right for each of them."""
    jfn = jit(lambda x, w: x @ w.t())
    x, w = torch.randn(2, 6, 4), torch.randn(5, 4)
    variants = [
        (x, w),
        (x.transpose(0, 1).contiguous().transpose(0, 1), w),
        (x, w.t().contiguous().t()),
        (torch.randn(2, 12, 4)[:, ::2], torch.randn(10, 4)[::2]),
        (torch.randn(1, 6, 4).expand(2, 6, 4), w),
        (torch.randn(2, 6, 9)[..., 1:5], torch.randn(5, 9)[:, 3:7]),
    ]
    for a, b in variants:
        torch.testing.assert_close(jfn(a, b), a @ b.t())
    assert thunder.cache_misses(jfn) == 1


@pytest.mark.parametrize("grad", [False, True], ids=["inference", "training"])
def test_modules(grad):
    mlp = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(approximate="tanh"), torch.nn.Linear(16, 4))
    x = torch.randn(2, 3, 8, requires_grad=grad)
    jfn = thunder.jit(mlp, executors=gx.executors())
    torch.testing.assert_close(jfn(x), mlp(x))
    jfn(x).sum().backward()
    ours = [p.grad.clone() for p in mlp.parameters()]
    mlp.zero_grad()
    mlp(x).sum().backward()
    for g, p in zip(ours, mlp.parameters()):
        torch.testing.assert_close(g, p.grad)
    assert "gemm" in backward_names(jfn)


def test_autocast_gives_eagers_dtype():
    x, w = torch.randn(3, 4), torch.randn(5, 4)
    with torch.autocast("cpu", torch.bfloat16):
        out = jit(lambda x, w: x @ w.t())(x, w)
        assert out.dtype == (x @ w.t()).dtype == torch.bfloat16


def test_activation_checkpointing():
    def block(x, w):
        return torch.tanh(x @ w.t())

    def f(x, w):
        return torch.utils.checkpoint.checkpoint(block, x, w, use_reentrant=False)

    x, w = torch.randn(3, 4, requires_grad=True), torch.randn(5, 4, requires_grad=True)
    jfn = jit(f)
    ours = torch.autograd.grad(jfn(x, w).sum(), (x, w))
    eager = torch.autograd.grad(block(x, w).sum(), (x, w))
    for a, b in zip(ours, eager):
        torch.testing.assert_close(a, b)
    assert "gemm" in forward_names(jfn)


def test_in_place_updates_around_a_matmul():
    def f(x, w):
        y = x @ w.t()
        y.add_(1)
        return y.mul_(2)

    assert_as_eager(f, torch.randn(3, 4), torch.randn(5, 4))


def test_two_threads_compile_and_run():
    def work(i):
        jfn = jit(lambda x, w: x @ w.t())
        x, w = torch.randn(3, 4 + i), torch.randn(5, 4 + i)
        return torch.allclose(jfn(x, w), x @ w.t(), atol=1e-5)

    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        assert all(pool.map(work, range(8)))


def test_complex_matmuls_fold_their_views():
    x, w = torch.randn(3, 4, dtype=torch.complex64), torch.randn(5, 4, dtype=torch.complex64)
    jfn = jit(lambda x, w: x @ w.t())
    torch.testing.assert_close(jfn(x, w), x @ w.t())
    torch.testing.assert_close(jfn(x.conj(), w), x.conj() @ w.t())
    assert specs(jfn) == ["m k, n k -> m n"]


def test_negative_views_through_a_compiled_program():
    imag = torch.randn(3, 4, dtype=torch.complex64).conj().imag
    w = torch.randn(5, 4)
    torch.testing.assert_close(jit(lambda x, w: x @ w.t())(imag, w), imag @ w.t())


def test_empty_sizes():
    for shape in ((0, 4), (3, 0)):
        assert_as_eager(lambda x, w: x @ w.t(), torch.randn(shape), torch.randn(5, shape[1]))

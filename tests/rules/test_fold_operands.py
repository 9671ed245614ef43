"""Trace in, trace out: the views above an operand fold into the matmul, forward and backward; the others stay."""

import pytest
import torch

from tests.checks import MATMULS, VIEWS, all_names, assert_as_eager, backward_names, forward_names, specs

# How a user may write the transpose of a weight stored [n, k].
TRANSPOSES = {
    "t": lambda w: w.t(),
    "T": lambda w: w.T,
    "mT": lambda w: w.mT,
    "transpose": lambda w: w.transpose(0, 1),
    "transpose negative": lambda w: w.transpose(-1, -2),
    "permute": lambda w: w.permute(1, 0),
    "torch.t": lambda w: torch.t(w),
    "torch.transpose": lambda w: torch.transpose(w, 1, 0),
    "torch.permute": lambda w: torch.permute(w, (1, 0)),
    "movedim": lambda w: torch.movedim(w, 0, 1),
    "thrice": lambda w: w.t().t().t(),
}
# Views that give [k, n] = [12, 5] from something stored otherwise.
STORED = {
    "flatten": ((3, 4, 5), lambda w: w.flatten(0, 1)),
    "reshape": ((3, 4, 5), lambda w: w.reshape(12, 5)),
    "view": ((12, 5, 1), lambda w: w.view(12, 5)),
    "split": ((60,), lambda w: w.reshape(12, 5)),
    "squeeze": ((1, 12, 5), lambda w: w.squeeze(0)),
    "unsqueeze and squeeze": ((12, 5), lambda w: w.unsqueeze(0).squeeze(0)),
    "reshape then t": ((5, 3, 4), lambda w: w.reshape(5, 12).t()),
}
BATCHED = {
    "transpose": lambda w: w.transpose(1, 2),
    "mT": lambda w: w.mT,
    "permute": lambda w: w.permute(0, 2, 1),
    "transpose negative": lambda w: w.transpose(-2, -1),
}


def only_gemms(jfn, forward, backward):
    """The traces hold that many gemms, no other matmul and no view."""
    assert forward_names(jfn).count("gemm") == forward
    assert backward_names(jfn).count("gemm") == backward
    assert not set(all_names(jfn)) & ((MATMULS | VIEWS) - {"gemm"})


@pytest.mark.parametrize("grad", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("x_shape", [(6, 12), (2, 3, 12), (2, 3, 4, 12)], ids=str)
@pytest.mark.parametrize("view", TRANSPOSES.values(), ids=TRANSPOSES)
def test_a_transposed_weight_folds(view, x_shape, grad):
    x = torch.randn(x_shape, requires_grad=grad)
    w = torch.randn(5, 12, requires_grad=grad)
    jfn = assert_as_eager(lambda x, w: x @ view(w), x, w)
    only_gemms(jfn, 1, 2 if grad else 0)
    assert specs(jfn)[0].split(", ")[1].startswith("n k ->")


@pytest.mark.parametrize("grad", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize(("shape", "view"), STORED.values(), ids=STORED)
def test_a_reshaped_weight_folds(shape, view, grad):
    x = torch.randn(6, 12, requires_grad=grad)
    w = torch.randn(shape, requires_grad=grad)
    jfn = assert_as_eager(lambda x, w: x @ view(w), x, w)
    assert forward_names(jfn) == ["gemm"]
    assert backward_names(jfn).count("gemm") == (2 if grad else 0)


@pytest.mark.parametrize("grad", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("view", TRANSPOSES.values(), ids=TRANSPOSES)
def test_a_transposed_first_operand_folds(view, grad):
    x = torch.randn(12, 6, requires_grad=grad)
    w = torch.randn(12, 5, requires_grad=grad)
    jfn = assert_as_eager(lambda x, w: view(x) @ w, x, w)
    only_gemms(jfn, 1, 2 if grad else 0)
    assert specs(jfn)[0] == "k m, k n -> m n"


@pytest.mark.parametrize("grad", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("side", ["a", "b", "both"])
@pytest.mark.parametrize("call", [torch.bmm, torch.matmul, lambda a, b: a @ b], ids=["bmm", "matmul", "@"])
@pytest.mark.parametrize("view", BATCHED.values(), ids=BATCHED)
def test_batched_operands_fold(view, call, side, grad):
    a = torch.randn((2, 7, 3) if side in ("a", "both") else (2, 3, 7), requires_grad=grad)
    b = torch.randn((2, 5, 7) if side in ("b", "both") else (2, 7, 5), requires_grad=grad)

    def f(a, b):
        return call(view(a) if side in ("a", "both") else a, view(b) if side in ("b", "both") else b)

    only_gemms(assert_as_eager(f, a, b), 1, 2 if grad else 0)


@pytest.mark.parametrize("grad", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("bias", [False, True])
def test_a_linear_with_a_transposed_weight_keeps_its_bias(bias, grad):
    x, w = torch.randn(2, 3, 12, requires_grad=grad), torch.randn(12, 5, requires_grad=grad)
    b = torch.randn(5, requires_grad=grad) if bias else None
    jfn = assert_as_eager(lambda x, w, b: torch.nn.functional.linear(x, w.t(), b), x, w, b)
    assert forward_names(jfn) == ["gemm"]
    assert specs(jfn)[0] == ("a b k, k n, n -> a b n" if bias else "a b k, k n -> a b n")


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (0, 2, 1, 3), (2, 0, 1, 3), (1, 2, 0, 3), (2, 1, 0, 3), (1, 0, 2, 3)])
@pytest.mark.parametrize("grad", [False, True], ids=["inference", "training"])
def test_permuted_attention_operands_fold(order, grad):
    """q and k permuted to [b, h, s, d] from any storage order of b, h and s."""
    sizes = (2, 3, 4, 5)
    inverse = [order.index(i) for i in range(4)]
    q = torch.randn([sizes[i] for i in order], requires_grad=grad)
    k = torch.randn([sizes[i] for i in order], requires_grad=grad)
    jfn = assert_as_eager(lambda q, k: q.permute(inverse) @ k.permute(inverse).transpose(-1, -2), q, k)
    assert forward_names(jfn) == ["gemm"]
    assert backward_names(jfn) == (["gemm"] * 2 if grad else [])


def test_grouped_query_attention_refines_heads_instead_of_expanding():
    def f(q, k):
        b, h, t, d = k.shape
        k = k[:, :, None].expand(b, h, 3, t, d).reshape(b, h * 3, t, d)
        return q @ k.transpose(-1, -2)

    jfn = assert_as_eager(f, torch.randn(2, 6, 4, 5), torch.randn(2, 2, 7, 5))
    assert forward_names(jfn).count("gemm") == 1
    assert "expand" not in forward_names(jfn)


# Does not -------------------------------------------------------------------------------------------------------------


def test_a_view_with_another_user_stays_for_it_and_the_matmul_reads_the_base():
    jfn = assert_as_eager(lambda x, w: (x @ w.t(), w.t() + 1), torch.randn(3, 4), torch.randn(5, 4))
    assert forward_names(jfn).count("gemm") == 1
    assert len(set(forward_names(jfn)) & VIEWS) == 1


def test_a_view_that_is_also_returned_is_still_a_view():
    def f(x, w):
        t = w.t()
        return x @ t, t

    w = torch.randn(5, 4)
    jfn = assert_as_eager(f, torch.randn(3, 4), w)
    assert forward_names(jfn).count("gemm") == 1
    assert jfn(torch.randn(3, 4), w)[1].data_ptr() == w.data_ptr()


def test_an_uneven_reshape_does_not_fold():
    jfn = assert_as_eager(lambda x, w: x @ w.reshape(6, 4), torch.randn(3, 6), torch.randn(4, 6))
    assert "gemm" not in forward_names(jfn)


def test_a_slice_stays_a_view_and_the_transpose_above_it_folds():
    jfn = assert_as_eager(lambda x, w: x @ w[1:4].t(), torch.randn(3, 4), torch.randn(5, 4))
    assert forward_names(jfn).count("gemm") == 1
    assert not {"permute", "transpose", "t"} & set(forward_names(jfn))


def test_a_cast_between_view_and_matmul_is_kept():
    jfn = assert_as_eager(lambda x, w: x @ w.t().to(x.dtype), torch.randn(3, 4), torch.randn(5, 4).bfloat16())
    assert len(set(forward_names(jfn)) & {"to", "convert_element_type"}) == 1


def test_a_base_that_is_written_to_does_not_fold():
    """The reshape copied x before the update; reading x itself later would see the new values."""

    def f(x, w):
        copied = x.transpose(0, 1).reshape(12)
        x.add_(1)
        return copied.reshape(3, 4) @ w

    args = torch.randn(3, 4), torch.randn(4, 5)
    expected = f(*(a.clone() for a in args))
    from tests.checks import jit

    torch.testing.assert_close(jit(f)(*(a.clone() for a in args)), expected)


def test_a_broadcast_over_k_does_not_fold():
    jfn = assert_as_eager(lambda x, w: x.expand(3, 4) @ w, torch.randn(3, 1), torch.randn(4, 5))
    assert "gemm" not in forward_names(jfn)

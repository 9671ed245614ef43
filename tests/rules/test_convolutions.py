"""Convolutions whose windows are one element, or the whole input, are contractions; all others stay convolutions."""

import functools

import pytest

from tests.rules.together import Line, outcomes

XW = {"x": (2, 3, 4, 6), "w": (5, 3, 1, 1)}
HEADS = ".flatten(2).transpose(1, 2)"
DOES = {
    "conv1d": Line("F.conv1d(x, w).transpose(1, 2) @ v", {"x": (2, 3, 8), "w": (5, 3, 1), "v": (5, 2)}),
    "conv2d": Line(f"F.conv2d(x, w){HEADS} @ v", XW | {"v": (5, 2)}),
    "conv3d": Line(f"F.conv3d(x, w){HEADS} @ v", {"x": (2, 3, 2, 4, 3), "w": (5, 3, 1, 1, 1), "v": (5, 2)}),
    "with a bias": Line(f"F.conv2d(x, w, b){HEADS} @ v", XW | {"b": (5,), "v": (5, 2)}),
    "padding of none": Line(f'F.conv2d(x, w, padding="valid"){HEADS} @ v', XW | {"v": (5, 2)}),
    "padding that is none": Line(f'F.conv2d(x, w, padding="same"){HEADS} @ v', XW | {"v": (5, 2)}),
    "a dilation of one element": Line(f"F.conv2d(x, w, dilation=2){HEADS} @ v", XW | {"v": (5, 2)}),
    "a window that is the input": Line(
        f"F.conv2d(x, w){HEADS} @ v", {"x": (2, 3, 4, 6), "w": (5, 3, 4, 6), "v": (5, 2)}
    ),
    "a window that is the input in one dimension": Line(
        f"F.conv2d(x, w){HEADS} @ v", {"x": (2, 3, 4, 6), "w": (5, 3, 4, 1), "v": (5, 2)}
    ),
    "a weight seen through a view": Line(
        f"F.conv2d(x, w[:, :, None, None]){HEADS} @ v", XW | {"w": (5, 3), "v": (5, 2)}
    ),
}
DOES_NOT = {
    "a larger window": Line("F.conv2d(x, w)", XW | {"w": (5, 3, 2, 2)}),
    "a stride": Line("F.conv2d(x, w, stride=2)", XW),
    "a padding": Line("F.conv2d(x, w, padding=1)", XW),
    "groups": Line("F.conv2d(x, w, groups=3)", {"x": (2, 3, 4, 6), "w": (6, 1, 1, 1)}),
    "a window that is the input, padded": Line("F.conv2d(x, w, padding=1)", XW | {"w": (5, 3, 4, 6)}),
    "a padding to the same size": Line('F.conv1d(x, w, padding="same")', {"x": (2, 3, 5), "w": (4, 3, 5)}),
}


@functools.lru_cache(None)
def found(grad):
    """What became of every line."""
    return outcomes(DOES | DOES_NOT, grad=grad)


@pytest.mark.parametrize("grad", [False, True], ids=["inference", "training"])
@pytest.mark.parametrize("what", DOES)
def test_it_is_a_contraction(what, grad):
    outcome = found(grad)[what]
    rows = [row for row in outcome.rows if row.op == "convolution" and not row.backward]
    assert [row.decision for row in rows] == ["claimed"]
    assert "convolution" not in " ".join(x for x in outcome.names if not grad)


@pytest.mark.parametrize("what", DOES_NOT)
def test_it_stays_a_convolution(what):
    assert not found(False)[what].rows


def test_a_lone_convolution_is_given_back_with_a_row():
    (outcome,) = outcomes({"": Line("F.conv2d(x, w)", XW)}, grad=False).values()
    assert [(row.decision, row.reason) for row in outcome.rows] == [
        ("given back", "nothing to fold: it stays a convolution")
    ]


def test_both_gradients_of_a_convolution_are_gemms():
    (outcome,) = outcomes({"": Line("F.conv2d(x, w)", XW)}, grad=True).values()
    assert [row.decision for row in outcome.rows if row.backward] == ["claimed", "claimed"]
    assert outcome.names.count("gemm") == 2
    assert not {"flip", "torch_pad_prim_impl", "permute", "reshape"} & set(outcome.names)

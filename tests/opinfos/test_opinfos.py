"""The samples of PyTorch's and Thunder's OpInfos give eager's values, gradients and errors."""

import pytest
import torch

import thunder_gemm_ex as gx
from tests.opinfos.comparing import Wrong, check, check_error, compare, compiled, not_our_fault
from tests.opinfos.sources import DTYPES, FURTHER, SOURCES

# Of each operation, dtype and direction, evenly spread; `python -m tests.opinfos` takes all.
SAMPLES = 3


def spread(items, count):
    """At most `count` of the items, the first and the last among them."""
    items = list(items)
    if len(items) <= count:
        return items
    return [items[i * (len(items) - 1) // (count - 1)] for i in range(count)]


def check_some(source, dtype, grad):
    samples = spread(source.samples(dtype), SAMPLES)
    refused = [check(source, sample, dtype, grad) for sample in samples]
    if samples and all(refused):
        pytest.skip(f"Thunder does no better without this package: {refused[0]}")


def cases(dtypes):
    return [pytest.param(s, d, id=f"{s.name} {str(d)[6:]}") for s in SOURCES for d in dtypes if d in s.dtypes]


@pytest.mark.parametrize(("source", "dtype"), cases(DTYPES + FURTHER))
def test_forward(source, dtype):
    check_some(source, dtype, grad=False)


@pytest.mark.parametrize(("source", "dtype"), cases(DTYPES))
def test_gradient(source, dtype):
    check_some(source, dtype, grad=True)


@pytest.mark.parametrize("source", [s for s in SOURCES if list(s.errors())], ids=lambda s: s.name)
def test_errors(source):
    for sample in source.errors():
        check_error(source, sample)


# Does not -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "wrong",
    [lambda x: x + 1e-3, lambda x: x.double(), lambda x: torch.full_like(x, torch.nan), lambda x: x[:1]],
    ids=["value", "dtype", "NaN", "shape"],
)
def test_the_comparison_notices(wrong):
    x = torch.randn(4, 4)
    compare(x, x, x.double(), "itself")
    with pytest.raises(Wrong):
        compare(wrong(x), x, x.double(), "another")


def test_samples_are_spread_over_all():
    assert spread(range(10), 3) == [0, 4, 9]
    assert spread(range(2), 3) == [0, 1]


@pytest.mark.parametrize(("window", "ours"), [(1, True), (2, False)], ids=["contraction", "left to torch"])
def test_a_convolution_has_an_excuse_only_where_it_is_torchs(window, ours):
    jfn = compiled(torch.nn.functional.conv2d, gx.executors())
    x, weight = torch.randn(2, 3, 5, 5, requires_grad=True), torch.randn(4, 3, window, window, requires_grad=True)
    jfn(x, weight).sum().backward()
    assert (not_our_fault(jfn, ((x, weight), {})) is None) == ours

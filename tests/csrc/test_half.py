"""csrc/half.h against torch: every float16, and what lies between two of them."""

import ctypes
import subprocess
from pathlib import Path

import pytest
import torch

CSRC = Path(__file__).parents[2] / "csrc"
SOURCE = """
#include "half.h"
extern "C" void convert(const double* from, uint16_t* to, int64_t count) {
  for (int64_t i = 0; i < count; ++i) to[i] = lt::half_bits(from[i]);
}
"""


@pytest.fixture(scope="module")
def convert(tmp_path_factory):
    """float64 tensor -> the bits, as the header has them."""
    target = tmp_path_factory.mktemp("half") / "libhalf.so"
    command = ["g++", "-std=c++17", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-I", CSRC, "-x", "c++", "-"]
    subprocess.run([*command, "-o", target], input=SOURCE, text=True, check=True)
    library = ctypes.CDLL(str(target))

    def converted(values):
        out = torch.empty(values.shape, dtype=torch.int16)
        library.convert(
            ctypes.c_void_p(values.data_ptr()), ctypes.c_void_p(out.data_ptr()), ctypes.c_int64(len(values))
        )
        return out

    return converted


EVERY = torch.arange(-(2**15), 2**15, dtype=torch.int16).view(torch.float16)
NUMBERS = EVERY[~EVERY.isnan()]


def test_every_float16_is_itself(convert):
    assert torch.equal(convert(NUMBERS.double()), NUMBERS.view(torch.int16))


@pytest.mark.parametrize("share", [0.25, 0.5, 0.75])
def test_what_lies_between_two_goes_where_torch_has_it(convert, share):
    low, high = NUMBERS[NUMBERS.isfinite()].double().unique().unfold(0, 2, 1).unbind(1)
    values = low + share * (high - low)
    # By way of float32, which holds these values exactly: torch rounds float64 twice.
    assert torch.equal(values.float().double(), values)
    assert torch.equal(convert(values), values.float().half().view(torch.int16))


def test_float64_is_rounded_once(convert):
    """Just above halfway between 1 and its successor: by way of float32 it would be a tie, and become 1."""
    values = torch.tensor([1 + 2**-11 + 2**-40], dtype=torch.float64)
    assert convert(values).view(torch.float16).item() == 1 + 2**-10


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (65519.999, 65504),
        (65520.0, float("inf")),
        (1e300, float("inf")),
        (2.0**-25, 0),
        (5e-324, 0),
        (2**-24.9, 2**-24),
    ],
)
def test_at_the_ends(convert, value, expected):
    for sign in (1, -1):
        assert convert(torch.tensor([sign * value], dtype=torch.float64)).view(torch.float16).item() == sign * expected


def test_nan_stays_nan(convert):
    assert convert(torch.tensor([float("nan")], dtype=torch.float64)).view(torch.float16).isnan().all()

"""Layout copies: none around the products of these programs, and what the counter counts."""

import pytest
import thunder
import torch

import thunder_gemm_ex as gx
from tests.checks import jit
from tests.programs.catalogue import PROGRAMS, executors
from tests.programs.measure import copies_and_peak, run, saved_bytes
from tests.programs.traces import unexplained_views


def copies(name, ours=True):
    """Layout copies of one forward and backward of a program."""
    made = PROGRAMS[name]
    program, inputs = thunder.jit(made.make(), executors=executors(ours)), made.inputs()
    run(program, inputs)
    return copies_and_peak(program, inputs)[0]


@pytest.mark.parametrize("name", ["lora_linear", "moe_bmm", "mlp_gelu", "attention_bshd"])
def test_nothing_is_copied(name):
    assert copies(name) == 0


@pytest.mark.parametrize("name", ["lora_linear", "moe_bmm", "attention_bshd"])
def test_without_us_something_is(name):
    assert copies(name, ours=False) > 0


def test_products_too_small_for_a_loop_copy():
    """A loop of so small calls takes 1.4 to 2.2 times as long as copies do: engines/loop.py."""
    assert 0 < copies("attention_bshd-tiny") <= copies("attention_bshd-tiny", ours=False)


@pytest.mark.parametrize(
    ("fn", "count"),
    [
        (lambda x: x.t().contiguous(), 1),
        (lambda x: x.t().reshape(-1), 1),
        (lambda x: x.clone(), 1),
        (lambda x: torch.matmul(torch.ones(2, 1, 3, 3).expand(2, 2, 3, 3), x), 1),
        (lambda x: x.t(), 0),
        (lambda x: x.reshape(-1), 0),
        (lambda x: x.double(), 0),
        (lambda x: torch.addmm(x, x, torch.ones(4, 4)), 0),
        (lambda x: x.sum().clone(), 0),
    ],
)
def test_what_counts_as_a_layout_copy(fn, count):
    assert copies_and_peak(fn, (torch.randn(3, 4),))[0] == count


def test_the_peak_is_of_what_lives_at_once():
    def f(x):
        y = x.neg()  # 4000 bytes
        z = y.neg()  # 8000 with y
        del y
        return z.neg()  # 8000 with z

    peak = copies_and_peak(f, (torch.randn(1000),))[1]
    assert peak == 8000


def test_saved_storages_are_counted_once():
    x = torch.randn(10, 10, requires_grad=True)
    assert saved_bytes(lambda x: (x * x, x.t() * x), (x,)) == 400


def test_a_view_without_a_reason_is_found():
    gx.gemm_ex.set_fuel(0)
    try:
        jfn = jit(lambda x, w: x @ w.t(), gemm_claim="all")
        jfn(torch.randn(3, 4), torch.randn(5, 4))
    finally:
        gx.gemm_ex.set_fuel(thunder.extend.FUEL_LEVEL.UNLIMITED)
    (sentence,) = unexplained_views(jfn)
    assert sentence.startswith("permute above b stays")

"""Autocast where programs compile in several threads."""

import subprocess
import sys
import threading

import torch
from thunder.core.compile_data import get_compile_data
from thunder.core.prims import PrimIDs
from thunder.transforms.autocast import is_autocast_enabled

from tests.checks import jit
from tests.test_autocast import around
from thunder_gemm_ex import gradients


def test_compiling_in_two_threads_leaves_autocast_on(monkeypatch):
    """Thunder has one flag for all threads: of two that overlap, the later one would put back what the first had set."""
    events = {name: threading.Event() for name in ("first inside", "second inside", "first outside")}
    order = threading.local()

    def meet(thread, says, awaits):
        if order.name == thread and says not in order.said:
            order.said.add(says)
            events[says].set()
            assert events[awaits].wait(60)

    rule = gradients.RULES[PrimIDs.MATMUL].__wrapped__

    def inside(*args):
        meet("first", "first inside", "second inside")
        meet("second", "second inside", "first outside")
        return rule(*args)

    resting = gradients._as_recorded(inside)

    def outside(*args):
        if order.name == "second":
            assert events["first inside"].wait(60)
        out = resting(*args)
        if order.name == "first":
            events["first outside"].set()
        return out

    monkeypatch.setitem(gradients.RULES, PrimIDs.MATMUL, outside)
    x = torch.randn(4, 4, requires_grad=True)
    gradient_of = {}

    def train(name):
        order.name, order.said = name, set()
        jfn = around(jit(lambda x: torch.matmul(x, x).float(), gemm_claim="all"), torch.bfloat16)
        gradient_of[name] = torch.autograd.grad(jfn(x).sum(), x)[0]

    threads = [threading.Thread(target=train, args=[name]) for name in ("first", "second")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert torch.equal(gradient_of["first"], gradient_of["second"])
    assert is_autocast_enabled()
    assert around(jit(torch.mm), torch.bfloat16)(x.detach(), x.detach()).dtype == torch.bfloat16


def test_what_rests_leaves_the_regions_to_the_other_threads_of_the_same_program(monkeypatch):
    """All threads that compile one function share its compile data: nothing in it changes while one of them rests."""
    rule, seen = gradients.RULES[PrimIDs.MATMUL].__wrapped__, []

    def inside(*args):
        seen.append((list(shared.stack), list(get_compile_data().autocast_stack.stack)))
        return rule(*args)

    monkeypatch.setitem(gradients.RULES, PrimIDs.MATMUL, gradients._as_recorded(inside))
    x = torch.randn(4, 4, requires_grad=True)
    jfn = jit(lambda x: torch.matmul(x, x), gemm_claim="all")
    shared = jfn._lc_cd.autocast_stack
    around(jfn, torch.bfloat16)(x)
    assert [([device for device, *_ in regions], own) for regions, own in seen] == [(["cpu"], [])]


def test_a_region_in_a_thread_that_ends_does_no_harm_to_later_ones():
    """Torch's fake tensors leave a guard of CUDA's to the first thread that uses them, and crash when it is gone."""
    program = """
import threading, torch
from tests.checks import jit

def region():
    with torch.autocast("cpu", torch.bfloat16):
        print(jit(torch.mm)(torch.ones(2, 2), torch.ones(2, 2)).dtype)

thread = threading.Thread(target=region)
thread.start()
thread.join()
region()
"""
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], capture_output=True, text=True)
    assert done.stdout.split() == ["torch.bfloat16"] * 2, done.stderr

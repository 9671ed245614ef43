"""thunder.distributed around the executor, on two gloo processes: a single process's gradients, and what is gathered.

Thunder 0.2.6 runs `ddp` and `fsdp` on gloo, and its tensor parallel transforms too once they leave the weights on the CPU
(`column_parallel` and `row_parallel` move them to CUDA). It records no buckets in a joint trace: every bucketing is run.
"""

import pytest
import torch

from tests.checks import VIEWS, assert_close_to_float64
from tests.transforms import collectives, processes, sharded

SHARDED = [case for case in sharded.CASES if case[0].startswith("zero") and case[2]]  # with us
KINDS = ("ddp", "zero2", "zero3", "zero3 from meta", "torch", "ddp plugin", "fsdp plugin")
NOT_SYNCHRONISED = [case for case in sharded.CASES if case[0] == "zero2" and case[3]]
DATA_PARALLEL = [case for case in sharded.CASES if case[0] in KINDS and case not in NOT_SYNCHRONISED]
TENSOR_PARALLEL = [case for case in sharded.CASES if case[0] in ("column", "row")]


def name(case):
    kind, bucket, ours, accumulate = case
    words = [kind, bucket.rpartition(".")[2].lower(), "" if ours else "without us", "no_sync" if accumulate else ""]
    return " ".join(word for word in words if word)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """What both ranks found, by case."""
    ranks = processes.run(sharded.work, sharded.CASES, tmp_path_factory.mktemp("ranks"))
    failed = {name(case): rank[case]["error"] for rank in ranks for case in sharded.CASES if "error" in rank[case]}
    assert set(failed) == {"jit of torch", "jit of torch without us"}, failed
    return {case: [rank[case] for rank in ranks] for case in sharded.CASES}


@pytest.fixture(scope="module")
def single():
    """The gradients of one process, by dtype and by whether two steps accumulate."""
    return {
        (dtype, accumulate): sharded.reference(dtype, (1, 0) if accumulate else (0,))
        for dtype in (torch.float32, torch.float64)
        for accumulate in (False, True)
    }


@pytest.mark.parametrize("case", DATA_PARALLEL, ids=name)
def test_gradients_are_those_of_one_process(found, single, case):
    gradients = sharded.full([rank["gradients"] for rank in found[case]])
    eager, exact = (single[dtype, case[3]] for dtype in (torch.float32, torch.float64))
    for parameter, gradient in gradients.items():
        assert_close_to_float64(gradient, eager[parameter], exact[parameter], parameter)


@pytest.mark.parametrize("case", DATA_PARALLEL, ids=name)
def test_every_rank_computes_its_own_rows(found, case):
    for rank, here in enumerate(found[case]):
        eager, exact = (
            sharded.Model().to(dtype)(sharded.inputs(rank, dtype)) for dtype in (torch.float32, torch.float64)
        )
        assert_close_to_float64(here["out"], eager, exact, f"rank {rank}")


@pytest.mark.parametrize("case", [case for case in DATA_PARALLEL if case[2]], ids=name)
def test_the_executor_takes_part_forward_and_backward(found, case):
    for here in found[case]:
        assert {"a b k, n k, a b n -> a b n", "a b k, k n -> a b n"} <= set(here["specs"])


@pytest.mark.parametrize("case", SHARDED, ids=name)
def test_every_weight_is_gathered_once(found, case):
    """A tied weight too, and none again in the backward, as Thunder's own trace has it."""
    for here in found[case]:
        assert here["gathers"] == [len(here["gradients"]), 0]


@pytest.mark.parametrize("case", SHARDED, ids=name)
def test_views_of_gathered_weights_fold(found, case):
    alone = found[case[0].split()[0], case[1].rpartition(".")[0] + ".NONE", False, False]
    for here, without in zip(found[case], alone):
        assert set(without["reads gathered"]) & (VIEWS | {"torch_prims_reshape_impl"})
        # The slice leaves out what makes a weight's first side even: it is a view with strides that the call reads.
        assert set(here["reads gathered"]) == {"gemm", "linear", "torch_slice_prim_impl"}


@pytest.mark.parametrize("case", SHARDED, ids=name)
def test_the_whole_state_comes_back(found, case):
    for here in found[case]:
        state = {key.lstrip("."): value for key, value in here["state"].items()}
        for key, value in sharded.Model().state_dict().items():
            # A tied weight is there under its first name.
            assert torch.equal(state["up.weight" if key == "tied.weight" else key], value)


@pytest.mark.parametrize("kind", ["ddp", "zero2", "zero3"])
def test_the_backward_keeps_no_more_than_without_us(found, kind):
    bucket = str(sharded.BUCKETS[kind][0])
    for here, without in zip(found[kind, bucket, True, False], found[kind, bucket, False, False]):
        assert here["saved"] <= without["saved"]


def test_without_synchronisation_gradients_of_both_steps_add_up(found):
    case = ("ddp", "25.0", True, True)
    assert not any("reduce" in operation for here in found[case] for operation in here["operations"])
    assert all("torch_all_reduce_prim_impl" in here["operations"] for here in found[(*case[:3], False)])


@pytest.mark.parametrize("case", TENSOR_PARALLEL, ids=name)
def test_tensor_parallel_linears(found, case):
    """Values, the input's gradient and the weights' equal those of one process that has all rows and columns."""
    exact, eager = (_two_linears(dtype) for dtype in (torch.float64, torch.float32))
    for rank, here in enumerate(found[case]):
        assert_close_to_float64(here["out"], eager["out"], exact["out"], "output")
        assert_close_to_float64(here["input gradient"], eager["x"], exact["x"], "input")
        for parameter, gradient in here["gradients"].items():
            parts = [_part(x[parameter], gradient.shape, rank) for x in (eager, exact)]
            assert_close_to_float64(gradient, *parts, parameter)
    if case[2]:
        assert {"b a k, n k, n -> a b n", "(k j) m, k j n -> m n"} <= set(found[case][0]["specs"])


def _two_linears(dtype):
    model, x = sharded.TwoLinears().to(dtype), sharded.inputs(0, dtype).requires_grad_()
    out = model(x)
    sharded.loss(out).backward()
    return {"out": out.detach(), "x": x.grad} | {n: p.grad for n, p in model.named_parameters()}


def _part(whole, shape, rank):
    """The rank's part of a weight that is split along the side in which it is smaller."""
    for dim, (size, of) in enumerate(zip(shape, whole.shape)):
        if size != of:
            return whole.narrow(dim, rank * size, size)
    return whole


@pytest.mark.parametrize("case", NOT_SYNCHRONISED, ids=name)
def test_thunder_drops_the_gradients_of_fsdp_without_synchronisation(found, case):
    """With us and without: its joint trace does not stash them, though `no_sync` goes looking for them."""
    for here in found[case]:
        assert list(here["gradients"].values()) == [None] * len(here["gradients"])


@pytest.mark.parametrize("ours", [True, False], ids=["with us", "without us"])
def test_thunder_refuses_a_module_that_torch_has_wrapped(found, ours):
    for here in found["jit of torch", "", ours, False]:
        assert "jitting DistributedDataParallel modules is not supported" in here["error"]


@pytest.mark.parametrize("name", collectives.PROGRAMS)
def test_collectives_between_matmuls(found, name):
    """Nothing is read after the sum that eager reads before it, nor the other way round."""
    for here in found[name, "", True, False]:
        for each in zip(*here["results"], strict=True):
            assert_close_to_float64(*each)
        assert len(here["specs"]) == collectives.PROGRAMS[name][1]

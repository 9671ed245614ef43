"""What becomes an epilogue in a trace for CUDA and what does not; `test_values.py` computes the same over the double."""

import pytest
import thunder
import torch

import thunder_gemm_ex as gx
from tests.checks import assert_as_eager, jit
from tests.epilogues.programs import ACTIVATIONS, PLAIN, F, gelu, gemms, inputs, mlp, on_device, shapes
from tests.lab import fake, final_traces, names, needs_nvfuser

FUSERS = [pytest.param(None, marks=needs_nvfuser, id="nvfuser"), pytest.param(PLAIN, id="no fuser")]
POINTWISE = {"relu", "gelu", "sum", "relu_backward_kernel", "gelu_backward_kernel", "nvFusion0", "nvFusion1", "add"}


def traces(program, make, executors=PLAIN, **options):
    return final_traces(program, make, executors=executors or gx.executors(), **options)


# Does -----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("executors", FUSERS)
@pytest.mark.parametrize("kind", ACTIVATIONS)
def test_inference_ends_in_the_activation(kind, executors):
    forward, _ = traces(mlp(ACTIVATIONS[kind]), on_device(*shapes(), grad=False), executors)
    assert gemms(forward)[0] == f'gemm(x, w1, "a b k, n k, n -> a b n", b1, epilogue="{kind}")'
    assert not POINTWISE & set(names(forward))


@pytest.mark.parametrize("executors", FUSERS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("kind", ACTIVATIONS)
def test_training_writes_the_aux_that_its_backward_reads(kind, dtype, executors):
    forward, backward = traces(mlp(ACTIVATIONS[kind]), on_device(*shapes(), dtype=dtype), executors)
    assert gemms(forward)[0] == f'gemm(x, w1, "a b k, n k, n -> a b n", b1, epilogue="{kind}_aux")'
    first = next(line.text for line in backward if line.name == "gemm")
    assert f'"a b k, k n, n -> a b n", epilogue="d{kind}", aux=' in first
    # The aux is the forward's, the bias gradient comes with it, and nothing pointwise is left.
    aux = forward[0].text.partition(" = ")[0].split(", ")[1]
    assert f"aux={aux})" in first
    assert first.partition(" = ")[0].count(",") == 1
    assert names(backward) == ["gemm"] * 4


def test_the_mask_is_a_bit_a_value():
    forward, _ = traces(mlp(F.relu), on_device(*shapes(hidden=200)))
    assert "ui8[4, 16, 32]" in forward[0].text  # 200 bits in two rows of 128: 32 bytes


@pytest.mark.parametrize("executors", FUSERS)
def test_a_bias_gradient_comes_with_the_weights(executors):
    program = lambda x, w, b: F.linear(x, w, b)  # noqa: E731
    _, backward = traces(program, on_device((4, 16, 32), (64, 32), (64,)), executors)
    assert names(backward) == ["gemm", "gemm"]
    assert sum(", n -> " in text or ", m -> " in text for text in gemms(backward)) == 1
    assert sum('epilogue="bgrada"' in text for text in gemms(backward)) == 1


def test_whichever_operand_the_gradient_is():
    """x.t() @ dy written by hand: the summed operand is b."""
    program = lambda x, w, b: x @ w + b  # noqa: E731
    _, backward = traces(program, on_device((16, 32), (32, 64), (64,), dtype=torch.float32))
    assert sum('epilogue="bgradb"' in text for text in gemms(backward)) == 1
    assert "sum" not in names(backward)


@pytest.mark.parametrize("executors", FUSERS)
def test_a_residual_comes_before_the_activation(executors):
    program = lambda x, w, c: gelu(x @ w + c)  # noqa: E731
    forward, _ = traces(program, on_device((16, 32), (32, 64), (16, 64), grad=False), PLAIN)
    assert gemms(forward) == ['gemm(x, w, "m k, k n, m n -> m n", c, epilogue="gelu")']


def test_a_derivative_of_something_else_than_a_product():
    """What went into GELU is no matmul's result here; it is read as it lies."""
    program = lambda x, w: F.linear(gelu(x), w)  # noqa: E731
    _, backward = traces(program, on_device((16, 64), (32, 64)))
    assert any('epilogue="dgelu", aux=x)' in text for text in gemms(backward))


def test_recomputed_activations_write_their_aux_in_the_backward():
    program = lambda *args: torch.utils.checkpoint.checkpoint(mlp(gelu), *args, use_reentrant=False)  # noqa: E731
    forward, backward = traces(program, on_device(*shapes()))
    assert 'epilogue="gelu")' in gemms(forward)[0]
    assert 'epilogue="gelu_aux")' in " ".join(gemms(backward))
    assert 'epilogue="dgelu"' in " ".join(gemms(backward))


@pytest.mark.parametrize("executors", FUSERS)
def test_a_sum_of_products_accumulates(executors):
    """Three GEMMs and no add: each takes the sum so far as its C."""
    program = lambda q, k, v, a, b, c: q @ a + k @ b + v @ c  # noqa: E731
    make = on_device(*((4, 16, 32),) * 3, *((32, 32),) * 3, grad=False)
    forward, _ = traces(program, make, executors)
    assert not {"add", "nvFusion0"} & set(names(forward))
    assert len(forward) == 3
    assert sum("a b n -> a b n" in text for text in gemms(forward)) == 2


@pytest.mark.parametrize("executors", FUSERS)
def test_gradients_of_one_input_accumulate(executors):
    program = lambda x, a, b, c: (F.linear(x, a), F.linear(x, b), F.linear(x, c))  # noqa: E731
    _, backward = traces(program, on_device((4, 16, 32), *((32, 32),) * 3), executors)
    assert names(backward) == ["gemm"] * 6


# Does not -------------------------------------------------------------------------------------------------------------


@needs_nvfuser
def test_a_sum_stays_with_a_fuser_that_takes_it_with_something_else():
    program = lambda q, k, a, b: torch.sin(q @ a + k @ b)  # noqa: E731
    forward, _ = traces(program, on_device(*((4, 16, 32),) * 2, *((32, 32),) * 2, grad=False), None)
    assert names(forward) == ["matmul", "matmul", "nvFusion0"]


@needs_nvfuser
@pytest.mark.parametrize("kind", ACTIVATIONS)
def test_an_activation_stays_with_a_fuser_that_takes_it_with_something_else(kind):
    """The region is launched in any case; there the activation costs nothing."""
    program = lambda x, w: torch.sin(ACTIVATIONS[kind](F.linear(x, w)))  # noqa: E731
    fused, _ = traces(program, on_device((16, 32), (64, 32), grad=False), None)
    assert names(fused) == ["linear", "nvFusion0"]
    # Where no fuser is, it is one kernel less.
    alone, _ = traces(program, on_device((16, 32), (64, 32), grad=False), PLAIN)
    assert names(alone) == ["gemm", "sin"]


@needs_nvfuser
def test_a_derivative_stays_with_a_fuser_that_takes_it_with_something_else():
    program = lambda x, w1, w2: F.linear(gelu(torch.sin(F.linear(x, w1))), w2)  # noqa: E731
    _, backward = traces(program, on_device((16, 32), (64, 32), (32, 64)), None)
    assert not any("dgelu" in text for text in gemms(backward))


@pytest.mark.parametrize("executors", FUSERS)
def test_exact_gelu_never(executors):
    forward, backward = traces(mlp(F.gelu), on_device(*shapes()), executors)
    assert "epilogue" not in " ".join(gemms(forward))
    assert "dgelu" not in " ".join(gemms(backward))


@pytest.mark.parametrize("kind", ACTIVATIONS)
def test_a_product_that_somebody_else_reads_is_written_as_it_is(kind):
    def program(x, w):
        before = F.linear(x, w)
        return ACTIVATIONS[kind](before), before.sum(-1)

    forward, _ = traces(program, on_device((16, 32), (64, 32), grad=False))
    assert "epilogue" not in " ".join(gemms(forward))


@pytest.mark.parametrize("kind", ACTIVATIONS)
def test_a_product_that_is_returned_is_written_as_it_is(kind):
    def program(x, w):
        before = F.linear(x, w)
        return ACTIVATIONS[kind](before), before

    forward, _ = traces(program, on_device((16, 32), (64, 32)))
    assert "epilogue" not in " ".join(gemms(forward))


def test_double_has_no_epilogues():
    forward, backward = traces(mlp(gelu), on_device(*shapes(), dtype=torch.float64))
    assert "epilogue" not in " ".join(gemms(forward) + gemms(backward))


def test_a_batched_bias_gradient_is_no_epilogue():
    program = lambda x, w, b: torch.baddbmm(b, x, w)  # noqa: E731
    _, backward = traces(program, on_device((4, 16, 32), (4, 32, 64), (4, 1, 64), dtype=torch.float32))
    assert "epilogue" not in " ".join(gemms(backward))


@pytest.mark.parametrize("kind", ACTIVATIONS)
def test_switched_off(kind):
    forward, backward = traces(mlp(ACTIVATIONS[kind]), on_device(*shapes()), gemm_epilogue=False)
    assert "epilogue" not in " ".join(gemms(forward) + gemms(backward))
    assert f"{kind}_backward_kernel" in names(backward)


def test_switched_off_nothing_that_is_added_is_taken_in_either():
    program = lambda x, w, c: 2 * (x @ w.t()) + c  # noqa: E731
    make = on_device((16, 32), (64, 32), (16, 64), grad=False, dtype=torch.float32)
    assert gemms(traces(program, make, gemm_epilogue=False)[0]) == ['gemm(x, w, "m k, n k -> m n")']
    assert gemms(traces(program, make)[0]) == ['gemm(x, w, "m k, n k, m n -> m n", c, alpha=2.0)']


@pytest.mark.parametrize("kind", ACTIVATIONS)
def test_on_cpu_there_is_none_and_the_report_says_why(kind):
    jfn = jit(mlp(ACTIVATIONS[kind]), executors=PLAIN, gemm_claim="all")
    jfn(*inputs(*shapes()))
    rows = gx.explain(jfn).rows
    assert f"{kind} below stays: on cpu it would be no part of the matmul's own call" in rows[0].reason
    assert not any(
        "epilogue=" in str(trace[-1]) for trace in (thunder.last_traces(jfn), thunder.last_backward_traces(jfn))
    )


@needs_nvfuser
def test_the_report_says_that_a_fuser_has_it():
    program = lambda x, w: torch.sin(gelu(F.linear(x, w)))  # noqa: E731
    jfn = thunder.jit(program, executors=gx.executors())
    thunder.compile_data(jfn).get_computation_and_inputs(*fake(on_device((16, 32), (64, 32), grad=False), "cuda:0"))
    (row,) = gx.explain(jfn).rows
    assert row.reason == "gelu below stays: a fuser takes it into a region with its neighbours"


def test_the_report_says_what_was_taken():
    jfn = thunder.jit(mlp(F.relu), executors=PLAIN)
    thunder.compile_data(jfn).get_computation_and_inputs(*fake(on_device(*shapes()), "cuda:0"))
    reasons = [row.reason for row in gx.explain(jfn).rows]
    assert reasons[0] == "folded relu of the result"
    assert "relu's derivative of the result, the bias gradient" in reasons[2]


@pytest.mark.parametrize("numerics", ["torch", "strict"])
def test_the_report_says_what_ran(numerics):
    """On CPU no epilogue is claimed; the runs of one mode are not shown as another's."""
    jfn = jit(mlp(F.relu), executors=PLAIN, gemm_claim="all", gemm_numerics=numerics)
    jfn(*inputs(*shapes(), grad=False))
    assert [len(row.runs) for row in gx.explain(jfn).rows] == [1, 1]


def test_a_sum_beside_a_product_that_a_tensor_scales_is_no_bias_gradient():
    """Backward of an expanded operand is a sum; the product beside it is scaled by the gradient of a single number."""

    def f(x, y):
        return torch.tanh(torch.einsum("kbca,kbda->", x, y.permute(3, 1, 0, 2).expand(6, 3, 4, 1)))

    x = torch.randn(6, 3, 2, 1, requires_grad=True)
    # The second gradient is a sum that no matmul writes: its strides are Thunder's.
    assert_as_eager(f, x, torch.randn(1, 3, 1, 6, requires_grad=True), leaf_strides=False)

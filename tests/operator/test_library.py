"""`torch.ops.thunder_gemm_ex.gemm` as torch's own checker of operators sees it, and as its schema promises."""

import pytest
import torch

import thunder_gemm_ex as gx
from tests.operator.problems import PROBLEMS

op = torch.ops.thunder_gemm_ex.gemm
op_out = torch.ops.thunder_gemm_ex.gemm_out


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_opcheck(problem, requires_grad):
    a, b, bias, c = problem.tensors(requires_grad=requires_grad)
    torch.library.opcheck(op, (a, b, problem.spec), {"bias": bias, "c": c, **problem.options})


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.complex64, torch.int64], ids=str)
def test_opcheck_of_other_dtypes_and_strides(dtype):
    a, b = torch.ones(2, 4, 3, dtype=dtype).mT, torch.ones(6, 4, dtype=dtype)[::2]
    torch.library.opcheck(op, (a, b, "p m k, n k -> n (p m)"))


@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_opcheck_of_the_writing_form(problem):
    a, b, bias, c = problem.tensors()
    out = torch.zeros_like(problem.eager(a, b, bias, c))
    torch.library.opcheck(op_out, (out, a, b, problem.spec), {"bias": bias, "c": c, **problem.options})


def test_a_wrong_registration_would_not_pass():
    """opcheck looks at this operator at all: an operator whose tensors without data lie about the shape is caught."""
    library = torch.library.Library("thunder_gemm_ex_tests", "FRAGMENT")
    library.define("wrong(Tensor a, Tensor b) -> Tensor", tags=(torch.Tag.pt2_compliant_tag,))
    library.impl("wrong", lambda a, b: gx.gemm(a, b), "CompositeExplicitAutograd")
    torch.library.register_fake("thunder_gemm_ex_tests::wrong", lambda a, b: a.new_empty(b.shape), lib=library)
    with pytest.raises(torch.testing._internal.optests.OpCheckError):
        torch.library.opcheck(torch.ops.thunder_gemm_ex_tests.wrong, (torch.ones(2, 3), torch.ones(3, 4)))


@pytest.mark.parametrize("problem", PROBLEMS, ids=str)
def test_the_operator_and_the_function_are_one(problem):
    a, b, bias, c = problem.tensors()
    ours = op(a, b, problem.spec, bias=bias, c=c, **problem.options)
    assert torch.equal(ours, gx.gemm(a, b, problem.spec, bias=bias, c=c, **problem.options))
    torch.testing.assert_close(ours, problem.eager(a, b, bias, c))
    assert ours.is_contiguous()


def test_defaults_are_the_functions():
    a, b = torch.randn(3, 4), torch.randn(4, 2)
    assert torch.equal(op(a, b), gx.gemm(a, b))


@pytest.mark.parametrize(
    ("kwargs", "error", "message"),
    [
        ({"activation": "silu"}, ValueError, 'activation must be None, "relu" or "gelu", was \'silu\''),
        ({"beta": 2}, ValueError, "beta is 2 but c is None"),
        ({"bias": torch.ones(3)}, ValueError, r"bias of shape (3,) does not broadcast"),
        ({"c": torch.ones(2, 5), "beta": 1}, ValueError, "c of shape (2, 5) does not broadcast"),
        ({"c": torch.ones(2, 2).double()}, ValueError, "c is torch.float64 on cpu"),
    ],
)
@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_the_operator_refuses_what_the_function_refuses(kwargs, error, message, requires_grad, device):
    a, b = (torch.ones(s, device=device, requires_grad=requires_grad) for s in [(2, 3), (3, 2)])
    kwargs = {name: x.to(device) if isinstance(x, torch.Tensor) else x for name, x in kwargs.items()}
    with pytest.raises(error) as caught:
        op(a, b, **kwargs)
    assert message.replace("cpu", device) in str(caught.value)


def test_sparse_operands_are_refused_by_the_operator_too():
    with pytest.raises(TypeError, match=r"a of shape \(2, 3\) is a torch.sparse_coo tensor"):
        op(torch.ones(2, 3).to_sparse(), torch.ones(3, 2))


def test_subclasses_of_tensor_are_asked_first():
    class Logged(torch.Tensor):
        calls = []

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            cls.calls.append(func)
            return super().__torch_function__(func, types, args, kwargs or {})

    a = torch.randn(2, 3).as_subclass(Logged)
    out = gx.gemm(a, torch.randn(3, 4))
    assert isinstance(out, Logged)
    assert torch.ops.thunder_gemm_ex.gemm.default in Logged.calls

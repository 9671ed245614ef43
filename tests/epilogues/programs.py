"""Programs whose matmuls have neighbours that an epilogue computes, and their inputs."""

import thunder
import torch

import thunder_gemm_ex as gx

F = torch.nn.functional
# Without a fuser behind: nothing is free elsewhere.
PLAIN = [gx.gemm_ex, thunder.pytorch_executor]


def gelu(x):
    """The form of GELU that cuBLASLt computes."""
    return F.gelu(x, approximate="tanh")


ACTIVATIONS = {"relu": F.relu, "gelu": gelu}


def mlp(activation):
    """linear with bias, activation, linear."""

    def program(x, w1, b1, w2):
        return F.linear(activation(F.linear(x, w1, b1)), w2)

    return program


def shapes(hidden=64):
    """Those of x, w1, b1 and w2."""
    return ((4, 16, 32), (hidden, 32), (hidden,), (32, hidden))


def inputs(*of, grad=True, dtype=torch.float32, device="cpu"):
    """Tensors of these shapes."""
    return tuple(torch.randn(s, device=device).to(dtype).requires_grad_(grad) for s in of)


def on_device(*of, grad=True, dtype=torch.bfloat16):
    """What `tests.lab.final_traces` calls for its inputs."""
    return lambda device: inputs(*of, grad=grad, dtype=dtype, device=device)


def gemms(lines):
    """The printed calls of the contractions in a trace, from the first argument on, without the comment."""
    return [line.text.partition(" = ")[2].partition("  #")[0] for line in lines if line.name == "gemm"]

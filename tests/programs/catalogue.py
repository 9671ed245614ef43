"""The programs: what each is made of, and by which of Thunder's doors it is compiled."""

from collections.abc import Callable
from typing import Any, NamedTuple

import thunder
import torch
from thunder.dynamo import thunderfx

import thunder_gemm_ex as gx
from tests.programs import decoders, encoders, hugging_face
from tests.programs.decoders import LARGE, TINY, Size
from thunder_gemm_ex.programs import load


class Program(NamedTuple):
    """`make()` gives the function or module, `inputs()` its arguments."""

    name: str
    make: Callable[[], Any]
    inputs: Callable[[], tuple]
    door: Callable = thunder.jit


def _shared(name: str, label: str = "", program=(), **inputs) -> Program:
    module = load(name)
    kind = {"dtype": torch.float32}
    return Program(
        name + label, lambda: module.program(**kind, **dict(program)), lambda: module.inputs(**kind, **inputs)
    )


def _hidden(make: Callable, size: Size = TINY, door: Callable = thunder.jit) -> Program:
    label = f"{make.__name__}{'' if size is TINY else '-large'}"
    return Program(label, lambda: make(size), size.hidden, door)


def _tokens(make: Callable, size: Size = TINY, door: Callable = thunder.jit) -> Program:
    return _hidden(make, size, door)._replace(inputs=size.tokens)


PROGRAMS = {
    p.name: p
    for p in (
        _shared("attention_bshd", b=2, s=128, h=8, d=64, requires_grad=True),
        _shared("attention_bshd", "-tiny", b=2, s=32, h=4, d=16, requires_grad=True),
        _shared("lora_linear", program={"d": 64}, b=2, s=32, d=64),
        _shared("moe_bmm", e=3, tokens=24, d=32, f=48),
        _shared("mlp_gelu", program={"d": 64}, b=2, s=24, d=64),
        _shared("neva_g23", scale=64, requires_grad=True),
        _shared("mistral_rope", seq=16, requires_grad=True),
        _tokens(decoders.NanoGPT),
        _tokens(decoders.NanoGPT, LARGE),
        _hidden(decoders.LlamaBlock, LARGE),
        _hidden(decoders.LoRAAttention),
        _hidden(decoders.GroupedQueries),
        _hidden(encoders.SelfAttention),
        _hidden(encoders.encoder_layer, door=thunderfx),
        _hidden(encoders.BartAttention),
        _hidden(encoders.VitAttention),
        _hidden(hugging_face.llama, LARGE),
        _hidden(hugging_face.mistral, LARGE),
        _hidden(hugging_face.bert, LARGE),
    )
}


def executors(ours: bool) -> list:
    """Thunder's defaults but nvFuser, which takes no CPU tensors and in the lab cannot say its version; ours in front."""
    return [gx.gemm_ex] * ours + [ex for ex in thunder.get_default_executors() if ex.name != "nvfuser"]

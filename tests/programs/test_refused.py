"""What Thunder itself refuses, with us and without, by which door, and in which words (docs/limits.md lists it)."""

import pytest
import thunder
import torch
from thunder.dynamo import thunderfx

from tests.checks import decisions
from tests.programs import encoders, hugging_face
from tests.programs.catalogue import executors
from tests.programs.decoders import TINY

REFUSED = {
    "the encoder layer by jit": (encoders.encoder_layer, TINY.hidden, thunder.jit, "multi_head_attention_forward"),
    "a whole Llama by jit": (hugging_face.whole_llama, TINY.tokens, thunder.jit, "has no attribute '__self__'"),
    "a whole Llama by thunderfx": (hugging_face.whole_llama, TINY.tokens, thunderfx, "tree_flatten of type"),
}


@pytest.mark.parametrize("ours", [True, False], ids=["with us", "without us"])
@pytest.mark.parametrize("name", REFUSED)
def test_thunder_refuses(name, ours):
    make, inputs, door, words = REFUSED[name]
    program = door(make(TINY), executors=executors(ours))
    torch._dynamo.reset()
    with pytest.raises(Exception, match=words):
        program(*inputs())


def test_attention_that_thunder_keeps_whole_has_a_row():
    jfn = thunder.jit(encoders.SelfAttention(TINY), executors=executors(ours=True))
    jfn(*TINY.hidden())
    assert decisions(jfn) == ["declined"]

"""The lab itself, and what Thunder does today without this package."""

import torch

from tests.lab import NVFUSER_INSTALLED, NVFUSER_REGISTERED, fake, final_traces, names, needs_nvfuser
from thunder_gemm_ex.programs import load, mistral_rope, moe_bmm, neva_g23


def test_nvfuser_is_registered_wherever_it_is_installed():
    assert NVFUSER_REGISTERED == NVFUSER_INSTALLED


@needs_nvfuser
def test_rope_is_cut_in_two_by_its_matmul():
    forward, backward = final_traces(mistral_rope.rope, mistral_rope.inputs)
    assert names(forward) == ["nvFusion0", "matmul", "nvFusion1"]
    assert backward == []


@needs_nvfuser
def test_rope_in_training_is_cut_in_two_as_well():
    def inputs(device):
        return mistral_rope.inputs(device, requires_grad=True)

    forward, backward = final_traces(mistral_rope.rope, inputs)
    assert names(forward) == ["nvFusion0", "matmul", "nvFusion1"]
    assert names(backward) == ["nvFusion2"]


@needs_nvfuser
def test_a_transpose_beside_pointwise_work_is_pulled_into_the_fusion():
    forward, _ = final_traces(moe_bmm.experts, lambda device: moe_bmm.inputs(device, requires_grad=False))
    (fusion,) = (line for line in forward if line.name.startswith("nvFusion"))
    assert "transpose" in fusion.inside


def test_a_lone_transpose_stays_a_view():
    forward, _ = final_traces(neva_g23.program(), neva_g23.inputs)
    assert names(forward) == ["permute", "matmul"]
    assert "= torch.permute(" in forward[0].text


def test_a_module_with_parameters_and_a_backward():
    mlp = load("mlp_gelu")
    forward, backward = final_traces(fake(mlp.program), mlp.inputs)
    assert names(forward).count("linear") == 2
    assert names(backward).count("matmul") == 4


def test_cpu_traces_have_no_nvfuser_region():
    forward, _ = final_traces(mistral_rope.rope, mistral_rope.inputs, device="cpu")
    assert names(forward).count("matmul") == 1
    assert not any("Fusion" in name for name in names(forward))


def test_the_lab_leaves_cuda_as_it_was():
    assert torch.cuda.is_available() == (torch.cuda.device_count() > 0)

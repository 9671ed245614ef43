"""A quantisation as Thunder's own are written: a transform that keeps linear weights as int8 and states how they are read.

Thunder's `BitsAndBytesLinearQuant4bit` needs bitsandbytes and a GPU; this one replaces the same things: the module's
parameters, the prologue's checks, and the linears of the computation.
"""

import thunder
import thunder.torch as ltorch
import torch
from thunder.core.trace_interpreter import TraceSubstitutionProcessor
from thunder.transforms.utils import get_checks, trace_with_replaced_proxy_metadata


def quantised(weight):
    """int8 values and the factor that makes them the weight's, as nearly as int8 can."""
    scale = weight.abs().max().item() / 127
    return (weight / scale).round().to(torch.int8), scale


class Int8Weights(thunder.Transform):
    """Every nn.Linear of the module reads int8 weights, transposed and cast where they are used."""

    def __init__(self):
        self.scales = {}

    def transform_module(self, model):
        self.model = model
        for name, module in model._model.named_modules():
            if isinstance(module, torch.nn.Linear):
                full = f"{name}.weight".lstrip(".")
                values, self.scales[full] = quantised(model.get_parameter(full).detach())
                model._overrides_parameters[full] = values

    def transform_traces_pre_prologue(self, prologue, computation, epilogue, **kwargs):
        dtypes = {
            bsym.output.name: {"dtype": thunder.dtypes.int8, "requires_grad": False}
            for name, (_, bsym) in get_checks(prologue).items()
            if name in self.scales
        }
        prologue = trace_with_replaced_proxy_metadata(prologue, dtypes)
        scales = {}
        for name, (check, unpack) in get_checks(prologue).items():
            if name in self.scales:
                tensor, shape, device, _, _ = check.args
                check.args = (tensor, shape, device, torch.int8, False)
                scales[unpack.output.name] = self.scales[name]
        computation = trace_with_replaced_proxy_metadata(computation, dtypes)
        made, _ = _Reader(computation, scales)()
        return prologue, made, epilogue


class _Reader(TraceSubstitutionProcessor):
    def __init__(self, trace, scales):
        super().__init__(trace)
        self.scales = scales

    def process_bsym(self, bsym):
        if bsym.sym == ltorch.linear and bsym.args[1].name in self.scales:
            self.add_bsyms_from_function(_linear, *bsym.args, scale=self.scales[bsym.args[1].name])
        else:
            self.add_processed_bsyms([bsym.from_bsym()])
            self.set_result(bsym.output)


def _linear(x, values, bias=None, *, scale):
    weight = ltorch.to(values, x.dtype)
    out = ltorch.mul(ltorch.matmul(x, ltorch.permute(weight, (1, 0))), scale)
    return out if bias is None else ltorch.add(out, bias)

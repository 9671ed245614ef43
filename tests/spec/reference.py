"""The meaning of a contraction in float64, by einsum over its atoms."""

import torch

from thunder_gemm_ex.spec import Contraction, atoms_of


def evaluate(spec: Contraction, a, b, bias=None):
    """out[...] = sum a * b (+ bias), computed in the operands' own dtype."""
    ids = {x: i for i, x in enumerate(sorted(spec.sizes))}

    def by_atoms(t, dims):
        return t.reshape([spec.sizes[x] for x in atoms_of(dims)]), [ids[x] for x in atoms_of(dims)]

    out = torch.einsum(*by_atoms(a, spec.a), *by_atoms(b, spec.b), [ids[x] for x in atoms_of(spec.out)])
    if bias is not None:
        order, mine = atoms_of(spec.out), atoms_of(spec.bias)
        aligned, _ = by_atoms(bias, spec.bias)
        perm = sorted(range(len(mine)), key=lambda i: order.index(mine[i]))
        out = out + aligned.permute(perm).reshape([spec.sizes[x] if x in mine else 1 for x in order])
    return out.reshape(spec.shape(spec.out))

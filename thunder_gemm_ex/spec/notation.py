"""Printing and parsing specs: "a b k, n k -> a b n".

Labels are separated by spaces, `(h d)` is one dimension joined from several, `1` is a dimension of size 1, and
`label:size` states a size that the shapes of the operands do not tell. A third operand is the bias.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Sequence

from thunder_gemm_ex.spec.contraction import Atom, Contraction, Dim, Dims, SpecError
from thunder_gemm_ex.spec.views import coalesce

_TOKEN = re.compile(r"\s*(?:(?P<label>[A-Za-z_]\w*)(?::(?P<size>\d+))?|(?P<one>1)(?!\w)|(?P<punct>[()])|(?P<bad>\S))")
_POOLS = {"k": "kjil", "n": "nuvw", "m": "m", "ms": "acdefg", "batch": "bhgedcfa"}


# Parsing ----------------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Pattern:
    """A parsed spec before its operands are known: labels by name, each dimension a tuple of names."""

    text: str
    a: tuple[tuple[str, ...], ...]
    b: tuple[tuple[str, ...], ...]
    out: tuple[tuple[str, ...], ...]
    bias: tuple[tuple[str, ...], ...] | None
    stated: tuple[tuple[str, int], ...]

    def bind(self, a: Sequence[int], b: Sequence[int], bias: Sequence[int] | None = None) -> Contraction:
        """The contraction on operands with these shapes. SpecError names the operand whose shape does not fit."""
        shapes = {"a": a, "b": b} | ({} if bias is None or self.bias is None else {"bias": bias})
        sizes = self._sizes(shapes)
        names = [n for dims in (self.a, self.b, self.out) for dim in dims for n in dim]
        ids = {n: i for i, n in enumerate(dict.fromkeys(names)) if sizes[n] != 1}

        def number(dims: Iterable[tuple[str, ...]]) -> Dims:
            return tuple(tuple(ids[n] for n in dim if n in ids) for dim in dims)

        numbered_bias = None if self.bias is None else number(self.bias)
        atoms = {i: sizes[n] for n, i in ids.items()}
        return Contraction(number(self.a), number(self.b), number(self.out), atoms, numbered_bias)

    def _sizes(self, shapes: dict[str, Sequence[int]]) -> dict[str, int]:
        sizes = dict(self.stated)
        for name, shape in shapes.items():
            if len(shape) != len(getattr(self, name)):
                raise SpecError(
                    f"{name} has shape {tuple(shape)}, {len(shape)} dimension(s), where the spec '{self.text}' "
                    f"gives it {len(getattr(self, name))}"
                )
        # A joined dimension may be solved only after another operand has told all its labels but one.
        todo = [(name, dim, int(size)) for name, s in shapes.items() for dim, size in zip(getattr(self, name), s)]
        while todo:
            rest = [item for item in todo if not self._solve(*item, sizes)]
            if len(rest) == len(todo):
                raise SpecError(
                    f"the size of a label of {rest[0][1]} in the spec '{self.text}' cannot be told: state it"
                )
            todo = rest
        return sizes

    def _solve(self, name: str, dim: tuple[str, ...], size: int, sizes: dict[str, int]) -> bool:
        unknown = [n for n in dim if n not in sizes]
        if len(unknown) > 1:
            return False
        known = 1
        for n in dim:
            known *= sizes.get(n, 1)
        if unknown and known and size % known == 0:
            sizes[unknown[0]] = size // known
        elif unknown or known != size:
            raise SpecError(
                f"dimension '{' '.join(dim) or '1'}' of {name} in the spec '{self.text}' has size {size}, "
                f"which does not agree with {known} from the other operands and stated sizes"
            )
        return True


def parse(text: str) -> Pattern:
    """Parse a spec such as "b h s d, b h t d -> b h s t". SpecError says what is wrong and where."""
    if not isinstance(text, str):
        raise SpecError(f"spec must be a string such as 'm k, k n -> m n', was {type(text).__name__}")
    left, arrow, _ = text.partition("->")
    inputs = left.split(",")
    if not arrow or len(inputs) not in (2, 3):
        raise SpecError(f"the spec '{text}' must read 'a, b -> out' or 'a, b, bias -> out'")
    stated: dict[str, int] = {}
    parsed = [_dims(part, at, text, stated) for part, at in _parts(text)]
    pattern = Pattern(
        text, parsed[0], parsed[1], parsed[-1], parsed[2] if len(inputs) == 3 else None, tuple(stated.items())
    )
    _check(pattern)
    return pattern


def _parts(text: str) -> list[tuple[str, int]]:
    """Each tensor's part of the spec and where it starts."""
    left, _, right = text.partition("->")
    found, at = [], 0
    for part in left.split(","):
        found.append((part, at))
        at += len(part) + 1
    return [*found, (right, len(left) + 2)]


def _dims(part: str, at: int, text: str, stated: dict[str, int]) -> tuple[tuple[str, ...], ...]:
    dims: list[tuple[str, ...]] = []
    group: list[str] | None = None
    opened = 0
    for token in _TOKEN.finditer(part.rstrip()):
        punct = token["punct"]
        if token["bad"] or ((punct == "(") == (group is not None) and punct):
            where = at + token.end() - len(token.group().strip()) + 1
            raise SpecError(f"unexpected '{token.group().strip()}' at character {where} of the spec '{text}'")
        if punct == "(":
            group, opened = [], at + token.end()
        elif punct == ")":
            dims.append(tuple(group or ()))
            group = None
        elif token["one"]:
            dims.extend([()] if group is None else [])
        else:
            _state(token, at, text, stated)
            if group is None:
                dims.append((token["label"],))
            else:
                group.append(token["label"])
    if group is not None:
        raise SpecError(f"the '(' at character {opened} of the spec '{text}' is not closed")
    return tuple(dims)


def _state(token: re.Match[str], at: int, text: str, stated: dict[str, int]) -> None:
    if token["size"] and stated.setdefault(token["label"], int(token["size"])) != int(token["size"]):
        raise SpecError(
            f"the label '{token['label']}' is given two sizes in the spec '{text}': {stated[token['label']]}, and "
            f"{token['size']} at character {at + token.start('size') + 1}"
        )


def _check(pattern: Pattern) -> None:
    text = pattern.text
    labels = {name: [n for dim in getattr(pattern, name) or () for n in dim] for name in ("a", "b", "bias", "out")}
    for name, found in labels.items():
        twice = next((n for n in found if found.count(n) > 1), None)
        if twice:
            second = _where(pattern, name, twice, again=True)
            raise SpecError(
                f"the label '{twice}' stands twice in {name} of the spec '{text}', again at character {second}"
            )
    a, b, out = set(labels["a"]), set(labels["b"]), set(labels["out"])
    for name, legal, where in (("out", a | b, "a or b"), ("bias", out, "the output")):
        for n in labels[name]:
            if n not in legal:
                at = _where(pattern, name, n)
                raise SpecError(f"the label '{n}' at character {at} of the spec '{text}' must stand in {where} too")
    for name in ("a", "b"):
        for n in labels[name]:
            if n not in out and not (n in a and n in b):
                at = _where(pattern, name, n)
                raise SpecError(
                    f"the label '{n}' of {name}, at character {at} of the spec '{text}', stands in nothing else: "
                    "sum it first"
                )


def _where(pattern: Pattern, tensor: str, label: str, *, again: bool = False) -> int:
    """At which character, counted from 1, the label first (or `again`) stands in that tensor."""
    parts = _parts(pattern.text)
    part, at = parts[{"a": 0, "b": 1, "bias": 2, "out": -1}[tensor]]
    found = [m.start() for m in re.finditer(rf"(?<!\w){label}(?!\w)", part)]
    return at + found[1 if again else 0] + 1


# Printing ---------------------------------------------------------------------------------------------------------


def print_spec(spec: Contraction) -> str:
    """The shortest text that parses back to `spec` on operands with its shapes."""
    spec = coalesce(spec)
    names = _names(spec)
    sized: dict[Atom, int] = {x: spec.sizes[x] for x in _untold(spec)}

    def name(atom: Atom) -> str:
        # A size is stated once, where the label first stands.
        size = sized.pop(atom, None)
        return names[atom] if size is None else f"{names[atom]}:{size}"

    def show(dims: Dims) -> str:
        return " ".join(_show_dim(tuple(name(x) for x in dim)) for dim in dims)

    inputs = [show(spec.a), show(spec.b)] + ([] if spec.bias is None else [show(spec.bias)])
    return f"{', '.join(inputs)} -> {show(spec.out)}".rstrip()


def _show_dim(labels: tuple[str, ...]) -> str:
    return "1" if not labels else labels[0] if len(labels) == 1 else f"({' '.join(labels)})"


def _names(spec: Contraction) -> dict[Atom, str]:
    names: dict[Atom, str] = {}
    for kind, atoms in (
        ("k", spec.k),
        ("n", spec.n),
        ("ms" if len(spec.m) > 1 else "m", spec.m),
        ("batch", spec.batch),
    ):
        pool = _POOLS[kind] if kind != "ms" or spec.batch else "ab" + _POOLS[kind][1:]
        free = [c for c in pool if c not in names.values()]
        # More labels of one kind than letters: number them.
        free += [f"{pool[0]}{i}" for i in range(len(atoms))]
        names.update(zip(atoms, free))
    return names


def _untold(spec: Contraction) -> list[Atom]:
    """Atoms whose sizes must be printed: in each input dimension all but one of those that nothing else tells."""
    inputs: list[Dim] = [dim for name, dims in spec.tensors() if name != "out" for dim in dims]
    told: set[Atom] = set()
    stated: list[Atom] = []
    while True:
        progress = True
        while progress:
            progress = False
            for dim in inputs:
                unknown = [x for x in dim if x not in told]
                if len(unknown) == 1:
                    told.add(unknown[0])
                    progress = True
        open_dim = next((dim for dim in inputs if any(x not in told for x in dim)), None)
        if open_dim is None:
            return stated
        atom = [x for x in open_dim if x not in told][-1]
        stated.append(atom)
        told.add(atom)

"""A function of tensors as the operations that it ends in: how it is recorded, and played again."""

from __future__ import annotations

import operator
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.fx import Graph, Node
from torch.utils._python_dispatch import TorchDispatchMode

aten = torch.ops.aten


class Form(NamedTuple):
    """What is known of a tensor beside its numbers."""

    shape: torch.Size
    dtype: torch.dtype
    stride: tuple[int, ...]
    channels_last: bool

    @staticmethod
    def of(value: Tensor) -> Form:
        turned = value.dim() == 4 and not value.is_contiguous()
        turned = turned and value.is_contiguous(memory_format=torch.channels_last)
        return Form(value.shape, value.dtype, value.stride(), turned)


class Traced:
    """A function of tensors as a graph of operations, and the tensors that it has of its own."""

    def __init__(self) -> None:
        self.graph = Graph()
        self.own: dict[str, Tensor] = {}

    def hold(self, value: Tensor) -> Node:
        """A node for a tensor that is not handed over."""
        name = f"own{len(self.own)}"
        self.own[name] = value
        return self.graph.create_node("get_attr", name, name=name)

    def compiled(self) -> Callable[..., Any]:
        """The graph as a function of Python, which lets go of each result once nobody reads it any more."""
        self.graph.eliminate_dead_code()
        nodes = list(self.graph.nodes)
        last = {given: node for node in nodes for given in node.all_input_nodes}
        known: dict[str, Any] = dict(self.own)
        lines = []
        for node in nodes:
            if node.op in ("placeholder", "get_attr"):
                continue
            if node.op == "output":
                lines.append(f"return {_in_python(node.args[0], known)}")
                continue
            does = f"do_{node.name}"
            known[does] = _called_directly(node.target)
            words = [_in_python(value, known) for value in node.args]
            words += [f"{name}={_in_python(value, known)}" for name, value in node.kwargs.items()]
            lines.append(f"{node.name} = {does}({', '.join(words)})")
            read = [given for given in node.all_input_nodes if given.op != "get_attr"]
            over = [given.name for given in read if last[given] is node] + [node.name] * (not node.users)
            if over:
                lines.append(f"del {', '.join(over)}")
        given = ", ".join(node.name for node in nodes if node.op == "placeholder")
        exec(f"def play({given}):\n" + "".join(f"    {line}\n" for line in lines), known)
        play: Callable[..., Any] = known["play"]
        return play


def _called_directly(operation: Any) -> Any:
    """What an operation of torch's dispatcher is called by people, if that is no Python itself.

    The dispatcher looks arguments up in a schema: 2.4 microseconds for a small product, where ``torch.mm``, the same
    operation, takes 1.5. A step of small tensors is some fifty such calls.
    """
    if not isinstance(operation, torch._ops.OpOverload):
        return operation
    if operation is aten.mkldnn_rnn_layer.default:
        return _as_in_training
    schema = operation._schema
    # those that take results as arguments have other names for people
    if operation.namespace == "aten" and not schema.overload_name.endswith(("out", "grad_input")):
        name = schema.name.removeprefix("aten::")
        for of, inside in ((torch, torch._C._VariableFunctions), (torch.Tensor, torch._C.TensorBase)):
            found = getattr(of, name, _called_directly)
            if found is getattr(inside, name, None):
                return found
    return operation._op  # without the call of Python's around it


def _as_in_training(*given: Any) -> Any:
    """oneDNN's recurrent layer leaves what its backward pass needs only where somebody may ask for a gradient."""
    with torch._C._AutoDispatchBelowAutograd(), torch.enable_grad():
        return aten.mkldnn_rnn_layer.default(*given)


def _in_python(value: Any, known: dict[str, Any]) -> str:
    """A value as Python writes it; what has no word there gets a name in ``known``."""
    if isinstance(value, Node):
        return str(value.target) if value.op == "get_attr" else value.name
    if isinstance(value, (list, tuple)):
        inside = "".join(f"{_in_python(v, known)}, " for v in value)
        return f"[{inside}]" if isinstance(value, list) else f"({inside})"
    if value is None or isinstance(value, (bool, int, str)):
        return repr(value)
    name = f"value{len(known)}"
    known[name] = value
    return name


NUMBERS = (bool, int, float, complex)
PLAIN = (*NUMBERS, str, torch.dtype, torch.device, torch.layout, torch.memory_format, type(None))
"""What operations are handed beside tensors, that is the same in every step."""


class _Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Writes down the operations that a function ends in: below autograd and ``vmap``, each as it is carried out.

    Torch's own recorder (``make_fx``) is for compilers, with stand-ins and symbols: it takes five times as long, and a
    second and 150 MB to load.
    """

    def __init__(self, traced: Traced):
        super().__init__()  # type: ignore[no-untyped-call]
        self.traced = traced
        # by identity: tensors that the function was handed or made, others, and which of the first are single numbers
        # that are the same in every step
        self.nodes: dict[int, tuple[Any, Node]] = {}
        self.held: dict[int, tuple[Tensor, Node]] = {}
        self.known: set[int] = set()

    @classmethod
    def _should_skip_dynamo(cls) -> bool:  # which torch would load first, for a second
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if func is torch.ops.prim.device.default:
            return func(*args, **kwargs)
        given = _tensors([*args, *kwargs.values()])
        settled = all(id(v) in self.known for v in given if id(v) in self.nodes)
        if torch.Tag.data_dependent_output in func.tags:
            if settled:
                return func(*args, **kwargs)
            raise RuntimeError(f"{func} looks at numbers, which are others in the next step")
        fresh = func is aten.lift_fresh.default
        # what Python makes is written to as anything else, and must be as it was in the next step
        target = aten.lift_fresh_copy.default if fresh else func
        node = self.traced.graph.create_node(
            "call_function", target, self.in_graph(args), self.in_graph(kwargs)
        )
        found = target(*args, **kwargs)
        known = fresh or (
            settled
            and any(id(v) in self.nodes for v in given)
            and torch.Tag.nondeterministic_seeded not in func.tags
        )
        self._note_all(found, node, known)
        return found

    def note(self, value: Tensor, node: Node, known: bool = False) -> None:
        """A tensor and what it is in the graph, as long as it lives."""
        place = id(value)
        node.meta["form"] = Form.of(value)
        self.nodes[place] = weakref.ref(value, lambda _: self._forget(place)), node
        if known and value.numel() <= 1:
            self.known.add(place)
        else:
            self.known.discard(place)

    def _forget(self, place: int) -> None:
        self.nodes.pop(place, None)
        self.known.discard(place)

    def _note_all(self, found: Any, node: Node, known: bool) -> None:
        if isinstance(found, Tensor):
            self.note(found, node, known)
        elif isinstance(found, (list, tuple)):
            for at, value in enumerate(found):
                if isinstance(value, (Tensor, list, tuple)):
                    one = self.traced.graph.call_function(operator.getitem, (node, at))
                    self._note_all(value, one, known)

    def in_graph(self, value: Any) -> Any:
        """The same with nodes for tensors."""
        if isinstance(value, Tensor):
            return self._node(value)
        if isinstance(value, (list, tuple)):
            inside = [self.in_graph(v) for v in value]
            return inside if isinstance(value, list) else tuple(inside)
        if isinstance(value, dict):
            return {k: self.in_graph(v) for k, v in value.items()}
        if not isinstance(value, PLAIN):
            raise NotImplementedError(f"a {type(value).__name__} cannot be recorded")
        return value

    def _node(self, value: Tensor) -> Node:
        place = id(value)
        if place in self.nodes:
            return self.nodes[place][1]
        if place not in self.held:
            self.held[place] = value, self.traced.hold(value)
        return self.held[place][1]


def _tensors(values: Any) -> list[Tensor]:
    found = []
    for value in values:
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found += _tensors(value)
    return found


def trace(step: Callable[..., Any], values: list[Tensor]) -> Traced:
    """The operations that a function of tensors ends in, autograd's own included."""
    traced = Traced()
    recorder = _Recorder(traced)
    # each by itself: of two that are one object now, and may be two in a later step, only one would be looked at
    given = [value.detach() for value in values]
    for at, value in enumerate(given):
        recorder.note(value, traced.graph.placeholder(f"given{at}"))
    with torch.enable_grad(), recorder:
        found = step(*given)
    traced.graph.output(recorder.in_graph(found))
    recorder.nodes.clear()
    return traced

"""A trace as a def-use graph: what makes a tensor, what uses it, and what kind of operation stands beside a matmul."""

from thunder_gemm_ex.graph.graph import Graph, is_backward
from thunder_gemm_ex.graph.kinds import Add, Cast, Scale, Sum, View, read
from thunder_gemm_ex.graph.matmul import Matmul
from thunder_gemm_ex.graph.views import shapes, view_steps

__all__ = [
    "Add",
    "Cast",
    "Graph",
    "Matmul",
    "Scale",
    "Sum",
    "View",
    "is_backward",
    "read",
    "shapes",
    "view_steps",
]

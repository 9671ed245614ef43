"""A trace as a def-use graph: what makes a tensor, what uses it, and what kind of operation stands beside a matmul."""

from thunder_gemm_ex.graph.graph import Graph
from thunder_gemm_ex.graph.kinds import SLOPES, Activation, Add, Cast, Scale, Slope, Sum, View, is_tanh_gelu, read
from thunder_gemm_ex.graph.matmul import SCALED_MM, Matmul, Scales, is_backward
from thunder_gemm_ex.graph.views import shapes, view_steps

__all__ = [
    "SCALED_MM",
    "SLOPES",
    "Activation",
    "Add",
    "Cast",
    "Graph",
    "Matmul",
    "Scale",
    "Scales",
    "Slope",
    "Sum",
    "View",
    "is_backward",
    "is_tanh_gelu",
    "read",
    "shapes",
    "view_steps",
]

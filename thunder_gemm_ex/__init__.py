"""Every matmul of a Thunder program as one GEMM in the layout it came in, or a multiply, and a report of what was done.

import thunder, thunder_gemm_ex as gx
jfn = thunder.jit(fn, executors=gx.executors())
jfn(...)
print(gx.explain(jfn))
"""

from thunder_gemm_ex._version import __version__
from thunder_gemm_ex.eager import gemm
from thunder_gemm_ex.executor import gemm_ex
from thunder_gemm_ex.inductor import inductor_pass
from thunder_gemm_ex.report import Report, Row, explain
from thunder_gemm_ex.tuning import tune
from thunder_gemm_ex.ways_in import disable, enable, executors

__all__ = [
    "Report",
    "Row",
    "__version__",
    "disable",
    "enable",
    "executors",
    "explain",
    "gemm",
    "gemm_ex",
    "inductor_pass",
    "tune",
]

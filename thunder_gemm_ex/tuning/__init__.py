"""Timing algorithms on the user's own program, and remembering which was best.

    import thunder_gemm_ex as gx
    print(gx.tune(jfn, x, w))   # or: python -m thunder_gemm_ex tune FILE[:FUNCTION]

What is chosen is kept in a file (`store`) and read by later processes before their first product.
"""

from thunder_gemm_ex.engines import cublaslt_calls
from thunder_gemm_ex.tuning.store import Store
from thunder_gemm_ex.tuning.tune import Tuned, TuneReport, apply_stored, tune

__all__ = ["Store", "TuneReport", "Tuned", "apply_stored", "tune"]

cublaslt_calls.before_first.append(apply_stored)

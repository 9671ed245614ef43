"""`gx.explain(jfn)`: one row for every matmul of a compiled program, and what was done with it, and why.

`record` keeps what is known when compiling, `explain` adds what was decided at run time; `text`, `page` show it.
"""

from thunder_gemm_ex.report.explain import explain
from thunder_gemm_ex.report.record import record, record_failure
from thunder_gemm_ex.report.rows import Report, Row, Run
from thunder_gemm_ex.report.watch import watch

__all__ = ["Report", "Row", "Run", "explain", "record", "record_failure", "watch"]

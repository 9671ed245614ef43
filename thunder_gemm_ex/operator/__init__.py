"""The operator `gemm` for torch: its label algebra, its dispatcher entries, its gradients, tangents and batching rule.

Beside the executor, on the same spec and the same engines: labels <- sizes <- kernel <- library; `thunder_gemm_ex.eager`
is the function that users call. Knows nothing of Thunder: `thunder_gemm_ex.eager_door` lets a trace hold it.
"""

"""Where a user's matmul enters a trace: every way of writing one is stated as matmuls and views, all of which fold.

What Thunder would send to an opaque torch operation (mm, addmm, mv, einsum with its own views, ...) is restated here as
eager PyTorch itself carries it out, with eager's dtypes, shapes, strides and errors. What cannot be restated is recorded
exactly as Thunder records it.
"""

from thunder_gemm_ex.front_door.activations import keep_activations
from thunder_gemm_ex.front_door.entries import ENTRIES, open_front_door
from thunder_gemm_ex.front_door.scaled import open_scaled
from thunder_gemm_ex.front_door.splitter import teach_splitter

__all__ = ["ENTRIES", "keep_activations", "open_front_door", "open_scaled", "teach_splitter"]

"""`python -m thunder_gemm_ex`, and the console script `thunder-gemm-ex`."""

import sys

from thunder_gemm_ex.cli import main

if __name__ == "__main__":
    sys.exit(main())

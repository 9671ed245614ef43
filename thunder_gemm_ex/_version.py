"""The version, in one place: packaging and `thunder_gemm_ex.__version__` read it here."""

__version__ = "0.1.0"

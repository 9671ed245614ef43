from tests import lab  # noqa: F401  (thunder is imported there first, in the processes that this folder starts too)

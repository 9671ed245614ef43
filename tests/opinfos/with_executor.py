"""A pytest plugin: Thunder's tests with the executor first, wherever they name executors or take the defaults."""

from tests.opinfos import without  # noqa: F401


def pytest_configure(config):
    import thunder
    from thunder.tests import framework

    import thunder_gemm_ex as gx

    gx.enable()
    for kind in vars(framework).values():
        if isinstance(kind, type) and issubclass(kind, framework.TestExecutor):
            kind.executors_list = _first(kind.executors_list)
    assert gx.gemm_ex in thunder.get_default_executors()


def _first(listed):
    import thunder_gemm_ex as gx

    def executors_list(self):
        return [gx.gemm_ex, *(ex for ex in listed(self) if ex != gx.gemm_ex)]

    return executors_list

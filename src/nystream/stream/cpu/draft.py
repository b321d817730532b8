"""Compile functions that only compiled functions call as part of their callers.

Numba optimizes and emits each function together with everything that it calls, so a function at the bottom of six
levels of calls goes through LLVM six times. A draft is only linked into its callers: LLVM sees it once, when it
compiles the function that Python calls. That halves the time to compile, and the kernels are no slower.
"""

from __future__ import annotations

from typing import Any

from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import CompilerBase, DefaultPassBuilder
from numba.core.typed_passes import InlineOverloads
from numba.core.untyped_passes import InlineClosureLikes, InlineInlinables

UNUSED = InlineClosureLikes, InlineInlinables, InlineOverloads


class _NotExecuted:
    """Stands for the code generator of a draft: there is no compiled function yet to give its environment to."""

    def set_env(self, env_name: str, env: Any) -> None:
        pass


class DraftLibrary(JITCodeLibrary):
    """Code that is linked into other libraries, and never executed on its own."""

    @property
    def codegen(self) -> Any:
        return _NotExecuted()

    def _optimize_functions(self, ll_module: Any) -> None:
        ll_module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self) -> None:
        pass

    def _finalize_final_module(self) -> None:
        self._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        return 0


class DraftCompiler(CompilerBase):
    """Numba's compiler, up to the unoptimized LLVM code, and without passes for what the kernels do not use."""

    def define_pipelines(self) -> list[Any]:
        self.state.library = DraftLibrary(self.state.targetctx.codegen(), self.state.func_id.func_qualname)
        pipeline = DefaultPassBuilder.define_nopython_pipeline(self.state)
        pipeline.passes[:] = [entry for entry in pipeline.passes if entry[0] not in UNUSED]
        return [pipeline]

"""Models outside Python and torch: ONNX files with the state in their signature, and programs of torch.export.

`export_onnx` writes a model, `OnnxStream` runs it; `traced` has the step for torch.export and AOTInductor.
"""

from typing import TYPE_CHECKING, Any

from nystream.export.client import OnnxStream

if TYPE_CHECKING:
    from nystream.export.write import export_onnx
else:

    def __getattr__(name: str) -> Any:
        """Import torch only to export: a client does not need it."""
        if name != "export_onnx":
            raise AttributeError(f"module 'nystream.export' has no attribute {name!r}")
        from nystream.export.write import export_onnx

        return export_onnx


__all__ = ["OnnxStream", "export_onnx"]

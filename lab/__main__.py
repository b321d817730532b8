"""`python -m lab NAME [OPTIONS]` runs one script of this folder; without a name it lists them."""

import sys
from importlib import import_module

SCRIPTS = {
    "gpu-smoke": "check and time on a GPU what the tests cannot run without one",
    "runtimes": "time our models and a GRU in one runtime, ONNX Runtime",
    "ptx": "compile every kernel for an H200, without a GPU, and compare with the digests on record",
}


def main() -> None:
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    if name not in SCRIPTS:
        lines = [f"  python -m lab {script:10} {summary}" for script, summary in SCRIPTS.items()]
        if name in ("", "-h", "--help"):
            print("\n".join(lines))
            return
        sys.exit("\n".join([f"no script {name!r}:", *lines]))
    sys.argv = [f"python -m lab {name}", *sys.argv[2:]]
    import_module(f"lab.{name.replace('-', '_')}").main()


if __name__ == "__main__":
    main()
